"""A filled table and its standard deviations, as files."""

import warnings
from pathlib import Path

from nanfold.imputation.filling import Filled
from nanfold.io.annotated import load_annotated
from nanfold.io.table import FileError, Table
from nanfold.io.writing import ending_of, write_table


def write_filled(path: Path, table: Table, filled: Filled, layer: str | None = None) -> dict[str, str]:
    """Write both; what was written, by name."""
    ending = ending_of(path)
    names = table.sample_names, table.feature_names
    if ending == ".h5ad":
        _write_annotated(path, table, filled, layer)
        return {path.name: 'Filled, layer "sd"'}
    if ending == ".npz":
        if "sd" in table.labels:
            raise FileError(f"{table.source} has a label 'sd', the name that the standard deviations get; rename it.")
        write_table(path, filled.X, *names, {**table.labels, "sd": filled.deviation})
        return {path.name: 'Filled, array "sd"'}
    beside = path.with_name(path.name[: -len(ending)] + ".sd" + ending)
    write_table(path, filled.X, *names, table.labels)
    write_table(beside, filled.deviation, *names)
    return {path.name: "Filled", beside.name: "Standard deviations"}


def _write_annotated(path: Path, table: Table, filled: Filled, layer: str | None) -> None:
    """With everything else that an h5ad file held, if that is where the table is from."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of formats to come
        if table.kind != "h5ad":
            write_table(path, filled.X, table.sample_names, table.feature_names, table.labels)
            adata = load_annotated(path, "h5ad")
        else:
            adata = load_annotated(table.source, "h5ad")
            if adata.shape != filled.X.shape:
                raise FileError(f"{path} cannot hold a transposed table; write csv, parquet or npz.")
            if layer is None:
                adata.X = filled.X
            else:
                adata.layers[layer] = filled.X
        adata.layers["sd"] = filled.deviation
        adata.write_h5ad(path)
