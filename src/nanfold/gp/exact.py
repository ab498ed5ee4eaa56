"""The exact objective: -(d/2) [log|K| + tr(K^-1 Z Z')] - (n d / 2) log 2 pi, K = k(X, X) + noise I."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_solve, solve_triangular
from scipy.linalg.blas import dsyrk
from scipy.linalg.lapack import dpotrf, dpotri

from nanfold.gp.kernels import Array, Kernel
from nanfold.gp.problem import Evaluation, Factor, Posterior, SingularCovarianceError


def evaluate(factor: Factor, X: Array, kernel: Kernel, noise: float) -> Evaluation:
    """Return the objective and its gradient in X, the logarithms of the kernel's parameters, and log noise.

    Costs O(n^3 + n^2 r). Where `factor` does not hold the whole trace, the value is a lower bound (see `Factor`).
    """
    n, d, residual = factor.n, factor.d, factor.residual
    L = _cholesky(X, kernel, noise)
    A = cho_solve((L, True), factor.Z, check_finite=False)
    log_det = 2 * np.log(np.diag(L)).sum()
    value = -0.5 * d * (log_det + np.vdot(factor.Z, A) + residual / noise + n * np.log(2 * np.pi))
    # dF/dK = -(d/2) (K^-1 - A A'), A = K^-1 Z
    inverse, _ = dpotri(L, lower=1, overwrite_c=1)
    W = dsyrk(0.5 * d, A, beta=-0.5 * d, c=inverse, lower=1, overwrite_c=1)
    W = _mirrored(W)
    gradient = kernel.gradient(W, X)
    log_noise = noise * np.trace(W) + 0.5 * d * residual / noise
    return Evaluation(float(value), gradient.X, gradient.theta, float(log_noise))


def posterior(factor: Factor, X: Array, kernel: Kernel, noise: float) -> Posterior:
    """Return what predicts at new positions: C = K^-1 Z, and E with E E' = K^-1."""
    L = _cholesky(X, kernel, noise)
    E = solve_triangular(L, np.eye(factor.n), lower=True, check_finite=False).T
    return Posterior(X, cho_solve((L, True), factor.Z, check_finite=False), E)


def _cholesky(X: Array, kernel: Kernel, noise: float) -> Array:
    """The lower factor of k(X, X) + noise I, with zeros above its diagonal."""
    K = kernel(X)
    K.flat[:: len(K) + 1] += noise
    # K is symmetric: its transpose is the same matrix, in the order that LAPACK can overwrite
    L, info = dpotrf(K.T, lower=1, clean=1, overwrite_a=1)
    if info:
        raise SingularCovarianceError(
            f"k(X, X) + noise I is singular to rounding with {kernel} and noise={noise:.3g}; raise the noise."
        )
    return L


def _mirrored(lower: Array) -> Array:
    """The symmetric matrix of which `lower` holds the lower triangle (and anything at all above it)."""
    lower = np.tril(lower)
    full = lower + lower.T
    full.flat[:: len(full) + 1] /= 2
    return full
