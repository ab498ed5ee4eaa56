"""Counts of cells in a Dask array: what the rules for dropouts ask of them, by passes over row blocks."""

import dataclasses
import functools
import operator
from typing import Any, Self

import numpy as np
from scipy import sparse

from nanfold.chunked import RowBlocks, check_chunks
from nanfold.observed.opening import as_values, observe_blocks, refuse_kind


@dataclasses.dataclass(frozen=True)
class ChunkedCells:
    """Cells in chunks, and what one pass over them says.

    Attributes
    ----------
    blocks : the chunks as CSR arrays
    nonzeros, depth : how many entries of each cell are not zero, and their sum
    gene_cells : how many cells have each gene
    largest, whole : the largest entry, and whether all are whole numbers
    bad : rows of (cell, gene, value), the first of each chunk that is no count: negative or not finite
    """

    blocks: RowBlocks
    nonzeros: np.ndarray
    depth: np.ndarray
    gene_cells: np.ndarray
    largest: float
    whole: bool
    bad: np.ndarray

    @classmethod
    def read(cls, X: Any) -> Self:
        """Look at a Dask array once."""
        return cls._look(RowBlocks(X).then(_as_csr, shared=[np.dtype(np.float32 if X.dtype == np.float32 else float)]))

    @classmethod
    def _look(cls, blocks: RowBlocks) -> Self:
        (nonzeros, depth, of_blocks, bad), (gene_cells,) = blocks.map_add(_totals)
        largest, whole = of_blocks[:, 0].max(), bool(of_blocks[:, 1].all())
        return cls(blocks, nonzeros, depth, gene_cells, float(largest), whole, bad)

    @property
    def shape(self) -> tuple[int, int]:
        """Cells and genes."""
        return len(self.nonzeros), len(self.gene_cells)

    def of_genes(self, chosen: np.ndarray) -> Self:
        """The same cells on some genes."""
        if chosen.all():
            return self
        columns = np.flatnonzero(chosen)
        blocks = self.blocks.then(_columns, shared=[columns])
        return self._look(blocks.narrowed(len(columns)))

    def comparable(self) -> Self:
        """log(1 + x) of the cells scaled to their median depth."""
        blocks = self.blocks.then(_scaled_log, [self.depth / np.median(self.depth)])
        return dataclasses.replace(self, blocks=blocks, whole=False)

    def sums_over(self, places: np.ndarray, total: int) -> tuple[np.ndarray, np.ndarray]:
        """How many cells of each cluster have each gene, and the sums; `places` are each cell's clusters of `total`."""
        _, (nonzeros, sums) = self.blocks.map_add(functools.partial(_cluster_sums, total=total), [places])
        return nonzeros, sums

    def matmul(self, V: np.ndarray) -> np.ndarray:
        """X V."""
        (out,), _ = self.blocks.map_add(_matmul, shared=[V])
        return out

    def observed(self) -> Any:
        """All of it as observed, centred."""
        return observe_blocks(self.blocks)


def columns_of_chunks(X: Any, chosen: np.ndarray) -> Any:
    """A Dask array of some columns of another, chunk by chunk, which sparse chunks can too."""
    check_chunks(X)
    columns = np.flatnonzero(chosen)
    meta = getattr(X, "_meta", np.zeros((0, 0)))[:, :0]
    return X.map_blocks(operator.itemgetter((slice(None), columns)), chunks=(X.chunks[0], (len(columns),)), meta=meta)


def cluster_sums(block: sparse.csr_array, places: np.ndarray, total: int) -> tuple[np.ndarray, np.ndarray]:
    """How many cells of each cluster have each gene, and the sums; `places` are each cell's clusters of `total`."""
    ones = np.ones(places.size)
    edges = np.arange(0, places.size + 1, places.shape[1])
    members = sparse.csr_array((ones, places.ravel(), edges), (len(places), total))
    pattern = sparse.csr_array(((block.data != 0).astype(np.float64), block.indices, block.indptr), block.shape)
    return (members.T @ pattern).toarray(), (members.T @ block).toarray()


def _as_csr(chunk: Any, start: int, by_row: tuple, shared: tuple) -> sparse.csr_array:
    refuse_kind(chunk, start)
    return sparse.csr_array(as_values(chunk, *shared))


def _columns(block: sparse.csr_array, start: int, by_row: tuple, shared: tuple) -> sparse.csr_array:
    return block[:, shared[0]]


def _scaled_log(block: sparse.csr_array, start: int, by_row: tuple, shared: tuple) -> sparse.csr_array:
    data = block.data / np.repeat(by_row[0], np.diff(block.indptr))
    return sparse.csr_array((np.log1p(data).astype(block.dtype), block.indices, block.indptr), block.shape)


def _matmul(block: sparse.csr_array, start: int, by_row: tuple, shared: tuple) -> tuple:
    return (block @ shared[0],), ()


def _cluster_sums(block: sparse.csr_array, start: int, by_row: tuple, shared: tuple, *, total: int) -> tuple:
    return (), cluster_sums(block, by_row[0], total)


def _totals(block: sparse.csr_array, start: int, by_row: tuple, shared: tuple) -> tuple:
    stored = block.data != 0
    rows = np.repeat(np.arange(block.shape[0]), np.diff(block.indptr))
    bad = np.flatnonzero(~(block.data >= 0) | np.isinf(block.data))[:1]
    wrong = np.stack([start + rows[bad], block.indices[bad], block.data[bad]], axis=1).astype(np.float64)
    depth = np.asarray(block.sum(axis=1, dtype=np.float64)).ravel()
    of_block = np.array([[block.data.max(initial=0), np.all(block.data % 1 == 0)]], dtype=np.float64)
    by_cell = np.bincount(rows, stored, block.shape[0])
    return (by_cell, depth, of_block, wrong), (np.bincount(block.indices, stored, block.shape[1]),)
