"""What both objectives share: the data as GPLVM sees them, a point of the search, and the answers at a point."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from nanfold.gp.kernels import Array, Kernel


class SingularCovarianceError(ValueError):
    """A covariance matrix is not positive definite to rounding."""


@dataclass(frozen=True, init=False)
class Factor:
    """The data of a GPLVM: Z with Z Z' = G+, the positive part of the Gram matrix per feature, and d.

    A Gram matrix with negative eigenvalues has no real factor, and must not have one here: along a direction of
    negative "variance", tr(K^-1 G) falls to minus infinity as the noise vanishes, so the objective has no maximum.
    Give ``Z = U * sqrt(eigenvalues)`` for the positive eigenvalues only.

    Parameters
    ----------
    Z : array of (n samples, r)
        On complete data, d Z Z' = Y Y'.
    d : float
        The number of features, which is not the number of columns of Z.
    trace : float, optional
        tr(G+), where Z holds only some of its components; the default is that of Z Z'. What is missing,
        R = G+ - Z Z', enters as if orthogonal to the kernel: tr(K^-1 R) <= tr(R) / noise, so that the objective
        stays a lower bound of the one with all components.
    """

    Z: Array
    d: float
    trace: float

    def __init__(self, Z: ArrayLike, d: float, trace: float | None = None) -> None:
        Z = _checked(Z)
        own = float(np.vdot(Z, Z))
        if not (isinstance(d, Real) and 0 < d < np.inf):
            raise ValueError(f"d must be a positive number of features, not {d!r}.")
        if own == 0:
            raise ValueError("Z is zero everywhere: there is nothing to fit.")
        if trace is None:
            trace = own
        # rounding in an eigendecomposition may leave the sum of all eigenvalues a little below that of the kept ones
        if not np.isfinite(trace) or trace < own * (1 - 1e-9):
            raise ValueError(f"trace={trace!r} must be finite and no less than the sum of squares of Z, {own:.6g}.")
        object.__setattr__(self, "Z", Z)
        object.__setattr__(self, "d", float(d))
        object.__setattr__(self, "trace", max(float(trace), own))

    @property
    def n(self) -> int:
        """The number of samples."""
        return self.Z.shape[0]

    @property
    def scale(self) -> float:
        """The mean variance of a sample, tr(G+) / n."""
        return self.trace / self.n

    @property
    def residual(self) -> float:
        """The part of the trace that Z does not hold."""
        return self.trace - float(np.vdot(self.Z, self.Z))

    def compact(self) -> Factor:
        """The same problem with at most n columns: Z' = Q R, Z Z' = R' R."""
        if self.Z.shape[1] <= self.n:
            return self
        R = np.asarray(np.linalg.qr(self.Z.T, mode="r"))
        return Factor(R.T, self.d, max(self.trace, float(np.vdot(R, R))))


def _checked(Z: ArrayLike) -> Array:
    """Return Z as a matrix of finite reals with at least two rows, or say what is wrong with it."""
    if np.iscomplexobj(Z):
        raise ValueError(
            "Z is complex, so Z Z' is not positive semi-definite: keep the components with positive eigenvalues only."
        )
    Z = np.ascontiguousarray(Z, dtype=np.float64)
    if Z.ndim != 2 or Z.shape[1] == 0:
        raise ValueError(f"Z must be a matrix of (samples, components), not an array of shape {Z.shape}.")
    if Z.shape[0] < 2:
        raise ValueError(f"Z has {Z.shape[0]} rows; a latent variable model needs at least 2 samples.")
    if not np.all(np.isfinite(Z)):
        i, j = np.argwhere(~np.isfinite(Z))[0]
        raise ValueError(
            f"Z[{i}, {j}] is {Z[i, j]}: Z must be finite (the root of a negative eigenvalue is not; drop those)."
        )
    return Z


class Point(NamedTuple):
    """One point of the search: latent positions, kernel, noise variance, and inducing inputs on the sparse path."""

    X: Array
    kernel: Kernel
    noise: float
    inducing: Array | None = None


class Evaluation(NamedTuple):
    """The objective at one point, and its gradient."""

    value: float
    X: Array
    theta: Array
    log_noise: float
    inducing: Array | None = None


class Posterior(NamedTuple):
    """What predicts at a new position x, with k = k(x, basis): mean k' C (in the coordinates of Z), and variance.

    The variance, the same for all features and noise included, is k(x, x) + noise - |k' E|^2.
    """

    basis: Array
    C: Array
    E: Array
