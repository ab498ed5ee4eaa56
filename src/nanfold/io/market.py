"""Matrix Market files, and the folders of 10x with barcodes and genes beside one."""

from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from nanfold.io.cells import open_bytes, text_errors, unpacking
from nanfold.io.table import FileError, damaged

MATRIX = ("matrix.mtx.gz", "matrix.mtx")
BARCODES = ("barcodes.tsv.gz", "barcodes.tsv")
GENES = ("features.tsv.gz", "features.tsv", "genes.tsv.gz", "genes.tsv")


def read_market(path: Path) -> dict[str, Any]:
    """A Matrix Market file with samples in rows; as a 10x folder if it lies in one."""
    if path.name in MATRIX and _beside(path.parent, BARCODES) and _beside(path.parent, GENES):
        return read_10x_folder(path.parent)
    return {"X": _matrix(path), "sample_names": None, "feature_names": None, "labels": {}}


def read_10x_folder(folder: Path) -> dict[str, Any]:
    """Cells x genes from matrix.mtx, barcodes.tsv and features.tsv or genes.tsv, gzipped or not."""
    found = []
    for names in (MATRIX, BARCODES, GENES):
        file = _beside(folder, names)
        if file is None:
            raise FileError(f"{folder} is read as a folder of 10x, but has no {' or '.join(names)}.")
        found.append(file)
    X = _matrix(found[0]).T
    barcodes = [row[0] for row in _lines(found[1])]
    genes = _lines(found[2])
    for length, lines, file in ((X.shape[0], len(barcodes), found[1]), (X.shape[1], len(genes), found[2])):
        if lines != length:
            raise FileError(
                f"{file} has {lines} lines, but {found[0].name} asks for {length}; take all files of the folder "
                "from the same run."
            )
    ids, symbols = [row[0] for row in genes], [row[1] if len(row) > 1 else row[0] for row in genes]
    X = sparse.csr_array(X) if sparse.issparse(X) else np.ascontiguousarray(X)
    return {"X": X, "sample_names": barcodes, "feature_names": distinct(symbols, ids), "labels": {}}


def distinct(symbols: list[str], ids: list[str]) -> list[str]:
    """Gene symbols, with the identifier behind those that are not unique."""
    first: dict[str, int] = {}
    for symbol in symbols:
        first[symbol] = first.get(symbol, 0) + 1
    return [symbol if first[symbol] == 1 else f"{symbol} ({name})" for symbol, name in zip(symbols, ids, strict=True)]


def _matrix(path: Path) -> Any:
    from scipy.io import mmread

    with damaged(path, "Matrix Market", (ValueError, OverflowError, OSError)), unpacking(path), open_bytes(path) as raw:
        X = mmread(raw)
    if X.dtype.kind not in "biuf":
        raise FileError(f"{path} holds complex numbers; save real ones.")
    dtype = np.result_type(X.dtype, np.float32)
    if not sparse.issparse(X):
        return np.ascontiguousarray(X, dtype=dtype)
    X = sparse.coo_array(X)
    table = sparse.csr_array(X, dtype=dtype)
    if table.nnz < X.nnz:
        keys = X.coords[0].astype(np.int64) * X.shape[1] + X.coords[1]
        order = np.argsort(keys, kind="stable")
        at = int(keys[order][np.argmax(np.diff(keys[order]) == 0)])
        raise FileError(
            f"{path} holds row {at // X.shape[1] + 1}, column {at % X.shape[1] + 1} more than once; keep one of them."
        )
    return table


def _beside(folder: Path, names: tuple[str, ...]) -> Path | None:
    return next((folder / name for name in names if (folder / name).is_file()), None)


def _lines(path: Path) -> list[list[str]]:
    with text_errors(path, "utf-8"), open_bytes(path) as raw:
        return [line.split("\t") for line in raw.read().decode("utf-8").splitlines() if line]
