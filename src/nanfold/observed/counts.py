"""Counts, sparse or dense, in which a zero counts as observed by the weight of its group of cells and its gene."""

import functools
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from nanfold import _kernels
from nanfold._threads import add_blocks, balanced_blocks, even_blocks, n_threads, run_blocks
from nanfold.observed.blockwise import FlippedObserved, ResidualObserved
from nanfold.observed.contract import (
    PANEL_VALUES,
    Observed,
    Summaries,
    Summarised,
    as_block,
    as_pairs,
    as_pass,
    mirror_lower,
    over_pairs,
)
from nanfold.observed.stored import StoredEntries


@dataclass(frozen=True)
class StructuredMask:
    """How far each zero counts as observed: ``weights[groups[i], s]`` for a zero of sample i and feature s.

    Entries that are not zero are always observed. A plain mask of dropouts has weights of 0 (a dropout) and 1 (a true
    zero); weights between are soft.

    Attributes
    ----------
    groups : (n,) integers in 0 .. T - 1, the group of each sample
    weights : (T, d) weights in [0, 1]
    """

    groups: np.ndarray
    weights: np.ndarray

    def __post_init__(self) -> None:
        groups, weights = np.asarray(self.groups), np.asarray(self.weights)
        if groups.ndim != 1 or not np.issubdtype(groups.dtype, np.integer):
            raise ValueError("The groups of a structured mask must be whole numbers, one a sample.")
        if weights.ndim != 2:
            raise ValueError("The weights of a structured mask must be an array of groups x features.")
        if groups.size and (groups.min() < 0 or groups.max() >= len(weights)):
            raise ValueError(
                f"The groups of a structured mask must lie in 0 .. {len(weights) - 1}, one for each row of its weights."
            )
        # Written so that a NaN fails too.
        if weights.size and not (weights.min() >= 0 and weights.max() <= 1):
            raise ValueError("The weights of a structured mask must lie between 0 and 1.")
        if weights.dtype not in (np.float32, np.float64):
            weights = weights.astype(np.float32)
        object.__setattr__(self, "groups", groups.astype(np.int64, copy=False))
        object.__setattr__(self, "weights", np.ascontiguousarray(weights))

    @property
    def shape(self) -> tuple[int, int]:
        """Samples and features."""
        return len(self.groups), self.weights.shape[1]

    def group_sums(self, V: np.ndarray) -> np.ndarray:
        """W V with W the weights, a few groups at a time."""
        W = self.weights
        out = np.empty((len(W), V.shape[1]))
        for start, stop in even_blocks(len(W), max(1, PANEL_VALUES // W.shape[1])):
            out[start:stop] = W[start:stop].astype(np.float64) @ V
        return out

    def group_scatter(self, U: np.ndarray, power: int = 1) -> np.ndarray:
        """W' U for U of one row a group, a few groups at a time; W to a power."""
        W = self.weights
        out = np.zeros((W.shape[1], U.shape[1]))
        for start, stop in even_blocks(len(W), max(1, PANEL_VALUES // W.shape[1])):
            out += (W[start:stop].astype(np.float64) ** power).T @ U[start:stop]
        return out

    def by_group(self, U: np.ndarray, scale: np.ndarray | None = None) -> np.ndarray:
        """Sums of the rows of U, scaled, over the samples of each group."""
        n = len(self.groups)
        values = np.ones(n) if scale is None else scale
        groups = sparse.csr_array((values, self.groups, np.arange(n + 1)), shape=(n, len(self.weights)))
        return groups.T @ U


def of_zeros(mask: StructuredMask, mean: np.ndarray, V: np.ndarray) -> np.ndarray:
    """The product of V and a row of zeros of each group, of which Y is -w mean."""
    return -mask.group_sums(mean[:, None] * V)


def add_zeros(A: np.ndarray, mask: StructuredMask, mean: np.ndarray, sums: np.ndarray) -> np.ndarray:
    """Add to A what zeros add to Y' U, `sums` being those of U over each group; A is overwritten."""
    A -= mean[:, None] * mask.group_scatter(sums)
    return A


class CountsObserved(Summarised):
    """A CSR array of counts under a structured mask.

    Y is a sparse array plus, for every group, one row of what a zero contributes: with x the entry and w its weight,
    Y_is = (x - mean_s) for an entry that is not zero, and -w mean_s for a zero. All costs are those of the stored
    entries plus those of groups x features. A stored NaN is a hole.
    """

    has_counts = True

    def __init__(
        self, X: sparse.csr_array, mask: StructuredMask, mean: np.ndarray | None, *, complete: bool | None = None
    ) -> None:
        """Read X without copying it.

        Parameters
        ----------
        X : the counts
        mask : how far their zeros count as observed
        mean : what to subtract; None for the weighted means
        complete : whether nothing is missing, where that is known; None to look
        """
        self.shape = X.shape
        self.dtype = X.dtype
        self._X = X
        self._mask = mask
        self._blocks = balanced_blocks(X.indptr, n_threads())
        if mean is None:
            mean = self._summaries.column_sums / self.column_counts
        self.mean = mean
        # Where all is observed, Y is what is stored less the mean, and no weight need be looked up.
        plain = self.complete if complete is None else complete
        mu, weights = (None, None) if plain else (self.mean, mask.weights)
        self._entries = StoredEntries(X, mu, mask.groups, weights)

    @property
    def _stored(self) -> tuple[np.ndarray, ...]:
        return self._X.indptr, self._X.indices, self._X.data, self._mask.groups, self._mask.weights

    @functools.cached_property
    def _summaries(self) -> Summaries:
        d = self.shape[1]
        row_counts = self._mask.group_sums(np.ones((d, 1)))[self._mask.groups, 0]

        def block(start: int, stop: int) -> np.ndarray:
            out = np.zeros((3, d))
            bad = _kernels.grouped_summaries(*self._stored, row_counts, *out, start, stop)
            if bad >= 0:
                i = int(np.searchsorted(self._X.indptr, bad, side="right")) - 1
                raise ValueError(
                    f"X contains infinity at row {i}, column {self._X.indices[bad]}; replace it by NaN if it stands "
                    "for a hole."
                )
            return out

        count, square, total = add_blocks(block, self._blocks)
        sizes = np.bincount(self._mask.groups, minlength=len(self._mask.weights)).astype(np.float64)[:, None]
        count += self._mask.group_scatter(sizes)[:, 0]
        square += self._mask.group_scatter(sizes, power=2)[:, 0]
        return Summaries(row_counts, count, square, total)

    @functools.cached_property
    def row_squares(self) -> np.ndarray:  # type: ignore[override]
        W = self._mask.weights
        zeros = np.empty(len(W))
        for start, stop in even_blocks(len(W), max(1, PANEL_VALUES // W.shape[1])):
            zeros[start:stop] = W[start:stop].astype(np.float64) ** 2 @ self.mean**2
        out = zeros[self._mask.groups]
        run_blocks(lambda a, b: _kernels.grouped_row_squares(*self._stored, self.mean, out, a, b), self._blocks)
        # A row whose every entry is at the mean may come out below zero by rounding.
        return np.maximum(out, 0.0)

    def matmul(self, V: np.ndarray) -> np.ndarray:
        """Y V."""
        V = as_block(V, self.shape[1])
        return self.stored_matmul(V, of_zeros(self._mask, self.mean, V))

    def rmatmul(self, U: np.ndarray) -> np.ndarray:
        """Y' U."""
        A, sums = self.stored_rmatmul(as_block(U, self.shape[0]))
        return add_zeros(A, self._mask, self.mean, sums)

    def normal_pass(
        self, W: np.ndarray, Q: np.ndarray, scale: np.ndarray, shift: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Z = diag(scale) Y W + diag(shift) Q and A = Y' diag(scale) Z, reading the rows once."""
        W, Q, scale, shift = as_pass(W, Q, scale, shift, self.shape)
        Z, A, sums = self.stored_pass(W, of_zeros(self._mask, self.mean, W), Q, scale, shift)
        return Z, add_zeros(A, self._mask, self.mean, sums)

    # The same but for what zeros add, which is a matter of groups x features and common to all samples of a group.

    def stored_matmul(self, V: np.ndarray, zeros: np.ndarray) -> np.ndarray:
        """Y V, given the product of V and a row of zeros of each group."""
        out = self._entries.matmul(V)
        self._add_rows(out, zeros)
        return out

    def stored_rmatmul(self, U: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Y' U but for what zeros add, and the sums of U over each group."""
        return self._entries.rmatmul(U), self._mask.by_group(U)

    def stored_pass(
        self, W: np.ndarray, zeros: np.ndarray, Q: np.ndarray, scale: np.ndarray, shift: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Z of `normal_pass`, A but for what zeros add, and the sums of diag(scale) Z over each group."""
        Z, A = self._entries.normal_pass(W, zeros, Q, scale, shift)
        return Z, A, self._mask.by_group(Z, scale)

    def _add_rows(self, out: np.ndarray, of_group: np.ndarray) -> None:
        """Add to each row what belongs to its group."""
        for start, stop in even_blocks(len(out), max(1, PANEL_VALUES // out.shape[1])):
            out[start:stop] += of_group[self._mask.groups[start:stop]]

    def mask_matmul(self, V: np.ndarray) -> np.ndarray:
        """M V."""
        V = as_block(V, self.shape[1])
        out = self._mask.group_sums(V)[self._mask.groups]
        run_blocks(lambda a, b: _kernels.grouped_mask_matmul(*self._stored, V, out, a, b), self._blocks)
        return out

    def mask_rmatmul(self, U: np.ndarray) -> np.ndarray:
        """M' U."""
        U = as_block(U, self.shape[0])

        def block(start: int, stop: int) -> np.ndarray:
            out = np.zeros((self.shape[1], U.shape[1]))
            _kernels.grouped_mask_rmatmul(*self._stored, U, out, start, stop)
            return out

        return self._mask.group_scatter(self._mask.by_group(U)) + add_blocks(block, self._blocks)

    def rows(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows of Y and of M."""
        X = self._X[start:stop].toarray().astype(np.float64, copy=False)
        holes = np.isnan(X)
        mask = np.where(X == 0, self._mask.weights[self._mask.groups[start:stop]], np.float64(1.0))
        mask[holes] = 0.0
        X[holes] = 0.0
        return mask * (X - self.mean), mask

    def pair_products(self, rows: np.ndarray, candidates: np.ndarray) -> np.ndarray:
        """Y_i . Y_j."""
        kernel = functools.partial(_kernels.grouped_pair_dots, *self._stored, self.mean)
        return over_pairs(kernel, *as_pairs(rows, candidates, self.shape[0]))

    def row_normals(self, V: np.ndarray, start: int, stop: int) -> np.ndarray:
        """sum_s M_is V_s V_s'."""
        V = as_block(V, self.shape[1])
        k = V.shape[1]
        used, at = np.unique(self._mask.groups[start:stop], return_inverse=True)
        out = self._zero_normals(V, self._mask.weights[used])[at]
        inside = [(start + a, start + b) for a, b in balanced_blocks(self._X.indptr[start : stop + 1], n_threads())]
        run_blocks(lambda a, b: _kernels.grouped_row_normals(*self._stored, V, out, start, a, b), inside)
        return mirror_lower(out.reshape(stop - start, k, k))

    def column_normals(self, U: np.ndarray, start: int, stop: int) -> np.ndarray:
        """sum_i M_is U_i U_i'."""
        U = as_block(U, self.shape[0])
        out, pairs = self.stored_column_normals(U, start, stop)
        first, second = np.tril_indices(U.shape[1])
        weights = self._mask.weights
        of_zeros = np.zeros((stop - start, len(first)))
        for a, b in even_blocks(len(weights), max(1, PANEL_VALUES // (stop - start))):
            of_zeros += weights[a:b, start:stop].T.astype(np.float64) @ pairs[a:b]
        out[:, first, second] += of_zeros
        return mirror_lower(out)

    def stored_column_normals(self, U: np.ndarray, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        """The lower triangles of `column_normals` but for what zeros add, and those of sum_i U_i U_i' of each group."""
        k = U.shape[1]

        def block(a: int, b: int) -> np.ndarray:
            out = np.zeros((stop - start, k, k))
            _kernels.grouped_column_normals(*self._stored, U, out, start, a, b)
            return out

        return add_blocks(block, self._blocks), self._pairs_by_group(U)

    def _pairs_by_group(self, U: np.ndarray) -> np.ndarray:
        """The lower triangles of sum_i U_i U_i' over the samples of each group, a few samples at a time."""
        first, second = np.tril_indices(U.shape[1])
        out = np.zeros((len(self._mask.weights), len(first)))
        order = np.argsort(self._mask.groups, kind="stable")
        for start, stop in even_blocks(len(order), max(1, PANEL_VALUES // len(first))):
            rows = order[start:stop]
            groups = self._mask.groups[rows]
            edges = np.flatnonzero(np.diff(groups, prepend=-1))
            block = U[rows]
            out[groups[edges]] += np.add.reduceat(block[:, first] * block[:, second], edges)
        return out

    @staticmethod
    def _zero_normals(V: np.ndarray, W: np.ndarray) -> np.ndarray:
        """sum_s W_ts V_s V_s' for every group t."""
        k = V.shape[1]
        first, second = np.tril_indices(k)
        pairs = np.zeros((len(W), len(first)))
        for a, b in even_blocks(len(V), max(64, PANEL_VALUES // len(first))):
            pairs += W[:, a:b].astype(np.float64) @ (V[a:b, first] * V[a:b, second])
        out = np.zeros((len(W), k, k))
        out[:, first, second] = pairs
        return out

    def flipped(self, rng: np.random.Generator) -> "Observed":
        """Random signs for every entry, redrawn block by block at every product: nothing dense is kept."""
        return FlippedObserved(self, int(rng.integers(2**63)))

    def residual(self, U: np.ndarray, V: np.ndarray) -> "Observed":
        """M * (Y - U V'), which has no sparse form under weights: formed block by block at every product."""
        return ResidualObserved(self, U, V)
