"""Numpy's own files: one array in .npy, several or a sparse one in .npz. Pickles are never loaded."""

import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from nanfold.io.columns import refuse_duplicates, unknown_label
from nanfold.io.table import FileError, listed

# The arrays that go with X in an .npz file.
BESIDE = ("labels", "features", "samples")
SPARSE = {"format", "shape", "data"}


def read_npy(path: Path, *, labels: Sequence[str] = ()) -> dict[str, Any]:
    """The one array of an .npy file."""
    if labels:
        raise FileError(f"{path} holds one array without names, so there is no column {labels[0]!r} in it.")
    return {"X": as_floats(_load(path, path), path), "sample_names": None, "feature_names": None, "labels": {}}


def read_npz(path: Path, *, layer: str | None = None, labels: Sequence[str] = ()) -> dict[str, Any]:
    """A sparse array as scipy writes it; or X with labels, features and samples beside it; or the only array."""
    # Opened here, because numpy leaves a damaged archive open.
    with open(path, "rb") as raw, _load(raw, path) as archive:
        names = archive.files
        if layer is None and set(names) >= SPARSE:
            fields: dict[str, Any] = {"sample_names": None, "feature_names": None, "labels": {}}
            found: dict[str, np.ndarray] = {}
            fields["X"] = _sparse(path)
        else:
            name = _chosen(names, layer, path)
            beside = [other for other in names if other != name and (other in BESIDE or other in labels)]
            found = {other: _member(archive, other, path) for other in beside}
            X = as_floats(_member(archive, name, path), path)
            fields = {"X": X, "labels": {}}
            fields["sample_names"] = _names(found.pop("samples", None), X.shape[0], "samples", path)
            fields["feature_names"] = _names(found.pop("features", None), X.shape[1], "features", path)
    for label in labels:
        if label not in found:
            raise FileError(unknown_label(label, list(found), path))
    n = fields["X"].shape[0]
    fields["labels"] = {name: _labels(values, n, name, path) for name, values in found.items()}
    if fields["feature_names"]:
        refuse_duplicates(fields["feature_names"], "features", path)
    return fields


def as_floats(array: np.ndarray, path: Path) -> np.ndarray:
    """A two-dimensional array of floats, float32 kept."""
    if array.dtype.kind not in "biuf":
        what = {"O": "Python objects", "c": "complex numbers", "V": "records"}.get(array.dtype.kind, "text or dates")
        raise FileError(f"{path} holds an array of {what} ({array.dtype}); save an array of real numbers.")
    if array.ndim != 2:
        raise FileError(
            f"{path} holds an array with {array.ndim} dimension{'' if array.ndim == 1 else 's'}; save one with two, "
            "samples x features."
        )
    return np.ascontiguousarray(array, dtype=np.result_type(array.dtype, np.float32))


def _load(file: Any, path: Path) -> Any:
    try:
        return np.load(file, allow_pickle=False)
    except ValueError as error:
        if "allow_pickle" in str(error) or "pickle" in str(error):
            raise FileError(
                f"{path} holds Python objects, which are never loaded because loading them runs code; save an array of "
                "numbers with numpy.save."
            ) from error
        raise FileError(_damaged(path)) from error
    except (EOFError, zipfile.BadZipFile) as error:
        raise FileError(_damaged(path)) from error


def _member(archive: Any, name: str, path: Path) -> np.ndarray:
    try:
        return archive[name]
    except ValueError as error:
        if "pickle" in str(error):
            raise FileError(
                f"The array {name!r} of {path} holds Python objects, which are never loaded because loading them runs "
                "code; save numbers or plain strings."
            ) from error
        raise FileError(_damaged(path)) from error
    except (EOFError, OSError, zipfile.BadZipFile, zlib.error) as error:
        raise FileError(_damaged(path)) from error


def _sparse(path: Path) -> sparse.csr_array:
    try:
        X = sparse.csr_array(sparse.load_npz(path))
    except (ValueError, EOFError, OSError, KeyError, zipfile.BadZipFile, zlib.error, TypeError) as error:
        raise FileError(_damaged(path)) from error
    if X.dtype.kind not in "biuf":
        raise FileError(f"{path} holds a sparse array of {X.dtype}; save an array of real numbers.")
    return X.astype(np.result_type(X.dtype, np.float32), copy=False)


def _damaged(path: Path) -> str:
    return f"{path} is not a whole numpy file: it ends early or is damaged; save or copy it again."


def _chosen(names: list[str], layer: str | None, path: Path) -> str:
    if layer is not None:
        if layer not in names:
            raise FileError(f"{path} has no array {layer!r}; it has {listed(names) or 'none'}.")
        return layer
    if "X" in names:
        return "X"
    if len(names) == 1:
        return names[0]
    raise FileError(f"{path} has the arrays {listed(names) or '(none)'}, and none is 'X'; say which is the table.")


def _names(values: np.ndarray | None, length: int, what: str, path: Path) -> list[str] | None:
    if values is None:
        return None
    _check_length(values, length, what, path)
    return [str(value) for value in values]


def _labels(values: np.ndarray, n: int, name: str, path: Path) -> np.ndarray:
    _check_length(values, n, name, path)
    if values.dtype.kind in "iuf":
        return values.astype(np.float64)
    return values.astype(str)


def _check_length(values: np.ndarray, length: int, name: str, path: Path) -> None:
    if values.shape != (length,):
        raise FileError(f"The array {name!r} of {path} has shape {values.shape}, but X asks for ({length},).")
