"""Writing tables and columns, in the format that the ending of the name says."""

import csv
import gzip
import io
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from nanfold.io.table import FileError

# What can be written, by ending.
WRITTEN = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet", ".feather", ".npy", ".npz", ".h5ad")
ROWS_AT_ONCE = 1000


def ending_of(path: Path) -> str:
    """The ending of a file that is to be written, refused if there is no such format."""
    name = path.name.lower()
    for ending in sorted(WRITTEN, key=len, reverse=True):
        if name.endswith(ending) and name != ending:
            return ending
    raise FileError(f"What is written to {path} must end in one of {', '.join(WRITTEN)}.")


def write_columns(path: Path, columns: dict[str, np.ndarray]) -> None:
    """Columns of text and of numbers as csv, tsv, parquet or feather; NaN and "" are what is not known."""
    ending = ending_of(path)
    if ending in (".parquet", ".feather"):
        import pyarrow as pa
        from pyarrow import feather, parquet

        table = pa.table({name: pa.array(values) for name, values in columns.items()})
        if ending == ".parquet":
            parquet.write_table(table, path)
        else:
            feather.write_feather(table, str(path))
        return
    with _opened(path, ending) as file:
        _write_text(file, list(columns), columns, "\t" if ending.startswith(".tsv") else ",")


def write_table(
    path: Path,
    X: np.ndarray,
    sample_names: list[str] | None = None,
    feature_names: list[str] | None = None,
    labels: dict[str, np.ndarray] | None = None,
) -> None:
    """A dense table with its names and label columns; `read_table` gives the same back.

    Text and frames have a first column of names where there are names, then the features, then the labels. An .npy file
    holds the values alone; an .npz file has X, samples, features and the labels as arrays.
    """
    ending, labels = ending_of(path), labels or {}
    if ending == ".npy":
        np.save(path, X)
    elif ending == ".npz":
        names = {"samples": sample_names, "features": feature_names}
        arrays: dict[str, Any] = {name: np.array(names[name], dtype=str) for name in names if names[name] is not None}
        np.savez_compressed(path, **{**labels, **arrays, "X": X})
    elif ending == ".h5ad":
        _annotated(X, sample_names, feature_names, labels).write_h5ad(path)
    else:
        columns: dict[str, np.ndarray] = {} if sample_names is None else {"": np.array(sample_names, dtype=str)}
        columns.update(zip(feature_names or _numbered(X.shape[1]), X.T, strict=True))
        columns.update(labels)
        if len(columns) != (sample_names is not None) + X.shape[1] + len(labels):
            raise FileError(f"{path} cannot hold a label and a feature of one name; rename one of them.")
        if ending in (".parquet", ".feather") or feature_names is not None or labels or sample_names is not None:
            write_columns(path, columns)
        else:
            with _opened(path, ending) as file:
                _write_text(file, None, columns, "\t" if ending.startswith(".tsv") else ",")


def _numbered(count: int) -> list[str]:
    return [f"column {place + 1}" for place in range(count)]


def _annotated(X: np.ndarray, samples: list[str] | None, features: list[str] | None, labels: dict[str, Any]) -> Any:
    import anndata
    import pandas as pd

    obs = pd.DataFrame(labels, index=samples or [str(i + 1) for i in range(len(X))])
    return anndata.AnnData(X=X, obs=obs, var=pd.DataFrame(index=features or _numbered(X.shape[1])))


def _opened(path: Path, ending: str) -> IO[str]:
    if ending.endswith(".gz"):
        # Without the time in it, so that the same table gives the same file.
        return io.TextIOWrapper(gzip.GzipFile(path, "wb", mtime=0), encoding="utf-8", newline="")
    return open(path, "w", encoding="utf-8", newline="")


def _write_text(file: IO[str], names: list[str] | None, columns: dict[str, np.ndarray], separator: str) -> None:
    writer = csv.writer(file, delimiter=separator, lineterminator="\n")
    if names is not None:
        writer.writerow(names)
    length = len(next(iter(columns.values())))
    for start in range(0, length, ROWS_AT_ONCE):
        parts = [_cells(values[start : start + ROWS_AT_ONCE]) for values in columns.values()]
        writer.writerows(zip(*parts, strict=True))


def _cells(values: np.ndarray) -> Iterator[str]:
    if values.dtype.kind == "f":
        return map(_number, values.tolist())
    return itertools.chain(str(value) for value in values.tolist())


def _number(value: float) -> str:
    """The shortest text that is read back as the same number."""
    text = repr(value)
    return "" if value != value else text.removesuffix(".0")
