"""From what users hand in (arrays, tables, sparse arrays, masks) to the storage that fits."""

from typing import Any

import numpy as np
from scipy import sparse

from nanfold.chunked import is_dask
from nanfold.observed.checks import (
    check_coverage,
    check_range,
    checked_mask,
    checked_values,
    is_fitted_mask,
    largest_entry,
    refuse_negative,
)
from nanfold.observed.contract import Observed
from nanfold.observed.opening import observe_chunks
from nanfold.observed.storing import store

MISSING = ("nan", "unstored")


def observe(
    X: Any,
    mask: Any = None,
    missing: str = "nan",
    *,
    center: bool | np.ndarray = True,
    estimator: Any = None,
    reset: bool = True,
) -> Observed:
    """Check X and its mask and put them into the storage that fits.

    Parameters
    ----------
    X : array, table, sparse array or Dask array of shape (n, d); a numpy masked array brings its mask with it
    mask : True where observed; an array, sparse array, StructuredMask, or something fitted that has one as `mask_`
    missing : "nan" (NaN are holes) or "unstored" (what a sparse array does not store is a hole)
    center : True for the means of the observed entries, False for no centring, or the means to subtract
    estimator : the estimator on whose behalf X is checked, for its feature names and their number
    reset : whether X is what the estimator is fitted to, or new rows
    """
    if missing not in MISSING:
        raise ValueError(f"missing must be one of {', '.join(map(repr, MISSING))}; it is {missing!r}.")
    if is_dask(X):
        return observe_chunks(X, mask, missing, center=center, estimator=estimator, reset=reset)
    if isinstance(X, np.ma.MaskedArray):
        if mask is not None:
            raise ValueError("X is a masked array and mask is given too; give the mask once.")
        # Taken here because everything below, scikit-learn first, drops it in silence.
        X, mask = X.data, ~np.ma.getmaskarray(X)
    if missing == "unstored" and sparse.issparse(X) and X.format in ("bsr", "dia"):
        raise ValueError(
            f"missing='unstored' needs a format that stores single entries, and X is in {X.format.upper()} format; "
            "build it as COO, CSR or CSC."
        )
    names = list(X.columns) if hasattr(X, "columns") else None
    X = checked_values(X, estimator, reset)
    if is_fitted_mask(mask):
        refuse_negative(X)
    mask = checked_mask(mask, X.shape)
    mean = None if center is True else np.zeros(X.shape[1]) if center is False else np.asarray(center, dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        observed = store(X, mask, missing, mean, names)
    check_coverage(observed, names, columns=reset)
    check_range(observed, lambda: largest_entry(X))
    return observed
