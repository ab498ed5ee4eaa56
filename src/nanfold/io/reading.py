"""The front of all readers."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from nanfold.io.annotated import read_annotated
from nanfold.io.arrays import read_npy, read_npz
from nanfold.io.cells import Progress
from nanfold.io.columns import assemble
from nanfold.io.formats import check_start, kind_of
from nanfold.io.frames import read_frame
from nanfold.io.market import read_10x_folder, read_market
from nanfold.io.table import FileError, Table, listed
from nanfold.io.tenx import read_10x_h5
from nanfold.io.text import read_text
from nanfold.io.triplets import read_triplets

MISSING = ("nan", "unstored", "dropouts")


def read_table(
    path: str | Path,
    *,
    labels: Sequence[str] = (),
    triplets: bool = False,
    missing: str = "nan",
    format: str | None = None,
    layer: str | None = None,
    transpose: bool = False,
    header: bool | None = None,
    row_names: bool | None = None,
    separator: str | None = None,
    encoding: str | None = None,
    progress: Progress = None,
) -> Table:
    """Read a table of samples x features from a file.

    Parameters
    ----------
    path : the file, or the folder of 10x or zarr
    labels : columns to take as labels even though they hold numbers; each must be there
    triplets : whether each line is (user, item, rating)
    missing : "nan" (NaN and what is left empty are holes), "unstored" (what a sparse array does not store is a hole) or
        "dropouts" (counts, whose zeros may stand for what was not measured)
    format : one of `KINDS`, where the ending of the name does not say
    layer : the layer of an h5ad or zarr file in place of X, or the array of an npz file, or the genome of a 10x file
    transpose : whether the file has features in rows
    header, row_names : whether the first line and the first column of text hold names; None to find out
    separator, encoding : of text; None to find out
    progress : called now and then with the share of the file that was read

    Raises
    ------
    FileError
        A ValueError of one sentence that names the file, the place and the remedy.
    """
    if missing not in MISSING:
        raise ValueError(f"missing must be one of {', '.join(map(repr, MISSING))}; it is {missing!r}.")
    path = Path(path)
    labels = [labels] if isinstance(labels, str) else list(labels)
    kind = kind_of(path, format)
    if not path.is_dir():
        check_start(path, kind)
    text: dict[str, Any] = {"separator": separator, "encoding": encoding, "header": header, "progress": progress}
    if triplets:
        fields = _triplets(path, kind, labels, transpose, text)
    elif kind in ("csv", "tsv"):
        if kind == "tsv":
            text["separator"] = separator or "\t"
        fields = assemble(read_text(path, row_names=row_names, labels=labels, **text), labels, path)
    elif kind == "npy":
        fields = read_npy(path, labels=labels)
    elif kind == "npz":
        fields = read_npz(path, layer=layer, labels=labels)
    elif kind in ("parquet", "feather"):
        fields = assemble(read_frame(path, kind), labels, path)
    elif kind in ("h5ad", "zarr"):
        fields = read_annotated(path, kind, layer=layer, labels=labels)
    else:
        fields = _matrix(path, kind, layer, labels)
    if transpose:
        _transpose(fields, path)
    table = Table(source=path, kind=kind, **fields)
    _check(table)
    return _with_missing(table, missing)


def _matrix(path: Path, kind: str, layer: str | None, labels: list[str]) -> dict[str, Any]:
    if labels:
        raise FileError(f"{path} is read as {kind}, which has no label columns; leave {labels[0]!r} out.")
    if kind == "10x-h5":
        return read_10x_h5(path, layer=layer)
    return read_market(path) if kind == "mtx" else read_10x_folder(path)


def _triplets(path: Path, kind: str, labels: list[str], transpose: bool, text: dict[str, Any]) -> dict[str, Any]:
    if kind not in ("csv", "tsv"):
        raise FileError(f"{path} is read as {kind}, but triplets are lines of text; save them as csv or tsv.")
    if labels:
        raise FileError(f"{path} holds triplets, which have no label columns; leave {labels[0]!r} out.")
    if kind == "tsv":
        text["separator"] = text["separator"] or "\t"
    return read_triplets(path, **text)


def _transpose(fields: dict[str, Any], path: Path) -> None:
    if fields["labels"]:
        raise FileError(
            f"{path} is to be transposed, but has columns of text beside the names: {listed(list(fields['labels']))}; "
            "remove them from the file."
        )
    X = fields["X"].T
    fields["X"] = sparse.csr_array(X) if sparse.issparse(X) else np.ascontiguousarray(X)
    fields["sample_names"], fields["feature_names"] = fields["feature_names"], fields["sample_names"]


def _check(table: Table) -> None:
    n, d = table.shape
    if n < 2 or d < 2:
        hint = ""
        if n >= 2 and table.kind == "csv":
            hint = "; if its cells are separated by something else than comma, semicolon or tab, say by what"
        samples = f"{n} sample{'' if n == 1 else 's'}"
        raise FileError(
            f"{table.source} holds {samples} with {d} column{'' if d == 1 else 's'} of numbers; "
            f"two of each are needed at least{hint}."
        )
    values = table.X.data if sparse.issparse(table.X) else table.X
    infinite = np.isinf(values)
    if infinite.any():
        at = np.argwhere(infinite)[0]
        if sparse.issparse(table.X):
            i, s = int(np.searchsorted(table.X.indptr, at[0], side="right")) - 1, int(table.X.indices[at[0]])
        else:
            i, s = int(at[0]), int(at[1])
        place = f"{table.sample(i)}, {table.feature(s)}"
        raise FileError(f"{table.source} holds infinity at {place}; write NaN if it stands for a hole.")


def _with_missing(table: Table, missing: str) -> Table:
    if missing == "unstored" or table.unstored:
        if missing == "dropouts":
            raise FileError(f"{table.source} holds triplets, whose holes are known; dropouts are for counts.")
        if not sparse.issparse(table.X):
            raise FileError(
                f"{table.source} holds a dense table, in which everything is stored; missing='unstored' is for sparse "
                "files and triplets."
            )
        if np.isnan(table.X.data).any():
            raise FileError(f"{table.source} stores NaN; with missing='unstored' a hole is what is not stored.")
        return dataclasses.replace(table, unstored=True)
    if missing == "dropouts":
        values = table.X.data if sparse.issparse(table.X) else table.X
        if (values < 0).any():
            raise FileError(f"{table.source} holds negative values, but dropouts are zeros of counts or logged counts.")
        return dataclasses.replace(table, dropouts=True)
    return table
