"""From what users hand in (arrays, tables, sparse arrays, masks) to the storage that fits, checked on the way."""

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

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
    names = _column_names(X)
    X = _checked_values(X, estimator, reset)
    mask = _checked_mask(mask, X.shape)
    mean = None if center is True else np.zeros(X.shape[1]) if center is False else np.asarray(center, dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        observed = _store(X, mask, missing, mean, names)
    _check_coverage(observed, names, columns=reset)
    _check_range(observed, X)
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
    Y = np.array(X, order="C", copy=True)
    if mask is None:
        return DenseObserved(Y, mean)
    hidden = np.isnan(Y)
    if sparse.issparse(mask):
        mask = mask.toarray()
    _refuse_unknown(hidden & (mask > 0), names)
    Y[mask == 0] = np.nan
    return DenseObserved(Y, mean, weights=None if mask.dtype == bool else mask)


def _restrict(X: sparse.csr_array, mask: sparse.csr_array) -> sparse.csr_array:
    """The entries of X under the mask, zeros among them stored."""
    if mask.dtype != bool:
        raise ValueError("A sparse X takes a mask of True and False, or a structured mask; weights need a dense X.")
    mask.eliminate_zeros()
    if np.isnan(X.data).any():
        raise ValueError("A sparse X with a mask must not hold NaN; let the mask alone say where the holes are.")
    rows = np.repeat(np.arange(mask.shape[0]), np.diff(mask.indptr))
    values = np.asarray(X[rows, mask.indices]).ravel().astype(X.dtype, copy=False)
    return sparse.csr_array((values, mask.indices, mask.indptr), shape=mask.shape)


def _refuse_unknown(conflict: np.ndarray, names: list | None) -> None:
    if conflict.any():
        i, s = np.argwhere(conflict)[0]
        raise ValueError(
            f"The mask says that row {i}, {_column(s, names)} is observed, but X holds NaN there; correct the mask."
        )


def _column(s: int, names: list | None) -> str:
    return f"column {s}" if names is None else f"column {names[s]!r}"


def _column_names(X: Any) -> list | None:
    columns = getattr(X, "columns", None)
    return None if columns is None else list(columns)


def _checked_values(X: Any, estimator: Any, reset: bool) -> Any:
    """X as a float array or CSR, checked for shape, text, complex numbers and duplicates."""
    _refuse_text(X)
    if sparse.issparse(X):
        _refuse_duplicates(X)
    settings: dict[str, Any] = {
        "accept_sparse": "csr",
        "dtype": [np.float64, np.float32],
        "ensure_all_finite": False,
        "ensure_min_samples": 2 if reset else 1,
    }
    if estimator is None:
        return check_array(X, input_name="X", **settings)
    return validate_data(estimator, X, reset=reset, **settings)


def _refuse_text(X: Any) -> None:
    """A table or an array of objects with something in it that is not a number is refused by column."""
    if hasattr(X, "columns") and hasattr(X, "iloc"):
        columns = [(name, X.iloc[:, s]) for s, name in enumerate(X.columns)]
    elif isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "OUS":
        columns = [(s, X[:, s]) for s in range(X.shape[1])]
    else:
        return
    for name, column in columns:
        if getattr(column.dtype, "kind", "O") in "biuf":
            continue
        if getattr(column.dtype, "kind", "O") in "mM":
            raise ValueError(f"Column {name!r} of X holds dates or durations; drop it or turn it into numbers.")
        for i, value in enumerate(column):
            if not _is_number(value):
                raise ValueError(
                    f"Column {name!r} of X holds {value!r} in row {i}, which is not a number; drop the column or turn "
                    "it into numbers."
                )


def _is_number(value: Any) -> bool:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, complex | np.complexfloating):
        return True  # refused with all complex numbers
    try:
        float(value)
    except (TypeError, ValueError):
        # What is no text and no number at all is left to scikit-learn, which names its type.
        return not isinstance(value, str | bytes)
    return True


