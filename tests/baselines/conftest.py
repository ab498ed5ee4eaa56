"""Counts for the single-cell baselines, small enough to fit in a moment."""

from typing import NamedTuple

import numpy as np
import pytest


class Counts(NamedTuple):
    X: np.ndarray  # cells x genes
    complete: np.ndarray  # the same before the dropouts
    labels: np.ndarray


@pytest.fixture(scope="session")
def counts() -> Counts:
    """Three kinds of 20 cells, 300 genes; small counts drop out more often."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(3), 20)
    level = rng.normal(4, 1, 300) + rng.normal(0, 1.2, (3, 300)) * (rng.random((3, 300)) < 0.3)
    complete = rng.negative_binomial(4, 4 / (4 + np.exp(level[labels]))).astype(float)
    kept = rng.random(complete.shape) > np.exp(-0.02 * complete)
    return Counts(complete * kept, complete, labels)
