"""Do holes depend on the values that are in them?

What is in a hole is not known, but a low-rank model says something about it. The cells, seen and unseen, are put into
folds; those of one fold are predicted from the seen ones of the others, so that whether a cell was seen has no part in
its prediction. If holes depend on the row and the column alone, what is seen then has nothing to do with the
prediction, beyond row and column. The score statistic of that, sum (M - P) z with z freed of row and column, is normal
with variance sum P (1 - P) z^2.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import stats

from nanfold.assist import HELD_OUT, HeldOut, best_rank, fit_baseline
from nanfold.gram import UnbiasedGram
from nanfold.observation import RankOne
from nanfold.observed import observe

N_FOLDS = 4
LEAST_SEEN = 4
SWEEPS = 30


@dataclass(frozen=True)
class Dependence:
    """How what is seen depends on values.

    Attributes
    ----------
    log_odds, error : change of the log odds of being seen for a prediction one standard deviation higher, beyond row
        and column, and its standard error
    p_value : of a change as large if holes depended on the row and the column alone
    rank : of the model that predicts; 0 if nothing predicts better than the mean, and then nothing is known
    correlation, correlation_p : Spearman's, over features, of the mean of what is seen and the share that is seen
    """

    log_odds: float
    error: float
    p_value: float
    rank: int
    correlation: float
    correlation_p: float


def dependence(
    X: np.ndarray, rng: np.random.Generator, progress: Callable[[float], None] = lambda share: None
) -> Dependence:
    """Test whether the holes (NaN) of a dense table depend on its values."""
    seen = ~np.isnan(X)
    correlation, correlation_p = _across_features(X, seen)
    folds = rng.integers(0, N_FOLDS, size=X.shape, dtype=np.int8)
    P = np.minimum(np.outer(seen.mean(axis=1), seen.mean(axis=0) / seen.mean()), 1.0)
    rank, score, information = None, 0.0, 0.0
    for fold in range(N_FOLDS):
        inside = folds == fold
        training = np.where(inside, np.nan, X)
        rows, columns = _seen_enough(training)
        cut = np.ix_(rows, columns)
        if min(cut[0].size, cut[1].size) < LEAST_SEEN:
            continue
        observed = observe(training[cut])
        plain = UnbiasedGram(observed, RankOne().fit(observed))
        if rank is None:
            rank = _rank(observed, rng)
        if rank == 0 or rank >= min(observed.shape):
            break
        U, V = fit_baseline(observed, plain, rank, rng)
        z = _beyond_row_and_column(U @ V.T, P[cut] * inside[cut])
        z /= np.sqrt(np.mean(z[inside[cut]] ** 2)) or 1.0
        here = inside[cut]
        score += float(((seen[cut] - P[cut]) * z)[here].sum())
        information += float((P[cut] * (1.0 - P[cut]) * z**2)[here].sum())
        progress((fold + 1) / N_FOLDS)
    if not rank or information <= 0:
        return Dependence(0.0, np.inf, 1.0, 0, correlation, correlation_p)
    error = 1.0 / np.sqrt(information)
    log_odds = score / information
    return Dependence(
        log_odds, error, float(2.0 * stats.norm.sf(abs(log_odds / error))), rank, correlation, correlation_p
    )


def _rank(observed: object, rng: np.random.Generator) -> int:
    training, held = HeldOut.draw(observed, HELD_OUT, rng)  # type: ignore[arg-type]
    if not len(held.values):
        return 0
    return best_rank(UnbiasedGram(training, RankOne().fit(training)), held, rng)[0]


def _seen_enough(training: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns that can be predicted, and predict: with some values left in each other."""
    seen = ~np.isnan(training)
    rows, columns = np.arange(len(seen)), np.arange(seen.shape[1])
    while True:
        part = seen[np.ix_(rows, columns)]
        good_rows, good_columns = part.sum(axis=1) >= LEAST_SEEN, part.sum(axis=0) >= LEAST_SEEN
        if good_rows.all() and good_columns.all():
            return rows, columns
        rows, columns = rows[good_rows], columns[good_columns]


def _beyond_row_and_column(z: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Z less a number a row and one a column, so that its weighted sums over rows and columns vanish."""
    z = z.copy()
    in_row, in_column = weights.sum(axis=1), weights.sum(axis=0)
    for _ in range(SWEEPS):
        z -= ((weights * z).sum(axis=1) / np.maximum(in_row, 1e-12))[:, None]
        z -= ((weights * z).sum(axis=0) / np.maximum(in_column, 1e-12))[None, :]
    return z


def _across_features(X: np.ndarray, seen: np.ndarray) -> tuple[float, float]:
    share = seen.mean(axis=0)
    means = np.where(seen, X, 0.0).sum(axis=0) / np.maximum(seen.sum(axis=0), 1)
    if len(share) < 4 or np.ptp(share) == 0 or np.ptp(means) == 0:
        return 0.0, 1.0
    found = stats.spearmanr(means, share)
    return float(found.statistic), float(found.pvalue)
