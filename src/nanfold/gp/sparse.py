"""The collapsed lower bound of Titsias (2009), in row blocks: there is no array of n x n, nor of n x m.

Blocks run in threads, and their results are added in their order: the number of threads does not change an answer.
Inside blocks BLAS is best kept to one thread, as `fit` does: on products this small more threads cost more than they
bring.

With m inducing inputs U and Q = Kfu Kuu^-1 Kuf, the bound replaces K by Q + noise I and subtracts
(d/2) tr(Kff - Q) / noise. Everything is whitened by Kuu = L L':

    A = L^-1 Kuf,  B = I + A A' / noise,  p = B^-1 A Z / noise
    bound = -(d/2) [n log noise + log|B| + tr(G+)/noise - <A Z, p>/noise + (tr Kff - tr A A')/noise + n log 2 pi]
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_solve, cholesky, eigh, solve_triangular

from nanfold._threads import even_blocks, run_blocks
from nanfold.gp.kernels import Array, Kernel
from nanfold.gp.problem import Evaluation, Factor, Posterior, SingularCovarianceError

#: Kuu's diagonal is raised by this share of its mean. The bound stays a bound: those are inducing variables with noise.
JITTER = 1e-8
#: Entries of Kfu in a block of rows: some megabytes, so that a block stays in the processor's cache.
BLOCK_ENTRIES = 2**18


class _Sums(NamedTuple):
    """What one pass over the rows leaves: L, A A', A Z and tr Kff."""

    L: Array
    AA: Array
    AZ: Array
    total: float


def evaluate(factor: Factor, X: Array, kernel: Kernel, noise: float, inducing: Array) -> Evaluation:
    """Return the bound and its gradient in X, the kernel's logarithms, log noise and the inducing inputs.

    Costs O(n m^2 + n m r) time, and O(n (m + r)) memory, of which n m counts a quarter at most.
    """
    n, d, identity = factor.n, factor.d, np.eye(len(inducing))
    L, AA, AZ, total = _accumulate(factor, X, kernel, inducing)
    B = identity + AA / noise
    LB = _cholesky(B, "inducing inputs given the data", kernel)
    p = cho_solve((LB, True), AZ, check_finite=False) / noise
    explained = np.vdot(AZ, p)
    log_det = n * np.log(noise) + 2 * np.log(np.diag(LB)).sum()
    rest = factor.trace - explained + total - np.trace(AA)
    value = -0.5 * d * (log_det + rest / noise + n * np.log(2 * np.pi))

    D = cho_solve((LB, True), identity, check_finite=False) + p @ p.T - identity
    log_noise = -0.5 * d * (n - (np.vdot(D, AA) + factor.trace + total - 2 * explained) / noise)
    # dF/dKuu = -(d/2) L^-T [D + B - I] L^-1
    dU, theta = _through_inducing(-0.5 * d * _both_sides(L, D + B - identity), kernel, inducing)
    dX = np.empty_like(X)

    def through_block(start: int, stop: int) -> tuple[Array, Array]:
        rows = slice(start, stop)
        # dF/dKfu = -(d / noise) [A' D - Z p'] L^-1
        At = _whitened(L, kernel(X[rows], inducing))
        W = (-d / noise) * _unwhitened(L, At @ D - factor.Z[rows] @ p.T)
        across = kernel.gradient(W, X[rows], inducing)
        along = kernel.diagonal_gradient(np.full(len(W), -0.5 * d / noise), X[rows])
        dX[rows] = across.X + along.X
        return across.X2, across.theta + along.theta

    for block_U, block_theta in run_blocks(through_block, _blocks(n, len(inducing))):
        dU += block_U
        theta += block_theta
    return Evaluation(float(value), dX, theta, float(log_noise), dU)


def posterior(factor: Factor, X: Array, kernel: Kernel, noise: float, inducing: Array) -> Posterior:
    """Return what predicts at new positions: C = L^-T p, and E with E E' = L^-T (I - B^-1) L^-1."""
    L, AA, AZ, _ = _accumulate(factor, X, kernel, inducing)
    # B = V diag(1 + a) V', a >= 0
    a, V = eigh(AA / noise)
    a = np.maximum(a, 0)
    p = V @ ((V.T @ AZ) / (1 + a)[:, None]) / noise
    E = solve_triangular(L, V * np.sqrt(a / (1 + a)), lower=True, trans="T", check_finite=False)
    return Posterior(inducing, solve_triangular(L, p, lower=True, trans="T", check_finite=False), E)


def _accumulate(factor: Factor, X: Array, kernel: Kernel, inducing: Array) -> _Sums:
    m = len(inducing)
    Kuu = kernel(inducing)
    Kuu.flat[:: m + 1] += JITTER * kernel.diagonal(inducing).mean()
    L = _cholesky(Kuu, "inducing inputs", kernel)

    def block_sums(start: int, stop: int) -> tuple[Array, Array, float]:
        rows = slice(start, stop)
        At = _whitened(L, kernel(X[rows], inducing))
        return At.T @ At, At.T @ factor.Z[rows], kernel.diagonal(X[rows]).sum()

    AA, AZ, total = np.zeros((m, m)), np.zeros((m, factor.Z.shape[1])), 0.0
    for block_AA, block_AZ, block_total in run_blocks(block_sums, _blocks(factor.n, m)):
        AA += block_AA
        AZ += block_AZ
        total += block_total
    return _Sums(L, AA, AZ, total)


def _cholesky(matrix: Array, what: str, kernel: Kernel) -> Array:
    try:
        return np.asarray(cholesky(matrix, lower=True, check_finite=False))
    except LinAlgError as error:
        raise SingularCovarianceError(
            f"the covariance of the {what} is singular to rounding with {kernel}; raise the noise or take fewer."
        ) from error


def _through_inducing(W: Array, kernel: Kernel, inducing: Array) -> tuple[Array, Array]:
    """Carry W = dF/dKuu, whose diagonal holds the jitter, to dF/dU and dF/dtheta."""
    across = kernel.gradient(W, inducing)
    share = JITTER * np.trace(W) / len(inducing)
    along = kernel.diagonal_gradient(np.full(len(inducing), share), inducing)
    return across.X + along.X, across.theta + along.theta


def _blocks(n: int, m: int) -> list[tuple[int, int]]:
    # at least 4 m rows: the sums of all blocks, m x m each and held together, stay a quarter of n x m
    return even_blocks(n, max(BLOCK_ENTRIES // m, 4 * m))


def _whitened(L: Array, K: Array) -> Array:
    """K L^-T."""
    return solve_triangular(L, K.T, lower=True, check_finite=False).T


def _unwhitened(L: Array, W: Array) -> Array:
    """W L^-1."""
    return solve_triangular(L, W.T, lower=True, trans="T", check_finite=False).T


def _both_sides(L: Array, W: Array) -> Array:
    """L^-T W L^-1 for a symmetric W."""
    return _unwhitened(L, _unwhitened(L, W).T)
