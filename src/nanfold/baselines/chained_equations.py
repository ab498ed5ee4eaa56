"""Chained equations: fill each feature by a regression on the others, in turn and again, by scikit-learn.

van Buuren and Groothuis-Oudshoorn, "mice: Multivariate imputation by chained equations in R" (2011).
"""

import warnings
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.experimental import enable_iterative_imputer  # noqa: F401, without it the next import fails
from sklearn.impute import IterativeImputer
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from nanfold.baselines._holes import observe_entries, refuse_large

# Predictors of a feature with n_nearest_features="auto", where there are more. A regression costs in proportion to
# them, and a wide table has as many regressions a round as features.
NEAREST = 100
# The correlations that predictors are drawn by take d x d values, and a few copies of them while they are computed.
WIDEST = 20_000


class ChainedEquations(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Fill holes by scikit-learn's IterativeImputer, with few enough predictors that wide tables can be done.

    Parameters
    ----------
    n_nearest_features : int, "auto" or None
        How many other features predict a feature. They are drawn anew for every regression, with probabilities
        proportional to their absolute correlations with it. "auto" is all of them up to 100, and 100 beyond; None is
        all.
    estimator : regressor, optional
        What predicts a feature; scikit-learn's BayesianRidge if None.
    max_iter : int
        The most rounds over all features.
    tol : float
        Stop when no row changes in a round by more, in sum, than this times the largest absolute value of X. Where
        predictors are drawn anew this is hardly ever reached, and `max_iter` rounds are made.
    initial_strategy : {"mean", "median", "most_frequent", "constant"}
        What the holes hold at first.
    imputation_order : {"ascending", "descending", "roman", "arabic", "random"}
        The order of the features, "ascending" from the fewest holes to the most.
    min_value, max_value : float or array
        Bounds of what is filled in, for all features or for each.
    missing : {"nan", "unstored"}
        Whether holes are NaN, or what a sparse array does not store.
    random_state : int, RandomState or None
        Seeds which predictors are drawn.

    Attributes
    ----------
    imputer_ : IterativeImputer
        scikit-learn's, fitted.
    n_nearest_features_ : int
    n_iter_ : int
        Rounds made.
    """

    def __init__(
        self,
        n_nearest_features: Any = "auto",
        *,
        estimator: Any = None,
        max_iter: int = 10,
        tol: float = 1e-3,
        initial_strategy: str = "mean",
        imputation_order: str = "ascending",
        min_value: Any = -np.inf,
        max_value: Any = np.inf,
        missing: str = "nan",
        random_state: Any = None,
    ) -> None:
        self.n_nearest_features = n_nearest_features
        self.estimator = estimator
        self.max_iter = max_iter
        self.tol = tol
        self.initial_strategy = initial_strategy
        self.imputation_order = imputation_order
        self.min_value = min_value
        self.max_value = max_value
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
        self.fit_transform(X, mask=mask)
        return self

    def fit_transform(self, X: Any, y: Any = None, mask: Any = None) -> np.ndarray:
        """Fit to X and return it with its holes filled, dense."""
        table = self._table(X, mask, reset=True)
        self.n_nearest_features_ = self._nearest(table.shape[1])
        chosen = self.n_nearest_features_ < table.shape[1] - 1
        if chosen and table.shape[1] > WIDEST:
            raise ValueError(
                f"X has {table.shape[1]} features, and the correlations between more than {WIDEST} take too much "
                "memory; choose features first."
            )
        self.imputer_ = IterativeImputer(
            estimator=self.estimator,
            n_nearest_features=self.n_nearest_features_ if chosen else None,
            max_iter=self.max_iter,
            tol=self.tol,
            initial_strategy=self.initial_strategy,
            imputation_order=self.imputation_order,
            min_value=self.min_value,
            max_value=self.max_value,
            random_state=self.random_state,
        )
        with warnings.catch_warnings():
            # Said below in one sentence where it means something.
            warnings.filterwarnings("ignore", "\\[IterativeImputer\\]", ConvergenceWarning)
            filled = self.imputer_.fit_transform(table)
        self.n_iter_ = self.imputer_.n_iter_
        if 0 < self.n_iter_ == self.max_iter and not chosen:
            warnings.warn(
                f"ChainedEquations made max_iter={self.max_iter} rounds and the values still changed by more than "
                f"tol={self.tol:g}; allow more rounds, or raise tol.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return filled

    def transform(self, X: Any, mask: Any = None) -> np.ndarray:
        """Fill the holes of rows, new ones too, by the regressions of the fit.

        Parameters
        ----------
        X : (n_samples, n_features) array, table or sparse array
        mask : True where observed; None if X itself shows its holes
        """
        check_is_fitted(self)
        return self.imputer_.transform(self._table(X, mask, reset=False))

    def _table(self, X: Any, mask: Any, reset: bool) -> np.ndarray:
        """X as a dense array with NaN in the holes."""
        refuse_large(X, "give fewer rows or columns at once, or take SoftImpute")
        observed = observe_entries(X, mask, self.missing, estimator=self, center=False, reset=reset)
        table = np.empty(observed.shape, dtype=observed.dtype)
        for start, stop in observed.row_blocks():
            values, known = observed.rows(start, stop)
            table[start:stop] = np.where(known > 0, values, np.nan)
        return table

    def _nearest(self, d: int) -> int:
        value = self.n_nearest_features
        if value is None:
            return d - 1
        if isinstance(value, str) and value == "auto":
            return min(d - 1, NEAREST)
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
            raise ValueError(f"n_nearest_features must be 'auto', None or an int of at least 1; it is {value!r}.")
        return min(int(value), d - 1)
