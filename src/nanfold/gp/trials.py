"""Which of several starts to climb from: the one from which a short climb, on few samples, comes highest.

The objective has many local optima, and the first iterations decide which one a climb ends in. A trial of a few dozen
iterations tells them apart, and so do a few hundred samples: trials cost the same however many samples there are.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nanfold.gp.climb import climb
from nanfold.gp.geodesic import even_rows
from nanfold.gp.problem import Factor, SingularCovarianceError
from nanfold.gp.start import Start

TRIAL_ITERATIONS = 30
TRIAL_SAMPLES = 300
TRIAL_TOLERANCE = 1e-6


def choose(factor: Factor, starts: Sequence[Start], noise_floor: float) -> Start:
    """Return the best start; the first of those that are equally good."""
    if len(starts) == 1:
        return starts[0]
    rows = even_rows(factor.n, TRIAL_SAMPLES)
    sample = _sample(factor, rows)
    return starts[int(np.argmax([_height(sample, start, rows, noise_floor) for start in starts]))]


def _sample(factor: Factor, rows: np.ndarray) -> Factor:
    """Some of the samples, with their share of the trace that Z does not hold."""
    Z = factor.Z[rows]
    residual = factor.residual * len(rows) / factor.n
    return Factor(Z, factor.d, float(np.vdot(Z, Z)) + residual).compact()


def _height(sample: Factor, start: Start, rows: np.ndarray, noise_floor: float) -> float:
    point = start.point._replace(X=start.point.X[rows])
    try:
        return climb(sample, point, noise_floor, TRIAL_ITERATIONS, TRIAL_TOLERANCE)[1].objective
    except SingularCovarianceError:
        # a climb that would begin there says so, unless there is a better start
        return -np.inf
