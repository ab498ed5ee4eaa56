"""What the baselines that fill holes ask of their data."""

from typing import Any

import numpy as np
from scipy import sparse

from nanfold.observed import Observed, observe

# More values than this are not completed at once for sparse rows: 0.5 GB in float64.
DENSE_VALUES = 2**26


def observe_entries(X: Any, mask: Any, missing: str, *, estimator: Any, **settings: Any) -> Observed:
    """The data, each entry of which must be observed or not."""
    observed = observe(X, mask, missing, estimator=estimator, **settings)
    if not np.array_equal(observed.column_squares, observed.column_counts):
        raise ValueError(
            f"{type(estimator).__name__} needs entries that are observed or not, and the mask holds weights between 0 "
            "and 1; give a mask of True and False."
        )
    return observed


def refuse_large(X: Any, remedy: str) -> None:
    """Sparse data of which a dense array would be too large."""
    if sparse.issparse(X) and X.shape[0] * X.shape[1] > DENSE_VALUES:
        n, d = X.shape
        raise ValueError(f"Complete, these {n} x {d} entries would take {8e-9 * n * d:.1f} GB; {remedy}.")
