"""From a Dask array and its mask to a storage of row blocks: what each chunk must be, and a first look at them all."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import validate_data

from nanfold.chunked import RowBlocks, check_chunks, is_dask
from nanfold.observed.checks import (
    check_coverage,
    check_range,
    checked_mask,
    checked_values,
    is_fitted_mask,
    largest_entry,
    refuse_negative,
    refuse_type,
)
from nanfold.observed.chunked import Chunked, ChunkedCounts
from nanfold.observed.contract import Observed
from nanfold.observed.counts import StructuredMask
from nanfold.observed.storing import store


@dataclasses.dataclass(frozen=True)
class Opener:
    """How a chunk becomes an in-memory storage; the means are the first of what all blocks share.

    Attributes
    ----------
    dtype, missing : of the whole
    structured : whether the mask is the group of each row, and weights that blocks share; else it is rows of a mask
    complete : whether counts are known to miss nothing, or something
    never_negative : whether negative values are to be refused
    """

    dtype: np.dtype
    missing: str
    structured: bool
    complete: bool | None = None
    never_negative: bool = False

    def open(self, chunk: Any, start: int, by_row: tuple, shared: tuple) -> Observed:
        """The storage of a chunk."""
        mean, *weights = shared
        mask = StructuredMask(by_row[0], weights[0]) if self.structured else by_row[0] if by_row else None
        return store(as_values(chunk, self.dtype), mask, self.missing, mean, complete=self.complete)

    def survey(self, chunk: Any, start: int, by_row: tuple, shared: tuple) -> tuple:
        """A first look: whether the chunk is sparse, and its counts of rows; its counts and sums of columns."""
        refuse_kind(chunk, start)
        try:
            values = checked_values(as_values(chunk, self.dtype), None, reset=False)
            if self.never_negative:
                refuse_negative(values)
            if by_row and not self.structured:
                by_row = (checked_mask(by_row[0], chunk.shape),)
            observed = self.open(chunk, start, by_row, shared)
            counts = (observed.row_counts, observed.column_counts, observed.column_squares)
        except ValueError as error:
            raise _placed(error, start) from error
        sums = observed.rmatmul(np.ones((chunk.shape[0], 1)))[:, 0]
        return (np.array([sparse.issparse(chunk)]), counts[0]), (*counts[1:], sums)


def observe_chunks(
    X: Any, mask: Any, missing: str, *, center: bool | np.ndarray, estimator: Any, reset: bool
) -> Chunked:
    """A Dask array and its mask, checked, as a storage; the arguments are those of ``observe``."""
    check_chunks(X)
    refuse_type(X)
    n, d = X.shape
    if n < (2 if reset else 1) or d < 1:
        raise ValueError(f"X has {n} samples and {d} features; at least 2 samples and 1 feature are needed.")
    if estimator is not None:
        validate_data(estimator, X, reset=reset, skip_check_array=True)
    dtype = np.dtype(np.float32 if X.dtype == np.float32 else np.float64)
    return observe_blocks(
        RowBlocks(X),
        _checked_mask(mask, X),
        missing,
        dtype,
        center=center,
        new_rows=not reset,
        never_negative=is_fitted_mask(mask),
    )


def observe_blocks(
    raw: RowBlocks,
    mask: Any = None,
    missing: str = "nan",
    dtype: Any = np.float64,
    *,
    center: bool | np.ndarray = True,
    new_rows: bool = False,
    never_negative: bool = False,
) -> Chunked:
    """Row blocks of values as a storage, after a look at all of them.

    Parameters
    ----------
    raw : blocks of arrays or CSR arrays
    mask : None, a StructuredMask, an array, or the row blocks of one
    missing, center : as in ``observe``
    dtype : float64 or float32
    new_rows : whether columns that were not observed are let pass
    never_negative : whether negative values are refused
    """
    n, d = raw.shape
    structured = isinstance(mask, StructuredMask)
    by_row = () if mask is None else (mask.groups if structured else mask,)
    weights = (mask.weights,) if structured else ()
    opener = Opener(np.dtype(dtype), missing, structured, never_negative=never_negative)
    given = None if center is True else np.zeros(d) if center is False else np.asarray(center, dtype=np.float64)
    (kinds, row_counts), (column_counts, column_squares, sums) = raw.map_add(
        opener.survey, by_row, (np.zeros(d), *weights)
    )
    _refuse_mixed(kinds, raw)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        mean = sums / column_counts if given is None else given
    if kinds[0] and mask is None and missing == "nan":
        mask, structured = StructuredMask(np.zeros(n, dtype=np.int64), np.ones((1, d), dtype=np.float32)), True
        by_row, weights = (mask.groups,), (mask.weights,)
    opener = dataclasses.replace(opener, structured=structured, complete=bool(row_counts.min() >= d))
    blocks = raw.then(opener.open, by_row, (mean, *weights))
    counts = (row_counts, column_counts, column_squares)
    if structured:
        observed: Chunked = ChunkedCounts(blocks, opener.dtype, mean, counts, mask)
    else:
        weighted = mask is not None and mask.dtype != bool
        observed = Chunked(blocks, opener.dtype, mean, counts, can_hold_out=not weighted)
    check_coverage(observed, None, columns=not new_rows)
    check_range(observed, lambda: _largest(raw))
    return observed


def apply_to_chunks(
    function: Callable[..., np.ndarray], X: Any, mask: Any, width: int | None, *, estimator: Any = None
) -> Any:
    """A Dask array, not computed yet, of what ``function(rows, mask=mask of the rows)`` returns for every chunk.

    Parameters
    ----------
    function : of NumPy or sparse arrays; it is sent to the workers, so it must be picklable
    X, mask, estimator : as in ``observe``
    width : how many columns the result has; None for one dimension
    """
    check_chunks(X)
    refuse_type(X)
    if estimator is not None:
        validate_data(estimator, X, reset=False, skip_check_array=True)
    mask = _checked_mask(mask, X)
    structured = isinstance(mask, StructuredMask)
    by_row = () if mask is None else (mask.groups if structured else mask,)
    apply = functools.partial(_applied, function=function, structured=structured)
    dtype = np.dtype(np.float32 if X.dtype == np.float32 else np.float64)
    return RowBlocks(X).lazily(apply, width, dtype, by_row, (mask.weights,) if structured else ())


def _applied(
    chunk: Any, start: int, by_row: tuple, shared: tuple, *, function: Callable[..., np.ndarray], structured: bool
) -> np.ndarray:
    refuse_kind(chunk, start)
    mask = {"mask": StructuredMask(by_row[0], shared[0])} if structured else {"mask": by_row[0]} if by_row else {}
    try:
        return function(chunk, **mask)
    except ValueError as error:
        raise _placed(error, start) from error


def _placed(error: ValueError, start: int) -> ValueError:
    return ValueError(f"In the chunk of X from row {start} on, its rows counted from 0: {error}")


def as_values(chunk: Any, dtype: np.dtype) -> Any:
    """A chunk as CSR or an array, what numpy masks in it as NaN."""
    if sparse.issparse(chunk):
        return sparse.csr_array(chunk).astype(dtype, copy=False)
    if isinstance(chunk, np.ma.MaskedArray):
        return np.ma.filled(chunk.astype(dtype), np.nan)
    return np.asarray(chunk, dtype=dtype)


def _checked_mask(mask: Any, X: Any) -> Any:
    """None, a StructuredMask, an array, or the row blocks of a Dask array."""
    if not is_dask(mask):
        return checked_mask(mask, X.shape)
    check_chunks(mask, "mask")
    if tuple(mask.shape) != tuple(X.shape):
        raise ValueError(f"The mask has shape {mask.shape}, but X has shape {X.shape}; they must be the same.")
    return RowBlocks(mask.rechunk(X.chunks))


def refuse_kind(chunk: Any, start: int) -> None:
    """A chunk is a NumPy array, CSR or CSC, of real numbers, whatever its Dask array says."""
    if not (isinstance(chunk, np.ndarray) or (sparse.issparse(chunk) and chunk.format in ("csr", "csc"))):
        kind = f"SciPy's {chunk.format.upper()}" if sparse.issparse(chunk) else type(chunk).__name__
        raise ValueError(
            f"The chunk of X from row {start} on is of the kind {kind}; make all chunks NumPy arrays, or SciPy's CSR "
            "or CSC, by X.map_blocks."
        )
    if chunk.dtype.kind not in "biuf":
        raise ValueError(
            f"The chunk of X from row {start} on is of type {chunk.dtype}, which holds no real numbers; make it so by "
            "X.map_blocks."
        )


def _refuse_mixed(kinds: np.ndarray, blocks: RowBlocks) -> None:
    """Dense and sparse chunks beside each other say different things about what is zero and what is a hole."""
    other = np.flatnonzero(kinds != kinds[0])
    if other.size:
        names = ["a NumPy array", "sparse"]
        raise ValueError(
            f"The chunk of X from row {blocks.edges[other[0]]} on is {names[int(kinds[other[0]])]}, and the first is "
            f"{names[int(kinds[0])]}; make all of one kind, for example X.map_blocks(scipy.sparse.csr_array)."
        )


def _largest(blocks: RowBlocks) -> tuple[int, int, float]:
    (found,), _ = blocks.map_add(_largest_of_block)
    i, s, value = found[np.argmax(np.abs(found[:, 2]))]
    return int(i), int(s), float(value)


def _largest_of_block(chunk: Any, start: int, by_row: tuple, shared: tuple) -> tuple:
    i, s, value = largest_entry(chunk)
    return (np.array([[start + i, s, value]]),), ()
