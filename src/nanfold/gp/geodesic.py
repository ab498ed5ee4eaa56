"""Latent positions that unfold a curved sheet: distances along a graph of neighbours, laid out in few dimensions.

Principal components fold a sheet that bends through many directions, and a search that begins folded stays so.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh
from scipy.sparse import csr_array
from scipy.sparse.csgraph import minimum_spanning_tree, shortest_path
from scipy.spatial.distance import cdist

from nanfold.gp.kernels import Array
from nanfold.gp.problem import Factor

NEIGHBORS = 10
#: So many samples at most make the graph, so that its cost does not grow with the others.
MOST_LANDMARKS = 1000
#: A sample outside the graph is placed at the mean of so many landmarks.
NEAREST_LANDMARKS = 3
#: Noise adds the same to every squared distance. The smallest is nearly all noise; this share of it is taken off.
NOISE_SHARE = 0.95
#: The least squared distance between two samples, as a share of the largest: duplicates are neighbours too.
LEAST_SHARE = 1e-12


def geodesic_positions(factor: Factor, n_components: int) -> Array | None:
    """Return positions at mean square one in each component, or None where a graph has not that many dimensions."""
    landmarks = even_rows(factor.n, MOST_LANDMARKS)
    Z = factor.Z[landmarks]
    distances = _distances_along(_graph(_without_noise(cdist(Z, Z, "sqeuclidean"))))
    X = _laid_out(distances, n_components)
    if X is None:
        return None
    if len(landmarks) < factor.n:
        X = _placed(factor.Z, Z, X)
    X -= X.mean(axis=0)
    return X / np.sqrt((X**2).mean(axis=0))


def signed(X: Array) -> Array:
    """The same with the entry of largest magnitude in each column positive, so that signs are determined."""
    return X * np.sign(X[np.abs(X).argmax(axis=0), np.arange(X.shape[1])])


def even_rows(n: int, most: int) -> np.ndarray:
    """All of n rows, or at most so many at even distances."""
    return np.arange(n) if n <= most else np.linspace(0, n - 1, most).round().astype(np.intp)


def _without_noise(squared: Array) -> Array:
    """Distances from squared ones; all are positive, since a graph takes zero for no link."""
    least = LEAST_SHARE * squared.max()
    np.fill_diagonal(squared, np.inf)
    squared -= NOISE_SHARE * squared.min()
    return np.sqrt(np.maximum(squared, least))


def _graph(distances: Array) -> csr_array:
    """Link each sample with its nearest ones, and what that leaves apart by the shortest bridges."""
    n = len(distances)
    k = min(NEIGHBORS, n - 1)
    linked = np.zeros((n, n), dtype=bool)
    np.put_along_axis(linked, np.argpartition(distances, k - 1, axis=1)[:, :k], True, axis=1)
    np.fill_diagonal(distances, 0)
    linked |= minimum_spanning_tree(csr_array(distances)).toarray() > 0
    linked |= linked.T
    return csr_array(np.where(linked, distances, 0))


def _distances_along(graph: csr_array) -> Array:
    return np.asarray(shortest_path(graph, method="D", directed=False))


def _laid_out(distances: Array, n_components: int) -> Array | None:
    """Classical scaling: the leading eigenvectors of the doubly centred squared distances."""
    B = -0.5 * distances**2
    B -= B.mean(axis=0)
    B -= B.mean(axis=1, keepdims=True)
    n = len(B)
    values, vectors = eigh(B, subset_by_index=[n - n_components, n - 1], check_finite=False)
    if values[0] <= 1e-12 * values[-1]:
        return None
    return signed((vectors * np.sqrt(values))[:, ::-1])


def _placed(Z: Array, landmarks: Array, X: Array) -> Array:
    """Every sample at the mean of the landmarks that are nearest to it."""
    out = np.empty((len(Z), X.shape[1]))
    norms = np.einsum("mr,mr->m", landmarks, landmarks)
    for start in range(0, len(Z), MOST_LANDMARKS):
        rows = slice(start, start + MOST_LANDMARKS)
        nearest = np.argpartition(norms - 2 * Z[rows] @ landmarks.T, NEAREST_LANDMARKS, axis=1)[:, :NEAREST_LANDMARKS]
        out[rows] = X[nearest].mean(axis=1)
    return out
