"""Leading eigenpairs of a symmetric matrix: exactly, or by block Krylov from products alone."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import linalg
from sklearn.exceptions import ConvergenceWarning

from nanfold.gram import Gram

SOLVERS = ("auto", "exact", "krylov")
# Below this many samples a dense eigendecomposition is faster than anything cleverer.
EXACT_SAMPLES = 800
# Up to this many samples the n x n matrix is formed for the Krylov solver too, if that makes its products cheaper.
DENSE_SAMPLES = 6000


@dataclass(frozen=True)
class Eigenpairs:
    """Eigenvalues in decreasing order, their vectors in columns, and |G u - lambda u| / |lambda| of each.

    `n_iter` counts the products with a block of vectors that were spent; an exact decomposition counts as 1.
    """

    values: np.ndarray
    vectors: np.ndarray
    residuals: np.ndarray
    n_iter: int = 1


def relative_residuals(norms: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Residual norms relative to their own eigenvalue (to rounding of the largest, for one that vanishes)."""
    largest = np.max(np.abs(values), initial=0.0)
    if largest == 0:
        return np.zeros_like(norms)
    return norms / np.maximum(np.abs(values), np.finfo(np.float64).eps * largest)


def eigenpairs(
    gram: Gram,
    k: int,
    solver: str = "auto",
    *,
    tol: float = 1e-6,
    max_iter: int = 200,
    rng: np.random.Generator | None = None,
) -> Eigenpairs:
    """The k leading eigenpairs (largest, not largest in magnitude).

    Parameters
    ----------
    gram : the matrix
    k : how many
    solver : "exact", "krylov", or "auto" for whichever is faster
    tol : the Krylov solver stops when every residual is below tol times its eigenvalue
    max_iter : the most products with the matrix that the Krylov solver may spend, each with a block of vectors
    rng : where the Krylov solver's start comes from
    """
    check_solver(solver)
    if solver == "auto":
        solver = "exact" if prefers_exact(gram, k) else "krylov"
    if solver == "exact":
        return exact_eigenpairs(gram, k)
    n = gram.shape[0]
    dense = gram.toarray() if n <= DENSE_SAMPLES and n < gram.n_features else None
    return krylov_eigenpairs(gram.__matmul__ if dense is None else dense.__matmul__, n, k, tol, max_iter, rng=rng)


def check_solver(solver: str) -> None:
    """One sentence for a solver that there is not."""
    if solver not in SOLVERS:
        raise ValueError(f"solver must be {', '.join(map(repr, SOLVERS[:-1]))} or {SOLVERS[-1]!r}; it is {solver!r}.")


