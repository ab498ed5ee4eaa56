"""What every way of storing data with holes offers: counts, means, and products with the centred data."""

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from nanfold import _kernels
from nanfold._threads import even_blocks, n_threads, run_blocks

# Dense panels that are formed for a moment (rows or columns of a block) stay near this many values.
PANEL_VALUES = 4_000_000


def mirror_lower(matrices: np.ndarray) -> np.ndarray:
    """Copy the lower triangles of a stack of square matrices onto their upper ones, in place."""
    above = np.triu_indices(matrices.shape[-1], 1)
    matrices[:, above[0], above[1]] = matrices[:, above[1], above[0]]
    return matrices


def unpacked(packed: np.ndarray, k: int) -> np.ndarray:
    """Symmetric k x k matrices from their lower triangles, a row each."""
    first, second = np.tril_indices(k)
    out = np.empty((len(packed), k, k))
    out[:, first, second] = packed
    out[:, second, first] = packed
    return out


class Observed(ABC):
    """Data with holes: Y = M * (X - mean), with M the mask, 0 in the holes, 1 where observed, or a weight between.

    Products take and return float64 whatever the storage. Rows are samples and columns are features.

    Attributes
    ----------
    shape : (n, d)
    dtype : the floating dtype of the stored values
    mean : (d,) array that was subtracted; zeros when not centred
    row_counts, column_counts : sums of M over rows and columns
    column_squares : sums of M * M over columns; equal to column_counts unless weights lie strictly between 0 and 1
    row_squares : squared norms of the rows of Y
    """

    shape: tuple[int, int]
    dtype: np.dtype
    mean: np.ndarray
    row_counts: np.ndarray
    column_counts: np.ndarray
    column_squares: np.ndarray
    row_squares: np.ndarray

    in_memory = True  # whether a pass over the data costs no more than its arithmetic
    has_counts = False  # whether what is not stored is a zero, which may be a dropout

    @property
    def complete(self) -> bool:
        """Whether nothing is missing."""
        return bool(self.row_counts.min() >= self.shape[1])

    @property
    def share_observed(self) -> float:
        """The mean of M."""
        return float(self.row_counts.mean() / self.shape[1])

    @property
    def can_hold_out(self) -> bool:
        """Whether single entries are known to be observed, so that some of them can be held out."""
        return type(self).hold_out is not Observed.hold_out

    @abstractmethod
    def matmul(self, V: np.ndarray) -> np.ndarray:
        """Y V, for V of d rows."""

    @abstractmethod
    def rmatmul(self, U: np.ndarray) -> np.ndarray:
        """Y' U, for U of n rows."""

    @abstractmethod
    def mask_matmul(self, V: np.ndarray) -> np.ndarray:
        """M V, for V of d rows."""

    @abstractmethod
    def mask_rmatmul(self, U: np.ndarray) -> np.ndarray:
        """M' U, for U of n rows."""

    def normal_pass(
        self, W: np.ndarray, Q: np.ndarray, scale: np.ndarray, shift: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Z = diag(scale) Y W + diag(shift) Q and A = Y' diag(scale) Z.

        With F = diag(scale) Y that is a product with F, and one of the result with F'. Where W = F' Q, it is
        Z = (F F' + diag(shift)) Q and A = F' Z, so that what iterates on F F' + diag(shift) can keep F' Q beside Q and
        needs Y once a step. Whatever the storage, by two products; a storage that can reads its rows once.

        Parameters
        ----------
        W : (d, b) block
        Q : (n, b) block
        scale, shift : (n,) numbers, one a row

        Returns
        -------
        Z : (n, b) array
        A : (d, b) array
        """
        W, Q, scale, shift = as_pass(W, Q, scale, shift, self.shape)
        Z = self.matmul(W)
        Z *= scale[:, None]
        Z += shift[:, None] * Q
        return Z, self.rmatmul(scale[:, None] * Z)

    @abstractmethod
    def rows(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows start:stop of Y and of M, dense."""

    @abstractmethod
    def row_normals(self, V: np.ndarray, start: int, stop: int) -> np.ndarray:
        """For rows i in start:stop, the k x k matrices sum_s M_is V_s V_s'."""

    @abstractmethod
    def column_normals(self, U: np.ndarray, start: int, stop: int) -> np.ndarray:
        """For columns s in start:stop, the k x k matrices sum_i M_is U_i U_i'."""

    def column_batch(self, k: int) -> int:
        """For how many columns at a time `column_normals` is best asked."""
        return max(1, PANEL_VALUES // k**2)

    def over_rows(
        self, function: Callable[..., np.ndarray], by_row: tuple[np.ndarray, ...] = (), shared: tuple = ()
    ) -> np.ndarray:
        """What ``function(rows, *by_row, *shared)`` returns for each row, where it needs no other rows.

        Data in memory are all seen at once; others, which a picklable function is sent to, in blocks.
        """
        return function(self, *by_row, *shared)

    def sample(self, values: int, rng: np.random.Generator) -> "Observed":
        """These data if they are in memory, else rows drawn at random with about so many values."""
        return self

    @abstractmethod
    def flipped(self, rng: np.random.Generator) -> "Observed":
        """The same mask, with the sign of every entry of Y drawn at random."""

    @abstractmethod
    def residual(self, U: np.ndarray, V: np.ndarray) -> "Observed":
        """M * (Y - U V'), stored as Y is."""

    def hold_out(self, share: float, rng: np.random.Generator) -> tuple["Observed", np.ndarray, np.ndarray, np.ndarray]:
        """Hide a share of the observed entries, leaving every row and column at least two.

        Returns the data without them, centred by its own means if this is centred, and the rows, columns and values
        (less the new means) of what was hidden.
        """
        raise NotImplementedError(f"{type(self).__name__} cannot tell which of its entries could be held out.")

    def take(self, rows: np.ndarray) -> "Observed":
        """Some rows, centred by their own means if this is centred; columns that none of them has are left out."""
        raise NotImplementedError(f"{type(self).__name__} cannot take rows out of its data.")

    def row_blocks(self) -> list[tuple[int, int]]:
        """Consecutive blocks of rows small enough to be dense for a moment."""
        return even_blocks(self.shape[0], max(1, PANEL_VALUES // self.shape[1]))

    def gram(self) -> np.ndarray:
        """Y Y', dense."""
        out = np.empty((self.shape[0], self.shape[0]))
        for start, stop in self.row_blocks():
            out[:, start:stop] = self.matmul(self.rows(start, stop)[0].T)
        return out

    def mask_gram(self) -> np.ndarray:
        """M M', dense: how many features each pair of samples shares."""
        out = np.empty((self.shape[0], self.shape[0]))
        for start, stop in self.row_blocks():
            out[:, start:stop] = self.mask_matmul(self.rows(start, stop)[1].T)
        return out

    def pair_products(self, rows: np.ndarray, candidates: np.ndarray) -> np.ndarray:
        """Y_i . Y_j for every i of `rows`, (b,), and each of its own candidates j, (b, c).

        Whatever the storage, from pairs of dense blocks of rows; a storage that can does without them.
        """
        rows, candidates = as_pairs(rows, candidates, self.shape[0])
        out = np.empty(candidates.shape)
        for start, stop in self.row_blocks():
            inside = np.flatnonzero((rows >= start) & (rows < stop))
            if not inside.size:
                continue
            block, _ = self.rows(start, stop)
            wanted = candidates[inside]
            for other, end in self.row_blocks():
                p, c = np.nonzero((wanted >= other) & (wanted < end))
                if p.size:
                    beside = block if other == start else self.rows(other, end)[0]
                    products = pair_dots(block, beside, rows[inside[p]] - start, wanted[p, c][:, None] - other)
                    out[inside[p], c] = products[:, 0]
        return out


class Summaries(NamedTuple):
    """Sums of M over rows and over columns, of M * M over columns, and of the values over columns."""

    row_counts: np.ndarray
    column_counts: np.ndarray
    column_squares: np.ndarray
    column_sums: np.ndarray


class Summarised(Observed):
    """A storage whose counts take a pass over its entries, made when one of them is first asked for."""

    @property
    @abstractmethod
    def _summaries(self) -> Summaries:
        """What the pass finds, to be kept."""

    @property
    def row_counts(self) -> np.ndarray:  # type: ignore[override]
        return self._summaries.row_counts

    @property
    def column_counts(self) -> np.ndarray:  # type: ignore[override]
        return self._summaries.column_counts

    @property
    def column_squares(self) -> np.ndarray:  # type: ignore[override]
        return self._summaries.column_squares


def pair_dots(A: np.ndarray, B: np.ndarray, rows: np.ndarray, candidates: np.ndarray) -> np.ndarray:
    """A_i . B_j for every i of `rows`, (b,), and each of its own candidates j, (b, c)."""
    kernel = functools.partial(_kernels.pair_dots, np.ascontiguousarray(A), np.ascontiguousarray(B))
    return over_pairs(kernel, rows, candidates)


def over_pairs(kernel: Callable[..., None], rows: np.ndarray, candidates: np.ndarray) -> np.ndarray:
    """What ``kernel(rows, candidates, out, start, stop)`` writes, run on all threads."""
    out = np.empty(candidates.shape)
    blocks = even_blocks(len(rows), max(1, -(-len(rows) // n_threads())))
    run_blocks(lambda start, stop: kernel(rows, candidates, out, start, stop), blocks)
    return out


def as_pairs(rows: np.ndarray, candidates: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions of rows, (b,), and of the candidates of each, (b, c), after a check of shapes and range."""
    rows, candidates = np.ascontiguousarray(rows, dtype=np.intp), np.ascontiguousarray(candidates, dtype=np.intp)
    if rows.ndim != 1 or candidates.ndim != 2 or len(rows) != len(candidates):
        raise ValueError(
            f"Pairs are given as rows of shape (b,) and candidates of shape (b, c); here they are {rows.shape} and "
            f"{candidates.shape}."
        )
    for places in (rows, candidates):
        if places.size and not (places.min() >= 0 and places.max() < n):
            wrong = places[(places < 0) | (places >= n)][0]
            raise ValueError(f"A pair names row {wrong}, but rows are numbered from 0 to {n - 1}.")
    return rows, candidates


def as_block(V: np.ndarray, length: int) -> np.ndarray:
    """A float64 C-contiguous block of vectors, after a check of its length."""
    V = np.ascontiguousarray(V, dtype=np.float64)
    if V.ndim != 2 or V.shape[0] != length:
        raise ValueError(f"A block of vectors of {length} rows is needed; its shape is {V.shape}.")
    return V


def as_pass(
    W: np.ndarray, Q: np.ndarray, scale: np.ndarray, shift: np.ndarray, shape: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """What `normal_pass` takes, as float64 blocks and numbers a row, after a check of their shapes."""
    n, d = shape
    W, Q = as_block(W, d), as_block(Q, n)
    scale, shift = (np.ascontiguousarray(numbers, dtype=np.float64) for numbers in (scale, shift))
    if W.shape[1] != Q.shape[1]:
        raise ValueError(f"A pass needs as many vectors in W as in Q; they are {W.shape[1]} and {Q.shape[1]}.")
    if scale.shape != (n,) or shift.shape != (n,):
        raise ValueError(
            f"A pass needs {n} numbers in scale and in shift; their shapes are {scale.shape}, {shift.shape}."
        )
    return W, Q, scale, shift


def add_to_pass(
    Y: np.ndarray,
    rows: slice,
    W: np.ndarray,
    Q: np.ndarray,
    scale: np.ndarray,
    shift: np.ndarray,
    Z: np.ndarray,
    A: np.ndarray,
) -> None:
    """The share of a dense block of rows, Y, in a `normal_pass`: write its rows of Z and add to A."""
    own = scale[rows, None]
    block = np.matmul(Y, W, out=Z[rows])
    block *= own
    block += shift[rows, None] * Q[rows]
    A += Y.T @ (own * block)


def held_out(
    rows: np.ndarray, columns: np.ndarray, shape: tuple[int, int], share: float, rng: np.random.Generator
) -> np.ndarray:
    """Positions of entries to hide, at random, leaving two entries or more in every row and column that has them."""
    held = np.flatnonzero(rng.random(len(rows)) < share)
    for places, length in ((rows, shape[0]), (columns, shape[1])):
        left = np.bincount(places, minlength=length) - np.bincount(places[held], minlength=length)
        held = held[left[places[held]] >= 2]
    return held
