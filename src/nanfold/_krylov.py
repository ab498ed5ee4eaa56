"""Leading eigenpairs of a symmetric matrix that is known by its products: block Krylov, thick restarts.

A matrix G = F F' + a diagonal takes two products with F a step, and so reads the data twice, unless the image F'N of
the block N that is multiplied is known already: then one pass gives G N and its image F'G N. The next block is a
combination of G N and the basis, and its image the same combination of images, so that the images are carried along.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from scipy import linalg
from sklearn.exceptions import ConvergenceWarning

EPS = float(np.finfo(np.float64).eps)
# Images are computed afresh when rounding may have cost them all but so many digits, by the precision of the basis.
IMAGE_ERROR = {np.dtype(np.float64): 1e-11, np.dtype(np.float32): 1e-3}


@dataclass(frozen=True)
class Eigenpairs:
    """Eigenvalues in decreasing order, their vectors in columns, and |G u - lambda u| / |lambda| of each.

    `n_iter` counts the products with a block of vectors that were spent; an exact decomposition counts as 1.
    """

    values: np.ndarray
    vectors: np.ndarray
    residuals: np.ndarray
    n_iter: int = 1


class Steps(Protocol):
    """What the solver asks of a matrix G."""

    def __matmul__(self, V: np.ndarray) -> np.ndarray:
        """G V."""

    def image(self, N: np.ndarray) -> np.ndarray:
        """What `step` wants to know of N, linear in N: F'N, or nothing (no rows)."""

    def step(self, N: np.ndarray, image: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """G N and its image."""


class Products:
    """Steps by a function V -> G V alone, without images."""

    def __init__(self, product: Callable[[np.ndarray], np.ndarray]) -> None:
        self._product = product

    def __matmul__(self, V: np.ndarray) -> np.ndarray:
        """G V."""
        return self._product(V)

    def image(self, N: np.ndarray) -> np.ndarray:
        """Nothing."""
        return np.empty((0, N.shape[1]))

    def step(self, N: np.ndarray, image: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """G N, and nothing."""
        return self._product(N), image


def relative_residuals(norms: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Residual norms relative to their own eigenvalue (to rounding of the largest, for one that vanishes)."""
    largest = np.max(np.abs(values), initial=0.0)
    if largest == 0:
        return np.zeros_like(norms)
    return norms / np.maximum(np.abs(values), EPS * largest)


def column_norms(R: np.ndarray) -> np.ndarray:
    """Norms of the columns, of whatever size: nothing is squared that could overflow or vanish."""
    largest = max(np.max(R, initial=0.0), -np.min(R, initial=0.0)) or 1.0
    R = R / largest
    return largest * np.sqrt(np.einsum("ia,ia->a", R, R))


def dense_eigenpairs(A: np.ndarray, k: int | None) -> Eigenpairs:
    """The k leading eigenpairs of a dense matrix; all of them if k is None."""
    n = len(A)
    wanted = [n - k, n - 1] if k is not None and 0 < k < n // 5 else None
    values, vectors = linalg.eigh(A, subset_by_index=wanted)
    values, vectors = values[::-1][:k], vectors[:, ::-1][:, :k]
    return Eigenpairs(values, vectors, relative_residuals(column_norms(A @ vectors - vectors * values), values))


def krylov_eigenpairs(
    product: Callable[[np.ndarray], np.ndarray] | Steps,
    n: int,
    k: int,
    tol: float = 1e-6,
    max_iter: int = 200,
    *,
    block: int | None = None,
    depth: int | None = None,
    start: np.ndarray | None = None,
    rng: np.random.Generator | None = None,
    check: bool = True,
    dtype: type = np.float64,
) -> Eigenpairs:
    """Block Krylov with full reorthogonalisation and thick restarts.

    The basis Q satisfies G Q = Q T + N C, with N the next block and C its coupling, so that the residual of a Ritz
    vector Q s is |C s|: known without another product, and checked by one at the end.

    A block of b vectors reaches b copies of a repeated eigenvalue. When all that it reaches is in the basis, a fresh
    random block looks for what is left, until one brings nothing new.

    Parameters
    ----------
    product : V -> G V, or the matrix as `Steps`
    n : the order of G
    k : how many eigenpairs
    tol : stop when every residual is below tol times its eigenvalue
    max_iter : the most products with a block of vectors
    block : vectors in a block
    depth : vectors in the basis before it is restarted from the best of them, in addition to k
    start : (n, block) vectors to start from in place of random ones
    rng : where random ones come from
    check : whether the residuals reported are those of one more product, and not |C s|
    dtype : float32 to keep the basis in half of the memory, if tol is loose; products are made in float64 all the same
    """
    if max_iter < 1:
        raise ValueError(_too_few(max_iter, k))
    steps = Products(product) if callable(product) else product
    rng = np.random.default_rng(0) if rng is None else rng
    if start is not None:
        block = start.shape[1]
    block = block or min(max(4, k // 2), 16)
    most = k + max(depth or k, 4 * block)
    if most + block >= n:
        return dense_eigenpairs(steps @ np.eye(n), k)
    N, _ = linalg.qr(rng.standard_normal((n, block)) if start is None else start, mode="economic")
    basis = _Basis(steps, N.astype(dtype, copy=False), most + N.shape[1])
    values, S, norms, converged, n_iter = _iterate(basis, k, most, tol, max_iter, rng)
    if len(S) < k:
        raise ValueError(_too_few(max_iter, k))
    vectors, values, norms = basis.combined(S[:, :k]), values[:k], norms[:k]
    del basis
    vectors = vectors.astype(np.float64, copy=False)
    if check:
        norms = column_norms(steps @ vectors - vectors * values)
    residuals = relative_residuals(norms, values)
    if not converged:
        warnings.warn(
            f"The Krylov solver spent max_iter={max_iter} products and its largest residual is {residuals.max():.1e}, "
            f"above tol={tol:g}; allow more of them, or raise tol.",
            ConvergenceWarning,
            stacklevel=3,
        )
    return Eigenpairs(values, vectors, residuals, n_iter)


def _too_few(max_iter: int, k: int) -> str:
    return f"max_iter={max_iter} products cannot give {k} eigenpairs; allow more."


class _Outcome(NamedTuple):
    values: np.ndarray
    S: np.ndarray
    norms: np.ndarray
    converged: bool
    n_iter: int


def _iterate(basis: "_Basis", k: int, most: int, tol: float, max_iter: int, rng: np.random.Generator) -> _Outcome:
    """Extend the basis until the k leading Ritz pairs are known, or max_iter products are spent."""
    b = basis.width
    T, C, S = np.zeros((0, 0)), np.zeros((b, 0)), np.zeros((0, 0))
    values, norms = np.zeros(0), np.zeros(0)
    settled: np.ndarray | None = None
    converged = False
    n_iter = 0
    while n_iter < max_iter and not converged:
        n_iter += 1
        if len(T) + b > most:
            keep = k + b
            basis.restart(S[:, :keep])
            T, C = np.diag(values[:keep]), C @ S[:, :keep]
        m = len(T)
        W, inner = basis.multiply()
        T = np.block([[T, C.T], [C, (inner + inner.T) / 2]])
        values, S = linalg.eigh(T)
        values, S = values[::-1], S[:, ::-1]
        # An eigenvalue that vanishes can be had to rounding of the largest, and no better.
        rounding = 10.0 * np.sqrt(basis.order) * basis.eps * np.abs(values).max()
        exhausted = bool(np.all(column_norms(W) <= rounding))
        coupling = basis.extend(rng if exhausted else None)
        C = np.hstack([np.zeros((b, m)), coupling])
        norms = column_norms(C @ S)
        resolved = norms <= np.maximum(rounding, tol * np.abs(values))
        converged = len(T) >= k and bool(np.all(resolved[:k]))
        if exhausted:
            before, settled = settled, values[:k]
            converged &= before is not None and len(before) == k and np.allclose(before, settled, tol, rounding)
        elif settled is not None:
            # A fresh block is under way: the best that it has found must be known roughly to count as nothing new.
            best = int(np.argmin(resolved))
            converged &= bool(resolved[best] or norms[best] <= 0.01 * abs(values[best]))
    return _Outcome(values, S, norms, converged, n_iter)


class _Basis:
    """The orthonormal basis Q, the block N that is multiplied next, and the images of both.

    `_error` bounds, one a vector, what rounding may have done to the images: it is carried along as they are.
    """

    def __init__(self, steps: Steps, N: np.ndarray, most: int) -> None:
        self.order, self.width = N.shape
        self.eps = float(np.finfo(N.dtype).eps)
        self._steps, self._N = steps, N
        self._set_image()
        self._size = 0
        self._Q = np.empty((self.order, most), dtype=N.dtype, order="F")
        self._images = np.empty((len(self._N_image), most), order="F")
        self._error = np.zeros(most)

    def _set_image(self) -> None:
        """Compute the image of N afresh."""
        self._N_image = self._steps.image(self._N)
        self._N_error = self.eps * column_norms(self._N_image)

    def combined(self, S: np.ndarray) -> np.ndarray:
        """Q S."""
        return self._Q[:, : len(S)] @ S.astype(self._Q.dtype, copy=False)

    def restart(self, S: np.ndarray) -> None:
        """Replace Q by Q S."""
        m, keep = S.shape
        for rows in (self._Q, self._images):
            # A few rows at a time, so that there is no second basis.
            for start in range(0, len(rows), 16384):
                panel = rows[start : start + 16384]
                panel[:, :keep] = panel[:, :m] @ S.astype(rows.dtype, copy=False)
        self._error[:keep] = np.sqrt(self._error[:m] ** 2 @ S**2)
        self._size = keep

    def multiply(self) -> tuple[np.ndarray, np.ndarray]:
        """Take N into Q; return what of G N is orthogonal to Q, and N'G N."""
        m, self._size = self._size, self._size + self.width
        new = slice(m, self._size)
        self._Q[:, new], self._images[:, new], self._error[new] = self._N, self._N_image, self._N_error
        Q = self._Q[:, : self._size]
        W, self._W_image = self._steps.step(self._N.astype(np.float64, copy=False), self._N_image)
        W = W.astype(Q.dtype, copy=False)
        H = Q.T @ W
        W -= Q @ H
        correction = Q.T @ W
        W -= Q @ correction
        H += correction
        self._W, self._H = W, H
        return W, H[m:]

    def extend(self, rng: np.random.Generator | None) -> np.ndarray:
        """Make an orthonormal block beside Q of what `multiply` has left, or of random vectors: the next N.

        Returns N' times what was left: zero for random vectors.
        """
        Q, W, b = self._Q[:, : self._size], self._W, self.width
        R = None if rng is not None else orthonormalised(W)
        if R is not None:
            self._N, coupling = W, R
            images = self._images[:, : self._size]
            to_new = linalg.inv(R)
            from_old = self._H @ to_new
            image = self._W_image @ to_new
            image -= images @ from_old
            error = self.eps * (column_norms(self._W_image) @ np.abs(to_new))
            error = np.sqrt(error**2 + self._error[: self._size] ** 2 @ from_old**2)
            self._N_image, self._N_error = image, error
            sizes = np.maximum(column_norms(image), np.finfo(np.float64).tiny)
            if not np.all(error <= IMAGE_ERROR[W.dtype] * sizes):
                R = None
        else:
            self._N = _orthonormal_beside(rng.standard_normal(W.shape).astype(W.dtype) if rng is not None else W, Q)
            coupling = np.zeros((b, b)) if rng is not None else self._N.T @ W
        if R is None:
            self._set_image()
        return coupling


def orthonormalised(W: np.ndarray) -> np.ndarray | None:
    """Overwrite W by Q of W = Q R and return R; None, with W as it was, if it is too near to losing rank.

    Two rounds of Cholesky's decomposition of W'W, which take a fraction of the time of Householder's of W.
    """
    size = column_norms(W)
    if not size.min() > 0:
        return None
    scaled = W / size
    try:
        first = linalg.cholesky(scaled.T @ scaled)
    except linalg.LinAlgError:
        return None
    # What is left of the basis in W grows as W is normalised.
    if not np.diag(first).min() > 1e-3:
        return None
    scaled = scaled @ linalg.inv(first)
    second = linalg.cholesky(scaled.T @ scaled)
    np.matmul(scaled, linalg.inv(second), out=W)
    return second @ first * size


def _orthonormal_beside(W: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """An orthonormal basis of the columns of W, orthogonal to `basis` even where W has lost rank."""
    for _ in range(2):
        W, _ = linalg.qr(W, mode="economic")
        W = W - basis @ (basis.T @ W)
    return linalg.qr(W, mode="economic")[0]
