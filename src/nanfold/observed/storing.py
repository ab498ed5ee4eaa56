"""Which storage fits what was handed in, once it has been checked."""

from typing import Any

import numpy as np
from scipy import sparse

from nanfold.observed.checks import refuse_unknown
from nanfold.observed.contract import Observed
from nanfold.observed.counts import CountsObserved, StructuredMask
from nanfold.observed.dense import DenseObserved
from nanfold.observed.unstored import UnstoredObserved


def store(
    X: Any,
    mask: Any,
    missing: str,
    mean: np.ndarray | None,
    names: list | None = None,
    *,
    complete: bool | None = None,
) -> Observed:
    """X, an array or a sparse one, under its mask.

    Parameters
    ----------
    X, mask, missing : as `observe` takes them, checked
    mean : what to subtract; None for the means of what is observed
    names : of the columns
    complete : whether counts are known to miss nothing, or something; None to look
    """
    if sparse.issparse(X):
        X = sparse.csr_array(X)
        if missing == "unstored":
            if mask is not None:
                raise ValueError("With missing='unstored' the stored entries are the mask; leave mask out.")
            return UnstoredObserved(X, mean)
        if mask is None:
            n, d = X.shape
            everything = StructuredMask(np.zeros(n, dtype=np.int64), np.ones((1, d), dtype=np.float32))
            return CountsObserved(X, everything, mean, complete=complete)
        if isinstance(mask, StructuredMask):
            return CountsObserved(X, mask, mean, complete=complete)
        return UnstoredObserved(_restrict(X, sparse.csr_array(mask)), mean)
    if missing == "unstored":
        raise ValueError(
            "missing='unstored' needs a sparse array; for a dense one use missing='nan' with NaN in the holes."
        )
    if isinstance(mask, StructuredMask):
        return CountsObserved(sparse.csr_array(X), mask, mean, complete=complete)
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
