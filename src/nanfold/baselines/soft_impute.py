"""Soft-impute: complete a matrix by the low-rank matrix of smallest penalised nuclear norm."""

from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted

from nanfold._threads import even_blocks
from nanfold.baselines._holes import DENSE_VALUES, observe_entries
from nanfold.baselines._nuclear_norm import Search, SoftImputeSolution, norm_beside
from nanfold.least_squares import solve_rows
from nanfold.observed import Observed
from nanfold.observed.checks import checked_values
from nanfold.observed.contract import PANEL_VALUES

# The share of the observed entries that is held out to choose the penalty, and for how many penalties in a row the
# error may stay above its least before smaller ones are given up.
HELD_OUT = 0.1
PATIENCE = 3
# The default grid ends at this share of the penalty that shrinks everything away.
SMALLEST_PENALTY = 1e-3
# Relative duality gap of the fits that predict held-out entries: at 1e-2 one penalty's error stands for the next's.
HELD_OUT_TOL = 1e-3


class SoftImpute(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Fill holes with the low-rank matrix that a nuclear-norm penalty chooses.

    Observed entries are kept as they are. Dense rows come back complete from ``transform``. Sparse rows with
    ``missing="unstored"`` come back complete and dense too, which is only done for as many rows at a time as make
    0.5 GB; for single entries of a large sparse array ask ``predict_entries``, or use the factors themselves. Sparse
    rows with ``missing="nan"``, whose unstored entries are observed zeros, come back sparse, with their NaN filled.

    Parameters
    ----------
    penalty : float, sequence of floats or None
        The weight of the nuclear norm. Of several, and of a grid made here if None, the one that predicts held-out
        entries best is chosen: a tenth of the observed entries, drawn with `random_state`, is left out along a warm
        path of decreasing penalties, and the matrix at the chosen penalty is then fitted to all of them.
    rank : int or None
        The largest rank allowed; None for no limit, for which alone the minimum is global.
    n_penalties : int
        The length of the grid for ``penalty=None``: from the spectral norm of the data, at which everything is shrunk
        away, down to a thousandth of it in equal ratios. It is left early where the held-out error no longer falls.
    center : bool
        Whether the mean of the observed entries is subtracted from each feature.
    tol : float
        Stop at this duality gap, relative to the objective; for float32 data it is never below 32 roundings.
    max_iter : int
        The most steps for one penalty.
    missing : {"nan", "unstored"}
        Whether holes are NaN, or what a sparse array does not store.
    random_state : int, RandomState or None
        Seeds what is held out and where the iteration starts looking for singular vectors.

    Attributes
    ----------
    U_ : (n_samples, rank_) array
        Left singular vectors of the fitted matrix, less the means.
    singular_values_ : (rank_,) array
    components_ : (rank_, n_features_in_) array
        Right singular vectors.
    mean_ : (n_features_in_,) array
    penalty_ : float
    rank_ : int
    objective_ : float
    certificate_ : float
        The relative duality gap: the objective is at most this share of itself above the minimum. Where `rank` binds
        the minimum over all ranks lies lower, and the certificate says by how much at most.
    converged_ : bool
    n_iter_ : int
        Steps at `penalty_`.
    path_ : list of SoftImputeSolution
        Fitted to all observed entries: for every penalty given, in decreasing order, or for `penalty_` alone.
    held_out_penalties_, held_out_errors_ : arrays
        The penalties that were tried and their mean squared errors on held-out entries; empty for a single penalty.
    """

    def __init__(
        self,
        penalty: Any = None,
        *,
        rank: int | None = None,
        n_penalties: int = 20,
        center: bool = True,
        tol: float = 1e-6,
        max_iter: int = 1000,
        missing: str = "nan",
        random_state: Any = None,
    ) -> None:
        self.penalty = penalty
        self.rank = rank
        self.n_penalties = n_penalties
        self.center = center
        self.tol = tol
        self.max_iter = max_iter
        self.missing = missing
        self.random_state = random_state

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def fit(self, X: Any, y: Any = None, mask: Any = None) -> Self:
        """Fit to X.

        Parameters
        ----------
        X : (n_samples, n_features) array, table or sparse array
        y : ignored
        mask : True where observed; None if X itself shows its holes
        """
        self._fit(X, mask)
        return self

    def fit_transform(self, X: Any, y: Any = None, mask: Any = None) -> Any:
        """Fit to X and fill its holes.

        ``transform`` of the same rows solves each anew, and differs by no more than what is left to converge.
        """
        observed = self._fit(X, mask)
        return self._complete(X, mask, observed, self.U_ * self.singular_values_)

    def _fit(self, X: Any, mask: Any) -> Observed:
        penalties = _check_penalty(self.penalty)
        observed = observe_entries(X, mask, self.missing, center=bool(self.center), estimator=self)
        search = self._search(*observed.shape)
        self.held_out_penalties_, self.held_out_errors_ = np.empty(0), np.empty(0)
        if len(penalties) == 1:
            self.path_ = list(search.path(observed, penalties))
            chosen = self.path_[0]
        else:
            best = self._choose(observed, penalties, search)
            if self.penalty is None:
                self.path_ = [search.solve(observed, best.penalty, best)]
                chosen = self.path_[0]
            else:
                self.path_ = list(search.path(observed, penalties))
                chosen = self.path_[penalties.tolist().index(best.penalty)]
        self._describe(observed, chosen)
        return observed

    def _search(self, n: int, d: int) -> Search:
        most = min(n, d)
        rank = most if self.rank is None else self.rank
        if isinstance(rank, bool) or not isinstance(rank, int | np.integer) or not 1 <= rank <= most:
            raise ValueError(
                f"rank must be None or an int from 1 to min(n_samples, n_features) = {most}; it is {self.rank!r}."
            )
        for name, least in (("n_penalties", 2), ("max_iter", 1)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
                raise ValueError(f"{name} must be an int of at least {least}; it is {value!r}.")
        if not (isinstance(self.tol, int | float | np.number) and self.tol > 0):
            raise ValueError(f"tol must be a positive number; it is {self.tol!r}.")
        seed = check_random_state(self.random_state).randint(2**31)
        return Search(int(rank), float(self.tol), int(self.max_iter), np.random.default_rng(seed))

    def _choose(self, observed: Observed, penalties: np.ndarray, search: Search) -> SoftImputeSolution:
        """The solution that predicts held-out entries best; of the default grid's where no penalties are given."""
        try:
            training, rows, columns, values = observed.hold_out(HELD_OUT, search.rng)
        except NotImplementedError:
            raise ValueError("None of these entries can be held out to choose the penalty; give penalty.") from None
        if not len(values):
            n, d = observed.shape
            raise ValueError(
                f"X, with n_samples = {n} and n_features = {d}, has too few observed entries to hold some of them out; "
                "give penalty."
            )
        if self.penalty is None:
            largest = norm_beside(training, np.zeros((observed.shape[1], 0)), search.rng)[0]
            if largest == 0:
                raise ValueError("X does not vary: every observed entry equals the mean of its column; give penalty.")
            penalties = largest * np.geomspace(1.0, SMALLEST_PENALTY, int(self.n_penalties) + 1)[1:]
        errors: list[float] = []
        best = None
        for solution in search.path(training, penalties, tol=HELD_OUT_TOL):
            fit = _entries(solution.U * solution.singular_values, solution.components.T, rows, columns)
            errors.append(float(np.mean((values - fit) ** 2)))
            if best is None or errors[-1] < min(errors[:-1]):
                best = solution
            if self.penalty is None and len(errors) - int(np.argmin(errors)) > PATIENCE:
                break
        assert best is not None
        self.held_out_penalties_, self.held_out_errors_ = penalties[: len(errors)], np.array(errors)
        return best

    def _describe(self, observed: Observed, solution: SoftImputeSolution) -> None:
        dtype = observed.dtype
        self.U_ = solution.U.astype(dtype)
        self.singular_values_ = solution.singular_values.astype(dtype)
        self.components_ = solution.components.astype(dtype)
        self.mean_ = observed.mean.astype(dtype)
        self.penalty_ = solution.penalty
        self.rank_ = len(solution.singular_values)
        self.objective_ = solution.objective
        self.certificate_ = solution.certificate
        self.converged_ = solution.converged
        self.n_iter_ = solution.n_iter

    def transform(self, X: Any, mask: Any = None) -> Any:
        """Fill the holes of rows, new ones too.

        Each row's scores z minimise 1/2 |P(y - V z)|^2 + penalty / 2 sum_c z_c^2 / s_c, with V the components and s
        the singular values: at the minimum of the objective the rows of the fit solve the same problem.

        Parameters
        ----------
        X : (n_samples, n_features) array, table or sparse array
        mask : True where observed; None if X itself shows its holes
        """
        check_is_fitted(self)
        mean = self.mean_.astype(np.float64)
        observed = observe_entries(X, mask, self.missing, center=mean, estimator=self, reset=False)
        if self.rank_ == 0:
            return self._complete(X, mask, observed, np.zeros((observed.shape[0], 0)))
        ridge = self.penalty_ / self.singular_values_.astype(np.float64)
        return self._complete(X, mask, observed, solve_rows(observed, self.components_.T.astype(np.float64), ridge))

    def _complete(self, X: Any, mask: Any, observed: Observed, scores: np.ndarray) -> Any:
        values = checked_values(X.data if isinstance(X, np.ma.MaskedArray) else X, self, False)
        if sparse.issparse(values):
            if self.missing == "nan" and mask is None:
                return self._fill_stored(values, scores)
            n, d = values.shape
            if n * d > DENSE_VALUES:
                raise ValueError(
                    f"Complete, these {n} x {d} entries would take {8e-9 * n * d:.1f} GB; use fit, and then "
                    f"predict_entries(rows, columns) or transform for at most {max(1, DENSE_VALUES // d)} rows at once."
                )
            out = values.toarray()
        else:
            out = np.array(values)
        for start, stop in observed.row_blocks():
            holes = observed.rows(start, stop)[1] == 0
            fit = scores[start:stop] @ self.components_ + self.mean_
            out[start:stop][holes] = fit[holes]
        return out

    def _fill_stored(self, X: Any, scores: np.ndarray) -> Any:
        """Sparse rows with their stored NaN filled."""
        X = X.copy()
        holes = np.flatnonzero(np.isnan(X.data))
        rows = np.searchsorted(X.indptr, holes, side="right") - 1
        columns = X.indices[holes]
        X.data[holes] = _entries(scores, self.components_.T, rows, columns) + self.mean_[columns]
        return X

    def predict_entries(self, rows: Any, columns: Any) -> np.ndarray:
        """Entries of the fitted matrix, observed or not, at pairs of a row of the fit and a column.

        Parameters
        ----------
        rows, columns : ints or arrays of ints, which are broadcast: ``rows[:, None]`` and ``columns`` give a table
        """
        check_is_fitted(self)
        places = [
            _check_places(where, name, size)
            for where, name, size in ((rows, "rows", len(self.U_)), (columns, "columns", self.n_features_in_))
        ]
        i, s = np.broadcast_arrays(*places)
        fit = _entries(self.U_ * self.singular_values_, self.components_.T, i.ravel(), s.ravel())
        return fit.reshape(i.shape) + self.mean_[s]


def _entries(A: np.ndarray, B: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """A_i . B_s for pairs (i, s)."""
    out = np.empty(len(rows), dtype=np.result_type(A, B))
    for start, stop in even_blocks(len(rows), max(1, PANEL_VALUES // max(1, A.shape[1]))):
        out[start:stop] = np.einsum("pc,pc->p", A[rows[start:stop]], B[columns[start:stop]])
    return out


def _check_penalty(penalty: Any) -> np.ndarray:
    """The penalties in decreasing order; none for None."""
    if penalty is None:
        return np.empty(0)
    values = np.asarray(penalty)
    if values.dtype.kind not in "iuf" or values.ndim > 1 or not values.size or not np.all(np.isfinite(values)):
        raise ValueError(f"penalty must be a positive number, a sequence of them, or None; it is {penalty!r}.")
    values = np.unique(values.astype(np.float64))[::-1]
    if values[-1] <= 0:
        raise ValueError(f"penalty must be above 0; it is {values[-1]:g}.")
    return values


def _check_places(places: Any, name: str, size: int) -> np.ndarray:
    places = np.asarray(places)
    if places.dtype.kind not in "iu":
        raise ValueError(f"{name} must hold integers; its type is {places.dtype}.")
    outside = places[(places < 0) | (places >= size)]
    if outside.size:
        raise ValueError(f"{name} must lie between 0 and {size - 1}; it holds {outside.flat[0]}.")
    return places
