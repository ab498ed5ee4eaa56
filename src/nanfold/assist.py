"""The model-assisted Gram matrix: a low-rank guess of the complete data, and what corrects it.

With a baseline L = U V' and its residual R = M * (Y - L), the estimate is that of L plus terms that R brings. It is
unbiased whatever L is, and its variance is that of the residuals and not of the data, so a rough guess already helps.
One sweep of ridge least squares from the leading eigenvectors gives the guess; a second sweep overfits small tables
(``benchmarks/assist.py`` has the measurements behind every choice here).
"""

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from nanfold.gram import Gram, UnbiasedGram
from nanfold.least_squares import solve_columns, solve_rows
from nanfold.observation import Factorised, Known, ObservationModel, RankOne, observation_model
from nanfold.observed import Observed, observe
from nanfold.observed.contract import pair_dots
from nanfold.spectrum import eigenpairs

# Of the loadings, with scores at unit variance.
COLUMN_RIDGE = 3.0
# The share of entries held out to choose the rank, and the ranks that are tried.
HELD_OUT = 0.1
RANKS = (1, 2, 4, 8, 16, 32, 64, 128)
# How many ranks ahead eigenvectors are found, so that a small best rank does not pay for the largest.
AHEAD = 2


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
        # H with H U' + U H' = L L' + L B' + B L'.
        self._half = 0.5 * U @ (V.T @ V) + self._scale[:, None] * cross
        own = np.einsum("ia,ab,ib->i", U, V.T @ V, U)
        overlap = 2.0 * self._scale * np.einsum("ia,ia->i", U, cross)
        squares = self.residual.row_squares
        self._diagonal = (own + overlap + self._scale * squares) / d
        self._dense: np.ndarray | None = None
        self._rho: float | None = None
        if isinstance(model, Factorised):
            self._rho = float(model.g_.sum() ** 2 / (d * model.g_square_sum_))
            self._delta = self._diagonal - (own + overlap + self._rho * self._scale**2 * squares) / d

    @property
    def residual_variance(self) -> float:
        """The mean square of what the baseline leaves of the observed entries."""
        return float(self.residual.row_squares.sum() / self.observed.row_counts.sum())

    def __matmul__(self, W: np.ndarray) -> np.ndarray:
        """G W."""
        W = np.asarray(W, dtype=np.float64)
        if W.ndim == 1:
            return (self @ W[:, None])[:, 0]
        if self._rho is None:
            return self._formed() @ W
        scale = self._scale[:, None]
        from_baseline = self.V @ (self.U.T @ W)  # L'W
        from_residual = self.residual.rmatmul(scale * W)  # B'W
        out = self.U @ (self.V.T @ (from_baseline + from_residual))
        out += scale * self.residual.matmul(from_baseline + self._rho * from_residual)
        return out / self.n_features + self._delta[:, None] * W

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


class InverseProbabilityGram(Gram):
    """The assisted Gram matrix that is exactly unbiased for known p: each residual is divided by its own p_is.

    d G_ij = sum_s (l_is + R_is / p_is)(l_js + R_js / p_js) off the diagonal, and
    d G_ii = |l_i|^2 + 2 l_i.(R_i / p_i) + sum_s R_is^2 / p_is on it. It is here for comparison: its recall is that of
    the ratio form or a little less, because small p_is blow single residuals up, and it costs a dense n x n matrix.
    """

    def __init__(self, observed: Observed, model: ObservationModel, U: np.ndarray, V: np.ndarray) -> None:
        n, d = observed.shape
        self.shape = (n, n)
        self.n_features = d
        self.observed = observed
        residual = observed.residual(U, V)
        self._dense = np.zeros((n, n))
        blocks = observed.row_blocks()
        lifted = {}
        for start, stop in blocks:
            R, M = residual.rows(start, stop)
            p = _probabilities(model, start, stop)
            L = U[start:stop] @ V.T
            lifted[start] = L + R / p
            own = L**2 + 2.0 * L * R / p + np.where(M > 0, R**2 / p, 0.0)
            self._dense[np.arange(start, stop), np.arange(start, stop)] = own.sum(axis=1)
        for start, stop in blocks:
            for other, end in blocks:
                if other > start:
                    product = lifted[start] @ lifted[other].T
                    self._dense[start:stop, other:end] = product
                    self._dense[other:end, start:stop] = product.T
                elif other == start:
                    inside = self._dense[start:stop, start:stop]
                    diagonal = np.diag(inside).copy()
                    inside[:] = lifted[start] @ lifted[start].T
                    np.fill_diagonal(inside, diagonal)
        self._dense /= d

    def __matmul__(self, W: np.ndarray) -> np.ndarray:
        """G W."""
        return self._dense @ W

    def diagonal(self) -> np.ndarray:
        """The diagonal."""
        return np.diag(self._dense).copy()

    def toarray(self) -> np.ndarray:
        """The dense matrix, n x n."""
        return self._dense.copy()

    def rows(self, start: int, stop: int) -> np.ndarray:
        """Rows start:stop of the dense matrix."""
        return self._dense[start:stop].copy()

    def _off_diagonal(self, rows: np.ndarray, candidates: np.ndarray) -> np.ndarray:
        return self._dense[rows[:, None], candidates]


def _probabilities(model: ObservationModel, start: int, stop: int) -> np.ndarray:
    if isinstance(model, Factorised):
        return np.outer(model.c_[start:stop], model.g_)
    if isinstance(model, Known):
        return model.P_[start:stop]
    raise ValueError(f"{model!r} has no probability of each entry, which the exactly unbiased form divides by.")


