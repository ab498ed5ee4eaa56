"""What users hand in, checked: every refusal is one sentence that names the place and the remedy."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from nanfold.observed.contract import Observed
from nanfold.observed.counts import StructuredMask


def checked_values(X: Any, estimator: Any, reset: bool) -> Any:
    """X as a float array or CSR, checked for shape, text, complex numbers and duplicates."""
    if isinstance(X, list | tuple):
        X = from_list(X)
    _refuse_shape(X)
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


def checked_mask(mask: Any, shape: tuple[int, int]) -> Any:
    """The mask as a boolean or weight array, a sparse boolean array, or a StructuredMask, of the shape of X."""
    if mask is None:
        return None
    if is_fitted_mask(mask):
        mask = mask.mask_
    elif hasattr(mask, "fit"):
        name = mask.__name__ if isinstance(mask, type) else type(mask).__name__
        raise ValueError(f"The mask is a {name} that is not fitted; fit it to the counts first.")
    if not isinstance(mask, StructuredMask) and not sparse.issparse(mask):
        mask = np.asarray(mask)
    if tuple(mask.shape) != tuple(shape):
        raise ValueError(
            f"The mask has shape {tuple(mask.shape)}, but X has shape {tuple(shape)}; they must be the same."
        )
    if isinstance(mask, StructuredMask):
        return mask
    if mask.dtype != bool:
        mask = _checked_weights(mask)
    if not np.any(mask.data if sparse.issparse(mask) else mask):
        raise ValueError("The mask has no observed entry: it is True (or above 0) where a value is known.")
    return mask


def is_fitted_mask(mask: Any) -> bool:
    """Whether it is something fitted to counts, such as ``Dropouts``, that has a mask of their zeros."""
    return not isinstance(mask, StructuredMask) and hasattr(mask, "mask_")


def refuse_negative(X: Any) -> None:
    """Values whose zeros a mask of dropouts is about are never negative."""
    stored = X.data if sparse.issparse(X) else X
    if not np.any(stored < 0):
        return
    if sparse.issparse(X):
        at = int(np.argmax(stored < 0))
        i, s = int(np.searchsorted(X.indptr, at, side="right")) - 1, X.indices[at]
    else:
        i, s = np.argwhere(stored < 0)[0]
    raise ValueError(
        f"X holds {X[i, s]:.6g} at row {i}, column {s}: after centring or scaling, zeros are no longer those of the "
        "counts that the mask of dropouts is about; give the values from before."
    )


def _checked_weights(mask: Any) -> Any:
    """A mask of numbers: of booleans if they are 0 and 1, else of weights."""
    wanted = "The mask must hold True where observed, or weights in [0, 1]"
    if mask.dtype.kind not in "iuf":
        raise ValueError(f"{wanted}; its type is {mask.dtype}.")
    table = sparse.coo_array(mask) if sparse.issparse(mask) else mask
    values = table.data if sparse.issparse(mask) else mask
    # Written so that a NaN fails too.
    bad = ~((values >= 0) & (values <= 1))
    if bad.any():
        first = np.argwhere(bad)[0]
        i, s = (table.coords[0][first[0]], table.coords[1][first[0]]) if sparse.issparse(mask) else first
        value = values[tuple(first)]
        raise ValueError(f"{wanted}; it holds {value:.6g} at row {i}, column {s}.")
    if np.isin(values, (0, 1)).all():
        return mask.astype(bool)
    return mask if sparse.issparse(mask) else mask.astype(np.float64)


def check_coverage(observed: Observed, names: list | None, *, columns: bool) -> None:
    """Every row, and every column of what is fitted, must have been seen at least once."""
    n, d = observed.shape
    # Sums of soft weights that cancel leave rounding behind.
    empty = np.flatnonzero(observed.row_counts <= 1e-12 * d)
    if empty.size:
        raise ValueError(f"{_named('Row', empty)} of X {_has(empty)} no observed entry; drop {_it(empty)} first.")
    empty = np.flatnonzero(observed.column_counts <= 1e-12 * n)
    if columns and empty.size:
        where = _named("Column", [names[s] for s in empty] if names else empty)
        raise ValueError(f"{where} of X {_has(empty)} no observed entry; drop {_it(empty)} first.")


def check_shared_features(observed: Observed) -> None:
    """Every row must share a feature with some other, or nothing is known of its distances."""
    # (sum_i M_is)^2 = sum_i M_is^2 where one row at most has the feature.
    shared = observed.column_counts**2 > observed.column_squares * (1 + 1e-9)
    alone = np.flatnonzero(observed.mask_matmul(shared[:, None])[:, 0] <= 1e-12 * observed.shape[1])
    if alone.size:
        raise ValueError(
            f"{_named('Row', alone)} of X {'shares' if len(alone) == 1 else 'share'} no feature with any other row, so "
            f"no distance to {_it(alone)} can be known; drop {_it(alone)} first."
        )


def check_range(observed: Observed, largest: Callable[[], tuple[int, int, float]]) -> None:
    """Sums of squares must neither overflow nor vanish in the type of the data; `largest` finds the largest entry."""
    limits = np.finfo(observed.dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        total = observed.shape[1] * np.sum(observed.row_squares / observed.row_counts)
    if not (total <= limits.max and np.all(np.isfinite(observed.mean))):
        i, s, value = largest()
        raise ValueError(
            f"X holds {value:.3g} at row {i}, column {s}, whose square overflows in {observed.dtype}; divide X by a "
            "constant first."
        )
    least = limits.tiny / limits.eps
    if total < least:
        i, s, value = largest()
        if 0 < abs(value) < np.sqrt(least):
            raise ValueError(
                f"The largest value of X, {value:.3g} at row {i}, column {s}, is so small that its square vanishes in "
                f"{observed.dtype}; multiply X by a constant first."
            )


def refuse_unknown(conflict: np.ndarray, names: list | None) -> None:
    """An entry that the mask calls observed must not be NaN."""
    if conflict.any():
        i, s = np.argwhere(conflict)[0]
        column = f"column {s}" if names is None else f"column {names[s]!r}"
        raise ValueError(f"The mask says that row {i}, {column} is observed, but X holds NaN there; correct the mask.")


def from_list(X: list | tuple) -> np.ndarray:
    """Rows in a list as an array."""
    try:
        return np.asarray(X)
    except ValueError:
        raise ValueError("The rows of X have different lengths; write NaN where a value is missing.") from None


def refuse_type(X: Any) -> None:
    """A type of array none of whose entries can be numbers that are real."""
    _refuse_shape(X)
    if X.dtype.kind not in "biuf":
        raise ValueError(f"X is of type {X.dtype}, which holds no numbers; make it so by X.astype(float).")


def _refuse_shape(X: Any) -> None:
    """Arrays that are not tables, in one sentence; whatever else X may be is left to scikit-learn."""
    if getattr(getattr(X, "dtype", None), "kind", "") == "c":
        raise ValueError("Complex data not supported: X must hold real numbers; give X.real, X.imag or abs(X).")
    dimensions = getattr(X, "ndim", 2)
    if dimensions == 0:
        raise ValueError("X is a single number and needs two dimensions (samples, features). Reshape your data.")
    if dimensions == 1:
        raise ValueError(
            "X has one dimension and needs two (samples, features). Reshape your data: X.reshape(1, -1) if it is one "
            "sample, X.reshape(-1, 1) if it is one feature."
        )
    if dimensions > 2:
        raise ValueError(
            f"X has {dimensions} dimensions and needs two (samples, features); X.reshape(len(X), -1) makes each sample "
            "a row."
        )


def _refuse_text(X: Any) -> None:
    """A table or an array of objects with something in it that is not a number is refused by column."""
    if hasattr(X, "dtypes") and hasattr(X, "iloc"):
        kinds = [getattr(dtype, "kind", "O") for dtype in X.dtypes]
        columns = [(X.columns[s], X.iloc[:, s]) for s, kind in enumerate(kinds) if kind not in "biuf"]
    elif isinstance(X, np.ndarray) and X.dtype.kind in "OUSmM":
        columns = [(s, X[:, s]) for s in range(X.shape[1])]
    else:
        return
    for name, column in columns:
        if getattr(column.dtype, "kind", "O") in "mM":
            raise ValueError(f"Column {name!r} of X holds dates or durations; drop it or turn it into numbers.")
        for i, value in enumerate(column):
            if not _is_number(value):
                text = value.item() if isinstance(value, np.generic) else value
                raise ValueError(
                    f"Column {name!r} of X holds {text!r} in row {i}, which is not a number; drop the column or turn "
                    "it into numbers."
                )


def is_missing(value: Any) -> bool:
    """Whether it stands for nothing: None, NaN, or what pandas has in their place."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.floating | np.datetime64) and bool(value != value)


