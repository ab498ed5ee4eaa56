"""The model-assisted Gram matrix: a low-rank guess of the complete data, and what corrects it.

With a baseline L = U V' and its residual R = M * (Y - L), the estimate is that of L plus terms that R brings. It is
unbiased whatever L is, and its variance is that of the residuals and not of the data, so a rough guess already helps.
One sweep of ridge least squares from the leading eigenvectors gives the guess; a second sweep overfits small tables
(``benchmarks/neighbour_recall.py --study`` has the measurements behind every choice here).
"""

import functools
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from nanfold._threads import even_blocks
from nanfold.gram import FormedGram, Gram, UnbiasedGram
from nanfold.least_squares import solve_columns, solve_rows
from nanfold.observation import Factorised, Known, ObservationModel, RankOne
from nanfold.observed import Observed
from nanfold.observed.contract import PANEL_VALUES, pair_dots
from nanfold.spectrum import eigenpairs

# Of the loadings, with scores at unit variance.
COLUMN_RIDGE = 3.0
# How far the eigenvectors may be off: a guess of noise need not be an exact one, and the sweeps come after.
ROUGH = 0.1
# Beside the squares of the data, a residual below this is none.
ROUNDING = 1e-12
# The share of entries held out to choose the rank, and the ranks that are tried.
HELD_OUT = 0.1
RANKS = (1, 2, 4, 8, 16, 32, 64, 128)
# Rank and loadings are found on so many rows a column, no fewer than so many, where there are twice as many or more.
ROWS_A_COLUMN = 2
ENOUGH_ROWS = 2000
# How many eigenvectors are found at first: enough for most tables, and a small best rank does not pay for the largest.
FIRST_VECTORS = 16


