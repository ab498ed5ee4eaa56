"""Whether one way of dealing with holes finds the classes better than another, over the same repetitions."""

from dataclasses import dataclass

import numpy as np

from nanfold.paper.tables import Entry

# Differences of the adjusted Rand index up to this are none, however sure they are.
NEGLIGIBLE = 0.02


@dataclass(frozen=True)
class Difference:
    """Of two entries: the mean over the repetitions that both have, its standard error, and how many there were."""

    mean: float
    error: float
    n: int

    @property
    def verdict(self) -> str:
        """ "better" or "worse" if it exceeds both what is negligible and two standard errors; else "level"."""
        least = NEGLIGIBLE if np.isnan(self.error) else max(NEGLIGIBLE, 2 * self.error)
        if abs(self.mean) <= least:
            return "level"
        return "better" if self.mean > 0 else "worse"


def difference(entry: Entry | None, other: Entry | None) -> Difference | None:
    """How much larger the adjusted Rand index of `entry` is; None if they have no repetition in common.

    A repetition has the same holes and seeds for both, so that the differences within repetitions are what counts.
    """
    if entry is None or other is None:
        return None
    both = sorted(entry.aris.keys() & other.aris.keys())
    if not both:
        return None
    differences = np.array([entry.aris[r] - other.aris[r] for r in both])
    error = float(differences.std(ddof=1) / np.sqrt(len(both))) if len(both) > 1 else np.nan
    return Difference(float(differences.mean()), error, len(both))
