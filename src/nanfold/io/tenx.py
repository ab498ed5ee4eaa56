"""The HDF5 files of 10x: compressed columns of genes x cells, which are the compressed rows of cells x genes."""

from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from nanfold.io.market import distinct
from nanfold.io.table import FileError, damaged, listed

# Where names lie: since version 3 of Cell Ranger, and before.
GENES = (("features/name", "features/id"), ("gene_names", "genes"))
NEEDED = ("data", "indices", "indptr", "shape", "barcodes")


def read_10x_h5(path: Path, *, layer: str | None = None) -> dict[str, Any]:
    """Cells x genes; `layer` names the genome where an old file has several."""
    import h5py

    with damaged(path, "HDF5", (OSError, KeyError, RuntimeError, ValueError)), h5py.File(path, "r") as file:
        group = _group(file, layer, path)
        absent = [name for name in NEEDED if name not in group]
        if absent:
            raise FileError(f"{path} is no file of 10x: {group.name} has no {absent[0]!r} in it.")
        parts = {name: group[name][()] for name in NEEDED}
        for names, ids in GENES:
            if names in group and ids in group:
                symbols, identifiers = _strings(group[names][()]), _strings(group[ids][()])
                break
        else:
            raise FileError(f"{path} is no file of 10x: it names no genes.")
    n_genes, n_cells = (int(length) for length in parts["shape"])
    barcodes = _strings(parts["barcodes"])
    if (len(symbols), len(barcodes)) != (n_genes, n_cells):
        raise FileError(f"{path} names {len(symbols)} genes and {len(barcodes)} cells of {n_genes} and {n_cells}.")
    data = parts["data"].astype(np.result_type(parts["data"].dtype, np.float32), copy=False)
    with damaged(path, "10x", (ValueError, IndexError)):
        X = sparse.csr_array((data, parts["indices"], parts["indptr"]), shape=(n_cells, n_genes))
        X.check_format()
    return {"X": X, "sample_names": barcodes, "feature_names": distinct(symbols, identifiers), "labels": {}}


def _group(file: Any, layer: str | None, path: Path) -> Any:
    if layer is None and "matrix" in file:
        return file["matrix"]
    genomes = [name for name in file if "gene_names" in file[name]] if len(file) else []
    if layer is not None:
        if layer not in genomes:
            raise FileError(f"{path} has no genome {layer!r}; it has {listed(genomes) or 'none to choose from'}.")
        return file[layer]
    if len(genomes) == 1:
        return file[genomes[0]]
    if genomes:
        raise FileError(f"{path} has several genomes, {listed(genomes)}; choose one as the layer.")
    hint = "; rename it to end in .h5ad" if {"obs", "var"} <= set(file) else ""
    raise FileError(f"{path} is no file of 10x: it has {listed(list(file)) or 'nothing'} in it, but no 'matrix'{hint}.")


def _strings(values: np.ndarray) -> list[str]:
    return [value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value) for value in values]
