"""Covariance kernels, with the contractions that carry a gradient through them.

A kernel does four things: ``kernel(X, X2)`` is the covariance, ``kernel.diagonal(X)`` its diagonal, and
``kernel.gradient(W, X, X2)`` and ``kernel.diagonal_gradient(w, X)`` turn W = dF/dK into dF/dX, dF/dX2 and
dF/dtheta. Theta holds the logarithms of the parameters. No array is larger than K itself.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist

Array = NDArray[np.float64]


class Gradient(NamedTuple):
    """dF/dX, dF/dX2 (of no rows where X2 is X: then dF/dX holds both) and dF/dtheta."""

    X: Array
    X2: Array
    theta: Array


class Kernel(ABC):
    """A covariance function k(x, x') with positive parameters, kept as attributes and optimised as logarithms."""

    @abstractmethod
    def __call__(self, X: Array, X2: Array | None = None) -> Array:
        """Return the matrix of k(x_i, x2_j); X2 defaults to X."""

    @abstractmethod
    def diagonal(self, X: Array) -> Array:
        """Return the vector of k(x_i, x_i)."""

    @abstractmethod
    def gradient(self, W: Array, X: Array, X2: Array | None = None) -> Gradient:
        """Contract W = dF/dK, of the shape of ``kernel(X, X2)``, to the gradient of F."""

    @abstractmethod
    def diagonal_gradient(self, w: Array, X: Array) -> Gradient:
        """Contract w = dF/d diagonal to the gradient of F."""

    @property
    @abstractmethod
    def parameters(self) -> dict[str, float | Array]:
        """The parameters by name, in the order of theta."""

    @property
    @abstractmethod
    def theta(self) -> Array:
        """The logarithms of all parameters, in one vector."""

    @abstractmethod
    def with_theta(self, theta: Array) -> Self:
        """Return a copy whose parameters are exp(theta)."""

    @abstractmethod
    def check(self, n_components: int) -> None:
        """Raise ValueError where a parameter does not fit latent positions with this many components."""

    @property
    def theta_names(self) -> list[str]:
        """One name per entry of theta: "variance", "lengthscale[0]"."""
        return [
            label
            for name, value in self.parameters.items()
            for label in ([name] if np.ndim(value) == 0 else [f"{name}[{i}]" for i in range(np.size(value))])
        ]

    def __add__(self, other: Kernel) -> Sum:
        """The kernel k + k'."""
        if not isinstance(other, Kernel):
            return NotImplemented
        return Sum(self, other)


class _Leaf(Kernel):
    """A kernel whose parameters are its own attributes, as `_names` lists them; each a number or one a component."""

    _names: ClassVar[tuple[str, ...]]

    def _set(self, name: str, value: ArrayLike) -> None:
        array = np.asarray(value, dtype=np.float64)
        if array.ndim > 1 or array.size == 0 or not np.all(np.isfinite(array)) or np.any(array <= 0):
            raise ValueError(
                f"{type(self).__name__}: {name} must be a positive number or a vector of them, not {value!r}."
            )
        setattr(self, name, float(array) if array.ndim == 0 else array)

    @property
    def parameters(self) -> dict[str, float | Array]:
        return {name: getattr(self, name) for name in self._names}

    @property
    def theta(self) -> Array:
        return np.log(np.concatenate([np.atleast_1d(value) for value in self.parameters.values()]))

    def with_theta(self, theta: Array) -> Self:
        new, start = copy.copy(self), 0
        for name, value in self.parameters.items():
            stop = start + np.size(value)
            part = np.exp(theta[start:stop])
            setattr(new, name, part if np.ndim(value) else float(part[0]))
            start = stop
        return new

    def check(self, n_components: int) -> None:
        for name, value in self.parameters.items():
            if np.ndim(value) and np.size(value) != n_components:
                raise ValueError(
                    f"{type(self).__name__}: {name} has {np.size(value)} entries for {n_components} components; "
                    "give one number, or one entry a component."
                )

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}={_plain(value)}" for name, value in self.parameters.items())
        return f"{type(self).__name__}({inside})"


def _plain(value: float | Array) -> str:
    return f"{value:.6g}" if np.ndim(value) == 0 else "[" + ", ".join(f"{v:.6g}" for v in np.atleast_1d(value)) + "]"


