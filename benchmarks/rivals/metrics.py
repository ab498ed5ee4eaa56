"""How near a method came: to the true loadings, to the neighbours in complete data, to the clusters."""

import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score
from sklearn.neighbors import NearestNeighbors

NEIGHBOURS = 15


def loading_error(found: np.ndarray, true: np.ndarray) -> float:
    """The sine of the largest principal angle between the spaces that two sets of loadings, (d, k), span."""
    basis, _ = np.linalg.qr(found)
    truth, _ = np.linalg.qr(true)
    # The part of the truth that is not found: exact for small angles, where 1 - cos^2 would round to nothing.
    return float(min(np.linalg.norm(truth - basis @ (basis.T @ truth), 2), 1.0))


def neighbour_recall(found: np.ndarray, true: np.ndarray, k: int = NEIGHBOURS) -> float:
    """The share of the k nearest neighbours by the true scores that are among the k nearest by those found."""
    nearest, wanted = (NearestNeighbors(n_neighbors=k).fit(Z).kneighbors(return_distance=False) for Z in (found, true))
    return float(np.mean([len(set(a) & set(b)) for a, b in zip(nearest, wanted, strict=True)])) / k


def cluster_ari(scores: np.ndarray, labels: np.ndarray) -> float:
    """The adjusted Rand index of k-means, with the true number of clusters and 10 starts."""
    found = KMeans(len(np.unique(labels)), n_init=10, random_state=0).fit_predict(scores)
    return float(adjusted_rand_score(labels, found))
