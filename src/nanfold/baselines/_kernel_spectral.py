"""Spectral clustering with a Gaussian kernel whose width is tried out, as scImpute groups its cells."""

import numpy as np
from scipy.linalg import eigh
from scipy.spatial.distance import pdist, squareform
from sklearn.cluster import KMeans

SUBSAMPLE = 0.75
WIDEST_RANGE = 1e4
"""A width is passed over if degree^(-1/2) ranges over more than this."""


def spectral_clusters(scores: np.ndarray, n_clusters: int, random_state: np.random.RandomState) -> np.ndarray:
    """Group the rows of scores; return a label from 0 to n_clusters - 1 for each.

    The kernel's width is the one whose embedding of a random 75 % of the rows k-means fits best.
    """
    if int(SUBSAMPLE * len(scores)) < n_clusters:
        raise ValueError(
            f"{len(scores)} cells, outliers left out, are too few for {n_clusters} clusters: give a smaller n_clusters."
        )
    squared = squareform(pdist(scores, "sqeuclidean"))
    chosen = random_state.choice(len(scores), int(SUBSAMPLE * len(scores)), replace=False)
    trial = squared[np.ix_(chosen, chosen)]
    spread = {}
    for width in kernel_widths(np.sqrt(trial)):
        embedding = _embedding(trial, width, n_clusters)
        if embedding is not None:
            spread[width] = _kmeans(embedding, n_clusters, random_state).inertia_
    embedding = _embedding(squared, min(spread, key=spread.__getitem__), n_clusters) if spread else None
    if embedding is None:
        raise ValueError(
            "Spectral clustering found no kernel width at which every cell has a neighbour: leave out cells far from "
            "all others, or give clusters."
        )
    return _kmeans(embedding, n_clusters, random_state).labels_


def kernel_widths(D: np.ndarray) -> np.ndarray:
    """Return the widths to try for distances D: dense around their mean, coarse out to the smallest and largest."""
    apart = D[D > 0]
    if not len(apart):
        raise ValueError("All cells are equal, and cannot be clustered: give clusters.")
    smallest, largest, mean = apart.min(), D.max(), D.mean()
    low, high = max(mean / 2, smallest), min(2 * mean, largest)
    return np.concatenate(
        [
            2 ** _half_steps(np.log2(smallest), np.log2(low) - 0.5),
            _steps(low, 0.9 * mean, 0.05 * mean),
            _steps(mean, high, 0.08 * mean),
            2 ** _half_steps(np.log2(high) + 0.5, np.log2(largest)),
        ]
    )


def _half_steps(start: float, stop: float) -> np.ndarray:
    return _steps(start, stop, min(0.5, stop - start))


def _steps(start: float, stop: float, step: float) -> np.ndarray:
    """Return start, start + step, ... up to stop; nothing where stop is not beyond start."""
    if stop <= start:
        return np.empty(0)
    return start + step * np.arange(int((stop - start) / step + 1e-10) + 1)


def _embedding(squared: np.ndarray, width: float, n_clusters: int) -> np.ndarray | None:
    """Return the first eigenvectors of D^-1/2 K D^-1/2 with rows of length 1, or None where the degrees forbid it."""
    K = np.exp(-squared / (2 * width**2))
    np.fill_diagonal(K, 0)
    with np.errstate(divide="ignore"):
        scale = 1 / np.sqrt(K.sum(axis=1))
    if not np.isfinite(scale).all() or np.ptp(scale) >= WIDEST_RANGE:
        return None
    n = len(K)
    vectors = eigh(scale[:, None] * K * scale, subset_by_index=(n - n_clusters, n - 1))[1]
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def _kmeans(embedding: np.ndarray, n_clusters: int, random_state: np.random.RandomState) -> KMeans:
    return KMeans(n_clusters, init="random", n_init=1, max_iter=200, random_state=random_state).fit(embedding)
