"""A set from a folder that the user names: NAME.npz, NAME_X.npz with arrays beside it, or NAME.h5ad."""

import zipfile
from pathlib import Path
from typing import Any, BinaryIO

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

    What its values are is said by the file itself, under the name "values"; else by `values`; or, if neither does,
    whole numbers are counts and all else is expression on a linear scale. Values that are "complete" stay so.
    """
    try:
        parts = _from_h5ad(path) if path.suffix == ".h5ad" else _from_npz(path)
    except (zipfile.BadZipFile, EOFError, KeyError, OSError, ValueError) as error:
        if isinstance(error, FileNotFoundError | PermissionError):
            raise
        raise ValueError(f"{path} cannot be read: {_reason(error)}") from error
    X = parts["X"]
    said = ", ".join(np.ravel(as_text(parts.get("values", [])))) or values
    if values == "complete" and said != values:
        raise ValueError(f"{path} says that its values are {said!r}, but {name} has no dropouts; leave it out.")
    return Dataset(name, X, parts["labels"], said or _guessed(X), parts.get("features"), parts.get("samples"))


def _guessed(X: np.ndarray) -> str:
    """What values may be of which nothing is said."""
    fractions = X.dtype.kind == "f" and np.any(X[np.isfinite(X)] % 1)
    return "linear" if fractions else "counts"


def _reason(error: Exception) -> str:
    """Why a file cannot be read, in our words where numpy's speak of its own options."""
    text = " ".join(str(error).split())
    if "allow_pickle" not in text:
        return text
    if "Object arrays" in text:
        return "it holds Python objects, which are not loaded; save names and classes as arrays of str."
    return "it is no npz file."


def _from_npz(path: Path) -> dict[str, Any]:
    beside = path.name.endswith("_X.npz")
    # Opened here, because numpy leaves a damaged file open.
    with open(path, "rb") as stream, _opened(stream) as file:
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
            if key == "labels" and parts[key].dtype.kind == "f":
                _refuse_unlabelled(np.isnan(parts[key]))
            parts[key] = as_text(parts[key])
    if "labels" not in parts:
        raise ValueError(f"it has no labels, and there is no {stem}_labels.npy beside it.")
    return parts


def _opened(stream: BinaryIO) -> Any:
    file = np.load(stream, allow_pickle=False)
    if isinstance(file, np.ndarray):
        raise ValueError("it is a single array; save X and labels with numpy.savez.")
    return file


def _refuse_unlabelled(missing: np.ndarray) -> None:
    if np.any(missing):
        i = int(np.flatnonzero(missing)[0])
        raise ValueError(f"sample {i} has no label; give it one, or leave it out.")


def _from_h5ad(path: Path) -> dict[str, Any]:
    import anndata

    adata = anndata.read_h5ad(path)
    column = next((name for name in LABEL_COLUMNS if name in adata.obs), None)
    if column is None:
        raise ValueError(f"obs has none of the columns {', '.join(LABEL_COLUMNS)}, one of which must hold the classes.")
    if adata.X is None:
        raise ValueError("its X is empty.")
    _refuse_unlabelled(adata.obs[column].isna().to_numpy())
    parts = {
        "X": as_dense(adata.X),
        "labels": as_text(adata.obs[column]),
        "features": as_text(adata.var_names),
        "samples": as_text(adata.obs_names),
    }
    if "values" in adata.uns:
        parts["values"] = adata.uns["values"]
    return parts
