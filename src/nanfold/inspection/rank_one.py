"""Does the rank-one model fit: is what is observed a matter of the row and of the column, each on its own?

What the model leaves, M - P, scaled by row and column, has a largest singular value; if groups of rows have their own
groups of columns, it sticks out of that of masks drawn from the model. Thirty of those give its mean and its standard
deviation, and the law of Tracy and Widom, to which it tends, the shape of the tail.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import linalg, stats
from scipy.sparse.linalg import svds

N_DRAWS = 30
# The law of Tracy and Widom for real data: its mean and variance, and the shape of the gamma law that matches its skew.
MEAN, VARIANCE, SHAPE = -1.2065336, 1.6077810, 46.446
PAIRS_SHOWN = 1500
CLEARLY_BEYOND_ONE = 1.05
# Up to this many rows or columns all singular values are found at once.
DENSE = 60


@dataclass(frozen=True)
class Fit:
    """How well the rank-one model fits.

    Attributes
    ----------
    p_value : of a largest singular value as large, were the model true
    misfit : root mean square of how far the number of features two samples share is from what the model says, relative,
        beyond what chance makes of it (at least)
    beyond_one : the share of entries whose fitted probability is clearly above 1
    predicted, seen : of some pairs of samples, how many features they share
    """

    p_value: float
    misfit: float
    beyond_one: float
    predicted: np.ndarray
    seen: np.ndarray


def rank_one_fit(
    M: np.ndarray, rng: np.random.Generator, progress: Callable[[float], None] = lambda share: None
) -> Fit:
    """Test the rank-one model on a mask of 0 and 1 without empty rows or columns."""
    P = _fitted(M)
    own, mine = _largest(M, P), _pair_misfit(M)
    largest, misfits = np.empty(N_DRAWS), np.empty(N_DRAWS)
    fitted, shrunk = np.minimum(P, 1.0), np.minimum(_true_spread(M), 1.0)
    for t in range(N_DRAWS):
        drawn = (rng.random(M.shape, dtype=np.float32) < fitted).astype(np.float32)
        largest[t] = _largest(drawn, _fitted(drawn))
        misfits[t] = _pair_misfit((rng.random(M.shape, dtype=np.float32) < shrunk).astype(np.float32))
        progress((t + 1) / N_DRAWS)
    standard = (own - largest.mean()) / max(largest.std(ddof=1), 1e-12)
    predicted, seen = _pairs(M, rng)
    return Fit(
        p_value=_tail(standard),
        # Two standard deviations off, or the root would make much of what is chance.
        misfit=float(np.sqrt(max(mine - misfits.mean() - 2.0 * misfits.std(ddof=1), 0.0))),
        beyond_one=float(np.mean(P > CLEARLY_BEYOND_ONE)),
        predicted=predicted,
        seen=seen,
    )


def _tail(standard: float) -> float:
    """The probability above a standardised value under the law of Tracy and Widom, its mean and scale estimated.

    A gamma law of the same skew; for the estimated scale the tail is widened as Student's is over the normal's.
    """
    z = stats.norm.isf(stats.gamma.sf(standard * np.sqrt(SHAPE) + SHAPE, SHAPE)) if standard < 30 else standard
    return float(stats.t.sf(z / np.sqrt(1.0 + 1.0 / N_DRAWS), N_DRAWS - 1))


def _fitted(M: np.ndarray) -> np.ndarray:
    return np.outer(M.mean(axis=1), M.mean(axis=0) / M.mean())


def _true_spread(M: np.ndarray) -> np.ndarray:
    """The model's probabilities with factors that spread no more than the true ones do.

    Observed shares spread by chance too; masks drawn from them spread more than the mask itself, so that pairs of rows
    share more. (For the largest singular value that errs on the side of fitting, which is the better one.)
    """
    rows, columns = M.mean(axis=1, dtype=np.float64), M.mean(axis=0, dtype=np.float64)
    return np.outer(_shrunk(rows, M.shape[1]), _shrunk(columns, M.shape[0]) / M.mean(dtype=np.float64))


def _shrunk(shares: np.ndarray, size: int) -> np.ndarray:
    by_chance = float(np.mean(shares * (1.0 - shares))) / size
    kept = np.sqrt(max(1.0 - by_chance / max(float(shares.var()), 1e-12), 0.0))
    return shares.mean() + kept * (shares - shares.mean())


def _largest(M: np.ndarray, P: np.ndarray) -> float:
    """The square of the largest singular value of M - P after scaling, in units of max(n, d)."""
    P = np.minimum(P, 1.0)
    variance = P * (1.0 - P)
    total = variance.mean()
    if total == 0:
        return 0.0  # all is observed
    rows = variance.mean(axis=1, keepdims=True) / np.sqrt(total)
    columns = variance.mean(axis=0, keepdims=True) / np.sqrt(total)
    scale = np.sqrt(rows * columns)
    # Rows and columns that are always observed leave nothing.
    E = np.where(scale > 1e-6, (M - P) / np.maximum(scale, 1e-6), 0.0)
    if min(E.shape) <= DENSE:
        return float(linalg.norm(E, 2) ** 2) / max(E.shape)
    start = np.random.default_rng(0).standard_normal(min(E.shape))
    return float(svds(E, k=1, tol=1e-3, v0=start, return_singular_vectors=False)[0] ** 2) / max(E.shape)


def _shared(M: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How many features pairs of rows share, and what the rank-one model by moments says, both n x n."""
    n = len(M)
    f = M.mean(axis=0, dtype=np.float64)
    c = M.mean(axis=1, dtype=np.float64) / M.mean(dtype=np.float64)
    square_sum = float((n * f**2 - f).sum()) / (n - 1)
    return M @ M.T, np.outer(c, c) * max(square_sum, 1e-12)


def _pair_misfit(M: np.ndarray) -> float:
    seen, predicted = _shared(M)
    above = np.triu_indices(len(M), 1)
    # Weighted by what is predicted, or pairs that hardly share anything would decide.
    return float(((seen - predicted)[above] ** 2).sum() / (predicted[above] ** 2).sum())


def _pairs(M: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    seen, predicted = _shared(M)
    rows, columns = np.triu_indices(len(M), 1)
    chosen = rng.choice(len(rows), min(PAIRS_SHOWN, len(rows)), replace=False)
    at = rows[chosen], columns[chosen]
    return predicted[at], seen[at].astype(np.float64)
