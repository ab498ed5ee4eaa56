"""What both single-cell baselines ask of a matrix of counts."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from nanfold.chunked import is_dask


def dense_counts(estimator: BaseEstimator, X: Any) -> np.ndarray:
    """Return counts (cells x genes, dense or sparse) as a dense float64 array of finite numbers >= 0.

    The array is X itself where X is already one: callers do not write into it.
    """
    if isinstance(X, np.ma.MaskedArray) and np.ma.is_masked(X):
        raise ValueError("X is a masked array with masked entries; counts must all be known, so give X without a mask.")
    if is_dask(X):
        X = X.compute()  # what numpy makes of sparse chunks is an object
    X = validate_data(
        estimator, X, accept_sparse="csr", dtype=np.float64, ensure_all_finite=False, ensure_min_samples=3
    )
    if sp.issparse(X):
        X = X.toarray()
    _refuse(X, ~np.isfinite(X), "NaN or inf in data", "every count must be a known, finite number")
    _refuse(X, X < 0, "Negative values in data", "give counts, before any centring or log ratio")
    return X


def _refuse(X: np.ndarray, bad: np.ndarray, what: str, remedy: str) -> None:
    if bad.any():
        cell, gene = np.argwhere(bad)[0]
        raise ValueError(f"{what}: cell {cell}, gene {gene} is {X[cell, gene]:g}; {remedy}.")


def name_some(indices: np.ndarray, most: int = 5) -> str:
    """Write the first few of a list of indices."""
    text = ", ".join(str(i) for i in indices[:most])
    return text if len(indices) <= most else f"{text} and {len(indices) - most} more"
