"""Leading eigenpairs of a symmetric matrix: exactly, or by block Krylov from products alone."""

from contextlib import nullcontext
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy import linalg
from threadpoolctl import threadpool_limits

from nanfold._krylov import Eigenpairs, column_norms, dense_eigenpairs, krylov_eigenpairs, relative_residuals
from nanfold.gram import Gram, UnbiasedGram
from nanfold.observed import DenseObserved

SOLVERS = ("auto", "exact", "krylov")
# Below this many samples a dense eigendecomposition is faster than anything cleverer.
EXACT_SAMPLES = 800
# Up to this many samples the n x n matrix is formed for the Krylov solver too, if that makes its products cheaper.
DENSE_SAMPLES = 6000
# Eigenvalues of complete data below this share of the largest are not found by way of the features.
SMALLEST = 1e-9
# Bases of up to so many values are small.
SMALL_BASIS = 20_000_000
# To this tolerance and looser, a basis that is not small is kept in float32, if the data are; and few vectors are
# multiplied at once, as a step has several such blocks in float64.
LOOSE = 1e-2


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
    check_solver(solver, tol, max_iter)
    if solver == "auto":
        solver = "exact" if prefers_exact(gram, k) else "krylov"
    if solver == "exact":
        return exact_eigenpairs(gram, k)
    n, d = gram.shape[0], gram.n_features
    if n <= DENSE_SAMPLES and n < d:
        return krylov_eigenpairs(gram.toarray().__matmul__, n, k, tol, max_iter, rng=rng)
    if isinstance(gram, UnbiasedGram) and gram.is_whole and k < d <= n:
        pairs = _by_features(gram, k, tol, max_iter, rng)
        if pairs is not None:
            return pairs
    basis = _basis(k, 5 * k)
    if tol >= LOOSE and n * 5 * k > SMALL_BASIS and gram.observed.dtype == np.float32:
        basis |= {"block": 8, "dtype": np.float32}
    return krylov_eigenpairs(gram, n, k, tol, max_iter, **basis, rng=rng)


def _basis(k: int, most: int) -> dict[str, Any]:
    """How many vectors to multiply at once and to hold, at most about `most`.

    A pass over stored entries takes 1.7 times as long for 16 vectors as for 8, and then in proportion, while narrower
    blocks make more of every vector and more of the other work (``benchmarks/krylov.py`` has the measurements).
    """
    block = 16 if k > 16 else 8
    return {"block": block, "depth": max(4 * block, most - k - 2 * block)}


def _by_features(
    gram: UnbiasedGram, k: int, tol: float, max_iter: int, rng: np.random.Generator | None
) -> Eigenpairs | None:
    """Eigenpairs of FF' by those of F'F, which is of order d; None if some vanish, whose vectors F cannot give."""
    d = gram.n_features
    # Threads of the BLAS wait for each other at every product of small matrices, which takes far longer than the
    # products where others use the processors too (30 times as long, seen with a load of 20 on two of them).
    small = d * 8 * k <= SMALL_BASIS and not isinstance(gram.observed, DenseObserved)
    with threadpool_limits(1, "blas") if small else nullcontext():
        right = krylov_eigenpairs(gram.covariance_matmul, d, k, tol, max_iter, **_basis(k, 8 * k), rng=rng, check=False)
    values = right.values
    if not values[-1] > SMALLEST * values[0]:
        return None
    vectors, images = gram.covariance_step(right.vectors)
    sigma = np.sqrt(values)
    vectors /= sigma
    images /= sigma
    errors = gram.factor_matmul(images)
    errors -= vectors * values
    return Eigenpairs(values, vectors, relative_residuals(column_norms(errors), values), right.n_iter)


def check_solver(solver: Any, tol: Any = 0.0, max_iter: Any = 1) -> None:
    """One sentence for a solver that there is not, or for one that could not tell when to stop."""
    if solver not in SOLVERS:
        raise ValueError(f"solver must be {', '.join(map(repr, SOLVERS[:-1]))} or {SOLVERS[-1]!r}; it is {solver!r}.")
    if isinstance(tol, bool) or not isinstance(tol, Real) or not 0 <= float(tol) < np.inf:
        raise ValueError(f"tol must be a number of at least 0; it is {tol!r}.")
    if isinstance(max_iter, bool) or not isinstance(max_iter, Integral) or max_iter < 1:
        raise ValueError(f"max_iter must be a whole number of at least 1; it is {max_iter!r}.")


def prefers_exact(gram: Gram, k: int) -> bool:
    """Whether a dense decomposition is the faster way to k eigenpairs."""
    n, d = gram.shape[0], gram.n_features
    if gram.is_whole and n * d * min(n, d) <= 1e9:
        # Only dense data have a factor to decompose; of others the n x n matrix is formed.
        return n <= DENSE_SAMPLES or isinstance(gram.observed, DenseObserved)
    return n <= EXACT_SAMPLES or (k > n // 5 and n <= DENSE_SAMPLES)


def exact_eigenpairs(gram: Gram, k: int | None = None) -> Eigenpairs:
    """The k leading eigenpairs (all min(n, d) of complete data, all n of others) by a dense decomposition."""
    factor = gram.factor()
    if factor is None:
        return dense_eigenpairs(gram.toarray(), k)
    # Through F and not FF', whose squares would cost the small eigenvalues half their digits.
    U, sigma, Vt = linalg.svd(factor, full_matrices=False)
    values, vectors = sigma[:k] ** 2, U[:, :k]
    images = factor @ (Vt[:k].T * sigma[:k])
    return Eigenpairs(values, vectors, relative_residuals(column_norms(images - vectors * values), values))
