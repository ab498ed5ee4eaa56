"""Is every entry as likely to be observed as any other? Counts of rows or columns against one binomial law."""

from dataclasses import dataclass

import numpy as np
from scipy import stats


@dataclass(frozen=True)
class Spread:
    """How far counts spread.

    Attributes
    ----------
    p_value : of a spread as large if all entries were equally likely to be observed
    spread : standard deviation of the observed shares
    expected : what it would be then
    """

    p_value: float
    spread: float
    expected: float


def spread_of(counts: np.ndarray, size: int) -> Spread:
    """Test whether counts, each out of `size`, come from one binomial law.

    The statistic is Pearson's, sum (n_i - m)^2 / (size p q). Its law is a gamma with its mean and its variance,
    (len - 1)(2 + (1 - 6 p q) / (size p q)), which is chi-squared for large counts and holds for small ones too.
    """
    counts = np.asarray(counts, dtype=np.float64)
    p = counts.mean() / size
    expected = float(np.sqrt(p * (1.0 - p) / size))
    spread = float((counts / size).std(ddof=1))
    if not 0.0 < p < 1.0:
        return Spread(1.0, spread, expected)
    pq = p * (1.0 - p)
    freedom = len(counts) - 1
    statistic = float(((counts - counts.mean()) ** 2).sum() / (size * pq))
    variance = freedom * max(2.0 + (1.0 - 6.0 * pq) / (size * pq), 0.1)
    return Spread(float(stats.gamma.sf(statistic, freedom**2 / variance, scale=variance / freedom)), spread, expected)
