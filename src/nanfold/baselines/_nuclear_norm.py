"""The low-rank matrix of smallest penalised nuclear norm, given some of its entries: the path of minima, certified.

Mazumder, Hastie and Tibshirani, "Spectral regularization algorithms for learning large incomplete matrices" (2010);
Hastie, Mazumder, Lee and Zadeh, "Matrix completion and low-rank SVD via fast alternating least squares" (2015).

With P the projection on the observed entries of the centred data Y, the objective is

    f(M) = 1/2 |P(Y - M)|^2 + penalty |M|_*

A proximal step from M shrinks the singular values of P(Y - M) + M by the penalty: a residual on the observed entries
plus a matrix of low rank, so that a product with it never needs an n x d array. Its leading singular vectors are
nearly those of the last step, and one round of alternating least squares from these finds them. Where rows have few
entries for their rank, a sweep of ridge regressions follows: with M = A B', |M|_* is the least of (|A|^2 + |B|^2) / 2
over all such factors, so that rows of A given B and rows of B given A, each with the penalty as ridge, lower f as well,
and fast where proximal steps are slow because most of M is not seen. Steps are extrapolated (Nesterov), from scratch
again whenever the last one points back.

Any residual R = P(Y - M), scaled by c to a spectral norm of at most the penalty, is a feasible point of the dual,
max <C, Y> - 1/2 |C|^2 over C on the observed entries with |C|_2 <= penalty. The difference between f(M) and its value
bounds how far f(M) is from the minimum.
"""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy import linalg
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.extmath import svd_flip
from threadpoolctl import threadpool_limits

from nanfold._krylov import orthonormalised
from nanfold.least_squares import solve_columns, solve_rows
from nanfold.observed import Observed
from nanfold.spectrum import krylov_eigenpairs

# Relative duality gap on the way from larger penalties to the first that is wanted.
WAY_TOL = 1e-2
# From one penalty to the next on that way.
WAY_STEP = 3.0
# Iterations between two looks at the duality gap, which cost about as much as an iteration.
CHECK_EVERY = 5
# Columns of the basis beyond the rank, and a quarter of it.
EXTRA = 20
# Of the Krylov solver that looks for a singular value of the residual above the penalty.
NORM_TOL = 1e-4
# A sweep of ridge regressions costs about the rank times a proximal step and saves more of these the fewer entries are
# observed, about as one over the root of their share: sweeps are made while the rank times that root is at most this.
SWEEP_RANK = 8

Factors = tuple[np.ndarray, np.ndarray]  # A and B of A B'


@dataclass(frozen=True)
class SoftImputeSolution:
    """The minimum at one penalty: M = U diag(singular_values) components.

    Attributes
    ----------
    penalty : float
    U : (n, k) array, orthonormal columns
    singular_values : (k,) array, in decreasing order
    components : (k, d) array, orthonormal rows
    objective : f(M)
    certificate : the duality gap over f(M); the minimum lies at most that far below f(M)
    converged : whether the certificate is below the tolerance, or M is stationary among matrices of the largest rank
        allowed
    n_iter : steps taken
    """

    penalty: float
    U: np.ndarray
    singular_values: np.ndarray
    components: np.ndarray
    objective: float
    certificate: float
    converged: bool
    n_iter: int


@dataclass(frozen=True)
class _LowRank:
    """M = U diag(s) V'."""

    U: np.ndarray
    s: np.ndarray
    V: np.ndarray

    @property
    def factors(self) -> Factors:
        return self.U * self.s, self.V


@dataclass(frozen=True)
class _Gap:
    """The objective, the duality gap over it, whether that will do, and a basis that holds what is left to gain."""

    objective: float
    relative: float
    converged: bool
    basis: np.ndarray


