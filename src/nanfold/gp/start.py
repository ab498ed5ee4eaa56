"""Where a fit begins: latent positions, kernel, noise and inducing inputs, from the factor alone."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial import cKDTree

from nanfold.gp.geodesic import geodesic_positions, signed
from nanfold.gp.kernels import Array, Kernel, make_kernel
from nanfold.gp.problem import Factor, Point

#: The noise starts at no less than this share of the mean variance of a sample.
LEAST_NOISE_SHARE = 0.01
#: Two columns of Z count as dependent when the smaller eigenvalue of Z'Z is below this share of the largest.
RANK_TOLERANCE = 1e-12
#: Lengthscales to begin with, as shares of how far apart two samples are.
LENGTHSCALE_SHARES = (np.sqrt(2), 0.5)
INITS = ("auto", "pca", "geodesic")


class Start(NamedTuple):
    """A point where a search may begin, and what it is called."""

    name: str
    point: Point


def starting_points(
    factor: Factor, n_components: int, kernel: str | Kernel, init: str | ArrayLike, noise: float | None
) -> list[Start]:
    """Return where a search may begin: every choice of positions with every kernel, the PCA first.

    What the caller gives leaves no choice. Inducing inputs are for `initial_inducing`.
    """
    level = initial_noise(factor, n_components) if noise is None else float(noise)
    kernels = initial_kernels(kernel, factor, n_components)
    return [
        Start(f"{name}, {begun!r}", Point(positions, begun, level))
        for name, positions in named_positions(factor, n_components, init).items()
        for begun in kernels
    ]


def named_positions(factor: Factor, n_components: int, init: str | ArrayLike) -> dict[str, Array]:
    """Return the positions that `init` names, or holds, by their names."""
    if not isinstance(init, str):
        given = np.array(init, dtype=np.float64)
        if given.shape != (factor.n, n_components) or not np.all(np.isfinite(given)):
            raise ValueError(
                f"init must be finite and of shape {(factor.n, n_components)}; it is of shape {given.shape}."
            )
        return {"given": given}
    if init not in INITS:
        raise ValueError(f"init must be one of {', '.join(INITS)}, or positions; it is {init!r}.")
    found = {} if init == "geodesic" else {"pca": initial_positions(factor, n_components)}
    if init != "pca" and (unfolded := geodesic_positions(factor, n_components)) is not None:
        found["geodesic"] = unfolded
    if not found:
        raise ValueError(
            f"init='geodesic' finds fewer than n_components={n_components} dimensions in the graph of neighbours; "
            "take 'pca'."
        )
    return found


def initial_positions(factor: Factor, n_components: int) -> Array:
    """Return the leading left singular vectors of Z at mean square one.

    For Z from eigenpairs these are its leading columns, so that X starts as the scores of the PCA, each component
    at unit variance. Each has its entry of largest magnitude positive.
    """
    eigenvalues, V = _leading(factor, n_components)
    return signed(factor.Z @ (V * np.sqrt(factor.n / eigenvalues)))


def _leading(factor: Factor, n_components: int) -> tuple[Array, Array]:
    """The leading eigenvalues and eigenvectors of Z'Z."""
    n, r = factor.Z.shape
    if n_components > min(n, r):
        raise ValueError(f"n_components={n_components} is more than there can be: Z has {n} samples and {r} columns.")
    eigenvalues, V = np.linalg.eigh(factor.Z.T @ factor.Z)
    eigenvalues, V = eigenvalues[::-1], V[:, ::-1]
    rank = int(np.sum(eigenvalues > RANK_TOLERANCE * eigenvalues[0]))
    if n_components > rank:
        raise ValueError(f"n_components={n_components}, but only {rank} columns of Z are independent.")
    return eigenvalues[:n_components], V[:, :n_components]


def initial_kernels(kernel: str | Kernel, factor: Factor, n_components: int) -> list[Kernel]:
    """Return the kernels that `kernel` names; one that is given as an object starts at its own values.

    The variance is tr(G+) / n, the mean variance of a sample. At unit variance two samples are sqrt(2 n_components)
    apart. The first lengthscale is sqrt(2) times that, so that over most of the data the kernel starts out close to a
    linear one, as the PCA is; the second is half of that, for what bends.
    """
    if isinstance(kernel, str):
        apart = np.sqrt(2 * n_components)
        made = [make_kernel(kernel, n_components, factor.scale, apart * share) for share in LENGTHSCALE_SHARES]
        # a linear kernel has none
        return made[:1] if np.array_equal(made[0].theta, made[1].theta) else made
    if not isinstance(kernel, Kernel):
        raise TypeError(f"kernel must be a name or a Kernel, not {type(kernel).__name__}.")
    kernel.check(n_components)
    return [kernel]


def initial_noise(factor: Factor, n_components: int) -> float:
    """Return what the leading components leave of tr(G+) / n, and no less than a hundredth of it all."""
    explained = float(_leading(factor, n_components)[0].sum() / factor.trace)
    return factor.scale * max(1 - explained, LEAST_NOISE_SHARE)


def initial_inducing(inducing: int | ArrayLike, X: Array, rng: np.random.RandomState) -> Array:
    """Return the inducing inputs: as given, or the centres of a k-means of X with that many clusters."""
    if isinstance(inducing, (int, np.integer)) and not isinstance(inducing, bool):
        if inducing < 1 or inducing > len(X):
            raise ValueError(f"inducing={inducing} must be between 1 and the number of samples, {len(X)}.")
        if inducing == len(X):
            return X.copy()
        return _centres(X, X[rng.choice(len(X), inducing, replace=False)])
    if np.ndim(inducing) == 0:
        raise ValueError(f"inducing must be None, a whole number or a matrix of positions; it is {inducing!r}.")
    U = np.array(inducing, dtype=np.float64)
    if U.ndim != 2 or U.shape[1] != X.shape[1] or len(U) == 0 or not np.all(np.isfinite(U)):
        raise ValueError(f"inducing must be a finite matrix with {X.shape[1]} columns, not of shape {U.shape}.")
    if len(U) > len(X):
        raise ValueError(f"inducing has {len(U)} rows, more than the {len(X)} samples.")
    return U


def _centres(X: Array, U: Array, n_iter: int = 10) -> Array:
    """Run Lloyd's k-means from the centres U; a cluster that runs empty keeps its centre."""
    for _ in range(n_iter):
        labels = cKDTree(U).query(X)[1]
        counts = np.bincount(labels, minlength=len(U))
        sums = np.stack([np.bincount(labels, column, minlength=len(U)) for column in X.T], axis=1)
        U = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], U)
    return U
