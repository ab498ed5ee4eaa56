"""What pp, tl and pl share: the matrix of an AnnData, the genes chosen, the mask of dropouts, and the keys written."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from nanfold._cells import ChunkedCells, columns_of_chunks
from nanfold.observed import StructuredMask, is_dask

DROPOUTS = "dropouts"
HIGHLY_VARIABLE = "highly_variable"
# What is read of a backed matrix at a time, in values.
BLOCK_VALUES = 2**24


@dataclass(frozen=True)
class Selected:
    """What a method sees of an AnnData.

    Attributes
    ----------
    X : cells x chosen genes
    mask : how far the zeros of X count as observed; None if they all do
    genes : which genes were chosen, True or False for each; None for all
    params : what was asked for, in a form that can be written
    """

    X: Any
    mask: StructuredMask | None
    genes: np.ndarray | None
    params: dict[str, Any]


def target(adata: Any, copy: bool) -> Any:
    """The AnnData to write into: the one given, or a copy of it."""
    adata = checked(adata)
    if copy and adata.isbacked:
        raise ValueError(
            "copy=True would need a second file for a backed AnnData; leave it out, or call adata.to_memory() first."
        )
    if adata.isbacked and adata.is_view:
        raise ValueError("Nothing can be written into a view of a backed AnnData; call its to_memory() first.")
    return adata.copy() if copy else adata


def checked(adata: Any) -> Any:
    """An AnnData, or one sentence."""
    try:
        from anndata import AnnData
    except ImportError:
        raise ImportError("nanfold.pp, tl and pl need anndata: pip install 'nanfold[anndata]'.") from None
    if not isinstance(adata, AnnData):
        raise TypeError(f"adata must be an AnnData; it is of type {type(adata).__name__}.")
    return adata


def select(adata: Any, layer: str | None, mask_var: Any, dropouts: str | None) -> Selected:
    """The matrix on the chosen genes, with its mask."""
    genes, name = chosen_genes(adata, mask_var)
    mask = stored_mask(adata, dropouts, genes)
    X = matrix(adata, layer, genes)
    var_names = adata.var_names if genes is None else adata.var_names[genes]
    if is_dask(X):
        # What is unseen is refused when it is read, by number.
        if mask is not None:
            _refuse_negative_chunks(X, adata.obs_names, var_names, dropouts)
    else:
        if mask is not None:
            X = sparse.csr_array(X)
            _refuse_negative(X, adata.obs_names, var_names, dropouts)
        _refuse_unseen(X, mask, adata.obs_names, var_names)
    params = {"layer": layer, "mask_var": name, "dropouts": None if mask is None else dropouts}
    return Selected(X, mask, genes, params)


def chosen_genes(adata: Any, mask_var: Any) -> tuple[np.ndarray | None, Any]:
    """The genes as True and False, None for all, and what `mask_var` came to: a column, an array or None."""
    if isinstance(mask_var, str) and mask_var == "auto":
        mask_var = HIGHLY_VARIABLE if HIGHLY_VARIABLE in adata.var else None
    if mask_var is None:
        return None, None
    if isinstance(mask_var, str):
        if mask_var not in adata.var:
            raise ValueError(f"mask_var={mask_var!r} is not in adata.var, which has {_listed(adata.var.columns)}.")
        column, what = adata.var[mask_var], f"adata.var[{mask_var!r}]"
        if not hasattr(column, "isna"):
            column = column.to_series()  # of xarray's, where it is read lazily
        missing = int(column.isna().sum())
        if missing:
            raise ValueError(f"{what} is missing for {missing} genes; mask_var needs True or False for every gene.")
        genes = column.to_numpy()
        # A column of True and False that once had holes is of type object.
        if genes.dtype == object and all(isinstance(value, bool | np.bool_) for value in genes):
            genes = genes.astype(bool)
    else:
        genes, what = np.asarray(mask_var), "The array mask_var"
    if genes.dtype != bool or genes.shape != (adata.n_vars,):
        raise ValueError(
            f"{what} must hold True or False for each of the {adata.n_vars} genes; its type is {genes.dtype} and its "
            f"shape {genes.shape}."
        )
    if not genes.any():
        raise ValueError(f"{what} is False for all genes; choose some, or mask_var=None for all of them.")
    return genes, mask_var if isinstance(mask_var, str) else genes


def matrix(adata: Any, layer: str | None, genes: np.ndarray | None) -> Any:
    """The values of the chosen genes, in memory but for a Dask array; of a backed matrix no more is kept."""
    if layer is None:
        X = adata.X
        if X is None:
            raise ValueError(f"adata.X is empty; name one of its layers, which are {_listed(adata.layers)}.")
    elif layer not in adata.layers:
        raise ValueError(f"There is no layer {layer!r}; adata.layers has {_listed(adata.layers)}.")
    else:
        X = adata.layers[layer]
    if is_dask(X):
        return X if genes is None else columns_of_chunks(X, genes)
    if isinstance(X, np.ndarray) or sparse.issparse(X):
        return X if genes is None else X[:, np.flatnonzero(genes)]
    return _from_file(X, genes)


def _from_file(X: Any, genes: np.ndarray | None) -> Any:
    """A matrix on disk, read in the blocks that it is stored in."""
    n, d = X.shape
    by_columns = getattr(X, "format", None) == "csc"
    if genes is None:
        return X[:] if not hasattr(X, "to_memory") else X.to_memory()
    length = max(1, BLOCK_VALUES // max(1, n if by_columns else d))
    blocks = []
    for start in range(0, d if by_columns else n, length):
        if by_columns:
            kept = np.flatnonzero(genes[start : start + length])
            if kept.size:
                blocks.append(X[:, start : start + length][:, kept])
        else:
            blocks.append(X[start : start + length][:, np.flatnonzero(genes)])
    if sparse.issparse(blocks[0]):
        return sparse.hstack(blocks, format="csc") if by_columns else sparse.vstack(blocks, format="csr")
    return np.concatenate(blocks)


def stored_mask(adata: Any, key: str | None, genes: np.ndarray | None) -> StructuredMask | None:
    """The mask that pp.dropouts left under `key`; None if no key is given, or if nothing is under the usual one."""
    if key is None:
        return None
    found = [name for name, place in (("obs", adata.obs), ("varm", adata.varm), ("uns", adata.uns)) if key in place]
    if not found and key == DROPOUTS:
        return None
    if not found:
        raise ValueError(f"There is no mask of dropouts under {key!r}; call nanfold.pp.dropouts(key_added={key!r}).")
    if len(found) < 3 or not is_by(adata, key, "pp.dropouts") or adata.obs[key].dtype.kind not in "iu":
        raise ValueError(
            f"What is under {key!r} in adata.{' and adata.'.join(found)} is not a whole mask of nanfold.pp.dropouts "
            "(anndata.concat, for one, loses parts of it); call nanfold.pp.dropouts again, or pass dropouts=None."
        )
    # Cells and genes may have been dropped since, and with them whole groups.
    used, groups = np.unique(adata.obs[key].to_numpy(), return_inverse=True)
    weights = np.asarray(adata.varm[key])
    if used[0] < 0 or used[-1] >= weights.shape[1]:
        raise ValueError(
            f"adata.obs[{key!r}] names group {used[-1] if used[0] >= 0 else used[0]}, but adata.varm[{key!r}] has "
            f"{weights.shape[1]} groups; call nanfold.pp.dropouts again, or pass dropouts=None."
        )
    rows = slice(None) if genes is None else np.flatnonzero(genes)
    return StructuredMask(groups, weights[rows][:, used].T)


def is_by(adata: Any, key: str, function: str) -> bool:
    """Whether a function of ours wrote `adata.uns[key]`."""
    entry = adata.uns.get(key)
    params = entry.get("params") if isinstance(entry, Mapping) else None
    return isinstance(params, Mapping) and params.get("function") == f"nanfold.{function}"


def refuse_clash(adata: Any, key: str, function: str, **places: Any) -> None:
    """Refuse to write `places`, keys by container, over anything but what the same function wrote under `key`."""
    if not isinstance(key, str) or not key:
        raise ValueError(f"key_added must be a string that is not empty; it is {key!r}.")
    if is_by(adata, key, function):
        return
    for name, keys in {**places, "uns": key}.items():
        for place in (keys,) if isinstance(keys, str) else keys:
            if place in getattr(adata, name):
                raise ValueError(
                    f"{key!r} as a key would overwrite adata.{name}[{place!r}], which nanfold.{function} did not "
                    "write; choose another key_added, or delete that first."
                )


def check_settings(estimator: type[BaseEstimator], function: str, settings: dict[str, Any]) -> None:
    """One sentence for a setting that the estimator behind a function has not."""
    known = inspect.signature(estimator).parameters
    for name in settings:
        if name not in known:
            raise TypeError(
                f"nanfold.{function} has no parameter {name!r}; beside its own it takes those of "
                f"nanfold.{estimator.__name__}: {', '.join(known)}."
            )


def described(function: str, estimator: BaseEstimator, params: dict[str, Any]) -> dict[str, Any]:
    """The settings of a call in types that h5ad and zarr can hold; what is None is left out."""
    settings = {**estimator.get_params(deep=False), **params}
    out = {name: _writable(value) for name, value in settings.items() if value is not None}
    return {"function": f"nanfold.{function}", **out}


def _writable(value: Any) -> Any:
    if isinstance(value, str | bool | int | float | np.generic):
        return value
    if isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype.kind in "biuf":
        return value
    plain = isinstance(value, list | tuple) and len({type(item) for item in value}) == 1
    if plain and isinstance(value[0], str | bool | int | float):
        return np.asarray(value)
    shape = getattr(value, "shape", None)
    return type(value).__name__ if shape is None else f"{type(value).__name__} of shape {tuple(shape)}"


def named(names: Any, most: int = 5) -> str:
    """The first few names, and how many more there are."""
    shown = ", ".join(str(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def _listed(names: Any) -> str:
    return ", ".join(repr(str(name)) for name in names) or "none"


def _refuse_negative(X: sparse.csr_array, cells: Any, genes: Any, key: str | None) -> None:
    """Zeros mark dropouts only as long as they are those of the counts."""
    below = X.data < 0
    if below.any():
        at = int(np.argmax(below))
        i = int(np.searchsorted(X.indptr, at, side="right")) - 1
        raise _negative(cells[i], genes[X.indices[at]], X.data[at], key)


def _refuse_negative_chunks(X: Any, cells: Any, genes: Any, key: str | None) -> None:
    """The same for a Dask array, in a pass of its own."""
    for i, s, value in ChunkedCells.read(X).bad:
        if value < 0:
            raise _negative(cells[int(i)], genes[int(s)], value, key)


def _negative(cell: Any, gene: Any, value: float, key: str | None) -> ValueError:
    return ValueError(
        f"Cell {cell!r} has {value:.6g} for gene {gene!r}: after centring or scaling, zeros are no longer those of the "
        f"counts that the mask {key!r} is about; name a layer with the values before, or pass dropouts=None."
    )


def _refuse_unseen(X: Any, mask: StructuredMask | None, cells: Any, genes: Any) -> None:
    """Name the cells and genes of which nothing at all is observed."""
    if mask is not None:
        known = sparse.csr_array((((X.data != 0) & ~np.isnan(X.data)).astype(np.float64), X.indices, X.indptr), X.shape)
        in_cell = known.sum(axis=1) + mask.weights.sum(axis=1, dtype=np.float64)[mask.groups]
        in_gene = known.sum(axis=0) + mask.weights.sum(axis=0, dtype=np.float64)
    elif isinstance(X, np.ndarray) and X.dtype.kind == "f":
        seen = ~np.isnan(X)
        in_cell, in_gene = seen.sum(axis=1), seen.sum(axis=0)
    else:
        return
    for what, seen, names in (("Cell", in_cell, cells), ("Gene", in_gene, genes)):
        empty = names[np.asarray(seen).ravel() == 0]
        if len(empty) == 1:
            raise ValueError(f"{what} {empty[0]} has no observed entry; drop it first.")
        if len(empty):
            raise ValueError(f"{what}s {named(empty)} have no observed entry; drop them first.")