class AssistedGram(Gram):
    """The Gram matrix per feature from a baseline L and its residual R.

    - i != j: d G_ij = l_i.l_j + (d/m_j) l_i.R_j + (d/m_i) R_i.l_j + (d/S_ij) R_i.R_j
    - i = j: d G_ii = |l_i|^2 + 2 (d/m_i) l_i.R_i + (d/m_i) |R_i|^2

    with m_i = sum_s p_is and S_ij = sum_s p_is p_js. Where the model factorises, with B = diag(d/m) R and
    rho = m_i m_j / (d S_ij) the same for all pairs, that is L L' + L B' + B L' + rho B B' and a diagonal: low-rank
    products and products with R.

    Parameters
    ----------
    observed : Y and M
    model : the fitted model of p_is
    U, V : factors of the baseline, (n, q) and (d, q)
    """

    def __init__(self, observed: Observed, model: ObservationModel, U: np.ndarray, V: np.ndarray) -> None:
        n, d = observed.shape
        self.shape = (n, n)
        self.n_features = d
        self.rank = U.shape[1]
        self.observed, self.model = observed, model
        self.U, self.V = U, V
        self.residual = observed.residual(U, V)
        self._scale = d / model.row_sums()
        cross = self.residual.matmul(V)  # R V
        own = np.einsum("ia,ab,ib->i", U, V.T @ V, U)
        overlap = 2.0 * self._scale * np.einsum("ia,ia->i", U, cross)
        squares = self.residual.row_squares
        self._diagonal = (own + overlap + self._scale * squares) / d
        self._dense: np.ndarray | None = None
        self._rho: float | None = None
        if isinstance(model, Factorised):
            self._rho = float(model.g_.sum() ** 2 / (d * model.g_square_sum_))
            self._delta = self._diagonal - (own + overlap + self._rho * self._scale**2 * squares) / d

    @functools.cached_property
    def _half(self) -> np.ndarray:
        """H with H U' + U H' = L L' + L B' + B L'."""
        return 0.5 * self.U @ (self.V.T @ self.V) + self._scale[:, None] * self.residual.matmul(self.V)

    @property
    def residual_variance(self) -> float:
        return float(self.residual.row_squares.sum() / self.observed.row_counts.sum())

    def __matmul__(self, W: np.ndarray) -> np.ndarray:
        """G W."""
        W = np.asarray(W, dtype=np.float64)
        if W.ndim == 1:
            return (self @ W[:, None])[:, 0]
        if self._rho is None:
            return self._formed() @ W
        right, low_rank = self._split(W, self.image(W))
        out = self.residual.matmul(right)
        out *= self._scale[:, None]
        _add_product(out, self.U, low_rank)
        out /= self.n_features
        out += self._delta[:, None] * W
        return out

    def _split(self, N: np.ndarray, image: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """L'N + rho B'N, which B multiplies, and V'(L'N + B'N), which U does: together d G N, less its diagonal's."""
        from_baseline = self.V @ (self.U.T @ N)  # L'N
        return from_baseline + self._rho * image, self.V.T @ (from_baseline + image)

    def image(self, N: np.ndarray) -> np.ndarray:
        """B'N."""
        return super().image(N) if self._rho is None else self.residual.rmatmul(self._scale[:, None] * N)

    def step(self, N: np.ndarray, image: np.ndarray, shift: Any = 0.0) -> tuple[np.ndarray, np.ndarray]:
        """(G + diag(shift)) N and B' of it, in one pass over the residual."""
        if self._rho is None:
            return super().step(N, image, shift)
        right, low_rank = self._split(N, image)
        rest = N * (self.n_features * np.reshape(self._delta + shift, (-1, 1)))
        _add_product(rest, self.U, low_rank)
        ones = np.ones(len(N))
        Z, A = self.residual.normal_pass(right, rest, self._scale, ones)
        Z /= self.n_features
        A /= self.n_features
        return Z, A

    def diagonal(self) -> np.ndarray:
        """The diagonal."""
        return self._diagonal.copy()

    def toarray(self) -> np.ndarray:
        """The dense matrix, n x n."""
        return self._formed().copy() if self._rho is None else self._form()

    def rows(self, start: int, stop: int) -> np.ndarray:
        """Rows start:stop of the dense matrix."""
        if self._rho is None:
            return self._formed()[start:stop].copy()
        out = self.residual.matmul(self.residual.rows(start, stop)[0].T).T * (self._rho * self._scale)
        out *= self._scale[start:stop, None]
        out += self._half[start:stop] @ self.U.T
        out += self.U[start:stop] @ self._half.T
        out /= self.n_features
        out[np.arange(stop - start), np.arange(start, stop)] = self._diagonal[start:stop]
        return out

    def _off_diagonal(self, rows: np.ndarray, candidates: np.ndarray) -> np.ndarray:
        if self._rho is None:
            return self._formed()[rows[:, None], candidates]
        out = self.residual.pair_products(rows, candidates)
        out *= self._rho * self._scale[rows, None]
        out *= self._scale[candidates]
        out += pair_dots(self._half, self.U, rows, candidates)
        out += pair_dots(self.U, self._half, rows, candidates)
        out /= self.n_features
        return out

    def _formed(self) -> np.ndarray:
        if self._dense is None:
            self._dense = self._form()
        return self._dense

    def _form(self) -> np.ndarray:
        d = self.n_features
        out = self.residual.gram()
        if self._rho is None:
            out *= d / self.model.pair_sums()
        else:
            out *= self._rho * self._scale[:, None]
            out *= self._scale[None, :]
        cross = self._half @ self.U.T
        out += cross
        out += cross.T
        out /= d
        np.fill_diagonal(out, self._diagonal)
        return out


def _add_product(out: np.ndarray, A: np.ndarray, B: np.ndarray) -> None:
    """Add A B to `out`, some rows at a time, so that there is no second array of its size."""
    for start, stop in even_blocks(len(out), PANEL_VALUES // (4 * B.shape[1])):
        out[start:stop] += A[start:stop] @ B


class InverseProbabilityGram(FormedGram):
    """The assisted Gram matrix that is exactly unbiased for known p: each residual is divided by its own p_is.

    d G_ij = sum_s (l_is + R_is / p_is)(l_js + R_js / p_js) off the diagonal, and
    d G_ii = |l_i|^2 + 2 l_i.(R_i / p_i) + sum_s R_is^2 / p_is on it. It is here for comparison: its recall is that of
    the ratio form or a little less, because small p_is blow single residuals up, and it costs a dense n x n matrix.
    """

    def __init__(self, observed: Observed, model: ObservationModel, U: np.ndarray, V: np.ndarray) -> None:
        n, d = observed.shape
        residual = observed.residual(U, V)
        dense = np.zeros((n, n))
        blocks = observed.row_blocks()
        lifted = {}
        for start, stop in blocks:
            R, M = residual.rows(start, stop)
            p = _probabilities(model, start, stop)
            L = U[start:stop] @ V.T
            lifted[start] = L + R / p
            own = L**2 + 2.0 * L * R / p + np.where(M > 0, R**2 / p, 0.0)
            dense[np.arange(start, stop), np.arange(start, stop)] = own.sum(axis=1)
        for start, stop in blocks:
            for other, end in blocks:
                if other > start:
                    product = lifted[start] @ lifted[other].T
                    dense[start:stop, other:end] = product
                    dense[other:end, start:stop] = product.T
                elif other == start:
                    inside = dense[start:stop, start:stop]
                    diagonal = np.diag(inside).copy()
                    inside[:] = lifted[start] @ lifted[start].T
                    np.fill_diagonal(inside, diagonal)
        super().__init__(observed, dense / d)


def _probabilities(model: ObservationModel, start: int, stop: int) -> np.ndarray:
    if isinstance(model, Factorised):
        return np.outer(model.c_[start:stop], model.g_)
    if isinstance(model, Known):
        return model.P_[start:stop]
    raise ValueError(f"{model!r} has no probability of each entry, which the exactly unbiased form divides by.")


class Leading(NamedTuple):
    """Leading eigenvectors, (r, q), of the Gram matrix of some rows; `rows` says of which, None for all."""

    vectors: np.ndarray
    rows: np.ndarray | None = None


def fit_baseline(
    observed: Observed, gram: Gram, rank: int, rng: np.random.Generator, leading: Leading | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Scores U (n, q) and loadings V (d, q) of a rank-q guess of the complete data.

    The scores are the leading eigenvectors at unit variance; the loadings are their ridge fit; and the scores are
    fitted once more, with the residual variance as ridge. In long tables, some rows give the loadings of all.

    Parameters
    ----------
    observed, gram : the data and its unbiased Gram matrix
    rank : q
    rng : for the rows and the eigensolver
    leading : at least q leading eigenvectors, if they are known already
    """
    n, d = observed.shape
    vectors, rows = leading or leading_vectors(observed, gram, rank, rng)
    U = vectors[:, :rank] * np.sqrt(len(vectors))
    squares, counts = observed.row_squares, observed.row_counts
    if rows is not None:
        squares, counts, some = squares[rows], counts[rows], U
        U = np.zeros((n, rank))
        U[rows] = some
    right = observed.rmatmul(U)
    V = solve_columns(observed, U, np.full(1, COLUMN_RIDGE), right.copy())
    # |Y - U V'|^2 over what is observed, by what V solves; to rounding, which must not leave nothing.
    left = max(squares.sum() - np.vdot(V, right) - COLUMN_RIDGE * np.vdot(V, V), ROUNDING * squares.sum())
    return solve_rows(observed, V, np.full(1, noise_variance(left, counts.sum(), rank * (len(vectors) + d)))), V


def noise_variance(left: float, seen: float, parameters: int) -> float:
    """What a guess leaves of an observed entry, which pays for the parameters with up to half of itself."""
    return left / max(seen - parameters, seen / 2.0)


def leading_vectors(observed: Observed, gram: Gram, rank: int, rng: np.random.Generator) -> Leading:
    """Leading eigenvectors, roughly, of enough rows."""
    some, rows = enough_rows(observed, rng)
    if rows is not None:
        gram = UnbiasedGram(some, RankOne().fit(some))
    return Leading(eigenpairs(gram, rank, tol=ROUGH, rng=rng).vectors, rows)


@dataclass(frozen=True)
class HeldOut:
    """Entries that were hidden to see how well they are predicted: rows, columns and centred values."""

    rows: np.ndarray
    columns: np.ndarray
    values: np.ndarray

    @classmethod
    def draw(cls, observed: Observed, share: float, rng: np.random.Generator) -> "tuple[Observed, HeldOut]":
        """Hide a share of the observed entries: the data without them, and what was hidden."""
        training, *hidden = observed.hold_out(share, rng)
        return training, cls(*hidden)

    def error(self, predicted: np.ndarray | float) -> float:
        """The mean squared error of predictions."""
        return float(np.mean((self.values - predicted) ** 2))


def enough_rows(observed: Observed, rng: np.random.Generator) -> tuple[Observed, np.ndarray | None]:
    """Rows drawn at random, as many as it takes to choose a rank, and which; all and None if they are not many more.

    How many components can be told from noise depends on how many entries rows have and on how many columns have. Once
    columns have more, further rows change little.
    """
    n, d = observed.shape
    enough = max(ENOUGH_ROWS, ROWS_A_COLUMN * d)
    if n < 2 * enough or not (observed.in_memory and observed.can_hold_out):
        return observed, None
    rows = np.sort(rng.choice(n, enough, replace=False))
    return observed.take(rows), rows


def best_rank(plain: UnbiasedGram, held: HeldOut, rng: np.random.Generator) -> tuple[int, float, np.ndarray]:
    """The rank of the baseline that predicts held-out entries best, and its error; 0 if none beats the mean.

    Returned with the leading eigenvectors, as many or more.

    Parameters
    ----------
    plain : the unbiased Gram matrix of the data without the entries held out
    held : those entries
    rng : for the eigensolver
    """
    training = plain.observed
    ranks = [rank for rank in RANKS if rank < min(training.shape)]
    best, least = 0, held.error(0.0)
    vectors = np.empty((training.shape[0], 0))
    for rank in ranks:
        if vectors.shape[1] < rank:
            vectors = eigenpairs(plain, min(max(rank, FIRST_VECTORS), ranks[-1]), tol=ROUGH, rng=rng).vectors
        U, V = fit_baseline(training, plain, rank, rng, Leading(vectors))
        error = held.error(np.einsum("pa,pa->p", U[held.rows], V[held.columns]))
        if error < least:
            best, least = rank, error
        elif best:
            break
    return best, least, vectors
