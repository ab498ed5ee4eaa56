"""Probabilistic PCA of data with holes, with noise of its own for every feature and with uncertain loadings.

    y_is = m_s + w_s . z_i + e_is,   z_i ~ N(0, I),   e_is ~ N(0, noise_s)

The posteriors of the scores z_i and of the loadings (w_s, m_s) are normal and found in turn, each given the other
(variational Bayes), from the low-rank guess that assists the Gram matrix. The prior of the loadings has a variance for
every component, so that components which the data do not ask for vanish.
"""

from dataclasses import dataclass

import numpy as np

from nanfold._threads import even_blocks
from nanfold.assist import fit_baseline
from nanfold.gram import UnbiasedGram
from nanfold.observation import RankOne
from nanfold.observed import Observed
from nanfold.observed.contract import PANEL_VALUES

MOST_SWEEPS = 50
TOLERANCE = 1e-3
# The noise of a feature is averaged with that of all, which counts as so few entries that quiet features stay quiet.
NOISE_ENTRIES = 1.0


@dataclass
class LowRank:
    """The fitted model, for Y centred by the means of what is observed.

    Attributes
    ----------
    scores, score_covariances : (n, k) and (n, k, k), posterior means and covariances of z_i
    loadings, loading_covariances : (d, k + 1) and (d, k + 1, k + 1), of (w_s, m_s)
    noise : (d,) variances of the entries about the reconstruction
    n_sweeps : how often scores and loadings were found in turn
    """

    scores: np.ndarray
    score_covariances: np.ndarray
    loadings: np.ndarray
    loading_covariances: np.ndarray
    noise: np.ndarray
    n_sweeps: int = 0

    @property
    def rank(self) -> int:
        """How many components there are."""
        return self.scores.shape[1]

    def predict(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of every entry of the rows start:stop, were it observed (again)."""
        k = self.rank
        U = _with_one(self.scores[start:stop])
        b, d = len(U), len(self.loadings)
        W, D = self.loadings[:, :k], self.loading_covariances
        second = np.einsum("sa,sb->sab", W, W) + D[:, :k, :k]  # E[w w']
        variance = self.score_covariances[start:stop].reshape(b, k * k) @ second.reshape(d, k * k).T
        variance += np.einsum("ia,ib->iab", U, U).reshape(b, (k + 1) ** 2) @ D.reshape(d, (k + 1) ** 2).T
        return U @ self.loadings.T, variance + self.noise

    def predict_entries(self, rows: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same for single entries."""
        k = self.rank
        mean, variance = np.empty(len(rows)), np.empty(len(rows))
        for start, stop in even_blocks(len(rows), max(1, PANEL_VALUES // (k + 1) ** 2)):
            i, s = rows[start:stop], columns[start:stop]
            U, W, D = _with_one(self.scores[i]), self.loadings[s], self.loading_covariances[s]
            mean[start:stop] = np.einsum("pa,pa->p", U, W)
            C = self.score_covariances[i]
            w = W[:, :k]
            variance[start:stop] = np.einsum("pab,pa,pb->p", C, w, w) + np.einsum("pab,pab->p", C, D[:, :k, :k])
            variance[start:stop] += np.einsum("pab,pa,pb->p", D, U, U) + self.noise[s]
        return mean, variance


def fit_low_rank(observed: Observed, rank: int, rng: np.random.Generator) -> LowRank:
    """Fit the model with `rank` components, at least one."""
    gram = UnbiasedGram(observed, RankOne().fit(observed))
    model = _start(observed, *fit_baseline(observed, gram, rank, rng))
    squares = _column_squares(observed)
    for sweep in range(MOST_SWEEPS):
        before = model.noise
        _update_scores(model, observed)
        _update_loadings(model, observed, squares)
        model.n_sweeps = sweep + 1
        if np.mean(np.abs(model.noise - before) / before) <= TOLERANCE:
            break
    _update_scores(model, observed)
    return model


def _start(observed: Observed, U: np.ndarray, V: np.ndarray) -> LowRank:
    n, k = U.shape
    d = len(V)
    scale = np.sqrt(np.mean(U**2, axis=0))
    scale[scale == 0] = 1.0
    noise = observed.residual(U, V).row_squares.sum() / observed.row_counts.sum()
    floor = 1e-9 * observed.row_squares.sum() / observed.row_counts.sum()
    return LowRank(
        scores=U / scale,
        score_covariances=np.zeros((n, k, k)),
        loadings=np.hstack([V * scale, np.zeros((d, 1))]),
        loading_covariances=np.zeros((d, k + 1, k + 1)),
        noise=np.full(d, max(float(noise), float(floor), np.finfo(np.float64).tiny)),
    )


def _update_scores(model: LowRank, observed: Observed) -> None:
    """C_i = (I + sum_s M_is E[w w'] / noise_s)^-1, z_i = C_i sum_s M_is (y_is E[w] - E[w m]) / noise_s."""
    k = model.rank
    W, m = model.loadings[:, :k], model.loadings[:, k]
    precision = 1.0 / model.noise[:, None]
    cross = (W * m[:, None] + model.loading_covariances[:, :k, k]) * precision
    right = observed.matmul(W * precision) - observed.mask_matmul(cross)
    D = model.loading_covariances[:, :k, :k].reshape(-1, k * k) * precision
    n = observed.shape[0]
    uncertain = observed.mask_matmul(D).reshape(n, k, k)
    scaled = W * np.sqrt(precision)
    for start, stop in even_blocks(n, max(1, PANEL_VALUES // k**2)):
        A = observed.row_normals(scaled, start, stop) + uncertain[start:stop]
        A[:, np.arange(k), np.arange(k)] += 1.0
        C = np.linalg.inv(A)
        model.score_covariances[start:stop] = C
        model.scores[start:stop] = np.einsum("iab,ib->ia", C, right[start:stop])


def _update_loadings(model: LowRank, observed: Observed, squares: np.ndarray) -> None:
    """D_s = (prior + sum_i M_is E[u u'] / noise_s)^-1 with u = (z, 1), (w_s, m_s) = D_s sum_i M_is y_is u_i / noise_s.

    Then the noise: the mean over the observed entries of E[(y - u . w)^2].
    """
    k = model.rank
    n, d = observed.shape
    U = _with_one(model.scores)
    right = observed.rmatmul(U)
    C = observed.mask_rmatmul(model.score_covariances.reshape(n, k * k)).reshape(d, k, k)
    variances = np.mean(model.loadings**2 + np.einsum("saa->sa", model.loading_covariances), axis=0)
    prior = 1.0 / np.maximum(variances, 1e-9 * max(float(variances.max()), np.finfo(np.float64).tiny))
    left = np.empty(d)
    for start, stop in even_blocks(d, max(1, PANEL_VALUES // (k + 1) ** 2)):
        N = observed.column_normals(U, start, stop)
        N[:, :k, :k] += C[start:stop]
        noise = model.noise[start:stop, None, None]
        A = N / noise
        A[:, np.arange(k + 1), np.arange(k + 1)] += prior
        D = np.linalg.inv(A)
        w = np.einsum("sab,sb->sa", D, right[start:stop]) / noise[:, :, 0]
        model.loading_covariances[start:stop], model.loadings[start:stop] = D, w
        explained = 2.0 * np.einsum("sa,sa->s", w, right[start:stop])
        left[start:stop] = squares[start:stop] - explained + np.einsum("sab,sab->s", w[:, :, None] * w[:, None] + D, N)
    left = np.maximum(left, 0.0)
    counts = observed.column_counts
    overall = max(float(left.sum() / counts.sum()), 1e-12 * float(squares.sum() / counts.sum()))
    model.noise = (left + NOISE_ENTRIES * overall) / (counts + NOISE_ENTRIES)


def _column_squares(observed: Observed) -> np.ndarray:
    out = np.zeros(observed.shape[1])
    for start, stop in observed.row_blocks():
        Y = observed.rows(start, stop)[0]
        out += np.einsum("is,is->s", Y, Y)
    return out


def _with_one(Z: np.ndarray) -> np.ndarray:
    return np.hstack([Z, np.ones((len(Z), 1))])
