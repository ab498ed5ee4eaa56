"""The data: clusters in a space of low rank seen through loadings with noise, then holes of three mechanisms."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nanfold.datasets import hide

SHAPES = {"tall": (2000, 100), "wide": (200, 1500), "square": (600, 600)}
MECHANISMS = ("rank-one", "mcar", "by-value")
SHARES = (0.37, 0.63, 0.80)
COMPONENTS = 5
CLUSTERS = 6
# Standard deviations of the scores, the strongest component's to the weakest's, and of the noise, in one entry.
STRENGTHS = (1.0, 0.5)
NOISE = 0.66
# The spread within a cluster beside that of the centres.
WITHIN = 0.3


@dataclass(frozen=True)
class Problem:
    """A table with holes, and the truth about it.

    Attributes
    ----------
    complete : (n, d) the data before anything was hidden
    X : (n, d) the same with NaN in the holes
    loadings : (d, k) orthonormal, of the space that the data without noise lie in
    labels : (n,) clusters
    """

    complete: np.ndarray
    X: np.ndarray
    loadings: np.ndarray
    labels: np.ndarray

    def save(self, path: Path) -> None:
        """What a rival gets to see, without the truth."""
        np.savez(path, X=self.X, n_components=self.loadings.shape[1])


@dataclass(frozen=True)
class Setting:
    """One row block of the results: a shape, a mechanism, a share of holes and a seed."""

    name: str
    n: int
    d: int
    mechanism: str
    share: float
    seed: int = 0

    def __str__(self) -> str:
        return f"{self.name}, {self.n} x {self.d}, {self.share:.0%} holes, {self.mechanism}"


# 37 % observed of a table that is not small any more.
LARGE = Setting("large", 10_000, 1_000, "rank-one", 0.63)


def grid(seed: int = 0) -> list[Setting]:
    """Every shape with every mechanism and share of holes."""
    return [
        Setting(name, n, d, mechanism, share, seed)
        for name, (n, d) in SHAPES.items()
        for mechanism in MECHANISMS
        for share in SHARES
    ]


def draw(setting: Setting) -> Problem:
    """The problem of a setting; the same seed gives the same data whatever is hidden of them."""
    rng = np.random.default_rng(setting.seed)
    n, d, k = setting.n, setting.d, COMPONENTS
    labels = np.sort(np.arange(n) % CLUSTERS)
    centres = rng.standard_normal((CLUSTERS, k))
    latent = centres[labels] + WITHIN * rng.standard_normal((n, k))
    # Uncorrelated scores, so that the strengths are what they are called.
    latent, _ = np.linalg.qr(latent - latent.mean(axis=0))
    latent *= np.sqrt(n * d) * np.linspace(*STRENGTHS, k)
    loadings, _ = np.linalg.qr(rng.standard_normal((d, k)))
    means = rng.uniform(2.0, 4.0, size=d)
    complete = latent @ loadings.T + means + NOISE * rng.standard_normal((n, d))
    return Problem(complete, hidden(complete, setting), loadings, labels)


def hidden(complete: np.ndarray, setting: Setting) -> np.ndarray:
    """The data with holes."""
    if setting.mechanism != "rank-one":
        return hide(complete, setting.share, mechanism=setting.mechanism, random_state=setting.seed)
    # P(hole) = b_i q_j as wide as it can be with none above 0.99.
    reach = min(0.2, 0.99 / setting.share - 1.0)
    spread = np.sqrt(1.0 + reach) - 1.0
    around = (0.5 * (1.0 - spread), 0.5 * (1.0 + spread))
    return hide(complete, setting.share, row_range=around, column_range=around, random_state=setting.seed)
