"""Clusterings of cells for the dropout rules: k-means and spectral clustering without a dense cells x genes array."""

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.metrics import euclidean_distances, pairwise_distances_argmin

from nanfold._cells import ChunkedCells, cluster_sums
from nanfold._threads import even_blocks
from nanfold.gram import UnbiasedGram
from nanfold.observation import Homogeneous
from nanfold.observed import CountsObserved, Observed, StructuredMask
from nanfold.observed.contract import PANEL_VALUES
from nanfold.spectrum import eigenpairs, krylov_eigenpairs

# Residuals of the components relative to their eigenvalues: loose, because the last components lie among the noise,
# where no eigenvalue stands out and any direction will do.
COMPONENT_TOLERANCE = 0.03
# Residuals of the spectral embedding, whose eigenvalues lie in [-1, 1].
EMBEDDING_TOLERANCE = 1e-5
N_STARTS = 10
# Cells whose variance is below this share of their squares are equal up to rounding.
SMALLEST_VARIANCE = 1e-12


@dataclass(frozen=True)
class CellSpace:
    """Cells on their leading principal components, and how far off that plane each one lies.

    The parts of two cells outside of the leading components are close to orthogonal, so that the squared distance over
    all genes is |z_i - z_j|^2 + rest_i + rest_j to a good approximation, and exactly so when no component is left out.

    Attributes
    ----------
    scores : (n, p) scores z_i
    rest : (n,) squared norm of what the components leave of each centred cell
    """

    scores: np.ndarray
    rest: np.ndarray

    def squared_distances(self, cells: np.ndarray) -> np.ndarray:
        """Squared distances over all genes between some of the cells."""
        out = euclidean_distances(self.scores[cells], squared=True)
        out += self.rest[cells, None]
        out += self.rest[None, cells]
        np.fill_diagonal(out, 0.0)
        return out


def cell_space(X: sparse.csr_array | ChunkedCells, n_components: int | None, rng: np.random.Generator) -> CellSpace:
    """The leading principal components of X, all of them if `n_components` is None or exceeds what there is."""
    n, d = X.shape
    most = min(n, d)
    p = most if n_components is None else min(n_components, most)
    if isinstance(X, ChunkedCells):
        return _space_of_chunks(X, p, rng)
    nothing_missing = StructuredMask(np.zeros(n, dtype=np.int64), np.ones((1, d), dtype=np.float32))
    Y = CountsObserved(X, nothing_missing, None)
    _refuse_equal(Y)
    pairs = krylov_eigenpairs(lambda V: Y.matmul(Y.rmatmul(V)), n, p, tol=COMPONENT_TOLERANCE, rng=rng)
    scores = pairs.vectors * np.sqrt(np.maximum(pairs.values, 0.0))
    rest = np.maximum(Y.row_squares - np.einsum("ip,ip->i", scores, scores), 0.0)
    return CellSpace(scores, rest)


def _space_of_chunks(X: ChunkedCells, p: int, rng: np.random.Generator) -> CellSpace:
    """The same by the solver that reads the data once a step."""
    observed = X.observed()
    _refuse_equal(observed)
    gram = UnbiasedGram(observed, Homogeneous().fit(observed))
    pairs = eigenpairs(gram, p, tol=COMPONENT_TOLERANCE, rng=rng)
    scores = pairs.vectors * np.sqrt(np.maximum(pairs.values * X.shape[1], 0.0))
    return CellSpace(scores, np.maximum(observed.row_squares - np.einsum("ip,ip->i", scores, scores), 0.0))


def _refuse_equal(Y: Observed) -> None:
    if Y.row_squares.sum() <= SMALLEST_VARIANCE * len(Y.row_squares) * (Y.mean @ Y.mean):
        raise ValueError("All cells are equal, so there are no clusters to find; give labels, or other cells.")


def kmeans_labels(scores: np.ndarray, k: int, large: bool, random_state: np.random.RandomState) -> np.ndarray:
    """Cluster rows into k by k-means, by mini-batches of them if there are many."""
    if large:
        return MiniBatchKMeans(k, batch_size=4096, n_init=N_STARTS, random_state=random_state).fit_predict(scores)
    return KMeans(k, n_init=N_STARTS, random_state=random_state).fit_predict(scores)


