"""How far embeddings agree on who is near whom."""

import numpy as np
from sklearn.neighbors import NearestNeighbors

NEIGHBOURS = 15
# Of so many samples the neighbours are compared.
MOST_ASKED = 2000


def neighbour_overlap(places: list[np.ndarray], seed: int = 0) -> tuple[np.ndarray, int]:
    """For every two embeddings the mean share of common nearest neighbours, and how many neighbours these are."""
    n = len(places[0])
    k = min(NEIGHBOURS, n - 1)
    asked = np.arange(n)
    if n > MOST_ASKED:
        asked = np.sort(np.random.default_rng(seed).choice(n, MOST_ASKED, replace=False))
    found = [_nearest(np.asarray(points, dtype=np.float64), asked, k) for points in places]
    out = np.eye(len(places))
    for a in range(len(places)):
        for b in range(a):
            common = [len(np.intersect1d(x, y, assume_unique=True)) for x, y in zip(found[a], found[b], strict=True)]
            out[a, b] = out[b, a] = float(np.mean(common)) / k
    return out, k


def _nearest(points: np.ndarray, asked: np.ndarray, k: int) -> np.ndarray:
    """Indices of the k nearest others."""
    near = NearestNeighbors(n_neighbors=k + 1).fit(points).kneighbors(points[asked], return_distance=False)
    # Itself need not come first where points coincide.
    others = [[j for j in row if j != i][:k] for i, row in zip(asked.tolist(), near.tolist(), strict=True)]
    return np.array(others)
