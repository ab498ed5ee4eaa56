"""Data with holes in every storage, each beside the plain dense arrays that it stands for."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import dask
import dask.array as da
import numpy as np
from scipy import sparse

from nanfold.observed import Observed, StructuredMask, observe


@dataclass
class Case:
    """A storage, and what it stands for: the mask M (or weights), the values X (0 in the holes), Y = M * (X - mean)."""

    observed: Observed
    X: np.ndarray
    M: np.ndarray
    mean: np.ndarray
    Y: np.ndarray

    @property
    def rtol(self) -> float:
        return 1e-12 if self.observed.dtype == np.float64 else 2e-6


def plain(observed: Observed, X: np.ndarray, M: np.ndarray, center: bool = True) -> Case:
    X, M = X.astype(np.float64), M.astype(np.float64)
    X = np.where(M > 0, X, 0.0)
    mean = (M * X).sum(axis=0) / M.sum(axis=0) if center else np.zeros(X.shape[1])
    return Case(observed, X, M, mean, M * (X - mean))


def values_and_mask(rng: np.random.Generator, dtype: type, n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Real numbers, some of them zero, seen at rates that differ; no column unseen, and the first one always seen."""
    X = (rng.standard_normal((n, d)) * rng.uniform(0.5, 2.0, d) + rng.uniform(-1, 3, d)).astype(dtype)
    X[rng.random((n, d)) < 0.05] = 0.0
    M = rng.random((n, d)) < np.outer(rng.uniform(0.6, 0.9, n), rng.uniform(0.6, 1.0, d))
    M[np.arange(max(n, d)) % n, np.arange(max(n, d)) % d] = True
    M[:, 0] = True
    return X, M


def counts_and_mask(
    rng: np.random.Generator, dtype: type, n: int, d: int, *, soft: bool
) -> tuple[np.ndarray, StructuredMask, np.ndarray]:
    """Counts with many zeros, and a structured mask; the mask also entry by entry."""
    X = rng.poisson(rng.uniform(0.2, 3.0, d), size=(n, d)).astype(dtype)
    # Nothing unseen, and a first gene that every cell has.
    X[np.arange(max(n, d)) % n, np.arange(max(n, d)) % d] = 4.0
    X[:, 0] = np.maximum(X[:, 0], 1.0)
    groups = np.arange(n) % 4
    # Weights that float32 holds exactly, so that the reference needs no rounding.
    weights = rng.integers(0, 9, size=(4, d)) / 8.0 if soft else (rng.random((4, d)) < 0.6).astype(float)
    return X, StructuredMask(groups, weights), np.where(X == 0, weights[groups], 1.0)


def _dense_nan(rng, dtype, n, d, center):
    X, M = values_and_mask(rng, dtype, n, d)
    return plain(observe(np.where(M, X, np.nan).astype(dtype), center=center), X, M, center)


def _dense_mask(rng, dtype, n, d, center):
    X, M = values_and_mask(rng, dtype, n, d)
    return plain(observe(X, M, center=center), X, M, center)


def _dense_weights(rng, dtype, n, d, center):
    X, M = values_and_mask(rng, dtype, n, d)
    W = M * rng.uniform(0.1, 1.0, (n, d))
    return plain(observe(X, W, center=center), X, W, center)


def _dense_complete(rng, dtype, n, d, center):
    X, _ = values_and_mask(rng, dtype, n, d)
    return plain(observe(X, center=center), X, np.ones((n, d)), center)


def _stored(X: np.ndarray, M: np.ndarray) -> sparse.csr_array:
    """X under M as CSR, observed zeros stored, the entries of a row in no particular order."""
    rows, columns = np.nonzero(M)
    order = np.lexsort((-columns, rows))
    rows, columns = rows[order], columns[order]
    indptr = np.concatenate(([0], np.cumsum(np.bincount(rows, minlength=len(X)))))
    return sparse.csr_array((X[rows, columns], columns, indptr), shape=X.shape)


def _unstored(rng, dtype, n, d, center):
    X, M = values_and_mask(rng, dtype, n, d)
    return plain(observe(_stored(X, M), missing="unstored", center=center), X, M, center)


def _sparse_and_mask(rng, dtype, n, d, center):
    X, M = values_and_mask(rng, dtype, n, d)
    return plain(observe(sparse.csr_array(X), M, center=center), X, M, center)


def _sparse_nan(rng, dtype, n, d, center):
    X, M = values_and_mask(rng, dtype, n, d)
    return plain(observe(sparse.csr_array(np.where(M, X, np.nan).astype(dtype)), center=center), X, M, center)


