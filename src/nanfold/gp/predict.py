"""The latent positions of new samples, from what is known of them: cross-Gram rows and norms.

A new sample y* at position x* is, feature by feature, normal with mean k*' K^-1 Y and variance v(x*). Summed over
the d features its log density needs y* only through g* = Y y* / d and |y*|^2 / d. With g* = Z z*,

    log p(y* | x*) = -(d/2) [log(2 pi v) + (|z* - C' k*|^2 + norm - |z*|^2) / v],   C = K^-1 Z,

and x* is where this is largest. d scales it and does not move x*.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from nanfold.gp.descend import Minima, descend
from nanfold.gp.fit import Fit
from nanfold.gp.kernels import Array, Kernel
from nanfold.gp.problem import Posterior

#: Entries of the largest temporary array: new samples are taken in blocks that keep to it.
BLOCK_ENTRIES = 2**22


class Location(NamedTuple):
    """Latent positions of new samples, the log density of each there, and whether its search converged."""

    X: Array
    log_density: Array
    converged: np.ndarray


def cross_coordinates(Z: Array, cross_gram: ArrayLike) -> Array:
    """Return z* with Z z* = g*, in least squares, for each row g* of `cross_gram` (new samples x training samples).

    For an unbiased estimate of g* this is its projection on the components that Z kept. A training sample's own row
    of G gives its own row of Z.
    """
    g = np.asarray(cross_gram, dtype=np.float64)
    if g.ndim != 2 or g.shape[1] != len(Z):
        raise ValueError(
            f"cross_gram must have a column for each of the {len(Z)} training samples, not shape {g.shape}."
        )
    return np.asarray(np.linalg.lstsq(Z, g.T, rcond=None)[0].T, dtype=np.float64)


def log_density(fit: Fit, X: Array, z: Array, norm: Array, posterior: Posterior | None = None) -> tuple[Array, Array]:
    """Return log p(y* | x*) and its gradient in x*, for each row of X, z and norm.

    `posterior` spares computing ``fit.posterior()`` anew.
    """
    value, gradient = _half_deviance(fit.kernel, fit.noise, posterior or fit.posterior(), X, z, norm)
    return -fit.factor.d * (value + 0.5 * np.log(2 * np.pi)), -fit.factor.d * gradient


def _half_deviance(
    kernel: Kernel, noise: float, posterior: Posterior, X: Array, z: Array, norm: Array
) -> tuple[Array, Array]:
    """Return (log v + R / v) / 2 and its gradient in X."""
    basis, C, E = posterior
    k = kernel(X, basis)
    whitened = k @ E
    # v is no less than the noise; rounding could say otherwise where the noise is a small part of k(x, x)
    v = noise + np.maximum(kernel.diagonal(X) - np.einsum("pm,pm->p", whitened, whitened), 0)
    error = z - k @ C
    R = np.einsum("pr,pr->p", error, error) + norm - np.einsum("pr,pr->p", z, z)
    dv = 0.5 * (1 / v - R / v**2)
    W = -2 * dv[:, None] * (whitened @ E.T) - (error @ C.T) / v[:, None]
    gradient = kernel.gradient(W, X, basis).X + kernel.diagonal_gradient(dv, X).X
    return 0.5 * (np.log(v) + R / v), gradient


def locate(
    fit: Fit, z: ArrayLike, norm: ArrayLike | None = None, *, n_starts: int = 4, max_iter: int = 200, tol: float = 1e-6
) -> Location:
    """Find the latent positions of new samples: the maxima of their predictive densities.

    The density has a mode wherever training samples resemble the new one, so each search starts from the positions
    of the `n_starts` training samples that are nearest in the coordinates of Z, and the best end is kept.

    Parameters
    ----------
    fit : Fit
        A fitted model.
    z : array of (q, r)
        Coordinates z* of each new sample in the columns of Z, with Z z* = g*; see `cross_coordinates`.
    norm : array of q, optional
        |y*|^2 / d of each new sample; by default |z*|^2. It must be no less than that, for the Gram matrix of old and
        new samples together to be positive semi-definite, which an unbiased estimate of it need not be.
    n_starts : int
        Searches per sample.
    max_iter : int
        The most steps of a search.
    tol : float
        On the gradient of the log density per feature, over the spread of the training positions.

    Returns
    -------
    Location
    """
    z, norm = _checked(z, norm, fit.factor.Z.shape[1])
    if n_starts < 1 or n_starts > fit.factor.n:
        raise ValueError(f"n_starts={n_starts} must be between 1 and the number of training samples, {fit.factor.n}.")
    posterior = fit.posterior()
    X, values, converged = np.empty((len(z), fit.X.shape[1])), np.empty(len(z)), np.empty(len(z), dtype=bool)
    for rows in _blocks(len(z), n_starts, fit):
        minima = _locate_block(fit, posterior, z[rows], norm[rows], n_starts, max_iter, tol)
        first = np.arange(0, len(minima.values), n_starts)
        best = first + minima.values.reshape(-1, n_starts).argmin(axis=1)
        X[rows], values[rows], converged[rows] = minima.X[best], minima.values[best], minima.converged[best]
    return Location(X, -fit.factor.d * (values + 0.5 * np.log(2 * np.pi)), converged)


def _locate_block(
    fit: Fit, posterior: Posterior, z: Array, norm: Array, n_starts: int, max_iter: int, tol: float
) -> Minima:
    """Search from the `n_starts` nearest training samples of every new one."""
    nearest = _nearest(fit.factor.Z, z, n_starts)
    owner = np.repeat(np.arange(len(z)), n_starts)

    def function(X: Array, index: np.ndarray) -> tuple[Array, Array]:
        whose = owner[index]
        return _half_deviance(fit.kernel, fit.noise, posterior, X, z[whose], norm[whose])

    spread = float(np.sqrt(fit.X.var(axis=0).sum()))
    return descend(function, fit.X[nearest.ravel()], max_step=spread, max_iter=max_iter, tol=tol)


def _checked(z: ArrayLike, norm: ArrayLike | None, r: int) -> tuple[Array, Array]:
    z = np.asarray(z, dtype=np.float64)
    if z.ndim != 2 or z.shape[1] != r or not np.all(np.isfinite(z)):
        raise ValueError(f"z must be a finite matrix with {r} columns, as Z has; it is of shape {z.shape}.")
    own = np.einsum("qr,qr->q", z, z)
    if norm is None:
        return z, own
    norm = np.asarray(norm, dtype=np.float64)
    if norm.shape != own.shape:
        raise ValueError(f"norm must have one entry for each of the {len(z)} rows of z, not shape {norm.shape}.")
    short = ~(norm >= own * (1 - 1e-9))
    if short.any():
        i = int(short.argmax())
        raise ValueError(
            f"norm[{i}]={norm[i]:.6g} is less than |z[{i}]|^2={own[i]:.6g}: old and new samples together would not "
            "have a positive semi-definite Gram matrix; give the larger of the two."
        )
    return z, norm


def _blocks(q: int, n_starts: int, fit: Fit) -> Iterator[slice]:
    """Rows of new samples such that neither their distances to Z nor their kernels grow past a block."""
    size = max(BLOCK_ENTRIES // max(fit.factor.n, n_starts * len(fit.basis)), 1)
    return (slice(start, min(start + size, q)) for start in range(0, q, size))


def _nearest(Z: Array, z: Array, count: int) -> np.ndarray:
    """For each row of z, the rows of Z that are nearest, in no order."""
    squared = np.einsum("nr,nr->n", Z, Z) - 2 * z @ Z.T
    if count == len(Z):
        return np.tile(np.arange(count), (len(z), 1))
    return np.argpartition(squared, count, axis=1)[:, :count]
