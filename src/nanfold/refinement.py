"""A low-rank guess with more components, which a penalty on its nuclear norm keeps from following the noise.

The first guess has as many components as predict best what is held out; with more it would follow noise. Where the
table is small enough, twice as many are worth having if all are shrunk: with U and V balanced, so that both have the
roots of the singular values, a ridge on both is a penalty on the sum of the singular values of U V'.
``benchmarks/neighbour_recall.py --study`` has the measurements behind the numbers here.
"""

import numpy as np

from nanfold.assist import RANKS, ROUNDING, noise_variance
from nanfold.least_squares import solve_columns, solve_rows
from nanfold.observed import Observed

# Of the columns and the rows in turn; a third one gains little.
SWEEPS = 2
# The penalty beside the spectral norm that the noise alone has.
PENALTY = 0.25
# A sweep takes n d q^2 operations; so many are a few seconds.
MOST_OPERATIONS = 1.5e10


def refined_rank(shape: tuple[int, int], rank: int) -> int:
    """How many components a refined guess may have: up to twice the rank, 0 where that would take too long."""
    n, d = shape
    most = max((q for q in RANKS if q <= 2 * rank and q < min(n, d)), default=0)
    while most >= max(rank, 1) and n * d * most**2 > MOST_OPERATIONS:
        most //= 2
    return most if most >= max(rank, 1) else 0


def refined(observed: Observed, U: np.ndarray, V: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scores and loadings after further sweeps of ridge least squares, with the balanced factors' penalty as ridge."""
    n, d = observed.shape
    left = max(observed.residual(U, V).row_squares.sum(), ROUNDING * observed.row_squares.sum())
    variance = noise_variance(left, observed.row_counts.sum(), U.shape[1] * (n + d))
    penalty = np.full(1, PENALTY * np.sqrt(variance * observed.share_observed) * (np.sqrt(n) + np.sqrt(d)))
    for _ in range(SWEEPS):
        V = solve_columns(observed, balanced(U, V), penalty)
        U = solve_rows(observed, V, penalty)
    return U, V


def balanced(U: np.ndarray, V: np.ndarray) -> np.ndarray:
    """A with A B' = U V' of which A and B have orthogonal columns of the same lengths."""
    Q, R = np.linalg.qr(U)
    left, values, _ = np.linalg.svd(R @ np.linalg.qr(V)[1].T)
    return Q @ (left * np.sqrt(values))