def _refuse_duplicates(X: Any) -> None:
    table = X if X.format in ("csr", "csc", "coo") else None
    if table is None:
        return  # the other formats cannot hold an entry twice
    if table.format == "coo":
        order = np.lexsort(table.coords[::-1]) if hasattr(table, "coords") else np.lexsort((table.col, table.row))
        rows, columns = table.row[order], table.col[order]
        twice = (np.diff(rows) == 0) & (np.diff(columns) == 0)
        if not twice.any():
            return
        at = int(np.argmax(twice))
        i, s = rows[at], columns[at]
    else:
        if table.has_canonical_format:
            return
        table = table.copy()
        table.sort_indices()
        major = np.repeat(np.arange(len(table.indptr) - 1), np.diff(table.indptr))
        twice = (np.diff(table.indices) == 0) & (np.diff(major) == 0)
        if not twice.any():
            return
        at = int(np.argmax(twice))
        i, s = (major[at], table.indices[at]) if table.format == "csr" else (table.indices[at], major[at])
    raise ValueError(
        f"The sparse array stores row {i}, column {s} more than once; call X.sum_duplicates() if its entries are to be "
        "added up, or keep one of them."
    )


def _checked_mask(mask: Any, shape: tuple[int, int]) -> Any:
    """The mask as a boolean or weight array, a sparse boolean array, or a StructuredMask, of the shape of X."""
    if mask is None:
        return None
    if not isinstance(mask, StructuredMask) and hasattr(mask, "mask_"):
        mask = mask.mask_
    if not isinstance(mask, StructuredMask) and not sparse.issparse(mask):
        mask = np.asarray(mask)
    if tuple(mask.shape) != tuple(shape):
        raise ValueError(
            f"The mask has shape {tuple(mask.shape)}, but X has shape {tuple(shape)}; they must be the same."
        )
    if isinstance(mask, StructuredMask):
        return mask
    if mask.dtype == bool:
        values = mask.data if sparse.issparse(mask) else mask
    else:
        if mask.dtype.kind not in "iuf":
            raise ValueError(f"The mask must hold True where observed, or weights in [0, 1]; its type is {mask.dtype}.")
        values = mask.data if sparse.issparse(mask) else mask
        if not (np.min(values, initial=0) >= 0 and np.max(values, initial=1) <= 1) or np.isnan(values).any():
            raise ValueError("The mask must hold True where observed, or weights in [0, 1]; it holds other numbers.")
        if np.isin(values, (0, 1)).all():
            mask = mask.astype(bool)
        elif not sparse.issparse(mask):
            mask = mask.astype(np.float64)
    if not np.any(values):
        raise ValueError("The mask has no observed entry: it is True (or above 0) where a value is known.")
    return mask


def _check_coverage(observed: Observed, names: list | None, *, columns: bool) -> None:
    """Every row, and every column of what is fitted, must have been seen at least once."""
    empty = np.flatnonzero(observed.row_counts <= 0)
    if empty.size:
        raise ValueError(f"Row {_some(empty)} of X has no observed entry; drop {_it(empty)} first.")
    empty = np.flatnonzero(observed.column_counts <= 0)
    if columns and empty.size:
        where = _some([names[s] for s in empty] if names else empty)
        raise ValueError(f"Column {where} of X has no observed entry; drop {_it(empty)} first.")


def _some(places: Any, most: int = 5) -> str:
    named = ", ".join(repr(place) if isinstance(place, str) else str(place) for place in places[:most])
    return named if len(places) <= most else f"{named} and {len(places) - most} more"


def _it(places: Any) -> str:
    return "it" if len(places) == 1 else "them"


def _check_range(observed: Observed, X: Any) -> None:
    """Squares must neither overflow nor all vanish."""
    if not np.all(np.isfinite(observed.row_squares)) or not np.all(np.isfinite(observed.mean)):
        i, s, value = _largest(X)
        raise ValueError(
            f"X holds {value:.3g} at row {i}, column {s}, whose square overflows; divide X by a constant first."
        )
    if observed.row_squares.max() < 1e-280:
        i, s, value = _largest(X)
        if 0 < abs(value) < 1e-130:
            raise ValueError(
                f"The largest value of X, {value:.3g} at row {i}, column {s}, is so small that its square vanishes; "
                "multiply X by a constant first."
            )


def _largest(X: Any) -> tuple[int, int, float]:
    if sparse.issparse(X):
        table = sparse.coo_array(X)
        p = int(np.nanargmax(np.abs(table.data))) if table.nnz else 0
        return (int(table.row[p]), int(table.col[p]), float(table.data[p])) if table.nnz else (0, 0, 0.0)
    i, s = np.unravel_index(int(np.nanargmax(np.abs(X))), X.shape)
    return int(i), int(s), float(X[i, s])