class Stationary(_Leaf):
    """variance * h(r^2), with r^2 = sum_l (x_l - x'_l)^2 / lengthscale_l^2.

    Parameters
    ----------
    variance : float
        The value at distance zero.
    lengthscale : float or array of n_components
        One for all components, or one for each (automatic relevance determination).
    """

    _names = ("variance", "lengthscale")
    variance: float
    lengthscale: float | Array

    def __init__(self, variance: float = 1.0, lengthscale: ArrayLike = 1.0) -> None:
        if np.ndim(variance):
            raise ValueError(f"{type(self).__name__}: variance must be one number, not {variance!r}.")
        self._set("variance", variance)
        self._set("lengthscale", lengthscale)

    @abstractmethod
    def _profile(self, squared: Array) -> Array:
        """Return h(r^2); may overwrite its argument."""

    @abstractmethod
    def _profile_and_slope(self, squared: Array) -> tuple[Array, Array]:
        """Return h(r^2) and its derivative in r^2."""

    def __call__(self, X: Array, X2: Array | None = None) -> Array:
        A, B = self._scaled(X, X2)
        K = self._profile(cdist(A, B, "sqeuclidean"))
        K *= self.variance
        return K

    def diagonal(self, X: Array) -> Array:
        return np.full(len(X), self.variance)

    def gradient(self, W: Array, X: Array, X2: Array | None = None) -> Gradient:
        A, B = self._scaled(X, X2)
        value, slope = self._profile_and_slope(cdist(A, B, "sqeuclidean"))
        dvariance = self.variance * np.vdot(W, value)
        # H = dF/dr^2, and dr^2_ij = 2 (a_i - b_j).(da_i - db_j)
        H = np.multiply(W, slope, out=slope)
        H *= self.variance
        rows, columns, HB = H.sum(axis=1), H.sum(axis=0), H @ B
        dA = 2 * (rows[:, None] * A - HB)
        dB = 2 * (columns[:, None] * B - H.T @ A)
        # dr^2 / dlog lengthscale_l = -2 (a_il - b_jl)^2
        dlengthscale = -2 * (rows @ A**2 + columns @ B**2 - 2 * np.einsum("il,il->l", A, HB))
        if np.ndim(self.lengthscale) == 0:
            dlengthscale = dlengthscale.sum()
        theta = np.append(dvariance, dlengthscale)
        if X2 is None:
            return Gradient((dA + dB) / self.lengthscale, dB[:0], theta)
        return Gradient(dA / self.lengthscale, dB / self.lengthscale, theta)

    def diagonal_gradient(self, w: Array, X: Array) -> Gradient:
        theta = np.zeros(1 + np.size(self.lengthscale))
        theta[0] = self.variance * w.sum()
        return Gradient(np.zeros_like(X), X[:0], theta)

    def _scaled(self, X: Array, X2: Array | None) -> tuple[Array, Array]:
        """X and X2 over the lengthscale, about a common origin near them: the gradient subtracts their products."""
        origin = X.mean(axis=0)
        A = (X - origin) / self.lengthscale
        return A, A if X2 is None else (X2 - origin) / self.lengthscale


class RBF(Stationary):
    """variance * exp(-r^2 / 2): infinitely smooth."""

    def _profile(self, squared: Array) -> Array:
        squared *= -0.5
        return np.exp(squared, out=squared)

    def _profile_and_slope(self, squared: Array) -> tuple[Array, Array]:
        value = self._profile(squared)
        return value, -0.5 * value


class Matern32(Stationary):
    """variance * (1 + t) exp(-t), t = sqrt(3) r: once differentiable."""

    def _profile(self, squared: Array) -> Array:
        t = np.sqrt(3 * squared)
        return (1 + t) * np.exp(-t)

    def _profile_and_slope(self, squared: Array) -> tuple[Array, Array]:
        t = np.sqrt(3 * squared)
        decay = np.exp(-t)
        return (1 + t) * decay, -1.5 * decay


class Matern52(Stationary):
    """variance * (1 + t + t^2 / 3) exp(-t), t = sqrt(5) r: twice differentiable."""

    def _profile(self, squared: Array) -> Array:
        t = np.sqrt(5 * squared)
        return (1 + t + t**2 / 3) * np.exp(-t)

    def _profile_and_slope(self, squared: Array) -> tuple[Array, Array]:
        t = np.sqrt(5 * squared)
        decay = np.exp(-t)
        return (1 + t + t**2 / 3) * decay, (-5 / 6) * (1 + t) * decay


class Linear(_Leaf):
    """sum_l variance_l x_l x'_l: the kernel under which GPLVM is probabilistic PCA.

    Parameters
    ----------
    variance : float or array of n_components
        One for all components, or one for each.
    """

    _names = ("variance",)
    variance: float | Array

    def __init__(self, variance: ArrayLike = 1.0) -> None:
        self._set("variance", variance)

    def __call__(self, X: Array, X2: Array | None = None) -> Array:
        return (X * self.variance) @ (X if X2 is None else X2).T

    def diagonal(self, X: Array) -> Array:
        return (X**2 * self.variance).sum(axis=1)

    def gradient(self, W: Array, X: Array, X2: Array | None = None) -> Gradient:
        B = X if X2 is None else X2
        WB = W @ B
        theta = self._dvariance(np.einsum("il,il->l", X, WB))
        dX, dX2 = WB * self.variance, (W.T @ X) * self.variance
        return Gradient(dX + dX2, dX2[:0], theta) if X2 is None else Gradient(dX, dX2, theta)

    def diagonal_gradient(self, w: Array, X: Array) -> Gradient:
        return Gradient(2 * w[:, None] * X * self.variance, X[:0], self._dvariance(w @ X**2))

    def _dvariance(self, products: Array) -> Array:
        return self.variance * (products if np.ndim(self.variance) else products.sum(keepdims=True))


