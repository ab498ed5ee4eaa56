"""A set from a folder that the user names: NAME.npz, NAME_X.npz with arrays beside it, or NAME.h5ad."""

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from nanfold.datasets.dataset import Dataset, as_dense, as_text

# Where the classes of an h5ad may stand.
LABEL_COLUMNS = ("labels", "label", "cell_type", "cell_type1", "celltype", "class")


def find(folder: Path, names: tuple[str, ...]) -> Path | None:
    """The file of the first of these names that the folder has."""
    for name in names:
        for end in (".npz", "_X.npz", ".h5ad"):
            path = folder / f"{name}{end}"
            if path.is_file():
                return path
    return None


def read(path: Path, name: str, values: str | None) -> Dataset:
    """The set in this file.

    What its values are is said by `values`; by the file itself, under the name "values"; or, if neither does, whole
    numbers are counts and all else is expression on a linear scale.
    """
    try:
        parts = _from_h5ad(path) if path.suffix == ".h5ad" else _from_npz(path)
    except (zipfile.BadZipFile, EOFError, KeyError, OSError, ValueError) as error:
        if isinstance(error, FileNotFoundError | PermissionError):
            raise
        raise ValueError(f"{path} cannot be read: {' '.join(str(error).split())}") from error
    X = parts["X"]
    said = parts.pop("values", None)
    if values is None:
        values = str(said) if said is not None else ("counts" if np.all(X % 1 == 0) else "linear")
    return Dataset(name, X, parts["labels"], values, parts.get("features"), parts.get("samples"))


def _from_npz(path: Path) -> dict[str, Any]:
    beside = path.name.endswith("_X.npz")
    # Opened here, because numpy leaves a damaged file open.
    with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as file:
        if beside or {"data", "indices", "indptr", "shape"} <= set(file.files):
            parts: dict[str, Any] = {"X": as_dense(sparse.load_npz(path))}
        else:
            if "X" not in file.files:
                raise ValueError(f"it holds {', '.join(file.files) or 'nothing'}, and no array named X.")
            parts = {key: file[key] for key in ("X", "labels", "features", "samples", "values") if key in file.files}
    stem = path.name.removesuffix(".npz").removesuffix("_X")
    for key in ("labels", "features", "samples"):
        array = path.with_name(f"{stem}_{key}.npy")
        if key not in parts and array.is_file():
            parts[key] = np.load(array, allow_pickle=False)
        if key in parts:
            parts[key] = as_text(parts[key])
    if "labels" not in parts:
        raise ValueError(f"it has no labels, and there is no {stem}_labels.npy beside it.")
    return parts


def _from_h5ad(path: Path) -> dict[str, Any]:
    import anndata

    adata = anndata.read_h5ad(path)
    column = next((name for name in LABEL_COLUMNS if name in adata.obs), None)
    if column is None:
        raise ValueError(f"obs has none of the columns {', '.join(LABEL_COLUMNS)}, one of which must hold the classes.")
    parts = {
        "X": as_dense(adata.X),
        "labels": as_text(adata.obs[column]),
        "features": as_text(adata.var_names),
        "samples": as_text(adata.obs_names),
    }
    if "values" in adata.uns:
        parts["values"] = adata.uns["values"]
    return parts