class Search:
    """Minima of the objective for one or many penalties, each started from the last.

    Parameters
    ----------
    rank : the largest rank allowed
    tol : relative duality gap to stop at
    max_iter : the most steps for one penalty
    rng : where directions to look in come from
    """

    def __init__(self, rank: int, tol: float, max_iter: int, rng: np.random.Generator) -> None:
        self.rank, self.tol, self.max_iter, self.rng = rank, tol, max_iter, rng

    def path(self, observed: Observed, penalties: np.ndarray, tol: float | None = None) -> Iterator[SoftImputeSolution]:
        """Solutions for decreasing penalties; on the way to the first of them, larger ones, whose ranks are lower."""
        solution = None
        largest = norm_beside(observed, np.zeros((observed.shape[1], 0)), self.rng)[0]
        steps = int(np.log(max(largest / penalties[0], 1.0)) / np.log(WAY_STEP))
        for penalty in penalties[0] * WAY_STEP ** np.arange(steps, 0, -1.0):
            solution = self.solve(observed, float(penalty), solution, WAY_TOL)
        for penalty in penalties:
            solution = self.solve(observed, float(penalty), solution, tol)
            yield solution

    # The threads of BLAS wait for each other at every product of narrow matrices, which took far longer than what they
    # save in the products with the data.
    @threadpool_limits.wrap(limits=1, user_api="blas")
    def solve(
        self, observed: Observed, penalty: float, start: SoftImputeSolution | None, tol: float | None = None
    ) -> SoftImputeSolution:
        """The solution for one penalty, from that for another."""
        tol = max(self.tol if tol is None else tol, 32 * float(np.finfo(observed.dtype).eps))
        n, d = observed.shape
        M = _LowRank(np.zeros((n, 0)), np.zeros(0), np.zeros((d, 0)))
        if start is not None:
            M = _LowRank(start.U, start.singular_values, start.components.T)
        basis = _widened(M.V, len(M.s), min(n, d), self.rng)
        before, t, n_iter = M, 1.0, 0
        sweep_rank = 0.0 if observed.complete else SWEEP_RANK / np.sqrt(observed.share_observed)
        while True:
            if n_iter % CHECK_EVERY == 0 or n_iter == self.max_iter:
                gap = self._gap(observed, M, basis, penalty, tol)
                if gap.converged or n_iter == self.max_iter:
                    break
                basis = gap.basis
            t_next = (1.0 + np.sqrt(1.0 + 4.0 * t * t)) / 2.0
            A, B = _extrapolated(M, before, (t - 1.0) / t_next)
            U, s, V = _leading_of_sum(observed.residual(A, B), A, B, basis)
            k = min(int(np.sum(s > penalty)), self.rank)
            before, M = M, _LowRank(U[:, :k], s[:k] - penalty, V[:, :k])
            if 0 < k <= sweep_rank:
                M = _swept(observed, M, penalty)
                V = np.hstack([M.V, _orthonormal_beside(V[:, k:], M.V)])
            t = 1.0 if _points_back((A, B), M.factors, before.factors) else t_next
            basis = _widened(V, k, min(n, d), self.rng)
            n_iter += 1
        if not gap.converged:
            warnings.warn(
                f"SoftImpute took max_iter={self.max_iter} steps at penalty {penalty:.3g} and its relative duality gap "
                f"is {gap.relative:.1e}, above tol={tol:g}; allow more of them, or raise tol.",
                ConvergenceWarning,
                stacklevel=2,
            )
        U, components = svd_flip(M.U, M.V.T, u_based_decision=False) if len(M.s) else (M.U, M.V.T)
        return SoftImputeSolution(penalty, U, M.s, components, gap.objective, gap.relative, gap.converged, n_iter)

    def _gap(self, observed: Observed, M: _LowRank, basis: np.ndarray, penalty: float, tol: float) -> _Gap:
        """The duality gap with the norm of the residual in the basis and, where that will do, with a bound everywhere.

        The basis starts with the columns of V.
        """
        R = observed.residual(*M.factors)
        k = len(M.s)
        square, nuclear = float(R.row_squares.sum()), float(M.s.sum())
        objective = square / 2.0 + penalty * nuclear
        image = R.matmul(basis)
        product = square + float(np.sum(M.factors[0] * image[:, :k]))  # <R, Y> = |R|^2 + <R, M>

        def relative(norm: float) -> float:
            if square == 0.0:
                return float(nuclear > 0.0)
            c = min(product / square, penalty / norm)
            return max(1.0 - (c * product - c * c * square / 2.0) / objective, 0.0)

        full = k == self.rank
        here = relative(_norm(image[:, :k] if full and k else image))
        if here > tol:
            return _Gap(objective, here, False, basis)
        beside, direction = norm_beside(R, basis, self.rng)
        basis = np.hstack([basis, direction])
        everywhere = relative(_norm_bound(R, basis, beside))
        # A rank that binds leaves singular values above the penalty; M is stationary if none displaces its own.
        bound = full and beside <= penalty + M.s[-1]
        return _Gap(objective, everywhere, everywhere <= tol or bound, basis)


def _norm(A: np.ndarray) -> float:
    """The spectral norm of a tall matrix."""
    return float(np.sqrt(max(linalg.eigvalsh(A.T @ A)[-1], 0.0))) if A.size else 0.0


