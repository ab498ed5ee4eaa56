"""A guess of the complete data that need not be of low rank: averages over the nearest neighbours.

What a low-rank baseline leaves is averaged over each sample's neighbours, weighted by how near they are. The neighbours
are those by corrected distance: first of the low-rank assistance, then once more of what was gained by smoothing. Where
the data lie on something curved, as images do, that is the better guess; and since the assisted Gram matrix is unbiased
whatever the guess, the better one only lowers its variance.
"""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from nanfold.assist import AssistedGram
from nanfold.gram import FormedGram, Gram, UnbiasedGram
from nanfold.observation import Factorised, ObservationModel
from nanfold.observed import Observed

# How many neighbours are averaged over, and the weight of a mean of zero beside theirs (the nearest weighs up to 1).
NEIGHBORS = 20
SHRINKAGE = 0.3
# Dense arrays of n x d and of n x n are formed: up to this many values in either.
MOST_VALUES = 20_000_000


@dataclass(frozen=True)
class LowRank:
    """A low-rank baseline: scores (n, q) and loadings (d, q), q may be 0."""

    U: np.ndarray
    V: np.ndarray

    @property
    def rank(self) -> int:
        """How many columns."""
        return self.U.shape[1]


class SmoothedGram(FormedGram):
    """The model-assisted Gram matrix of a dense baseline L: low rank plus averages over neighbours.

    With m_i = sum_s p_is and S_ij = sum_s p_is p_js it is that of ``AssistedGram``, and so is its expectation.

    Parameters
    ----------
    observed : Y and M
    model : the fitted model of p_is
    low_rank : the baseline that is smoothed upon
    squared : (n, n) squared distances that say who is near
    """

    def __init__(self, observed: Observed, model: ObservationModel, low_rank: LowRank, squared: np.ndarray) -> None:
        self.rank = low_rank.rank
        self.neighbors = min(NEIGHBORS, observed.shape[0] - 1)
        self.baseline, residual = smoothed(observed, low_rank, squared)
        self._residual_variance = float(np.vdot(residual, residual) / observed.row_counts.sum())
        super().__init__(observed, assisted_dense(model, self.baseline, residual))

    @property
    def residual_variance(self) -> float:
        return self._residual_variance


def smoothable(observed: Observed) -> bool:
    """Whether the data are small enough for a dense baseline."""
    n, d = observed.shape
    return n >= 3 and n * max(n, d) <= MOST_VALUES


def no_rank(observed: Observed) -> LowRank:
    """The baseline of rank 0: the means, which are zero after centring."""
    return LowRank(np.zeros((observed.shape[0], 0)), np.zeros((observed.shape[1], 0)))


def smoothed(observed: Observed, low_rank: LowRank, squared: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The dense baseline L, and what it leaves of the observed entries, M * (Y - L)."""
    Y, M = observed.rows(0, observed.shape[0])
    L = low_rank.U @ low_rank.V.T
    near = neighbor_weights(squared, min(NEIGHBORS, len(Y) - 1))
    L += (near @ (Y - M * L)) / (near @ M + SHRINKAGE)
    return L, Y - M * L


def neighbor_weights(squared: np.ndarray, k: int) -> sparse.csr_array:
    """Weights exp(-D_ij / h_i) of the k nearest others, with h_i the median of their squared distances D_ij.

    Squared distances that noise has made negative count as zero.
    """
    n = len(squared)
    others = np.maximum(squared, 0.0)
    np.fill_diagonal(others, np.inf)
    nearest = np.argpartition(others, k - 1, axis=1)[:, :k]
    near = np.take_along_axis(others, nearest, axis=1)
    width = np.maximum(np.median(near, axis=1, keepdims=True), np.finfo(np.float64).tiny)
    with np.errstate(over="ignore"):  # beside a width of zero every distance is endless, and weighs nothing
        weights = np.exp(-near / width)
    return sparse.csr_array((weights.ravel(), nearest.ravel(), np.arange(0, n * k + 1, k)), shape=(n, n))


def assisted_dense(model: ObservationModel, L: np.ndarray, R: np.ndarray) -> np.ndarray:
    """The assisted Gram matrix of a dense baseline L with residual R = M * (Y - L).

    With B = diag(d / m) R, d G = L L' + L B' + B L' + (m_i m_j / (d S_ij)) B B' off the diagonal, where the factor in
    front of B B' is one number, rho, if the model factorises.
    """
    d = L.shape[1]
    scale = d / model.row_sums()
    own = np.einsum("is,is->i", L, L) + scale * (2.0 * np.einsum("is,is->i", L, R) + np.einsum("is,is->i", R, R))
    B = scale[:, None] * R
    both = B @ B.T
    if isinstance(model, Factorised):
        both *= model.g_.sum() ** 2 / (d * model.g_square_sum_) - 1.0
    else:
        both *= d / (scale[:, None] * scale * model.pair_sums()) - 1.0
    B += L
    both += B @ B.T
    np.fill_diagonal(both, own)
    both /= d
    return both


def smoothed_gram(plain: UnbiasedGram, low_rank: LowRank, upon: int) -> SmoothedGram:
    """The Gram matrix assisted by a smoothed baseline.

    Parameters
    ----------
    plain : the unbiased Gram matrix
    low_rank : the baseline that the first neighbours come from
    upon : the rank of what is smoothed upon in the end: that of `low_rank`, or 0 to average the data themselves
    """
    observed = plain.observed
    return SmoothedGram(
        observed, plain.model, low_rank if upon else no_rank(observed), smoothed_distances(plain, low_rank)
    )


def smoothed_distances(plain: UnbiasedGram, low_rank: LowRank) -> np.ndarray:
    """The squared distances after one round of smoothing upon a low-rank baseline."""
    observed, model = plain.observed, plain.model
    first: Gram = AssistedGram(observed, model, low_rank.U, low_rank.V) if low_rank.rank else plain
    return SmoothedGram(observed, model, low_rank, first.squared_distances()).squared_distances()