def _is_number(value: Any) -> bool:
    if is_missing(value):
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
    if X.format not in ("csr", "csc", "coo") or (X.format != "coo" and X.has_canonical_format):
        return  # the other formats cannot hold an entry twice
    if X.format == "coo":
        rows, columns = X.row, X.col
    else:
        major = np.repeat(np.arange(len(X.indptr) - 1), np.diff(X.indptr))
        rows, columns = (major, X.indices) if X.format == "csr" else (X.indices, major)
    order = np.lexsort((columns, rows))
    rows, columns = rows[order], columns[order]
    twice = (np.diff(rows) == 0) & (np.diff(columns) == 0)
    if twice.any():
        at = int(np.argmax(twice))
        raise ValueError(
            f"The sparse array stores row {rows[at]}, column {columns[at]} more than once; call X.sum_duplicates() if "
            "its entries are to be added up, or keep one of them."
        )


def _named(what: str, places: Any, most: int = 5) -> str:
    shown = ", ".join(repr(place) if isinstance(place, str) else str(place) for place in places[:most])
    rest = "" if len(places) <= most else f" and {len(places) - most} more"
    return f"{what}{'' if len(places) == 1 else 's'} {shown}{rest}"


def _has(places: Any) -> str:
    return "has" if len(places) == 1 else "have"


def _it(places: Any) -> str:
    return "it" if len(places) == 1 else "them"


def largest_entry(X: Any) -> tuple[int, int, float]:
    """Row, column and value of the entry that is largest in magnitude."""
    if sparse.issparse(X):
        table = sparse.coo_array(X)
        if not table.nnz:
            return 0, 0, 0.0
        p = int(np.nanargmax(np.abs(table.data)))
        return int(table.row[p]), int(table.col[p]), float(table.data[p])
    i, s = np.unravel_index(int(np.nanargmax(np.abs(X))), X.shape)
    return int(i), int(s), float(X[i, s])
