"""Filling the holes of a table, and how well that works on entries that are held out."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from nanfold.assist import HELD_OUT, HeldOut, best_rank
from nanfold.gram import UnbiasedGram
from nanfold.imputation.low_rank import LowRank, fit_low_rank
from nanfold.observation import RankOne
from nanfold.observed import Observed

# A dense table of more entries than this is not made.
MOST_ENTRIES = 500_000_000


@dataclass(frozen=True)
class Filled:
    """A table without holes.

    Attributes
    ----------
    X : (n, d) array, what was observed as it was, and the expectation in the holes
    deviation : (n, d) array, the standard deviation of what was filled in; 0 where observed
    model : what it comes from
    """

    X: np.ndarray
    deviation: np.ndarray
    model: LowRank


@dataclass(frozen=True)
class HeldOutCheck:
    """How well entries that were held out are foretold.

    Attributes
    ----------
    n_entries : how many there were
    error, error_of_means : root mean square errors, and those of the features' means
    within_one, within_two : the shares that lie within 1 and 1.96 standard deviations; 68 % and 95 % are wanted
    """

    n_entries: int
    error: float
    error_of_means: float
    within_one: float
    within_two: float


def held_out_rank(observed: Observed, rng: np.random.Generator) -> int:
    """The rank that predicts held-out entries best, at least 1."""
    training, held = HeldOut.draw(observed, HELD_OUT, rng)
    if not len(held.values):
        return 1
    return max(best_rank(UnbiasedGram(training, RankOne().fit(training)), held, rng)[0], 1)


def check_on_held_out(observed: Observed, rank: int, rng: np.random.Generator) -> HeldOutCheck | None:
    """Hide some entries and foretell them; None where none can be spared."""
    training, rows, columns, values = observed.hold_out(HELD_OUT, rng)
    if not len(values):
        return None
    mean, variance = fit_low_rank(training, rank, rng).predict_entries(rows, columns)
    away = np.abs(values - mean) / np.sqrt(variance)
    return HeldOutCheck(
        n_entries=len(values),
        error=float(np.sqrt(np.mean((values - mean) ** 2))),
        error_of_means=float(np.sqrt(np.mean(values**2))),
        within_one=float(np.mean(away <= 1.0)),
        within_two=float(np.mean(away <= 1.96)),
    )


def fill(
    X: Any,
    observed: Observed,
    rank: int,
    rng: np.random.Generator,
    progress: Callable[[float], None] = lambda share: None,
) -> Filled:
    """Fill the holes of X, which is what `observed` was made of: a dense array with NaN, or a sparse one."""
    n, d = observed.shape
    if n * d > MOST_ENTRIES:
        raise ValueError(
            f"A table of {n} x {d} without holes has {n * d:.2g} entries, more than the {MOST_ENTRIES:.0e} that are "
            "filled at once; take a part of the rows, or nanfold.PCA and its inverse_transform for those that you need."
        )
    model = fit_low_rank(observed, rank, rng)
    out, deviation = np.empty((n, d), dtype=X.dtype), np.zeros((n, d), dtype=X.dtype)
    blocks = observed.row_blocks()
    for start, stop in blocks:
        mean, variance = model.predict(start, stop)
        seen = observed.rows(start, stop)[1] > 0
        values = X[start:stop].toarray() if sparse.issparse(X) else X[start:stop]
        out[start:stop] = np.where(seen, values, mean + observed.mean)
        deviation[start:stop] = np.where(seen, 0.0, np.sqrt(variance))
        progress(stop / n)
    return Filled(out, deviation, model)
