"""The loadings and the noise, given the scores: least squares, then a step of probabilistic PCA where there are holes.

The scores of a row with few entries are uncertain. Least squares takes them for exact, so that its loadings fit their
errors too, and their variance counts as the data's. The step that follows does not: it takes each score at its
posterior mean, as far as the row's entries carry it, and counts what is left uncertain among the squares of the scores.
"""

from typing import NamedTuple

import numpy as np

from nanfold.least_squares import solve_columns, solve_rows
from nanfold.observed import Observed
from nanfold.spectrum import Eigenpairs

# Up to this many components the loadings are exact least squares; beyond, the k x k system of every feature, whose cost
# grows with k^3, is replaced by its expectation.
EXACT_LOADINGS = 100


class Loadings(NamedTuple):
    """What the scores of a row and its entries have to do with each other.

    Attributes
    ----------
    components : (k, d) orthonormal loadings
    score_covariance : (k, k) of the scores of complete rows, of which noise is no part
    residual_variance : of one entry, beside the components
    """

    components: np.ndarray
    score_covariance: np.ndarray
    residual_variance: float


def fit_loadings(observed: Observed, pairs: Eigenpairs, residual_variance: float) -> Loadings:
    """Loadings for scores that are the eigenvectors of the Gram matrix.

    Parameters
    ----------
    observed : Y and M
    pairs : eigenpairs of the Gram matrix
    residual_variance : of one entry, roughly
    """
    n, d = observed.shape
    kept = varying(pairs.values, observed)
    values, U = pairs.values[kept], pairs.vectors[:, kept]
    V = _least_squares(observed, U, values, residual_variance)
    found = Loadings(V.T, np.diag(d * values / (n - 1)), residual_variance)
    if not observed.complete and len(values) <= EXACT_LOADINGS and _known_holes(observed):
        found = _probabilistic(observed, found)
    missing = int(np.sum(~kept))
    if missing:
        # Directions without variance: any that complete the basis will do.
        rest = _orthonormal_rest(found.components.T, missing).T
        covariance = np.pad(found.score_covariance, (0, missing))
        found = found._replace(components=np.vstack([found.components, rest]), score_covariance=covariance)
    return found


def varying(values: np.ndarray, observed: Observed) -> np.ndarray:
    """Which eigenvalues are above the rounding of the largest."""
    return values > max(observed.shape) * np.finfo(np.float64).eps * values[0]


def _known_holes(observed: Observed) -> bool:
    """Whether an entry is either there or not: what a weight between says of a score's variance, nobody knows."""
    return not observed.has_counts and np.array_equal(observed.column_squares, observed.column_counts)


def _least_squares(observed: Observed, U: np.ndarray, values: np.ndarray, residual_variance: float) -> np.ndarray:
    """Orthonormal loadings, (d, k): least squares of each feature on the scores, over the rows that have it.

    With unit scores u, feature s has loadings b_s of variance lambda; the ridge, residual variance over lambda, is
    scaled by the share of the column that is missing, so that complete data give Y'u.
    """
    n, d = observed.shape
    share = observed.column_counts / n
    if observed.complete:
        B = observed.rmatmul(U)
    elif len(values) <= EXACT_LOADINGS:
        ridge = np.outer(np.maximum(1.0 - share, 0.0), residual_variance / values)
        B = solve_columns(observed, U, ridge)
    else:
        B = observed.rmatmul(U) / share[:, None]
    return _nearest_orthonormal(B / np.sqrt(d * values))


def _nearest_orthonormal(B: np.ndarray) -> np.ndarray:
    """The matrix with orthonormal columns nearest to B, which keeps each loading with its component."""
    left, _, right = np.linalg.svd(B, full_matrices=False)
    return left @ right


def _probabilistic(observed: Observed, given: Loadings) -> Loadings:
    """One step of expectation maximisation for y_is = w_s . x_i + noise, x_i ~ N(0, I), from given loadings.

    The posterior covariance of x_i is noise (A_i + noise I)^-1 with A_i = sum_s M_is w_s w_s'. In its place stands that
    of a row with as many entries, but of the mean A: with axes along which both this mean and the scores' covariance
    are diagonal, it takes one number a row and axis. As the ridge of the scores, it is scaled by the share of the row
    that is missing, and leaves complete rows as they are.
    """
    n, d = observed.shape
    noise, counts = given.residual_variance, observed.row_counts[:, None]
    V = given.components.T
    to_scores, strength = _common_axes((V.T * observed.column_counts) @ V, given.score_covariance)
    W = V @ to_scores
    ridge = noise * np.maximum(1.0 - counts / d, 0.0)
    X = solve_rows(observed, W, ridge)
    squares, total = _uncertain_squares(observed, strength / observed.column_counts.sum(), ridge)
    second_moment = (X.T @ X + np.diag(total)) / n
    # The prior of the loadings, too, vanishes where nothing is missing.
    prior = np.outer(np.maximum(1.0 - observed.column_counts / n, 0.0), noise / np.mean(W**2, axis=0))
    right = observed.rmatmul(X)
    W = solve_columns(observed, X, squares + prior, right.copy())
    left = observed.row_squares.sum() - np.vdot(W, right) - np.vdot(prior, W**2)
    components = _nearest_orthonormal(W @ np.linalg.inv(to_scores))
    scale = components.T @ W
    return Loadings(components.T, scale @ second_moment @ scale.T, max(float(left / counts.sum()), 0.0))


def _uncertain_squares(observed: Observed, strength: np.ndarray, ridge: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The posterior variances of the scores along the axes, ridge / (counts strength + ridge), added up.

    Over the rows that have a column, (d, k), and over all, (k,).
    """
    variances = observed.row_counts[:, None] * strength
    variances += ridge
    np.divide(ridge, variances, out=variances)
    return observed.mask_rmatmul(variances), variances.sum(axis=0)


def _common_axes(design: np.ndarray, covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """T and g with T T' the covariance and T' design T = diag(g)."""
    root = np.linalg.cholesky(covariance)
    strength, axes = np.linalg.eigh(root.T @ design @ root)
    return root @ axes, strength


def _orthonormal_rest(V: np.ndarray, count: int) -> np.ndarray:
    """`count` orthonormal columns orthogonal to those of V."""
    guess = np.random.default_rng(0).standard_normal((len(V), count))
    for _ in range(2):
        guess -= V @ (V.T @ guess)
        guess, _ = np.linalg.qr(guess)
    return guess
