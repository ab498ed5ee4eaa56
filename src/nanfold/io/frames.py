"""Parquet and feather, whose columns have types: numbers are features, text, categories, dates and truth are labels."""

from pathlib import Path
from typing import Any

import numpy as np

from nanfold.io.columns import Columns
from nanfold.io.table import FileError, damaged


def read_frame(path: Path, kind: str) -> Columns:
    """The columns of a parquet or feather file; an index that pandas stored names the samples."""
    import pyarrow as pa

    with damaged(path, kind, (pa.ArrowException, OSError, ValueError)):
        frame = _read(path, kind)
    names, columns = list(frame.column_names), frame.columns
    index = [names.index(name) for name in _index_columns(frame.schema) if name in names]
    kept = [place for place in range(len(names)) if place not in index]
    numbers: dict[int, np.ndarray] = {}
    texts: dict[int, list[str]] = {}
    for place in kept:
        values = _numbers(columns[place])
        if values is None:
            texts[place + 1] = _text(columns[place], names[place], path)
        else:
            numbers[place + 1] = values
    if index:
        parts = [_text(columns[place], names[place], path) for place in index]
        texts[0] = [" / ".join(cells) for cells in zip(*parts, strict=True)]
    n = frame.num_rows
    dtype = np.result_type(np.float32, *{values.dtype for values in numbers.values()})
    table = np.empty((n, len(numbers)), dtype=dtype)
    for j, values in enumerate(numbers.values()):
        table[:, j] = values
    # Place 0 is that of the index, whether there is one or not.
    return Columns(["", *names], table, list(numbers), texts, row_names=True if index else None)


def _read(path: Path, kind: str) -> Any:
    if kind == "parquet":
        from pyarrow import parquet

        with parquet.ParquetFile(path, memory_map=False) as file:
            return file.read()
    from pyarrow import feather

    return feather.read_table(path, memory_map=False)


def _index_columns(schema: Any) -> list[str]:
    described = schema.pandas_metadata or {}
    # A RangeIndex is described by a dictionary and not stored.
    return [name for name in described.get("index_columns", []) if isinstance(name, str)]


def _numbers(column: Any) -> np.ndarray | None:
    """The values of a column of numbers as floats, or None."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_null(kind):
        return np.full(len(column), np.nan, dtype=np.float32)
    if pa.types.is_decimal(kind):
        column = column.cast(pa.float64())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return None
    values = column.to_numpy()
    return values.astype(np.result_type(values.dtype, np.float32), copy=False)


def _text(column: Any, name: str, path: Path) -> list[str]:
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_nested(column.type) or pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
        raise FileError(f"{path}: column {name!r} holds {column.type}, which is neither a number nor a label; drop it.")
    return ["" if cell is None else str(cell) for cell in column.cast(pa.string()).to_pylist()]
