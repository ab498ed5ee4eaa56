"""Where a fit begins: latent positions, kernel, noise and inducing inputs, from the factor alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial import cKDTree
from sklearn.utils import check_random_state

from nanfold.gp.kernels import Array, Kernel, make_kernel
from nanfold.gp.problem import Factor, Point

#: The noise starts at no less than this share of the mean variance of a sample.
LEAST_NOISE_SHARE = 0.01
#: Two columns of Z count as dependent when the smaller eigenvalue of Z'Z is below this share of the largest.
RANK_TOLERANCE = 1e-12


def starting_point(
    factor: Factor,
    n_components: int,
    kernel: str | Kernel,
    inducing: int | ArrayLike | None,
    X: ArrayLike | None,
    noise: float | None,
    random_state: int | np.random.RandomState | None,
) -> Point:
    """Return where the search begins; what the caller gives replaces what is found here."""
    positions, explained = initial_positions(factor, n_components)
    if X is not None:
        positions = np.array(X, dtype=np.float64)
        if positions.shape != (factor.n, n_components) or not np.all(np.isfinite(positions)):
            raise ValueError(
                f"X must be finite and of shape {(factor.n, n_components)}; it is of shape {positions.shape}."
            )
    return Point(
        positions,
        initial_kernel(kernel, factor, n_components),
        initial_noise(factor, explained) if noise is None else float(noise),
        None if inducing is None else initial_inducing(inducing, positions, check_random_state(random_state)),
    )


def initial_positions(factor: Factor, n_components: int) -> tuple[Array, float]:
    """Return the leading left singular vectors of Z at mean square one, and the share of tr(G+) they hold.

    For Z from eigenpairs these are its leading columns, so that X starts as the scores of the PCA, each component
    at unit variance. Each has its entry of largest magnitude positive.
    """
    n, r = factor.Z.shape
    if n_components > min(n, r):
        raise ValueError(f"n_components={n_components} is more than there can be: Z has {n} samples and {r} columns.")
    eigenvalues, V = np.linalg.eigh(factor.Z.T @ factor.Z)
    eigenvalues, V = eigenvalues[::-1], V[:, ::-1]
    rank = int(np.sum(eigenvalues > RANK_TOLERANCE * eigenvalues[0]))
    if n_components > rank:
        raise ValueError(f"n_components={n_components}, but only {rank} columns of Z are independent.")
    X = factor.Z @ (V[:, :n_components] * np.sqrt(n / eigenvalues[:n_components]))
    X *= np.sign(X[np.abs(X).argmax(axis=0), np.arange(n_components)])
    return X, float(eigenvalues[:n_components].sum() / factor.trace)


def initial_kernel(kernel: str | Kernel, factor: Factor, n_components: int) -> Kernel:
    """Return the kernel that `kernel` names; one that is given as an object starts at its own values.

    The variance is tr(G+) / n, the mean variance of a sample. The lengthscale is 2 sqrt(n_components): at unit
    variance two samples are sqrt(2 n_components) apart, so that over most of the data the kernel starts out close to
    a linear one, as the positions do.
    """
    if isinstance(kernel, str):
        return make_kernel(kernel, n_components, factor.scale, 2 * np.sqrt(n_components))
    if not isinstance(kernel, Kernel):
        raise TypeError(f"kernel must be a name or a Kernel, not {type(kernel).__name__}.")
    kernel.check(n_components)
    return kernel


def initial_noise(factor: Factor, explained: float) -> float:
    """Return what the leading components leave of tr(G+) / n, and no less than a hundredth of it all."""
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