def spectral_embedding(squared_distances: np.ndarray, n_neighbors: int, k: int, rng: np.random.Generator) -> np.ndarray:
    """The k leading eigenvectors of D^-1 A with A_ij = exp(-dist^2 / (2 h^2)), A_ii = 0.

    h is the mean distance to the nearest neighbour of rank `n_neighbors`. The distances are overwritten.
    """
    n = len(squared_distances)
    # Each row begins with the cell itself, at distance 0.
    near = np.partition(squared_distances, min(n_neighbors, n - 1), axis=1)[:, min(n_neighbors, n - 1)]
    h = np.sqrt(near).mean()
    # Equal cells are at a distance of some rounding from each other.
    if h <= 1e-6 * np.sqrt(squared_distances.mean()):
        raise ValueError(
            f"Every cell has {n_neighbors} others equal to it, so spectral clustering sees no distances; drop repeated "
            "cells, or use methods=('kmeans',)."
        )
    A = squared_distances
    A /= -2.0 * h * h
    np.exp(A, out=A)
    np.fill_diagonal(A, 0.0)
    degree = A.sum(axis=1)
    # A cell so far from all others that its affinities vanish stays where its row of zeros puts it, at the origin.
    root = np.sqrt(np.where(degree > 0, degree, 1.0))
    A /= root[:, None]
    A /= root[None, :]
    # Those of I + A: residuals are relative to eigenvalues, and A's own may vanish.
    return krylov_eigenpairs(lambda V: V + A @ V, n, k, tol=EMBEDDING_TOLERANCE, rng=rng).vectors / root[:, None]


def cluster_cells(
    X: sparse.csr_array | ChunkedCells,
    n_clusters: tuple[int, ...],
    methods: tuple[str, ...],
    *,
    n_components: int | None,
    n_neighbors: int,
    max_dense: int,
    random_state: np.random.RandomState,
) -> np.ndarray:
    """Cluster the rows of X by every method into every number of clusters: an array of cells x clusterings."""
    rng = np.random.default_rng(random_state.randint(2**31))
    space = cell_space(X, n_components, rng)
    n = len(space.scores)
    columns = []
    for method in methods:
        if method == "kmeans":
            columns += [kmeans_labels(space.scores, k, n > max_dense, random_state) for k in n_clusters]
        else:
            cells = np.arange(n) if n <= max_dense else np.sort(rng.choice(n, max_dense, replace=False))
            U = spectral_embedding(space.squared_distances(cells), n_neighbors, max(n_clusters), rng)
            columns += [_spread(kmeans_labels(U[:, :k], k, False, random_state), cells, space) for k in n_clusters]
    # Mini-batches, and repeated cells, can leave clusters without any cell: the others are numbered without gaps.
    return np.stack([np.unique(labels, return_inverse=True)[1] for labels in columns], axis=1).astype(np.int64)


def _spread(labels: np.ndarray, cells: np.ndarray, space: CellSpace) -> np.ndarray:
    """From the labels of some cells to those of all: the others join the cluster whose mean is nearest."""
    if len(cells) == len(space.scores):
        return labels
    out = np.empty(len(space.scores), dtype=labels.dtype)
    names, codes = np.unique(labels, return_inverse=True)
    sizes = np.bincount(codes)
    means = np.stack([np.bincount(codes, column) for column in space.scores[cells].T], axis=1) / sizes[:, None]
    out[:] = names[pairwise_distances_argmin(space.scores, means)]
    out[cells] = labels
    return out


class ClusterSummaries:
    """What the clusters of several clusterings hold: shares of zeros, and means, for every gene.

    Cluster a of clustering c has row ``offsets[c] + a``.
    """

    def __init__(self, X: sparse.csr_array | ChunkedCells, labels: np.ndarray) -> None:
        """One pass over the stored entries of X; `labels` numbers the clusters of each column from 0 on."""
        n = len(labels)
        counts = labels.max(axis=0) + 1
        self.offsets = np.concatenate(([0], np.cumsum(counts)))
        total = int(self.offsets[-1])
        places = labels + self.offsets[:-1]
        if isinstance(X, ChunkedCells):
            nonzeros, sums = X.sums_over(places, total)
        else:
            nonzeros, sums = np.zeros((total, X.shape[1])), np.zeros((total, X.shape[1]))
            for start, stop in even_blocks(n, max(1, PANEL_VALUES * n // max(X.nnz, 1))):
                for out, more in zip(
                    (nonzeros, sums), cluster_sums(X[start:stop], places[start:stop], total), strict=True
                ):
                    out += more
        sizes = np.bincount(places.ravel(), minlength=total)[:, None]
        self.zero_shares = (sizes - nonzeros) / sizes
        self.overall_zero_shares = 1.0 - nonzeros[: self.offsets[1]].sum(axis=0) / n
        self.means = sums / sizes

    def nearest(self, X: sparse.csr_array | ChunkedCells) -> np.ndarray:
        """The cluster of each clustering whose mean over all genes is nearest, for every row of X."""
        products = X.matmul(self.means.T) if isinstance(X, ChunkedCells) else X @ self.means.T
        # |x - m|^2 = |x|^2 - 2 x.m + |m|^2, and |x|^2 is the same for all clusters.
        gaps = np.einsum("as,as->a", self.means, self.means) - 2.0 * products
        edges = zip(self.offsets[:-1], self.offsets[1:], strict=True)
        return np.stack([np.argmin(gaps[:, a:b], axis=1) for a, b in edges], axis=1)
