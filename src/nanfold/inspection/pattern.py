"""A part of the mask, dense, small enough for tests that are repeated many times."""

import numpy as np

from nanfold.observed import Observed


def drawn(length: int, most: int, rng: np.random.Generator) -> np.ndarray:
    """At most so many of the positions, in order, drawn at random."""
    return np.arange(length) if length <= most else np.sort(rng.choice(length, most, replace=False))


def mask_of(observed: Observed, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """The mask of some rows and columns, in single precision."""
    out = np.empty((len(rows), len(columns)), dtype=np.float32)
    for at, row in enumerate(rows):
        out[at] = observed.rows(int(row), int(row) + 1)[1][0, columns]
    return out
