"""scImpute inside one group of cells: which genes it uses, which entries are dropouts, and what takes their place."""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh
from scipy.optimize import nnls
from scipy.stats import gamma, norm

from nanfold.baselines._mixture import dropout_probability, fit_mixtures

FEWEST_GENES = 11
LOWEST_MEAN = np.log10(2.01)
MOST_NEIGHBOURS = 500
RANK = 1e-12
"""Eigenvalues of less than this share of the largest are rounding."""


@dataclass
class ImputedGroup:
    """One group of cells: the parameters of all genes, which are usable, and their entries (cells x usable genes)."""

    parameters: np.ndarray
    usable: np.ndarray
    probability: np.ndarray
    imputed: np.ndarray


def impute_group(y: np.ndarray, D: np.ndarray, drop_threshold: float) -> ImputedGroup:
    """Fit the mixtures of y (cells x genes, log10) and impute the dropouts of each cell from the others.

    D holds the distances between the cells.
    """
    parameters = fit_mixtures(y)
    usable = np.flatnonzero(usable_genes(parameters))
    if len(usable) < FEWEST_GENES:
        usable = usable[:0]
    S = y[:, usable]
    probability = dropout_probability(S, parameters[usable])
    # A value above the mean of the expressed ones is no dropout, whatever the Gamma's tail says.
    expressed = parameters[usable, 3]
    probability[(probability > drop_threshold) & (expressed < S)] = 0
    imputed = np.array(
        [impute_cell(S, cell, dropouts, D[cell]) for cell, dropouts in enumerate(probability > drop_threshold)]
    )
    # No imputed value exceeds the gene's largest in the group.
    return ImputedGroup(parameters, usable, probability, np.minimum(imputed, S.max(axis=0)))


def usable_genes(parameters: np.ndarray) -> np.ndarray:
    """Return which genes have a fit, and one whose Normal stands for expression.

    Its mean must exceed 1 count per million, and where the mean is at most 1, the Normal must be denser than the Gamma
    at mean + 1.
    """
    _, a, b, mu, sigma = parameters.T
    with np.errstate(divide="ignore", invalid="ignore"):
        hidden = (mu <= 1) & (gamma.pdf(mu + 1, a, scale=1 / b) >= norm.pdf(mu + 1, mu, sigma))
    return ~np.isnan(parameters).any(axis=1) & (mu > LOWEST_MEAN) & ~hidden


def impute_cell(S: np.ndarray, cell: int, dropouts: np.ndarray, distances: np.ndarray) -> np.ndarray:
    """Return the cell (a row of S) with its dropouts predicted from other cells, by weights fitted on its other genes.

    Where there are fewer than two dropouts, two other genes or two neighbours, the cell stays as it is.
    """
    n_kept = int((~dropouts).sum())
    near = neighbours(distances, cell, n_kept)
    if min(n_kept, len(dropouts) - n_kept, len(near)) < 2:
        return S[cell]
    weights = nonnegative_weights(S[np.ix_(near, ~dropouts)], S[cell, ~dropouts])
    row = S[cell].copy()
    row[dropouts] = weights @ S[np.ix_(near, dropouts)]
    return row


def neighbours(distances: np.ndarray, cell: int, n_kept: int) -> np.ndarray:
    """Return the cells to predict from: all others, or the nearest ones if they are not fewer than the genes to fit."""
    others = np.delete(np.arange(len(distances)), cell)
    if len(others) < min(MOST_NEIGHBOURS, n_kept):
        return others
    most = MOST_NEIGHBOURS if n_kept > MOST_NEIGHBOURS else round(2 * n_kept / 3)
    return others[np.argsort(distances[others], kind="stable")[:most]]


def nonnegative_weights(A: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return w >= 0 that minimises |A' w - b|^2, with A (neighbours x genes) far wider than long.

    With A A' = V L V', |A' w - b|^2 is |L^(1/2) V' w - L^(-1/2) V' A b|^2 plus what w does not change.
    """
    values, vectors = eigh(A @ A.T)
    kept = values > RANK * values[-1]
    root = np.sqrt(values[kept])
    return nnls(root[:, None] * vectors[:, kept].T, vectors[:, kept].T @ (A @ b) / root)[0]
