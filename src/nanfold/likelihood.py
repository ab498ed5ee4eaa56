"""The Gaussian log-likelihood of rows with holes under a low-rank plus constant-diagonal covariance."""

import numpy as np

from nanfold._threads import even_blocks
from nanfold.observed import Observed
from nanfold.observed.contract import PANEL_VALUES


def gaussian_log_likelihood(observed: Observed, W: np.ndarray, noise_variance: float) -> np.ndarray:
    """log N(y_o; 0, W_o W_o' + noise I) for the observed part o of every row.

    With A = W_o' W_o + noise I, k x k: log|C| = (|o| - k) log noise + log|A| and
    y'C^-1 y = (y'y - b' A^-1 b) / noise, where b = W_o' y.

    Parameters
    ----------
    observed : the centred rows, each entry seen or not
    W : (d, k) loadings times the root of their variance
    noise_variance : above 0, or 0 where W is square (the covariance is then inverted as it is)
    """
    if not np.array_equal(observed.column_squares, observed.column_counts):
        raise ValueError("Rows observed by weights between 0 and 1 have no likelihood; give a mask of 0 and 1.")
    W = np.ascontiguousarray(W, dtype=np.float64)
    if noise_variance == 0:
        return _without_noise(observed, W)
    n, k = observed.shape[0], W.shape[1]
    count, projections = observed.row_counts, observed.matmul(W)
    quadratic, logdet = np.empty(n), np.empty(n)
    for start, stop in even_blocks(n, max(1, PANEL_VALUES // k**2)):
        A = observed.row_normals(W, start, stop)
        A[:, np.arange(k), np.arange(k)] += noise_variance
        b = projections[start:stop]
        explained = np.einsum("ia,ia->i", b, np.linalg.solve(A, b[:, :, None])[:, :, 0])
        quadratic[start:stop] = (observed.row_squares[start:stop] - explained) / noise_variance
        logdet[start:stop] = np.linalg.slogdet(A)[1] + (count[start:stop] - k) * np.log(noise_variance)
    return -0.5 * (count * np.log(2.0 * np.pi) + logdet + quadratic)


def _without_noise(observed: Observed, W: np.ndarray) -> np.ndarray:
    d, k = W.shape
    if k < d:
        raise ValueError(
            f"The {k} components kept explain all the variance, so the likelihood has no noise to rest on; keep fewer "
            "components."
        )
    covariance = W @ W.T
    out = np.empty(observed.shape[0])
    for i in range(len(out)):
        y, mask = (block[0] for block in observed.rows(i, i + 1))
        seen = mask > 0
        C = covariance[np.ix_(seen, seen)]
        out[i] = -0.5 * (
            seen.sum() * np.log(2.0 * np.pi) + np.linalg.slogdet(C)[1] + y[seen] @ np.linalg.solve(C, y[seen])
        )
    return out
