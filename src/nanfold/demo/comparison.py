"""Four ways of doing PCA on data with holes, compared by how well the clusters are found again."""

import textwrap
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from sklearn import decomposition
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score
from threadpoolctl import threadpool_limits

from nanfold.datasets import hide, make_clusters
from nanfold.pca import PCA

N_COMPONENTS = 2
N_CLUSTERS = 3
KMEANS_STARTS = 30
SCALE = "Scale: how far apart the samples lie at all features, as a multiple of that with nothing hidden."


def _complete(X: np.ndarray, holed: np.ndarray, seed: int) -> np.ndarray:
    return decomposition.PCA(N_COMPONENTS, svd_solver="arpack", random_state=seed).fit_transform(X)


def _zeros(X: np.ndarray, holed: np.ndarray, seed: int) -> np.ndarray:
    return _complete(np.nan_to_num(holed), holed, seed)


def _means(X: np.ndarray, holed: np.ndarray, seed: int) -> np.ndarray:
    return _complete(np.where(np.isnan(holed), np.nanmean(holed, axis=0), holed), holed, seed)


def _nanfold(X: np.ndarray, holed: np.ndarray, seed: int) -> np.ndarray:
    return PCA(N_COMPONENTS, random_state=seed).fit_transform(holed)


# What each is called, and its scores from the complete data (which only the first may see) and the data with holes.
METHODS: dict[str, Callable[[np.ndarray, np.ndarray, int], np.ndarray]] = {
    "nothing hidden": _complete,
    "holes set to zero": _zeros,
    "holes set to the mean": _means,
    "nanfold": _nanfold,
}


@dataclass(frozen=True)
class Comparison:
    """What the demonstration found.

    Attributes
    ----------
    n_samples, n_features, n_draws, seed : the settings
    share_hidden : the share of entries that were hidden, over all draws
    sizes : numbers of features that were tried
    ari : (methods, sizes, draws) array of adjusted Rand indices
    scale : (methods, draws) array of the root mean square of the scores at all features, over that of the first method
    scores : the scores of each method at all features in the first draw, with signs that agree
    labels : the true clusters in the first draw
    """

    n_samples: int
    n_features: int
    n_draws: int
    seed: int
    share_hidden: float
    sizes: tuple[int, ...]
    ari: np.ndarray
    scale: np.ndarray
    scores: dict[str, np.ndarray]
    labels: np.ndarray

    @property
    def what(self) -> str:
        """What was simulated and hidden, in one sentence."""
        return (
            f"{self.n_samples} samples with {self.n_features} features, in {N_CLUSTERS} clusters; "
            f"{100 * self.share_hidden:.0f} % of the entries hidden."
        )

    @property
    def how(self) -> str:
        """How the methods are compared, in one sentence."""
        draws = f"the mean of {self.n_draws} draws" if self.n_draws > 1 else "one draw"
        return (
            f"How well k-means ({KMEANS_STARTS} starts) on {N_COMPONENTS} principal components finds the clusters "
            f"again: adjusted Rand index, {draws}; 1 is perfect, 0 is chance."
        )

    def as_text(self) -> str:
        """The table for the terminal."""
        width = max(map(len, METHODS)) + 2
        lines = [self.what, "", textwrap.fill(f"{self.how} {SCALE}", 80), ""]
        lines.append("features".ljust(width) + "".join(f"{size:>8}" for size in self.sizes) + "   scale")
        for name, row, scale in zip(METHODS, self.ari.mean(axis=2), self.scale.mean(axis=1), strict=True):
            lines.append(name.ljust(width) + "".join(f"{value:8.3f}" for value in row) + f"{scale:8.2f}")
        return "\n".join(lines)

    def as_csv(self) -> str:
        """Every adjusted Rand index, one a line."""
        lines = ["method,features,seed,ari"]
        for name, by_size in zip(METHODS, self.ari, strict=True):
            for size, draws in zip(self.sizes, by_size, strict=True):
                lines += [f"{name},{size},{self.seed + r},{value:.6f}" for r, value in enumerate(draws)]
        return "\n".join(lines) + "\n"


# Thousands of tiny steps of k-means on two columns: threads would spend their time waiting for one another.
@threadpool_limits.wrap(limits=1)
def compare(
    n_samples: int,
    n_features: int,
    n_draws: int,
    seed: int,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Comparison:
    """Simulate, hide and compare, `n_draws` times with seeds from `seed` on."""
    # 500, 1000, 2000 and 3000 of 3000, as in the paper.
    sizes = tuple(n_features * sixths // 6 for sixths in (1, 2, 4, 6))
    ari = np.empty((len(METHODS), len(sizes), n_draws))
    scale = np.empty((len(METHODS), n_draws))
    hidden = np.empty(n_draws)
    for r in reversed(range(n_draws)):  # the first last: its scores are kept
        X, labels = make_clusters(n_samples, n_features, n_clusters=N_CLUSTERS, random_state=seed + r)
        holed = hide(X, random_state=seed + r)
        hidden[r] = np.isnan(holed).mean()
        scores = {}
        for m, (name, method) in enumerate(METHODS.items()):
            for s, size in enumerate(sizes):
                scores[name] = method(X[:, :size], holed[:, :size], seed + r)
                ari[m, s, r] = _found_again(scores[name], labels, seed + r)
            scale[m, r] = np.linalg.norm(scores[name])
        progress(n_draws - r, n_draws)
    return Comparison(
        n_samples=n_samples,
        n_features=n_features,
        n_draws=n_draws,
        seed=seed,
        share_hidden=float(hidden.mean()),
        sizes=sizes,
        ari=ari,
        scale=scale / scale[0],
        scores=_with_common_signs(scores),
        labels=labels,
    )


def _found_again(scores: np.ndarray, labels: np.ndarray, seed: int) -> float:
    found = KMeans(N_CLUSTERS, n_init=KMEANS_STARTS, random_state=seed).fit_predict(scores)
    return adjusted_rand_score(labels, found)


def _with_common_signs(scores: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The sign of a component means nothing; here all agree with the first method's, so that pictures compare."""
    reference = next(iter(scores.values()))
    return {name: Z * np.where((Z * reference).sum(axis=0) < 0, -1.0, 1.0) for name, Z in scores.items()}