def _sparse_complete(rng, dtype, n, d, center):
    X, _, _ = counts_and_mask(rng, dtype, n, d, soft=False)
    return plain(observe(sparse.csr_array(X), center=center), X, np.ones((n, d)), center)


def _counts(*, soft: bool, dense: bool = False, holes: bool = False) -> Callable[..., Case]:
    def build(rng, dtype, n, d, center):
        X, mask, M = counts_and_mask(rng, dtype, n, d, soft=soft)
        fed = X.copy()
        if holes:
            hidden = rng.random((n, d)) < 0.1
            hidden &= X != 4.0
            hidden[:, 0] = False
            fed[hidden], M = np.nan, np.where(hidden, 0.0, M)
        fed = fed if dense else sparse.csr_array(fed)
        return plain(observe(fed, mask, center=center), X, M, center)

    return build


def _in_chunks(X: np.ndarray | sparse.csr_array, kind: Callable | None = None) -> da.Array:
    """A Dask array of three chunks of rows of unlike sizes."""
    n = X.shape[0]
    chunks = ((n // 2, n - n // 2 - 2, 2), (X.shape[1],))
    if not sparse.issparse(X):
        return da.from_array(X, chunks=chunks)
    edges = np.cumsum((0, *chunks[0]))
    blocks = [(kind or sparse.csr_array)(X[a:b]) for a, b in itertools.pairwise(edges)]
    parts = [da.from_delayed(dask.delayed(block), block.shape, X.dtype, meta=block[:0]) for block in blocks]
    return da.concatenate(parts)


def _dask_nan(rng, dtype, n, d, center):
    X, M = values_and_mask(rng, dtype, n, d)
    return plain(observe(_in_chunks(np.where(M, X, np.nan).astype(dtype)), center=center), X, M, center)


def _dask_mask(rng, dtype, n, d, center):
    X, M = values_and_mask(rng, dtype, n, d)
    return plain(observe(_in_chunks(X), da.from_array(M, chunks=(7, 5)).rechunk({1: -1}), center=center), X, M, center)


def _dask_unstored(rng, dtype, n, d, center):
    X, M = values_and_mask(rng, dtype, n, d)
    blocks = _in_chunks(_stored(X, M), sparse.csc_matrix)
    return plain(observe(blocks, missing="unstored", center=center), X, M, center)


def _dask_counts(rng, dtype, n, d, center):
    X, mask, M = counts_and_mask(rng, dtype, n, d, soft=True)
    return plain(observe(_in_chunks(sparse.csr_array(X)), mask, center=center), X, M, center)


def _residual(rng, dtype, n, d, center):
    case = _counts(soft=True)(rng, dtype, n, d, center)
    U, V = rng.standard_normal((n, 2)), rng.standard_normal((d, 2))
    Y = case.Y - case.M * (U @ V.T)
    return Case(case.observed.residual(U, V), case.X, case.M, np.zeros(d), Y)


def _flipped(rng, dtype, n, d, center):
    case = _counts(soft=False)(rng, dtype, n, d, center)
    flipped = case.observed.flipped(rng)
    # The signs are the storage's own; that they are signs and nothing else is tested by themselves.
    signs = np.sign(flipped.rows(0, n)[0]) * np.sign(case.Y)
    return Case(flipped, case.X, case.M, np.zeros(d), case.Y * signs)


STORAGES: dict[str, Callable[..., Case]] = {
    "dense NaN": _dense_nan,
    "dense and mask": _dense_mask,
    "dense and weights": _dense_weights,
    "dense complete": _dense_complete,
    "unstored": _unstored,
    "sparse and mask": _sparse_and_mask,
    "sparse NaN": _sparse_nan,
    "sparse complete": _sparse_complete,
    "sparse counts": _counts(soft=False),
    "sparse soft counts": _counts(soft=True),
    "sparse soft counts with NaN": _counts(soft=True, holes=True),
    "dense counts": _counts(soft=False, dense=True),
    "dense soft counts with NaN": _counts(soft=True, dense=True, holes=True),
    "blockwise residual": _residual,
    "blockwise flipped": _flipped,
}

# In chunks, which take a scheduler's time for every product: for tests/test_chunked.py.
CHUNKED: dict[str, Callable[..., Case]] = {
    "Dask NaN": _dask_nan,
    "Dask and mask": _dask_mask,
    "Dask unstored": _dask_unstored,
    "Dask counts": _dask_counts,
}


def build(name: str, dtype: type, seed: int = 0, n: int = 19, d: int = 13, center: bool = True) -> Case:
    return {**STORAGES, **CHUNKED}[name](np.random.default_rng(seed), dtype, n, d, center)
