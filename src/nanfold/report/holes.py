"""The map of holes: a small picture of what was observed."""

import numpy as np

from nanfold.observed import Observed
from nanfold.report.content import Holes

ROWS, COLUMNS = 120, 240


def holes_of(observed: Observed) -> Holes | None:
    """Shares observed in blocks of samples and features, both ordered by how much of them was; None without holes."""
    if observed.complete:
        return None
    n, d = observed.shape
    of_row, of_column = _blocks(observed.row_counts, ROWS), _blocks(observed.column_counts, COLUMNS)
    in_block = np.zeros((d, int(of_column.max()) + 1))
    in_block[np.arange(d), of_column] = 1.0
    by_row = observed.mask_matmul(in_block / in_block.sum(axis=0))
    share = np.zeros((int(of_row.max()) + 1, in_block.shape[1]))
    np.add.at(share, of_row, by_row)
    share /= np.bincount(of_row)[:, None]
    return Holes(
        np.clip(share, 0.0, 1.0),
        "samples, most observed first",
        "features, most observed first",
        f"{n} samples x {d} features, of which {100 * observed.share_observed:.1f} % was observed.",
    )


def _blocks(counts: np.ndarray, most: int) -> np.ndarray:
    """For each position its block, when all are ordered by count, the largest first."""
    length = len(counts)
    block = np.empty(length, dtype=np.intp)
    block[np.argsort(-counts, kind="stable")] = np.arange(length) * min(most, length) // length
    return block
