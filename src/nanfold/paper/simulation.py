"""The paper's simulation: three clusters, 40 % hidden, at more and more features (Figures 2 and 3)."""

import functools
from dataclasses import dataclass

import numpy as np

from nanfold.datasets import hide, make_clusters
from nanfold.paper.protocol import Batch, plan
from nanfold.paper.subject import Subject

PREFIX = "simulated-"
VARIANTS = ("complete", "plain", "corrected", "assisted", "mean")
# In so many draws all methods are done at all features; in the others PCA alone, at every number of features.
DRAWS_OF_ALL_METHODS = 3
N_COMPONENTS = 2
FEWEST_SAMPLES, FEWEST_FEATURES = 30, 60


@dataclass(frozen=True)
class Simulation:
    """Draws from the same three clusters, of which the first features are taken."""

    n_samples: int = 600
    n_features: int = 3000

    @property
    def sizes(self) -> tuple[int, ...]:
        """500, 1000, 2000 and 3000 of 3000 features, as in the paper."""
        return tuple(self.n_features * sixths // 6 for sixths in (1, 2, 4, 6))

    @property
    def names(self) -> tuple[str, ...]:
        """A set for each number of features."""
        return tuple(f"{PREFIX}{size}" for size in self.sizes)

    def fingerprint(self, name: str) -> str:
        """What tells it from other simulations."""
        return f"{self.n_samples} x {size_of(name)} of {self.n_features}, 3 classes"

    def subject(self, name: str, repetition: int) -> Subject:
        """The draw of this seed."""
        X, labels, hidden = _draw(self.n_samples, self.n_features, repetition)
        d = size_of(name)
        return Subject(X[:, :d], labels, repetition, n_components=N_COMPONENTS, hidden=hidden[:, :d])

    def plan(self, variants: list[str], methods: list[str], repetitions: int) -> list[Batch]:
        """PCA at every number of features in every draw, the other methods at all features in the first few."""
        everything = plan([(name, False) for name in self.names], variants, methods, repetitions)
        out = []
        for batch in everything:
            full = batch.data == self.names[-1] and batch.repetition < DRAWS_OF_ALL_METHODS
            kept = tuple(method for method in batch.methods if method == "pca" or full)
            if kept:
                out.append(Batch(batch.data, batch.variant, batch.repetition, kept))
        return out


def size_of(name: str) -> int:
    """How many features the simulated set of this name has."""
    return int(name.removeprefix(PREFIX))


@functools.lru_cache(maxsize=1)
def _draw(n_samples: int, n_features: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    X, labels = make_clusters(n_samples, n_features, random_state=seed)
    return X, labels, np.isnan(hide(X, random_state=seed))