class Sum(Kernel):
    """The sum of kernels; each part is also an attribute by the name of its class: ``(RBF() + Linear()).linear``.

    A second part of the same class is ``rbf_2``, and so on.
    """

    def __init__(self, *parts: Kernel) -> None:
        self.parts: tuple[Kernel, ...] = tuple(
            leaf for part in parts for leaf in (part.parts if isinstance(part, Sum) else (part,))
        )

    def __call__(self, X: Array, X2: Array | None = None) -> Array:
        K = self.parts[0](X, X2)
        for part in self.parts[1:]:
            K += part(X, X2)
        return K

    def diagonal(self, X: Array) -> Array:
        return np.sum([part.diagonal(X) for part in self.parts], axis=0)

    def gradient(self, W: Array, X: Array, X2: Array | None = None) -> Gradient:
        return _total([part.gradient(W, X, X2) for part in self.parts])

    def diagonal_gradient(self, w: Array, X: Array) -> Gradient:
        return _total([part.diagonal_gradient(w, X) for part in self.parts])

    @property
    def labels(self) -> list[str]:
        """The attribute name of each part."""
        return _labels(self.parts)

    @property
    def parameters(self) -> dict[str, float | Array]:
        return {
            f"{label}.{name}": value
            for label, part in zip(self.labels, self.parts, strict=True)
            for name, value in part.parameters.items()
        }

    @property
    def theta(self) -> Array:
        return np.concatenate([part.theta for part in self.parts])

    def with_theta(self, theta: Array) -> Self:
        ends = np.cumsum([part.theta.size for part in self.parts])[:-1]
        pieces = np.split(theta, ends)
        return type(self)(*(part.with_theta(piece) for part, piece in zip(self.parts, pieces, strict=True)))

    def check(self, n_components: int) -> None:
        for part in self.parts:
            part.check(n_components)

    def __getattr__(self, name: str) -> Any:
        # a half-made instance, as pickle has it, has no parts yet
        labels = _labels(self.__dict__.get("parts", ()))
        if name in labels:
            return self.parts[labels.index(name)]
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def __repr__(self) -> str:
        return " + ".join(map(repr, self.parts))


def _labels(parts: tuple[Kernel, ...]) -> list[str]:
    names = [type(part).__name__.lower() for part in parts]
    return [name if name not in names[:i] else f"{name}_{names[:i].count(name) + 1}" for i, name in enumerate(names)]


def _total(gradients: list[Gradient]) -> Gradient:
    """Add what the parts say of X and X2, and line up what they say of theta."""
    return Gradient(
        np.sum([g.X for g in gradients], axis=0),
        np.sum([g.X2 for g in gradients], axis=0),
        np.concatenate([g.theta for g in gradients]),
    )


_STATIONARY: dict[str, type[Stationary]] = {"rbf": RBF, "matern32": Matern32, "matern52": Matern52}
NAMES = (*_STATIONARY, *(f"{name}-ard" for name in _STATIONARY), "linear")


def make_kernel(name: str, n_components: int, variance: float = 1.0, lengthscale: float = 1.0) -> Kernel:
    """Build a kernel from its name, or from names joined by "+", which then share the variance equally.

    Parameters
    ----------
    name : str
        "rbf", "matern32", "matern52", each also with "-ard" behind it for one lengthscale a component; "linear".
    n_components : int
        The number of lengthscales of an "-ard" kernel.
    variance, lengthscale : float
        The values the kernel starts with; for "linear", `variance` is that of a sample with unit components.
    """
    words = [word.strip() for word in name.split("+")]
    parts = [_make_leaf(word, n_components, variance / len(words), lengthscale) for word in words]
    return parts[0] if len(parts) == 1 else Sum(*parts)


def _make_leaf(name: str, n_components: int, variance: float, lengthscale: float) -> Kernel:
    if name not in NAMES:
        raise ValueError(f"kernel={name!r} is not known; take one of {', '.join(NAMES)}, or several joined by '+'.")
    if name == "linear":
        return Linear(variance / n_components)
    base, ard = name.removesuffix("-ard"), name.endswith("-ard")
    return _STATIONARY[base](variance, np.full(n_components, lengthscale) if ard else lengthscale)