def _norm_bound(R: Observed, basis: np.ndarray, beside: float) -> float:
    """What the spectral norm of R cannot exceed, from what R is on an orthonormal basis and its norm beside that.

    With R'R = [[A, B'], [B, C]] in the basis and its complement, the norm of C being known, the largest eigenvalue of
    [[A, B'], [B, |C| I]] is at least that of R'R. The norms of the two parts alone would miss what B adds.
    """
    image = R.rmatmul(R.matmul(basis))
    A = basis.T @ image
    B = _qr(image - basis @ A)[1]
    bound = linalg.eigvalsh(np.block([[A, B.T], [B, beside**2 * np.eye(len(B))]]))[-1]
    return float(np.sqrt(max(bound, 0.0)))


def norm_beside(R: Observed, basis: np.ndarray, rng: np.random.Generator) -> tuple[float, np.ndarray]:
    """The spectral norm of R on the complement of an orthonormal basis, and the right singular vector, as a column."""
    n, d = R.shape
    if basis.shape[1] >= min(n, d):
        return 0.0, np.zeros((d, 0))

    def product(x: np.ndarray) -> np.ndarray:
        x = x - basis @ (basis.T @ x)
        y = R.rmatmul(R.matmul(x))
        return y - basis @ (basis.T @ y)

    with warnings.catch_warnings():
        # An eigenvector that has not settled still has a value to compare, which is what is wanted.
        warnings.simplefilter("ignore", ConvergenceWarning)
        pair = krylov_eigenpairs(product, d, 1, tol=NORM_TOL, rng=rng)
    direction = _orthonormal_beside(pair.vectors, basis)
    return float(np.sqrt(max(pair.values[0], 0.0))), direction


def _orthonormal_beside(W: np.ndarray, basis: np.ndarray) -> np.ndarray:
    for _ in range(2):
        W = _qr(W - basis @ (basis.T @ W))[0]
    return W


def _qr(W: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """W = Q R with orthonormal columns of Q; W is overwritten.

    Householder's reflections, which take longer, are left to matrices that have lost rank.
    """
    R = orthonormalised(W)
    return (W, R) if R is not None else linalg.qr(W, mode="economic", check_finite=False)


def _widened(V: np.ndarray, k: int, most: int, rng: np.random.Generator) -> np.ndarray:
    """k leading columns and some more: those that are there, and random ones."""
    wanted = min(k + EXTRA + k // 4, most)
    if V.shape[1] >= wanted:
        return V[:, :wanted]
    return np.hstack([V, _orthonormal_beside(rng.standard_normal((len(V), wanted - V.shape[1])), V)])


def _extrapolated(M: _LowRank, before: _LowRank, momentum: float) -> Factors:
    """Factors of M + momentum (M - before)."""
    if momentum == 0.0:
        return M.factors
    (A, B), (A_before, B_before) = M.factors, before.factors
    return np.hstack([(1.0 + momentum) * A, -momentum * A_before]), np.hstack([B, B_before])


def _leading_of_sum(
    R: Observed, A: np.ndarray, B: np.ndarray, basis: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Leading singular triplets of R + A B', by one round of alternating least squares from a right basis."""
    Q, _ = _qr(R.matmul(basis) + A @ (B.T @ basis))
    right, core = _qr(R.rmatmul(Q) + B @ (A.T @ Q))
    U, s, Vt = linalg.svd(core.T, check_finite=False)
    return Q @ U, s, right @ Vt.T


def _swept(observed: Observed, M: _LowRank, penalty: float) -> _LowRank:
    """One sweep of ridge regressions, from factors that share the singular values evenly."""
    A = solve_rows(observed, M.V * np.sqrt(M.s), np.full(1, penalty))
    B = solve_columns(observed, A, np.full(1, penalty))
    (left, a), (right, b) = (_qr(factor) for factor in (A, B))
    U, s, Vt = linalg.svd(a @ b.T, check_finite=False)
    return _LowRank(left @ U, s, right @ Vt.T)


def _points_back(Y: Factors, M: Factors, before: Factors) -> bool:
    """Whether <Y - M, M - before> > 0: the step from the extrapolated Y undoes part of the move."""

    def inner(P: Factors, Q: Factors) -> float:
        return float(np.sum((P[0].T @ Q[0]) * (P[1].T @ Q[1])))

    return inner(Y, M) - inner(Y, before) - inner(M, M) + inner(M, before) > 0.0
