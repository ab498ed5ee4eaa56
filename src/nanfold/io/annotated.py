"""AnnData on disk, h5ad and zarr: X or a layer, the names, and the labels in obs."""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from nanfold.io.arrays import as_floats
from nanfold.io.columns import unknown_label
from nanfold.io.table import FileError, damaged, listed

# What anndata, h5py and zarr raise where a file is damaged.
ERRORS = (OSError, KeyError, ValueError, TypeError, RuntimeError, AttributeError, IndexError)


def read_annotated(path: Path, kind: str, *, layer: str | None = None, labels: Sequence[str] = ()) -> dict[str, Any]:
    """The table of an h5ad file or a zarr folder; text, categories and truth in obs are labels."""
    if kind == "zarr":
        plain = _plain_zarr(path, layer, labels)
        if plain is not None:
            return plain
    adata = load_annotated(path, kind)
    for label in labels:
        if label not in adata.obs:
            raise FileError(unknown_label(label, [str(name) for name in adata.obs.columns], path))
    found = {
        str(name): _labels(adata.obs[name]) for name in adata.obs.columns if _is_label(adata.obs[name], name, labels)
    }
    return {
        "X": _values(adata, layer, path),
        "sample_names": [str(name) for name in adata.obs_names],
        "feature_names": [str(name) for name in adata.var_names],
        "labels": found,
    }


def load_annotated(path: Path, kind: str) -> Any:
    """The AnnData of a file."""
    import anndata

    with warnings.catch_warnings(), damaged(path, kind, ERRORS):
        # Names that repeat, old layouts: nothing that changes what is read.
        warnings.simplefilter("ignore")
        return anndata.read_zarr(path) if kind == "zarr" else anndata.read_h5ad(path)


def _plain_zarr(path: Path, layer: str | None, labels: Sequence[str]) -> dict[str, Any] | None:
    """A zarr folder that holds an array and no AnnData."""
    import zarr

    with damaged(path, "zarr", (*ERRORS, Exception)):
        store = zarr.open(str(path), mode="r")
        if not isinstance(store, zarr.Array):
            return None
        array = np.asarray(store[...])
    if layer is not None or labels:
        raise FileError(f"{path} holds a single array, which has no layers and no label columns.")
    return {"X": as_floats(array, path), "sample_names": None, "feature_names": None, "labels": {}}


def _values(adata: Any, layer: str | None, path: Path) -> Any:
    layers = [str(name) for name in adata.layers]
    if layer is not None and layer not in layers:
        raise FileError(f"{path} has no layer {layer!r}; it has {listed(layers) or 'none'}.")
    if layer is None and adata.X is None:
        raise FileError(f"{path} has no X; name one of its layers, which are {listed(layers) or 'none'}.")
    X = adata.X if layer is None else adata.layers[layer]
    if not sparse.issparse(X):
        return as_floats(np.asarray(X), path)
    if X.dtype.kind not in "biuf":
        raise FileError(f"{path} holds a sparse array of {X.dtype}; save an array of real numbers.")
    return sparse.csr_array(X).astype(np.result_type(X.dtype, np.float32), copy=False)


def _is_label(column: Any, name: str, labels: Sequence[str]) -> bool:
    return str(name) in labels or getattr(column.dtype, "kind", "O") in "OUSb" or column.dtype.name == "category"


def _labels(column: Any) -> np.ndarray:
    if getattr(column.dtype, "kind", "O") in "iuf" and column.dtype.name != "category":
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    values, missing = column.astype(str).to_numpy(), column.isna().to_numpy()
    return np.where(missing, "", values).astype(str)
