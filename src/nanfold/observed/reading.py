"""From what users hand in (arrays, tables, sparse arrays, masks) to the storage that fits."""

from typing import Any

import numpy as np
from scipy import sparse

from nanfold.observed.checks import check_coverage, check_range, checked_mask, checked_values, refuse_unknown
from nanfold.observed.contract import Observed
from nanfold.observed.counts import CountsObserved, StructuredMask
from nanfold.observed.dense import DenseObserved
from nanfold.observed.unstored import UnstoredObserved

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
    X : array, table or sparse array of shape (n, d); a numpy masked array brings its mask with it
    mask : True where observed; an array, sparse array, StructuredMask, or something fitted that has one as `mask_`
    missing : "nan" (NaN are holes) or "unstored" (what a sparse array does not store is a hole)
    center : True for the means of the observed entries, False for no centring, or the means to subtract
    estimator : the estimator on whose behalf X is checked, for its feature names and their number
    reset : whether X is what the estimator is fitted to, or new rows
    """
    if missing not in MISSING:
        raise ValueError(f"missing must be one of {', '.join(map(repr, MISSING))}; it is {missing!r}.")
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
    mask = checked_mask(mask, X.shape)
    mean = None if center is True else np.zeros(X.shape[1]) if center is False else np.asarray(center, dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        observed = _store(X, mask, missing, mean, names)
    check_coverage(observed, names, columns=reset)
    check_range(observed, X)
    return observed


def _store(X: Any, mask: Any, missing: str, mean: np.ndarray | None, names: list | None) -> Observed:
    if sparse.issparse(X):
        X = sparse.csr_array(X)
        if missing == "unstored":
            if mask is not None:
                raise ValueError("With missing='unstored' the stored entries are the mask; leave mask out.")
            return UnstoredObserved(X, mean)
        if mask is None:
            n, d = X.shape
            everything = StructuredMask(np.zeros(n, dtype=np.int64), np.ones((1, d), dtype=np.float32))
            return CountsObserved(X, everything, mean)
        if isinstance(mask, StructuredMask):
            return CountsObserved(X, mask, mean)
        return UnstoredObserved(_restrict(X, sparse.csr_array(mask)), mean)
    if missing == "unstored":
        raise ValueError(
            "missing='unstored' needs a sparse array; for a dense one use missing='nan' with NaN in the holes."
        )
    if isinstance(mask, StructuredMask):
        return CountsObserved(sparse.csr_array(X), mask, mean)
    if mask is None:
        return DenseObserved(np.ascontiguousarray(X), mean)
    Y = np.array(X, order="C", copy=True)
    hidden = np.isnan(Y)
    if sparse.issparse(mask):
        mask = mask.toarray()
    refuse_unknown(hidden & (mask > 0), names)
    Y[mask == 0] = np.nan
    return DenseObserved(Y, mean, weights=None if mask.dtype == bool else mask, overwrite=True)


def _restrict(X: sparse.csr_array, mask: sparse.csr_array) -> sparse.csr_array:
    """The entries of X under the mask, zeros among them stored."""
    if mask.dtype != bool:
        raise ValueError("A sparse X takes a mask of True and False, or a structured mask; weights need a dense X.")
    if np.isnan(X.data).any():
        raise ValueError("A sparse X with a mask must not hold NaN; let the mask alone say where the holes are.")
    mask = mask.copy()  # the user's own is not to be tidied up
    mask.sum_duplicates()
    mask.eliminate_zeros()
    rows = np.repeat(np.arange(mask.shape[0]), np.diff(mask.indptr))
    values = np.asarray(X[rows, mask.indices]).ravel().astype(X.dtype, copy=False)
    return sparse.csr_array((values, mask.indices, mask.indptr), shape=mask.shape)