def prefers_exact(gram: Gram, k: int) -> bool:
    """Whether a dense decomposition is the faster way to k eigenpairs."""
    n, d = gram.shape[0], gram.n_features
    if gram.is_whole and n * d * min(n, d) <= 1e9:
        return True
    return n <= EXACT_SAMPLES or (k > n // 5 and n <= DENSE_SAMPLES)


def exact_eigenpairs(gram: Gram, k: int | None = None) -> Eigenpairs:
    """The k leading eigenpairs (all min(n, d) of complete data, all n of others) by a dense decomposition."""
    factor = gram.factor()
    if factor is None:
        return _dense_eigenpairs(gram.toarray(), k)
    # Through F and not FF', whose squares would cost the small eigenvalues half their digits.
    U, sigma, Vt = linalg.svd(factor, full_matrices=False)
    values, vectors = sigma[:k] ** 2, U[:, :k]
    images = factor @ (Vt[:k].T * sigma[:k])
    return Eigenpairs(values, vectors, relative_residuals(_norms(images - vectors * values), values))


def krylov_eigenpairs(
    product: Callable[[np.ndarray], np.ndarray],
    n: int,
    k: int,
    tol: float = 1e-6,
    max_iter: int = 200,
    *,
    block: int | None = None,
    start: np.ndarray | None = None,
    rng: np.random.Generator | None = None,
) -> Eigenpairs:
    """Block Krylov with full reorthogonalisation and thick restarts.

    The basis Q satisfies G Q = Q T + N C, with N the next block and C its coupling, so that the residual of a Ritz
    vector Q s is |C s|: known without another product, and checked by one at the end.

    A block of b vectors reaches b copies of a repeated eigenvalue. When all that it reaches is in the basis, a fresh
    random block looks for what is left, until one brings nothing new.

    Parameters
    ----------
    product : V -> G V
    n : the order of G
    k : how many eigenpairs
    tol : stop when every residual is below tol times its eigenvalue
    max_iter : the most products with a block of vectors
    block : vectors in a block
    start : (n, block) vectors to start from in place of random ones
    rng : where random ones come from
    """
    rng = np.random.default_rng(0) if rng is None else rng
    if start is not None:
        block = start.shape[1]
    block = block or min(max(4, k // 2), 16)
    most = k + max(k, 4 * block)
    if most + block >= n:
        return _dense_eigenpairs(product(np.eye(n)), k)
    Q = np.empty((n, most + block), order="F")
    N, _ = linalg.qr(rng.standard_normal((n, block)) if start is None else start, mode="economic")
    b = N.shape[1]
    T, C, S = np.zeros((0, 0)), np.zeros((b, 0)), np.zeros((0, 0))
    values = np.zeros(0)
    settled: np.ndarray | None = None
    converged = False
    n_iter = 0
    while n_iter < max_iter and not converged:
        n_iter += 1
        if len(T) + b > most:
            keep = k + b
            Q[:, :keep] = Q[:, : len(T)] @ S[:, :keep]
            T, C = np.diag(values[:keep]), C @ S[:, :keep]
        m = len(T)
        Q[:, m : m + b] = N
        basis = Q[:, : m + b]
        W = product(N)
        H = basis.T @ W
        W -= basis @ H
        correction = basis.T @ W
        W -= basis @ correction
        inner = H[m:] + correction[m:]
        T = np.block([[T, C.T], [C, (inner + inner.T) / 2]])
        values, S = linalg.eigh(T)
        values, S = values[::-1], S[:, ::-1]
        # An eigenvalue that vanishes can be had to rounding of the largest, and no better.
        rounding = 10.0 * np.sqrt(n) * np.finfo(np.float64).eps * np.abs(values).max()
        exhausted = np.all(_norms(W) <= rounding)
        N = _orthonormal_beside(rng.standard_normal((n, b)) if exhausted else W, basis)
        C = np.hstack([np.zeros((b, m)), np.zeros((b, b)) if exhausted else N.T @ W])
        norms = _norms(C @ S)
        resolved = norms <= np.maximum(rounding, tol * np.abs(values))
        converged = len(T) >= k and bool(np.all(resolved[:k]))
        if exhausted:
            before, settled = settled, values[:k]
            converged &= before is not None and len(before) == k and np.allclose(before, settled, tol, rounding)
        elif settled is not None:
            # A fresh block is under way: the best that it has found must be known roughly to count as nothing new.
            best = int(np.argmin(resolved))
            converged &= bool(resolved[best] or norms[best] <= 0.01 * abs(values[best]))
    if len(S) < k:
        raise ValueError(f"max_iter={max_iter} products cannot give {k} eigenpairs; allow more.")
    vectors = Q[:, : len(S)] @ S[:, :k]
    values = values[:k]
    residuals = relative_residuals(_norms(product(vectors) - vectors * values), values)
    if not converged:
        warnings.warn(
            f"The Krylov solver spent max_iter={max_iter} products and its largest residual is {residuals.max():.1e}, "
            f"above tol={tol:g}; allow more of them, or raise tol.",
            ConvergenceWarning,
            stacklevel=3,
        )
    return Eigenpairs(values, vectors, residuals, n_iter)


def _norms(R: np.ndarray) -> np.ndarray:
    """Norms of the columns, of whatever size: nothing is squared that could overflow or vanish."""
    largest = np.max(np.abs(R), initial=0.0) or 1.0
    return largest * np.linalg.norm(R / largest, axis=0)


def _orthonormal_beside(W: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """An orthonormal basis of the columns of W, orthogonal to `basis` even where W has lost rank."""
    for _ in range(2):
        W, _ = linalg.qr(W, mode="economic")
        W -= basis @ (basis.T @ W)
    return linalg.qr(W, mode="economic")[0]


def _dense_eigenpairs(A: np.ndarray, k: int | None) -> Eigenpairs:
    n = len(A)
    wanted = [n - k, n - 1] if k is not None and 0 < k < n // 5 else None
    values, vectors = linalg.eigh(A, subset_by_index=wanted)
    values, vectors = values[::-1][:k], vectors[:, ::-1][:, :k]
    return Eigenpairs(values, vectors, relative_residuals(_norms(A @ vectors - vectors * values), values))
