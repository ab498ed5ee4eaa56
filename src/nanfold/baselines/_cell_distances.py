"""scImpute's distances between cells: principal components of the variable genes, and the cells far from all others."""

import numpy as np
from scipy.linalg import eigh
from scipy.spatial.distance import pdist, squareform
from sklearn.decomposition import PCA

from nanfold._threads import even_blocks, run_blocks
from nanfold.baselines._mixture import ZERO

FEWEST_GENES = 500
FEWEST_COMPONENTS = 3
RANDOMISED_COMPONENTS = 1000


def variable_genes(y: np.ndarray) -> np.ndarray:
    """Return the genes with a mean of at least 1 and a coefficient of variation in the upper three quarters.

    Mean and deviation are those of the *set* of a gene's values other than ZERO: repeated values count once. All genes
    if fewer than 500 pass.
    """
    blocks = even_blocks(y.shape[1], 2048)
    mean, deviation = np.concatenate(run_blocks(lambda start, stop: _of_distinct(y[:, start:stop]), blocks), axis=1)
    variation = np.divide(deviation, mean, out=np.zeros_like(mean), where=mean != 0)
    kept = np.flatnonzero((mean >= 1) & (variation >= np.quantile(variation, 0.25)))
    return kept if len(kept) >= FEWEST_GENES else np.arange(y.shape[1])


def _of_distinct(y: np.ndarray) -> np.ndarray:
    """Return mean and standard deviation (0 where undefined) of the distinct values other than ZERO in each column."""
    values = np.sort(y.T, axis=1)
    distinct = values != ZERO
    distinct[:, 1:] &= values[:, 1:] != values[:, :-1]
    count = distinct.sum(axis=1)
    mean = np.sum(values, axis=1, where=distinct) / np.maximum(count, 1)
    squares = np.sum((values - mean[:, None]) ** 2, axis=1, where=distinct)
    return np.array([mean, np.sqrt(squares / np.maximum(count - 1, 1))])


def component_scores(
    y: np.ndarray, fewest: int, randomise_from: int, random_state: np.random.RandomState
) -> np.ndarray:
    """Return the scores of the rows of y on the principal components that carry 40 % of the variance.

    At least `fewest` of them. From `randomise_from` cells on, by randomised PCA, and 60 % of what its 1000 components
    carry.
    """
    if len(y) < randomise_from:
        share = 0.4
        scores, variances = _exact_components(y)
    else:
        share = 0.6
        pca = PCA(min(RANDOMISED_COMPONENTS, *y.shape), svd_solver="randomized", random_state=random_state)
        scores = pca.fit_transform(y)
        variances = pca.explained_variance_
    carried = np.cumsum(variances)
    n_components = np.searchsorted(carried, share * carried[-1], side="right") + 1
    return scores[:, : max(n_components, fewest, FEWEST_COMPONENTS)]


def _exact_components(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return scores U s and eigenvalues s^2, from the eigenvectors U of the Gram matrix of the centred cells."""
    centred = y - y.mean(axis=0)
    values, vectors = eigh(centred @ centred.T)
    values, vectors = np.maximum(values[::-1], 0), vectors[:, ::-1]
    return vectors * np.sqrt(values), values


def distances(scores: np.ndarray) -> np.ndarray:
    """Return the Euclidean distances between the rows."""
    return squareform(pdist(scores))


def far_cells(D: np.ndarray) -> np.ndarray:
    """Return the outliers: cells whose nearest neighbour is farther than Q3 + 1.5 (Q3 - Q1) of these distances."""
    nearest = np.min(D + np.diag(np.full(len(D), np.inf)), axis=1)
    first, third = np.quantile(nearest, (0.25, 0.75))
    return np.flatnonzero(nearest > third + 1.5 * (third - first))
