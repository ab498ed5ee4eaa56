"""Data to measure on: counts of low rank as single cells give them, and long-tailed ratings."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import sparse

RANK = 20
BLOCK = 4000


class Ratings(NamedTuple):
    """Ratings that are known, and others that were held out: their users, items and values."""

    known: sparse.csr_array
    users: np.ndarray
    items: np.ndarray
    values: np.ndarray


def counts(n: int, d: int, share: float, seed: int = 0) -> sparse.csr_array:
    """log1p of gamma-Poisson counts of rank 20, scaled to the median depth; about `share` of them are not zero.

    A cell's counts are drawn factor by factor: how many in all, and then each one's gene, so that the work is that of
    the counts and not of cells x genes.
    """
    rng = np.random.default_rng(seed)
    A, B = rng.gamma(0.5, 1.0, (n, RANK)), rng.gamma(0.3, 1.0, (RANK, d))
    A *= _scale_for(A[:200] @ B, share)
    totals = B.sum(axis=1)
    cumulated = np.cumsum(B, axis=1) / totals[:, None]
    blocks = []
    for start in range(0, n, BLOCK):
        how_many = rng.poisson(A[start : start + BLOCK] * totals)
        m = len(how_many)
        rows = [np.repeat(np.arange(m, dtype=np.int32), how_many[:, r]) for r in range(RANK)]
        genes = [np.searchsorted(cumulated[r], rng.random(len(rows[r])) * cumulated[r, -1]) for r in range(RANK)]
        at = (np.concatenate(rows), np.concatenate(genes).astype(np.int32))
        blocks.append(sparse.csr_array(sparse.coo_array((np.ones(len(at[0]), dtype=np.float32), at), shape=(m, d))))
    X = sparse.vstack(blocks, format="csr")
    X = X[np.diff(X.indptr) > 0]
    X.sort_indices()
    depth = np.asarray(X.sum(axis=1)).ravel()
    X.data = np.log1p(X.data * np.repeat((np.median(depth) / depth).astype(np.float32), np.diff(X.indptr)))
    return _narrow(X)


def _scale_for(means: np.ndarray, share: float) -> float:
    """By what to multiply Poisson means for a share of the counts not to be zero."""
    low, high = 0.0, 1e4
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if np.mean(-np.expm1(-middle * means)) < share else (low, middle)
    return low


def ratings(n: int, d: int, stored: int, held_out: float = 0.05, seed: int = 0) -> Ratings:
    """Ratings of n users and d items: few have most of them. Rank 20 and the items' means, and noise of variance 1."""
    rng = np.random.default_rng(seed)
    wanted = stored / (1.0 - held_out)
    activity = rng.lognormal(0.0, 1.0, n)
    popularity = np.cumsum(rng.permutation(1.0 / (np.arange(d) + 30.0)))
    popularity /= popularity[-1]
    how_many = np.maximum(3, activity * wanted * 1.15 / activity.sum()).astype(np.int64)
    users = np.repeat(np.arange(n, dtype=np.int32), np.minimum(how_many, d // 3))
    items = np.searchsorted(popularity, rng.random(len(users))).astype(np.int32)
    # Every item has a few raters, and nobody rates twice.
    users = np.concatenate((users, rng.integers(0, n, 3 * d).astype(np.int32)))
    items = np.concatenate((items, np.repeat(np.arange(d, dtype=np.int32), 3)))
    pairs = np.unique(users.astype(np.int64) * d + items)
    users, items = (pairs // d).astype(np.int32), (pairs % d).astype(np.int32)
    U, V = rng.standard_normal((n, RANK)), rng.standard_normal((d, RANK)) * 0.9 ** np.arange(RANK) * 0.4
    values = 3.5 + 0.5 * rng.standard_normal(d)[items] + rng.standard_normal(len(users))
    for start in range(0, len(users), 1_000_000):
        part = slice(start, start + 1_000_000)
        values[part] += np.einsum("pa,pa->p", U[users[part]], V[items[part]])
    values = values.astype(np.float32)
    held = rng.random(len(users)) < held_out
    for places, length in ((users, n), (items, d)):
        left = np.bincount(places[~held], minlength=length)
        held &= left[places] >= 2
    X = sparse.csr_array(sparse.coo_array((values[~held], (users[~held], items[~held])), shape=(n, d)))
    return Ratings(_narrow(X), users[held], items[held], values[held])


def _narrow(X: sparse.csr_array) -> sparse.csr_array:
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32 if X.nnz < 2**31 else np.int64)
    X.data = X.data.astype(np.float32)
    return X


def save(path: Path, X: sparse.csr_array, **more: np.ndarray) -> None:
    """Write a sparse array, and what belongs to it, as plain arrays that are read without a second copy."""
    path.mkdir(parents=True, exist_ok=True)
    arrays = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": np.asarray(X.shape), **more}
    for name, array in arrays.items():
        np.save(path / f"{name}.npy", array)
