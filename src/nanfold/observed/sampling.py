"""Some rows of data in chunks, brought into memory to try things on."""

import functools

import numpy as np
from scipy import sparse

from nanfold.chunked import RowBlocks
from nanfold.observed.contract import Observed
from nanfold.observed.dense import DenseObserved
from nanfold.observed.unstored import UnstoredObserved


def sampled_rows(observed: Observed, blocks: RowBlocks, values: int, seed: int) -> Observed:
    """Rows at random, as many as have about so many observed values, as storages in memory have them.

    Parameters
    ----------
    observed : all of the data
    blocks : its storages of blocks, dense or of stored entries
    values : how many are wanted
    seed : of the draws
    """
    share = min(1.0, values / observed.row_counts.sum())
    draw = functools.partial(_drawn, share=share, seed=seed)
    (lengths, columns, entries), _ = blocks.map_add(draw)
    # What no row of the sample has says nothing about any rank.
    used, columns = np.unique(columns, return_inverse=True)
    indptr = np.concatenate(([0], np.cumsum(lengths)))
    X = sparse.csr_array((entries, columns, indptr), shape=(len(lengths), len(used)))
    X = X[np.flatnonzero(lengths)]
    mean = None if observed.mean.any() else np.zeros(len(used))
    if X.nnz < 0.3 * X.shape[0] * X.shape[1]:
        return UnstoredObserved(X, mean)
    dense = np.full(X.shape, np.nan, dtype=X.dtype)
    dense[np.repeat(np.arange(X.shape[0]), np.diff(X.indptr)), X.indices] = X.data
    return DenseObserved(dense, mean, overwrite=True)


def _entries(block: Observed, i: int) -> tuple[np.ndarray, np.ndarray]:
    """Columns and values of what is observed of a row."""
    Y, M = (row[0] for row in block.rows(i, i + 1))
    seen = np.flatnonzero(M)
    return seen, (Y[seen] + block.mean[seen]).astype(block.dtype)


def _drawn(block: Observed, start: int, by_row: tuple, shared: tuple, *, share: float, seed: int) -> tuple:
    """Lengths, columns and values of rows drawn at random, one after the other."""
    chosen = np.flatnonzero(np.random.default_rng([seed, start]).random(block.shape[0]) < share)
    rows = [_entries(block, int(i)) for i in chosen]
    nothing = (np.zeros(0, dtype=np.int64), np.zeros(0, dtype=block.dtype))
    columns, entries = zip(nothing, *rows, strict=True)
    lengths = np.array([len(own) for own in columns[1:]], dtype=np.int64)
    return (lengths, np.concatenate(columns), np.concatenate(entries)), ()
