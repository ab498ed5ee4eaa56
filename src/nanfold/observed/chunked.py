"""Data in a Dask array: every block of rows is in a storage of its own, and what the contract asks for is added up."""

import functools
from collections.abc import Callable, Sequence

import numpy as np

from nanfold._threads import even_blocks
from nanfold.chunked import RowBlocks
from nanfold.observed.contract import PANEL_VALUES, Observed, as_block, as_pass, mirror_lower
from nanfold.observed.counts import CountsObserved, StructuredMask, add_zeros, of_zeros

# Normal matrices of columns take a pass over everything, so more of them are formed in one than of data in memory.
NORMALS_VALUES = 4 * PANEL_VALUES
# Up to so many rows a matrix of rows x rows is made where it is asked for.
MOST_SQUARE = 20_000


class Chunked(Observed):
    """Rows in blocks, each an in-memory storage for as long as a function looks at it.

    Vectors of n or d rows come and go; nothing of n x d does but the rows that are asked for.

    Parameters
    ----------
    blocks : row blocks of in-memory storages
    dtype, mean, row_counts, column_counts, column_squares : as in ``Observed``, of all blocks together
    can_hold_out : whether the storages of the blocks can hold entries out
    row_squares : as in ``Observed``; None for a pass that finds them when they are asked for
    """

    in_memory = False

    def __init__(
        self,
        blocks: RowBlocks,
        dtype: np.dtype,
        mean: np.ndarray,
        counts: tuple[np.ndarray, np.ndarray, np.ndarray],
        *,
        can_hold_out: bool = False,
        row_squares: np.ndarray | None = None,
    ) -> None:
        self._blocks = blocks
        self.shape, self.dtype, self.mean = blocks.shape, dtype, mean
        self.row_counts, self.column_counts, self.column_squares = counts
        self._can_hold_out = can_hold_out
        if row_squares is not None:
            self.row_squares = row_squares

    @functools.cached_property
    def row_squares(self) -> np.ndarray:  # type: ignore[override]
        return self._by_rows(_row_squares)

    @property
    def can_hold_out(self) -> bool:
        return self._can_hold_out

    def _by_rows(self, function: Callable, shared: Sequence = (), blocks: list[int] | None = None) -> np.ndarray:
        (out,), _ = self._blocks.map_add(function, (), shared, blocks=blocks)
        return out

    def _added(self, function: Callable, U: np.ndarray) -> np.ndarray:
        _, (out,) = self._blocks.map_add(function, (U,))
        return out

    def matmul(self, V: np.ndarray) -> np.ndarray:
        """Y V."""
        return self._by_rows(_matmul, [as_block(V, self.shape[1])])

    def rmatmul(self, U: np.ndarray) -> np.ndarray:
        """Y' U."""
        return self._added(_rmatmul, as_block(U, self.shape[0]))

    def mask_matmul(self, V: np.ndarray) -> np.ndarray:
        """M V."""
        return self._by_rows(_mask_matmul, [as_block(V, self.shape[1])])

    def mask_rmatmul(self, U: np.ndarray) -> np.ndarray:
        """M' U."""
        return self._added(_mask_rmatmul, as_block(U, self.shape[0]))

    def normal_pass(
        self, W: np.ndarray, Q: np.ndarray, scale: np.ndarray, shift: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Z = diag(scale) Y W + diag(shift) Q and A = Y' diag(scale) Z, reading each block once."""
        W, Q, scale, shift = as_pass(W, Q, scale, shift, self.shape)
        (Z,), (A,) = self._blocks.map_add(_normal_pass, (Q, scale, shift), (W,))
        return Z, A

    def rows(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows of Y and of M."""
        function = functools.partial(_rows, first=start, last=stop)
        (Y, M), _ = self._blocks.map_add(function, blocks=self._blocks_of(start, stop))
        return Y, M

    def row_normals(self, V: np.ndarray, start: int, stop: int) -> np.ndarray:
        """sum_s M_is V_s V_s'."""
        function = functools.partial(_row_normals, first=start, last=stop)
        return self._by_rows(function, [as_block(V, self.shape[1])], self._blocks_of(start, stop))

    def column_normals(self, U: np.ndarray, start: int, stop: int) -> np.ndarray:
        """sum_i M_is U_i U_i'."""
        U = as_block(U, self.shape[0])
        return _unpacked(self._added(functools.partial(_column_normals, first=start, last=stop), U), U.shape[1])

    def column_batch(self, k: int) -> int:
        return max(1, NORMALS_VALUES // k**2)

    def over_rows(
        self, function: Callable[..., np.ndarray], by_row: tuple[np.ndarray, ...] = (), shared: tuple = ()
    ) -> np.ndarray:
        (out,), _ = self._blocks.map_add(functools.partial(_over_rows, function=function), by_row, shared)
        return out

    def flipped(self, rng: np.random.Generator) -> "Chunked":
        """Random signs for every entry, drawn anew in every pass from the seed and the number of the block's row."""
        return self._derived(functools.partial(_flip, seed=int(rng.integers(2**63))), row_squares=self.row_squares)

    def residual(self, U: np.ndarray, V: np.ndarray) -> "Chunked":
        """M * (Y - U V'), made anew in every pass."""
        return self._derived(_leave, [as_block(U, self.shape[0])], [as_block(V, self.shape[1])])

    def _derived(
        self, step: Callable, by_row: Sequence = (), shared: Sequence = (), row_squares: np.ndarray | None = None
    ) -> "Chunked":
        counts = (self.row_counts, self.column_counts, self.column_squares)
        blocks = self._blocks.then(step, by_row, shared)
        return Chunked(blocks, self.dtype, np.zeros(self.shape[1]), counts, row_squares=row_squares)

    def sample(self, values: int, rng: np.random.Generator) -> Observed:
        """Rows drawn at random, in memory, with about so many values stored; columns that none of them has are left."""
        from nanfold.observed.sampling import sampled_rows

        return sampled_rows(self, self._blocks, values, int(rng.integers(2**63)))

    def gram(self) -> np.ndarray:
        """Y Y', dense, of few rows."""
        self._refuse_square()
        return super().gram()

    def mask_gram(self) -> np.ndarray:
        """M M', dense, of few rows."""
        self._refuse_square()
        return super().mask_gram()

    def _refuse_square(self) -> None:
        n = self.shape[0]
        if n > MOST_SQUARE:
            raise ValueError(
                f"This needs a dense matrix of {n} x {n}, which is not made of a Dask array of more than {MOST_SQUARE} "
                "rows; choose solver='krylov' and a model of what is observed that factorises, such as 'rank-one'."
            )

    def row_blocks(self) -> list[tuple[int, int]]:
        """Blocks of rows small enough to be dense for a moment, none of them across two chunks."""
        size = max(1, PANEL_VALUES // self.shape[1])
        places = self._blocks.places
        return [(start + a, start + b) for start, stop in places for a, b in even_blocks(stop - start, size)]

    def _blocks_of(self, start: int, stop: int) -> list[int]:
        return [b for b, (first, last) in enumerate(self._blocks.places) if first < stop and last > start]


class ChunkedCounts(Chunked):
    """Counts under a structured mask: what the zeros add is the same for all samples of a group, so it is made once.

    Parameters
    ----------
    mask : of all rows; its weights are here as well as with the blocks
    """

    has_counts = True

    def __init__(
        self,
        blocks: RowBlocks,
        dtype: np.dtype,
        mean: np.ndarray,
        counts: tuple[np.ndarray, np.ndarray, np.ndarray],
        mask: StructuredMask,
    ) -> None:
        self._mask = mask
        super().__init__(blocks, dtype, mean, counts)

    def matmul(self, V: np.ndarray) -> np.ndarray:
        """Y V."""
        V = as_block(V, self.shape[1])
        return self._by_rows(_stored_matmul, [V, of_zeros(self._mask, self.mean, V)])

    def rmatmul(self, U: np.ndarray) -> np.ndarray:
        """Y' U."""
        _, (A, sums) = self._blocks.map_add(_stored_rmatmul, (as_block(U, self.shape[0]),))
        return add_zeros(A, self._mask, self.mean, sums)

    def normal_pass(
        self, W: np.ndarray, Q: np.ndarray, scale: np.ndarray, shift: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Z = diag(scale) Y W + diag(shift) Q and A = Y' diag(scale) Z, reading each block once."""
        W, Q, scale, shift = as_pass(W, Q, scale, shift, self.shape)
        shared = (W, of_zeros(self._mask, self.mean, W))
        (Z,), (A, sums) = self._blocks.map_add(_stored_pass, (Q, scale, shift), shared)
        return Z, add_zeros(A, self._mask, self.mean, sums)

    def column_normals(self, U: np.ndarray, start: int, stop: int) -> np.ndarray:
        """sum_i M_is U_i U_i'."""
        U = as_block(U, self.shape[0])
        function = functools.partial(_stored_column_normals, first=start, last=stop)
        _, (out, pairs) = self._blocks.map_add(function, (U,))
        out += self._mask.weights[:, start:stop].T.astype(np.float64) @ pairs
        return _unpacked(out, U.shape[1])


# What is done with one block: picklable, and as ``RowBlocks.map_add`` calls it. First what belongs to its rows.


def _row_squares(block: Observed, start: int, by_row: tuple, shared: tuple) -> tuple:
    return (block.row_squares,), ()


def _matmul(block: Observed, start: int, by_row: tuple, shared: tuple) -> tuple:
    return (block.matmul(*shared),), ()


def _mask_matmul(block: Observed, start: int, by_row: tuple, shared: tuple) -> tuple:
    return (block.mask_matmul(*shared),), ()


def _stored_matmul(block: CountsObserved, start: int, by_row: tuple, shared: tuple) -> tuple:
    return (block.stored_matmul(*shared),), ()


def _rows(block: Observed, start: int, by_row: tuple, shared: tuple, *, first: int, last: int) -> tuple:
    return block.rows(*_inside(block, start, first, last)), ()


def _row_normals(block: Observed, start: int, by_row: tuple, shared: tuple, *, first: int, last: int) -> tuple:
    (V,) = shared
    return (block.row_normals(V, *_inside(block, start, first, last)),), ()


def _over_rows(block: Observed, start: int, by_row: tuple, shared: tuple, *, function: Callable) -> tuple:
    return (function(block, *by_row, *shared),), ()


def _inside(block: Observed, start: int, first: int, last: int) -> tuple[int, int]:
    """Rows first:last of all, as rows of the block."""
    return max(first - start, 0), min(last - start, block.shape[0])


# Then what is added up over the blocks.


def _rmatmul(block: Observed, start: int, by_row: tuple, shared: tuple) -> tuple:
    return (), (block.rmatmul(*by_row),)


def _mask_rmatmul(block: Observed, start: int, by_row: tuple, shared: tuple) -> tuple:
    return (), (block.mask_rmatmul(*by_row),)


def _stored_rmatmul(block: CountsObserved, start: int, by_row: tuple, shared: tuple) -> tuple:
    return (), block.stored_rmatmul(*by_row)


def _column_normals(block: Observed, start: int, by_row: tuple, shared: tuple, *, first: int, last: int) -> tuple:
    (U,) = by_row
    return (), (_packed(block.column_normals(U, first, last)),)


def _stored_column_normals(
    block: CountsObserved, start: int, by_row: tuple, shared: tuple, *, first: int, last: int
) -> tuple:
    (U,) = by_row
    lower, pairs = block.stored_column_normals(U, first, last)
    return (), (_packed(lower), pairs)


# And a pass that does both.


def _normal_pass(block: Observed, start: int, by_row: tuple, shared: tuple) -> tuple:
    Z, A = block.normal_pass(*shared, *by_row)
    return (Z,), (A,)


def _stored_pass(block: CountsObserved, start: int, by_row: tuple, shared: tuple) -> tuple:
    Z, A, sums = block.stored_pass(*shared, *by_row)
    return (Z,), (A, sums)


# Steps from one storage of a block to another.


def _flip(block: Observed, start: int, by_row: tuple, shared: tuple, *, seed: int) -> Observed:
    return block.flipped(np.random.default_rng([seed, start]))


def _leave(block: Observed, start: int, by_row: tuple, shared: tuple) -> Observed:
    return block.residual(*by_row, *shared)


def _packed(matrices: np.ndarray) -> np.ndarray:
    """The lower triangles of a stack of symmetric matrices, which is half of what would have to travel."""
    first, second = np.tril_indices(matrices.shape[-1])
    return matrices[:, first, second]


def _unpacked(packed: np.ndarray, k: int) -> np.ndarray:
    out = np.zeros((len(packed), k, k))
    first, second = np.tril_indices(k)
    out[:, first, second] = packed
    return mirror_lower(out)
