"""Products with the stored entries of a CSR array, a few vectors at a time, on all threads."""

import functools
from collections.abc import Callable, Iterator

import numpy as np
from scipy import sparse

from nanfold import _passes
from nanfold._threads import add_blocks, balanced_blocks, n_threads, run_blocks
from nanfold._vectors import LINE, WIDTHS, panel

# Columns of a tile: so many rows of a panel, of the widest vectors, take a quarter of a megabyte, which stays in what a
# core has for itself while entries stream through it.
TILE = 1024
# Below this many entries in a tile, going from tile to tile costs a row more than it saves.
TILE_ENTRIES = 40


class StoredEntries:
    """The stored entries of a CSR array, centred or completed as ``nanfold._passes`` says.

    Nothing is copied, unless the entries are not contiguous.
    """

    def __init__(
        self,
        X: sparse.csr_array,
        mu: np.ndarray | None,
        group: np.ndarray | None = None,
        weights: np.ndarray | None = None,
    ) -> None:
        self.shape = X.shape
        self._X = X
        self._stored = tuple(
            None if array is None else np.ascontiguousarray(array) for array in (X.indices, X.data, mu, group, weights)
        )
        self._blocks = balanced_blocks(X.indptr, n_threads())
        self._cuts: np.ndarray | None = None

    @property
    def _entries(self) -> tuple:
        if self._cuts is None:
            self._cuts = self._cut()
        return self._cuts, *self._stored

    def _cut(self) -> np.ndarray:
        n, d = self.shape
        tiles = min(-(-d // TILE), max(1, self._X.nnz // (n * TILE_ENTRIES))) if self._X.has_sorted_indices else 1
        cuts = np.empty((n, tiles + 1), dtype=self._X.indptr.dtype)
        indptr, indices, width = self._X.indptr, self._X.indices, -(-d // tiles)

        def block(start: int, stop: int) -> None:
            _passes.cut_rows(indptr, indices, width, cuts, start, stop)

        run_blocks(block, self._blocks)
        return cuts

    def matmul(self, V: np.ndarray) -> np.ndarray:
        """The entries times V."""
        out = np.empty((self.shape[0], V.shape[1]))
        for columns, lanes in _pieces(V.shape[1]):
            W, piece = _lined(_widened(V, columns, lanes)), _target(out, columns, lanes)
            run_blocks(functools.partial(_passes.matmul, *self._entries, W, piece, lanes), self._blocks)
            _settle(out, piece, columns)
        return out

    def rmatmul(self, U: np.ndarray) -> np.ndarray:
        """The transposed entries times U."""
        out = np.empty((self.shape[1], U.shape[1]))
        for columns, lanes in _pieces(U.shape[1]):
            added = self._added(functools.partial(_passes.rmatmul, *self._entries, _widened(U, columns, lanes)), lanes)
            _settle(out, added, columns)
        return out

    def normal_pass(
        self, W: np.ndarray, offset: np.ndarray | None, Q: np.ndarray, scale: np.ndarray, shift: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Z = diag(scale) (entries W + offset of each row's group) + diag(shift) Q, and entries' diag(scale) Z."""
        Z, A = np.empty_like(Q), np.empty_like(W)
        for columns, lanes in _pieces(W.shape[1]):
            piece = _target(Z, columns, lanes)
            own = [None if block is None else _widened(block, columns, lanes) for block in (offset, Q)]
            near = _lined(_widened(W, columns, lanes))
            kernel = functools.partial(_passes.normal_pass, *self._entries, near, *own, scale, shift, piece)
            added = self._added(kernel, lanes)
            _settle(Z, piece, columns)
            _settle(A, added, columns)
        return Z, A

    def _added(self, kernel: Callable[..., None], lanes: tuple) -> np.ndarray:
        """What ``kernel(A, lanes, start, stop)`` adds to A, an A a thread, in the order of the blocks."""

        def block(start: int, stop: int) -> np.ndarray:
            A = panel(self.shape[1], len(lanes))
            kernel(A, lanes, start, stop)
            return A

        return add_blocks(block, self._blocks)


def _pieces(width: int) -> Iterator[tuple[slice, tuple]]:
    """Columns cut into pieces of widths that there are kernels for, with room for less than eight more in the last."""
    start = 0
    while start < width:
        left = -(-(width - start) // WIDTHS[0]) * WIDTHS[0]
        lanes = max(lanes for lanes in WIDTHS if lanes <= left)
        yield slice(start, min(start + lanes, width)), (0,) * lanes
        start += lanes


def _widened(V: np.ndarray, columns: slice, lanes: tuple) -> np.ndarray:
    """Some columns of a block, contiguous, with zeros to the full width."""
    if V.shape[1] == len(lanes):
        return V
    out = panel(len(V), len(lanes))
    out[:, : columns.stop - columns.start] = V[:, columns]
    return out


def _lined(V: np.ndarray) -> np.ndarray:
    """What is read for every entry, from where a line of the cache starts: copied if it starts elsewhere."""
    if V.ctypes.data % LINE == 0:
        return V
    out = panel(*V.shape)
    out[:] = V
    return out


def _target(out: np.ndarray, columns: slice, lanes: tuple) -> np.ndarray:
    """Where a kernel writes some columns of `out`: there itself if nothing else is in it."""
    return out if out.shape[1] == len(lanes) else np.empty((len(out), len(lanes)))


def _settle(out: np.ndarray, piece: np.ndarray, columns: slice) -> None:
    """Copy a piece where it belongs, unless it is there already."""
    if piece is not out:
        out[:, columns] = piece[:, : columns.stop - columns.start]
