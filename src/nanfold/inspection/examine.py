"""All questions to one table, answered on a part of it where it is large."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from nanfold.inspection.dependence import Dependence, dependence
from nanfold.inspection.heterogeneity import Spread, spread_of
from nanfold.inspection.pattern import drawn, mask_of
from nanfold.inspection.rank_one import Fit, rank_one_fit
from nanfold.inspection.sharing import Sharing, sharing
from nanfold.io.table import Table
from nanfold.observed import Observed, observe

# What the tests look at, at most; they are repeated tens of times.
MOST_SAMPLES, MOST_FEATURES = 600, 1000
# Of pairs of samples, all features are looked at, up to this many entries.
MOST_ENTRIES = 20_000_000
# Below this share of observed entries the tests look at the fullest samples and features.
DENSE_ENOUGH = 0.1


@dataclass(frozen=True)
class Inspection:
    """What was found out about a table.

    Attributes
    ----------
    observed : the data with their holes
    rows, columns : the spread of the observed shares; None if the table has no holes
    fit : of the rank-one model; None if the table has no holes
    dependence : of holes on values; None if the table has no holes
    sharing : of features by pairs of samples
    tested : (samples, features) that the tests looked at
    """

    observed: Observed
    rows: Spread | None
    columns: Spread | None
    fit: Fit | None
    dependence: Dependence | None
    sharing: Sharing
    tested: tuple[int, int]

    @property
    def shape(self) -> tuple[int, int]:
        """(samples, features)."""
        return self.observed.shape


def examine(
    table: Table, seed: int = 0, progress: Callable[[float, str], None] = lambda share, what: None
) -> Inspection:
    """Look at where the holes of a table are."""
    rng = np.random.default_rng(seed)
    observed = observe(table.X, None, "unstored" if table.unstored else "nan")
    n, d = observed.shape
    few = drawn(n, max(min(MOST_SAMPLES, MOST_ENTRIES // d), 2), rng)
    shared = sharing(observed, mask_of(observed, few, np.arange(d)))
    if observed.complete:
        return Inspection(observed, None, None, None, None, shared, (0, 0))
    rows, columns = (
        _part(observed.row_counts, MOST_SAMPLES, d, rng),
        _part(observed.column_counts, MOST_FEATURES, n, rng),
    )
    what = "does the rank-one model fit"
    progress(0.05, what)
    fit = rank_one_fit(_without_empty(mask_of(observed, rows, columns)), rng, lambda s: progress(0.05 + 0.6 * s, what))
    then = "do holes depend on values"
    progress(0.65, then)
    depends = dependence(_dense(observed, rows, columns), rng, lambda s: progress(0.65 + 0.35 * s, then))
    return Inspection(
        observed=observed,
        rows=spread_of(observed.row_counts, d),
        columns=spread_of(observed.column_counts, n),
        fit=fit,
        dependence=depends,
        sharing=shared,
        tested=(len(rows), len(columns)),
    )


def _part(counts: np.ndarray, most: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """Positions to look at: drawn at random, or the fullest where so little is seen that a draw would be all holes."""
    if len(counts) <= most or counts.mean() / size >= DENSE_ENOUGH:
        return drawn(len(counts), most, rng)
    return np.sort(np.argsort(-counts, kind="stable")[:most])


def _without_empty(M: np.ndarray) -> np.ndarray:
    """The mask without rows and columns of which this part has seen nothing."""
    M = M[:, M.any(axis=0)]
    return M[M.any(axis=1)]


def _dense(observed: Observed, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """The values of some rows and columns, NaN in the holes."""
    out = np.empty((len(rows), len(columns)))
    for at, row in enumerate(rows):
        Y, M = observed.rows(int(row), int(row) + 1)
        out[at] = np.where(M[0, columns] > 0, Y[0, columns] + observed.mean[columns], np.nan)
    return out