def fit_baseline(
    observed: Observed, gram: Gram, rank: int, rng: np.random.Generator, vectors: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Scores U (n, q) and loadings V (d, q) of a rank-q guess of the complete data.

    The scores are the leading eigenvectors at unit variance; the loadings are their ridge fit; and the scores are
    fitted once more, with the residual variance as ridge.

    Parameters
    ----------
    observed, gram : the data and its unbiased Gram matrix
    rank : q
    rng : for the eigensolver
    vectors : at least q leading eigenvectors, if they are known already
    """
    n, d = observed.shape
    if vectors is None:
        vectors = eigenpairs(gram, rank, tol=1e-3, rng=rng).vectors
    U = vectors[:, :rank] * np.sqrt(n)
    V = solve_columns(observed, U, np.full(1, COLUMN_RIDGE))
    seen = observed.row_counts.sum()
    # The entries pay for the parameters, but never with more than half of their number.
    free = max(seen - rank * (n + d), seen / 2.0)
    residual_variance = observed.residual(U, V).row_squares.sum() / free
    return solve_rows(observed, V, np.full(1, residual_variance)), V


def choose_rank(observed: Observed, rng: np.random.Generator) -> int:
    """The rank that predicts a tenth of the observed entries best, held out of the fit; 0 if none beats the mean.

    Parameters
    ----------
    observed : the data
    rng : which entries are held out
    """
    training, rows, columns, values = observed.hold_out(HELD_OUT, rng)
    if not len(values):
        return 0  # a table so small that nothing could be spared
    gram = UnbiasedGram(training, RankOne().fit(training))
    ranks = [rank for rank in RANKS if rank < min(observed.shape)]
    best_rank, best_error = 0, float(np.mean(values**2))
    vectors = np.empty((observed.shape[0], 0))
    for position, rank in enumerate(ranks):
        if vectors.shape[1] < rank:
            ahead = ranks[min(position + AHEAD, len(ranks) - 1)]
            vectors = eigenpairs(gram, ahead, tol=1e-2, rng=rng).vectors
        U, V = fit_baseline(training, gram, rank, rng, vectors)
        error = float(np.mean((values - np.einsum("pa,pa->p", U[rows], V[columns])) ** 2))
        if error < best_error:
            best_rank, best_error = rank, error
        elif best_rank:
            break
    return best_rank


def check_assist(assist: Any, n: int, d: int) -> None:
    """One sentence for an `assist` that cannot be."""
    if isinstance(assist, str) and assist == "auto":
        return
    if isinstance(assist, int | np.integer) and not isinstance(assist, bool):
        if 0 <= assist < min(n, d):
            return
        raise ValueError(f"assist={assist} must lie between 0 and min(n_samples, n_features) - 1 = {min(n, d) - 1}.")
    raise ValueError(f"assist must be a rank, 0 for the unbiased Gram matrix alone, or 'auto'; it is {assist!r}.")


def corrected_gram(plain: UnbiasedGram, assist: Any = "auto", *, rng: np.random.Generator) -> Gram:
    """The unbiased Gram matrix as it is, or assisted.

    Parameters
    ----------
    plain : the unbiased Gram matrix
    assist : 0 for the unbiased Gram matrix alone, the rank of the baseline, or "auto": the rank that predicts held-out
        entries best, and 0 for complete data and for counts whose zeros are inferred dropouts
    rng : for the eigensolver and the held-out entries
    """
    observed = plain.observed
    n, d = observed.shape
    check_assist(assist, n, d)
    rank = assist
    if assist == "auto":
        # Complete data need no help; under weights it is not known which entries could be held out.
        settled = observed.complete or not observed.can_hold_out or min(n, d) < 3
        rank = 0 if settled else choose_rank(observed, rng)
    if rank == 0 or observed.complete:
        return plain
    U, V = fit_baseline(observed, plain, int(rank), rng)
    return AssistedGram(observed, plain.model, U, V)


def unbiased_gram(
    X: Any,
    mask: Any = None,
    missing: str = "nan",
    observation: Any = "rank-one",
    center: bool = True,
    assist: Any = 0,
    random_state: Any = None,
) -> Gram:
    """The unbiased Gram matrix of data with holes.

    Parameters
    ----------
    X : (n, d) array, table or sparse array
    mask : True where observed; or a fitted ``Dropouts``; None if X itself shows its holes
    missing : "nan" (NaN are holes) or "unstored" (what a sparse array does not store is a hole)
    observation : the model of p_is: "rank-one", "rank-one-bounded", "homogeneous", "pairwise", an array of
        probabilities, a pair of factors (c, g), or a model
    center : subtract the mean of the observed entries from each feature
    assist : 0 for the paper's estimator; the rank of a baseline that lowers its variance; or "auto"
    random_state : seeds what "auto" holds out and the eigensolver behind the baseline

    Returns
    -------
    UnbiasedGram or AssistedGram
        With ``G @ V``, ``G.diagonal()``, ``G.toarray()`` and ``G.squared_distances()``; the first also with
        ``G.variance()``, ``G.standard_error()`` and ``G.interval()``.
    """
    observed = observe(X, mask, missing, center=bool(center))
    plain = UnbiasedGram(observed, observation_model(observation).fit(observed))
    return corrected_gram(plain, assist, rng=np.random.default_rng(check_random_state(random_state).randint(2**31)))
