"""A dense array with NaN in its holes, or with a mask beside it."""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

import numpy as np
from threadpoolctl import ThreadpoolController

from nanfold import _kernels
from nanfold._threads import add_blocks, even_blocks, n_threads, run_blocks
from nanfold.observed.contract import (
    PANEL_VALUES,
    Observed,
    add_to_pass,
    as_block,
    as_pairs,
    as_pass,
    held_out,
    pair_dots,
    unpacked,
)

# Of the mask or the data, so many values at a time stay in a core's own cache while they are converted and multiplied.
CACHED_VALUES = 64_000
# From so many products of single numbers on, blocks of rows are multiplied on all threads, each with a BLAS of one.
WORTH_THREADS = 4_000_000
# Fewer rows would be read less often than the vectors; more vectors do not stay beside the rows in the cache.
LEAST_ROWS = 32
NARROW = 64


class DenseObserved(Observed):
    """The filled and centred data (zeros in the holes) and its mask."""

    def __init__(
        self,
        X: np.ndarray,
        mean: np.ndarray | None,
        *,
        weights: np.ndarray | None = None,
        overwrite: bool = False,
    ) -> None:
        """Centre X, in a copy or in place.

        Parameters
        ----------
        X : C-contiguous array of floats with NaN in the holes
        mean : what to subtract; None for the means of the observed entries
        weights : array of weights in [0, 1] in place of a mask of 0 and 1 (0 exactly where X is NaN)
        overwrite : take X over in place of copying it
        """
        n, d = self.shape = X.shape
        self.dtype = X.dtype
        self.row_counts, self.column_counts, sums = _summaries(X)
        self.column_squares = self.column_counts
        self._weights = weights
        if weights is not None:
            self.row_counts, self.column_counts = weights.sum(axis=1), weights.sum(axis=0)
            self.column_squares = np.einsum("is,is->s", weights, weights)
            sums = np.einsum("is,is->s", weights, np.nan_to_num(X))
        if mean is None:
            # A column without an observed entry never gets here, except in new rows, which bring their mean.
            mean = sums / self.column_counts
        self.mean = mean
        self._mask = np.empty((n, d), dtype=bool)
        self.row_squares = np.empty(n)
        Y = X if overwrite else np.empty_like(X)
        blocks = even_blocks(n, max(1, -(-n // n_threads())))
        run_blocks(lambda a, b: _kernels.dense_center(X, mean, Y, self._mask, self.row_squares, a, b), blocks)
        if weights is not None:
            Y *= weights
            self.row_squares = np.einsum("is,is->i", Y, Y, dtype=np.float64)
        self._Y = Y

    @classmethod
    def _with_values(cls, other: "DenseObserved", Y: np.ndarray) -> "DenseObserved":
        """The mask of another, with other centred values."""
        new = object.__new__(cls)
        new.__dict__.update(other.__dict__)
        new._Y = Y
        new.row_squares = np.einsum("is,is->i", Y, Y, dtype=np.float64)
        return new

    @property
    def values(self) -> np.ndarray:
        """Y itself, in the storage's own dtype: zeros in the holes. Not to be written to."""
        return self._Y

    def _float_mask(self, start: int, stop: int, columns: slice = slice(None)) -> np.ndarray:
        mask = self._mask if self._weights is None else self._weights
        return mask[start:stop, columns].astype(np.float64)

    def _double(self, start: int, stop: int) -> np.ndarray:
        return self._Y[start:stop].astype(np.float64, copy=False)

    def _left(self, block: Callable[[int, int], np.ndarray], V: np.ndarray) -> np.ndarray:
        n, d = self.shape
        out = np.empty((n, V.shape[1]))

        def product(start: int, stop: int) -> None:
            np.matmul(block(start, stop), V, out=out[start:stop])

        if V.shape[1] > NARROW:
            for start, stop in self.row_blocks():
                product(start, stop)
        else:
            _in_cache(product, n, d, V.size)
        return out

    def _right(self, block: Callable[[int, int], np.ndarray], U: np.ndarray) -> np.ndarray:
        def add(start: int, stop: int, A: np.ndarray) -> None:
            A += block(start, stop).T @ U[start:stop]

        if U.shape[1] > NARROW:
            out = np.zeros((self.shape[1], U.shape[1]))
            for start, stop in self.row_blocks():
                add(start, stop, out)
            return out
        return _added_in_cache(add, *self.shape, (self.shape[1], U.shape[1]))

    def matmul(self, V: np.ndarray) -> np.ndarray:
        """Y V."""
        return self._left(self._double, as_block(V, self.shape[1]))

    def rmatmul(self, U: np.ndarray) -> np.ndarray:
        """Y' U."""
        return self._right(self._double, as_block(U, self.shape[0]))

    def normal_pass(
        self, W: np.ndarray, Q: np.ndarray, scale: np.ndarray, shift: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Z = diag(scale) Y W + diag(shift) Q and A = Y' diag(scale) Z, a block of rows after the other."""
        W, Q, scale, shift = as_pass(W, Q, scale, shift, self.shape)
        Z = np.empty_like(Q)

        def add(start: int, stop: int, A: np.ndarray) -> None:
            add_to_pass(self._double(start, stop), slice(start, stop), W, Q, scale, shift, Z, A)

        return Z, _added_in_cache(add, *self.shape, W.shape)

    def mask_matmul(self, V: np.ndarray) -> np.ndarray:
        """M V."""
        V = as_block(V, self.shape[1])
        if self.complete:
            return np.tile(V.sum(axis=0), (self.shape[0], 1))
        return self._left(self._float_mask, V)

    def mask_rmatmul(self, U: np.ndarray) -> np.ndarray:
        """M' U."""
        U = as_block(U, self.shape[0])
        if self.complete:
            return np.tile(U.sum(axis=0), (self.shape[1], 1))
        return self._right(self._float_mask, U)

    def rows(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows of Y and of M."""
        return self._double(start, stop), self._float_mask(start, stop)

    def gram(self) -> np.ndarray:
        """Y Y', as one symmetric product."""
        if self.dtype == np.float64:
            return self._Y @ self._Y.T
        return self._panel_gram(lambda a, b: self._Y[:, a:b].astype(np.float64))

    def mask_gram(self) -> np.ndarray:
        """M M', as symmetric products over panels of columns."""
        mask = self._mask if self._weights is None else self._weights
        return self._panel_gram(lambda a, b: mask[:, a:b].astype(np.float64))

    def _panel_gram(self, panel: Callable[[int, int], np.ndarray]) -> np.ndarray:
        n, d = self.shape
        out = np.zeros((n, n))
        for start, stop in even_blocks(d, max(64, PANEL_VALUES // n)):
            block = panel(start, stop)
            out += block @ block.T
        return out

    def pair_products(self, rows: np.ndarray, candidates: np.ndarray) -> np.ndarray:
        """Y_i . Y_j."""
        return pair_dots(self._Y, self._Y, *as_pairs(rows, candidates, self.shape[0]))

    def row_normals(self, V: np.ndarray, start: int, stop: int) -> np.ndarray:
        """sum_s M_is V_s V_s', as products of the mask with the pairs of columns of V."""
        V = as_block(V, self.shape[1])
        first, second = np.tril_indices(V.shape[1])
        sums = np.zeros((stop - start, len(first)))
        for a, b in even_blocks(len(V), max(64, PANEL_VALUES // len(first))):
            pairs = V[a:b, first] * V[a:b, second]

            def add(i: int, j: int, columns: slice = slice(a, b), pairs: np.ndarray = pairs) -> None:
                sums[i:j] += self._float_mask(start + i, start + j, columns) @ pairs

            _in_cache(add, stop - start, b - a, pairs.size)
        return unpacked(sums, V.shape[1])

    def column_normals(self, U: np.ndarray, start: int, stop: int) -> np.ndarray:
        """sum_i M_is U_i U_i', as products of the mask with the pairs of columns of U."""
        U = as_block(U, self.shape[0])
        first, second = np.tril_indices(U.shape[1])

        def add(a: int, b: int, sums: np.ndarray) -> None:
            sums += self._float_mask(a, b, slice(start, stop)).T @ (U[a:b, first] * U[a:b, second])

        sums = _added_in_cache(add, len(U), stop - start, (stop - start, len(first)))
        return unpacked(sums, U.shape[1])

    def flipped(self, rng: np.random.Generator) -> "DenseObserved":
        """Random signs for every entry."""
        Y = np.empty_like(self._Y)
        for start, stop in self.row_blocks():
            signs = rng.integers(0, 2, size=(stop - start, self.shape[1]), dtype=np.int8) * 2 - 1
            np.multiply(self._Y[start:stop], signs, out=Y[start:stop])
        return self._with_values(self, Y)

    @property
    def can_hold_out(self) -> bool:
        return self._weights is None

    def hold_out(
        self, share: float, rng: np.random.Generator
    ) -> tuple["DenseObserved", np.ndarray, np.ndarray, np.ndarray]:
        """Hide a share of the observed entries."""
        if self._weights is not None:
            super().hold_out(share, rng)
        rows, columns = np.nonzero(self._mask)
        held = held_out(rows, columns, self.shape, share, rng)
        rows, columns = rows[held], columns[held]
        Y = self._Y + self.mean.astype(self.dtype)
        Y[~self._mask] = np.nan
        values = Y[rows, columns].astype(np.float64)
        Y[rows, columns] = np.nan
        training = DenseObserved(Y, None if self.mean.any() else self.mean, overwrite=True)
        return training, rows, columns, values - training.mean[columns]

    def take(self, rows: np.ndarray) -> "DenseObserved":
        """Some of the rows."""
        if self._weights is not None:
            super().take(rows)
        X = self._Y[rows]
        X += self.mean.astype(self.dtype)
        mask = self._mask[rows]
        X[~mask] = np.nan
        seen = mask.any(axis=0)
        if not seen.all():
            X = np.ascontiguousarray(X[:, seen])
        return DenseObserved(X, None if self.mean.any() else self.mean[seen], overwrite=True)

    def residual(self, U: np.ndarray, V: np.ndarray) -> "DenseObserved":
        """M * (Y - U V')."""
        mask = self._mask if self._weights is None else self._weights
        R = np.empty_like(self._Y)
        loadings = np.ascontiguousarray(V.T)

        def leave(start: int, stop: int) -> None:
            L = U[start:stop] @ loadings
            L *= mask[start:stop]
            np.subtract(self._Y[start:stop], L, out=R[start:stop], casting="same_kind")

        _in_cache(leave, *self.shape, V.size)
        return self._with_values(self, R)


def _in_cache(function: Callable[[int, int], None], n: int, d: int, products: int) -> None:
    """Call ``function(start, stop)`` for blocks of n rows of d values; a row takes so many products."""

    def share(first: int, last: int) -> None:
        for start, stop in even_blocks(last - first, max(LEAST_ROWS, CACHED_VALUES // d)):
            function(first + start, first + stop)

    with _threads_for(n * products) as threads:
        run_blocks(share, even_blocks(n, max(1, -(-n // threads))))


def _added_in_cache(
    function: Callable[[int, int, np.ndarray], None], n: int, d: int, shape: tuple[int, ...]
) -> np.ndarray:
    """What ``function(start, stop, A)`` adds to A over blocks of n rows of d values, an A of `shape` a thread."""

    def share(first: int, last: int) -> np.ndarray:
        A = np.zeros(shape)
        for start, stop in even_blocks(last - first, max(LEAST_ROWS, CACHED_VALUES // d)):
            function(first + start, first + stop, A)
        return A

    with _threads_for(n * int(np.prod(shape))) as threads:
        return add_blocks(share, even_blocks(n, max(1, -(-n // threads))))


@contextmanager
def _threads_for(products: int) -> Iterator[int]:
    """How many threads to multiply blocks on, and the BLAS held to one for each of them."""
    threads = n_threads() if products >= WORTH_THREADS else 1
    with _libraries().limit(limits=1, user_api="blas") if threads > 1 else nullcontext():
        yield threads


@functools.cache
def _libraries() -> ThreadpoolController:
    """The BLAS that is loaded; looking for it takes longer than many a product."""
    return ThreadpoolController()


def _summaries(X: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Counts of rows and columns and sums of columns; an infinity is an error that names its place."""
    n, d = X.shape
    row_count = np.zeros(n)

    def block(start: int, stop: int) -> np.ndarray:
        out = np.zeros((2, d))
        if _kernels.dense_summaries(X, row_count, out[0], out[1], start, stop):
            i, s = np.argwhere(np.isinf(X[start:stop]))[0]
            raise ValueError(
                f"X contains infinity at row {start + i}, column {s}; replace it by NaN if it stands for a hole."
            )
        return out

    count, total = add_blocks(block, even_blocks(n, max(1, -(-n // n_threads()))))
    return row_count, count, total
