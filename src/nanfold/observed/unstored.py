"""A sparse array in which an entry that is not stored is a hole: ratings, triplets, measured pairs."""

import functools

import numpy as np
from scipy import sparse

from nanfold import _kernels
from nanfold._threads import add_blocks, balanced_blocks, n_threads, run_blocks
from nanfold.observed.contract import (
    Summaries,
    Summarised,
    as_block,
    as_pairs,
    as_pass,
    held_out,
    mirror_lower,
    over_pairs,
    unpacked,
)
from nanfold.observed.stored import StoredEntries


class UnstoredObserved(Summarised):
    """A CSR array used as it is: the means are subtracted inside the products, so nothing is copied."""

    def __init__(self, X: sparse.csr_array, mean: np.ndarray | None) -> None:
        """Read X without copying it; `mean` is what to subtract, None for the means of the stored entries."""
        self.shape = X.shape
        self.dtype = X.dtype
        self._X = X
        self._blocks = balanced_blocks(X.indptr, n_threads())
        if mean is None:
            mean = self._summaries.column_sums / self.column_counts
        self.mean = mean
        self._entries = self._centred_entries()

    @classmethod
    def _with_values(cls, other: "UnstoredObserved", data: np.ndarray) -> "UnstoredObserved":
        """The pattern of another, with other values, centred already."""
        new = object.__new__(cls)
        new.__dict__.update(other.__dict__)
        new._X = sparse.csr_array((data, other._X.indices, other._X.indptr), shape=other.shape)
        new.mean = np.zeros(other.shape[1])
        new._entries = new._centred_entries()
        new.__dict__.pop("row_squares", None)
        return new

    @property
    def _stored(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self._X.indptr, self._X.indices, self._X.data

    def _centred_entries(self) -> StoredEntries:
        return StoredEntries(self._X, self.mean if self.mean.any() else None)

    @functools.cached_property
    def _summaries(self) -> Summaries:
        row_counts = np.zeros(self.shape[0])

        def block(start: int, stop: int) -> np.ndarray:
            out = np.zeros((2, self.shape[1]))
            bad = _kernels.stored_summaries(*self._stored, row_counts, out[0], out[1], start, stop)
            if bad >= 0:
                i = int(np.searchsorted(self._X.indptr, bad, side="right")) - 1
                what = "NaN" if np.isnan(self._X.data[bad]) else "infinity"
                raise ValueError(
                    f"X stores {what} at row {i}, column {self._X.indices[bad]}; with missing='unstored' a hole is an "
                    "entry that is not stored, so remove it from the sparse array."
                )
            return out

        count, total = add_blocks(block, self._blocks)
        return Summaries(row_counts, count, count, total)

    @functools.cached_property
    def row_squares(self) -> np.ndarray:  # type: ignore[override]
        out = np.empty(self.shape[0])
        run_blocks(lambda a, b: _kernels.stored_row_squares(*self._stored, self.mean, out, a, b), self._blocks)
        return out

    def matmul(self, V: np.ndarray) -> np.ndarray:
        """Y V."""
        return self._entries.matmul(as_block(V, self.shape[1]))

    def mask_matmul(self, V: np.ndarray) -> np.ndarray:
        """M V."""
        V = as_block(V, self.shape[1])
        out = np.empty((self.shape[0], V.shape[1]))
        run_blocks(lambda a, b: _kernels.pattern_matmul(*self._stored[:2], V, out, a, b), self._blocks)
        return out

    def rmatmul(self, U: np.ndarray) -> np.ndarray:
        """Y' U."""
        return self._entries.rmatmul(as_block(U, self.shape[0]))

    def normal_pass(
        self, W: np.ndarray, Q: np.ndarray, scale: np.ndarray, shift: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Z = diag(scale) Y W + diag(shift) Q and A = Y' diag(scale) Z, reading the rows once."""
        W, Q, scale, shift = as_pass(W, Q, scale, shift, self.shape)
        return self._entries.normal_pass(W, None, Q, scale, shift)

    def mask_rmatmul(self, U: np.ndarray) -> np.ndarray:
        """M' U."""
        U = as_block(U, self.shape[0])

        def block(start: int, stop: int) -> np.ndarray:
            out = np.zeros((self.shape[1], U.shape[1]))
            _kernels.pattern_rmatmul(*self._stored[:2], U, out, start, stop)
            return out

        return add_blocks(block, self._blocks)

    def rows(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows of Y and of M."""
        block = self._X[start:stop]
        mask = np.zeros(block.shape)
        at = (np.repeat(np.arange(stop - start), np.diff(block.indptr)), block.indices)
        mask[at] = 1.0
        values = np.zeros(block.shape)
        values[at] = block.data - self.mean[block.indices]
        return values, mask

    def pair_products(self, rows: np.ndarray, candidates: np.ndarray) -> np.ndarray:
        """Y_i . Y_j."""
        kernel = functools.partial(_kernels.stored_pair_dots, *self._stored, self.mean)
        return over_pairs(kernel, *as_pairs(rows, candidates, self.shape[0]))

    def row_normals(self, V: np.ndarray, start: int, stop: int) -> np.ndarray:
        """sum_s M_is V_s V_s'."""
        V = as_block(V, self.shape[1])
        out = np.zeros((stop - start, V.shape[1], V.shape[1]))
        inside = [(start + a, start + b) for a, b in balanced_blocks(self._X.indptr[start : stop + 1], n_threads())]
        run_blocks(lambda a, b: _kernels.stored_row_normals(*self._stored[:2], V, out, start, a, b), inside)
        return mirror_lower(out)

    def column_normals(self, U: np.ndarray, start: int, stop: int) -> np.ndarray:
        """sum_i M_is U_i U_i'."""
        U = as_block(U, self.shape[0])
        k = U.shape[1]

        def block(first: int, last: int) -> np.ndarray:
            out = np.zeros((stop - start, k * (k + 1) // 2))
            _kernels.stored_column_normals(*self._stored[:2], U, out, start, first, last)
            return out

        return unpacked(add_blocks(block, self._blocks), k)

    def flipped(self, rng: np.random.Generator) -> "UnstoredObserved":
        """Random signs for every stored entry."""
        centred = self._X.data - self.mean[self._X.indices].astype(self.dtype)
        signs = rng.integers(0, 2, size=len(centred), dtype=np.int8) * 2 - 1
        return self._with_values(self, (centred * signs).astype(self.dtype, copy=False))

    def hold_out(
        self, share: float, rng: np.random.Generator
    ) -> tuple["UnstoredObserved", np.ndarray, np.ndarray, np.ndarray]:
        """Hide a share of the stored entries."""
        rows = np.repeat(np.arange(self.shape[0]), np.diff(self._X.indptr))
        columns = self._X.indices
        held = held_out(rows, columns, self.shape, share, rng)
        kept = np.ones(len(rows), dtype=bool)
        kept[held] = False
        indptr = np.concatenate(([0], np.cumsum(kept)))[self._X.indptr].astype(self._X.indptr.dtype)
        X = sparse.csr_array((self._X.data[kept], columns[kept], indptr), shape=self.shape)
        training = UnstoredObserved(X, None if self.mean.any() else self.mean)
        values = self._X.data[held].astype(np.float64)
        return training, rows[held], columns[held], values - training.mean[columns[held]]

    def take(self, rows: np.ndarray) -> "UnstoredObserved":
        """Some of the rows."""
        X = self._X[rows]
        seen, columns = np.unique(X.indices, return_inverse=True)
        X = sparse.csr_array((X.data, columns.astype(X.indices.dtype), X.indptr), shape=(len(rows), len(seen)))
        return UnstoredObserved(X, None if self.mean.any() else self.mean[seen])

    def residual(self, U: np.ndarray, V: np.ndarray) -> "UnstoredObserved":
        """M * (Y - U V')."""
        U, V = as_block(U, self.shape[0]), as_block(V, self.shape[1])
        out = np.empty_like(self._X.data)
        run_blocks(lambda a, b: _kernels.stored_residual(*self._stored, self.mean, U, V, out, a, b), self._blocks)
        return self._with_values(self, out)
