"""Preprocessing of an AnnData: which zeros are dropouts, and the neighbours of each cell."""

import warnings
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.neighbors import NearestNeighbors
from sklearn.utils import check_random_state

from nanfold._anndata import (
    DROPOUTS,
    check_settings,
    chosen_genes,
    described,
    matrix,
    named,
    refuse_clash,
    select,
    target,
)
from nanfold._cells import ChunkedCells
from nanfold.dropout import Dropouts
from nanfold.observed import is_dask
from nanfold.pca import PCA
from nanfold.representation import ALL_COMPONENTS_SAMPLES, LEADING_COMPONENTS

VALUES = ("auto", "counts", "log")
# log2(1 + x) stays below this for x up to a million: TPM, or all the counts of a cell.
LOG_MAXIMUM = 20.0


def dropouts(
    adata: Any,
    *,
    layer: str | None = None,
    mask_var: Any = None,
    labels: Any = None,
    values: str = "auto",
    key_added: str | None = None,
    copy: bool = False,
    random_state: Any = 0,
    **settings: Any,
) -> Any:
    """Weigh every zero of the counts: how far it is an observed zero, and how far a dropout.

    The cells are clustered several times by :class:`nanfold.Dropouts`, and a zero is believed where the other cells of
    its cluster have zeros for that gene too. The other functions of ``nanfold.tl`` and ``nanfold.pp`` use the mask when
    it is there, on this or any other layer with the same zeros.

    Parameters
    ----------
    adata : AnnData
        Cells x genes. A backed matrix is read into memory for the call; a Dask array is not.
    layer : str, optional
        The layer with the counts, or with values that have the same zeros; None for ``adata.X``.
    mask_var : str or array of bool, optional
        The genes that the clusterings see, a column of ``adata.var`` or an array; None for all. The zeros of every gene
        are weighed.
    labels : str or sequence of str, optional
        Columns of ``adata.obs`` that are clusterings already, such as "leiden" or cell types, to use instead of ours.
    values : {"auto", "counts", "log"}
        What our clusterings take the values for. "counts": they see log(1 + x) of the cells scaled to their median
        depth. "log": they see the values as they are. "auto" is "log", with a warning, if there are fractions and
        nothing exceeds 20, and "counts" otherwise. The zeros are the same in any case.
    key_added : str, optional
        Where the mask is kept; "dropouts" if None.
    copy : bool
        Whether to return a copy of `adata` with the mask, and leave `adata` as it is.
    random_state : int, RandomState or None
        Seeds the clusterings.
    **settings
        Further parameters of :class:`nanfold.Dropouts`, such as ``n_clusters``, ``methods`` and ``rule``.

    Returns
    -------
    None, or the copy. Written are

    ``obs[key_added]``
        The group of each cell, a whole number.
    ``varm[key_added]``
        Genes x groups, float32: the weight in [0, 1] at which a zero counts as observed.
    ``uns[key_added]["params"]``
        The settings.
    """
    adata = target(adata, copy)
    key = DROPOUTS if key_added is None else key_added
    refuse_clash(adata, key, "pp.dropouts", obs=key, varm=key)
    check_settings(Dropouts, "pp.dropouts", settings)
    if values not in VALUES:
        raise ValueError(f"values must be one of {', '.join(map(repr, VALUES))}; it is {values!r}.")
    if labels is not None and mask_var is not None:
        raise ValueError("mask_var chooses the genes for our clusterings, which labels replace; leave one of them out.")
    genes, name = chosen_genes(adata, mask_var)
    X = matrix(adata, layer, None)
    X = ChunkedCells.read(X) if is_dask(X) else sparse.csr_array(X)
    counted = _counted_genes(X, adata.obs_names, adata.var_names)
    if not counted.all():
        X = _of_genes(X, counted)
    model = Dropouts(random_state=random_state, **settings)
    if labels is None:
        values = _checked_kind(X, layer, values)
        seen = _comparable(X) if values == "counts" else X
        if genes is not None:
            seen = _of_genes(seen, genes[counted])
            _refuse_empty_cells(seen, adata.obs_names, " among the genes of mask_var; choose more genes")
        model.fit(seen)
    if labels is not None or genes is not None:
        model.fit(X, labels=model.labels_ if labels is None else _obs_columns(adata, labels))
    mask = model.mask_
    # A gene without any count has nothing but true zeros.
    weights = np.ones((adata.n_vars, len(mask.weights)), dtype=np.float32)
    weights[counted] = mask.weights.T
    params = {"layer": layer, "mask_var": name, "labels": labels, "values": None if labels is not None else values}
    adata.obs[key] = mask.groups.astype(np.int32)
    adata.varm[key] = weights
    adata.uns[key] = {"params": described("pp.dropouts", model, params)}
    return adata if copy else None


def _of_genes(X: sparse.csr_array | ChunkedCells, genes: np.ndarray) -> sparse.csr_array | ChunkedCells:
    return X.of_genes(genes) if isinstance(X, ChunkedCells) else X[:, np.flatnonzero(genes)]


def _counted_genes(X: sparse.csr_array | ChunkedCells, cells: Any, genes: Any) -> np.ndarray:
    """Which genes have a count in any cell, once everything that is not a count has been refused."""
    for i, s, value in _no_counts(X):
        raise ValueError(
            f"Cell {cells[int(i)]!r} has {value:.6g} for gene {genes[int(s)]!r}; counts, and values with the zeros of "
            "counts, are finite and never negative. Name a layer from before any centring or scaling."
        )
    _refuse_empty_cells(X, cells, "; drop such cells first, for example with scanpy.pp.filter_cells(min_counts=1)")
    if isinstance(X, ChunkedCells):
        counted = X.gene_cells > 0
    else:
        counted = np.bincount(X.indices[X.data != 0], minlength=X.shape[1]) > 0
    if not counted.all():
        empty = genes[~counted]
        warnings.warn(
            f"No cell has a count for {len(empty)} of {len(genes)} genes ({named(empty)}). Their zeros are taken for "
            "true ones, which blurs the differences between cells in how much was observed; drop such genes first, for "
            "example with scanpy.pp.filter_genes(min_cells=1).",
            UserWarning,
            stacklevel=3,
        )
    return counted


def _no_counts(X: sparse.csr_array | ChunkedCells) -> Any:
    """Cell, gene and value of the first entry that is negative or not finite, if there is one."""
    if isinstance(X, ChunkedCells):
        return X.bad
    bad = np.flatnonzero(~(X.data >= 0) | np.isinf(X.data))[:1]
    return [(np.searchsorted(X.indptr, at, side="right") - 1, X.indices[at], X.data[at]) for at in bad]


def _refuse_empty_cells(X: sparse.csr_array | ChunkedCells, cells: Any, remedy: str) -> None:
    if isinstance(X, ChunkedCells):
        nonzeros = X.nonzeros
    else:
        nonzeros = np.bincount(np.repeat(np.arange(X.shape[0]), np.diff(X.indptr)), X.data != 0, X.shape[0])
    empty = cells[nonzeros == 0]
    if len(empty):
        raise ValueError(f"Only zeros in {'cell' if len(empty) == 1 else 'cells'} {named(empty)}{remedy}.")


def _checked_kind(X: sparse.csr_array | ChunkedCells, layer: str | None, values: str) -> str:
    """Whether to take the values for "counts" or "log", with a warning where it matters that they look logged."""
    if isinstance(X, ChunkedCells):
        largest, whole = X.largest, X.whole
    else:
        largest, whole = X.data.max(initial=0), not np.any(X.data % 1 != 0)
    logged = largest <= LOG_MAXIMUM and not whole
    if logged and values != "log":
        taken = "the clusterings take it as it is" if values == "auto" else "the clusterings will see logarithms twice"
        warnings.warn(
            f"{'adata.X' if layer is None else f'The layer {layer!r}'} looks logged already, for it has fractions and "
            f"its largest value is {largest:.4g}; {taken}. Pass values='log' if it is logged, or name the layer of the "
            "counts.",
            UserWarning,
            stacklevel=3,
        )
    if values == "auto":
        return "log" if logged else "counts"
    return values


def _obs_columns(adata: Any, labels: Any) -> np.ndarray:
    """Columns of obs as cells x clusterings."""
    columns = [labels] if isinstance(labels, str) else list(labels)
    if not columns or not all(isinstance(name, str) for name in columns):
        raise ValueError(
            f"labels must name one column of adata.obs, or several; it is {labels!r}. Put clusterings there first."
        )
    for name in columns:
        if name not in adata.obs:
            raise ValueError(f"labels names {name!r}, which is not a column of adata.obs.")
        missing = adata.obs_names[adata.obs[name].isna()]
        if len(missing):
            raise ValueError(f"adata.obs[{name!r}] has no label for {named(missing)}; give every cell one.")
    return np.column_stack([adata.obs[name].to_numpy(dtype=object) for name in columns])


def _comparable(X: sparse.csr_array | ChunkedCells) -> sparse.csr_array | ChunkedCells:
    """log(1 + x) of the cells scaled to their median depth."""
    if isinstance(X, ChunkedCells):
        return X.comparable()
    depth = np.asarray(X.sum(axis=1, dtype=np.float64)).ravel()
    data = X.data / np.repeat(depth / np.median(depth), np.diff(X.indptr))
    dtype = X.dtype if X.dtype.kind == "f" else np.float64
    return sparse.csr_array((np.log1p(data).astype(dtype), X.indices, X.indptr), shape=X.shape)


def neighbors(
    adata: Any,
    n_neighbors: int = 15,
    *,
    use: str = "scores",
    layer: str | None = None,
    mask_var: Any = "auto",
    dropouts: str | None = DROPOUTS,
    key_added: str | None = None,
    copy: bool = False,
    random_state: Any = 0,
    **settings: Any,
) -> Any:
    """Find the nearest neighbours of each cell by corrected distances, and make the graph that scanpy goes on with.

    Parameters
    ----------
    adata : AnnData
        Cells x genes, dense, sparse or backed (what is used of a backed matrix is read into memory). NaN are holes.
    n_neighbors : int
        How many neighbours, the cell itself among them, as in scanpy.
    use : {"scores", "corrected"}
        Whether neighbours are found among the scores of the corrected PCA (all of them below 4096 cells, 50 from there
        on), or by the corrected distances themselves.
    layer : str, optional
        The layer to use; None for ``adata.X``.
    mask_var : "auto", str, array of bool or None
        The genes to use, a column of ``adata.var`` or an array; "auto" for "highly_variable" if there is such a column
        and for all genes otherwise; None for all.
    dropouts : str or None
        The key of a mask by :func:`nanfold.pp.dropouts`. Without a mask under "dropouts", and with None, all zeros are
        taken as observed.
    key_added : str, optional
        As in scanpy; "neighbors" if None.
    copy : bool
        Whether to return a copy of `adata` with the graph, and leave `adata` as it is.
    random_state : int, RandomState or None
        Seed.
    **settings
        Further parameters of :class:`nanfold.PCA`, such as ``observation`` and ``assist``.

    Returns
    -------
    None, or the copy. Written are

    ``obsp["distances"]``, or ``obsp[key_added + "_distances"]``
        `n_neighbors` - 1 entries a row. A small positive distance stands for one of zero, which sparse arrays lose, or
        one whose square is estimated below zero.
    ``obsp["connectivities"]``, or ``obsp[key_added + "_connectivities"]``
        UMAP's fuzzy graph.
    ``obsm["X_neighbors"]``, or ``obsm["X_" + key_added]``
        The leading scores, 50 at most, for what goes back to the data behind the graph.
    ``uns["neighbors"]``, or ``uns[key_added]``
        The names of these, and the settings.
    """
    adata = target(adata, copy)
    key = "neighbors" if key_added is None else key_added
    prefix = "" if key_added is None else f"{key_added}_"
    if key_added is not None:
        graphs = (f"{prefix}distances", f"{prefix}connectivities")
        refuse_clash(adata, key, "pp.neighbors", obsp=graphs, obsm=f"X_{key}")
    check_settings(PCA, "pp.neighbors", settings)
    if settings.get("whiten"):
        raise ValueError("Neighbours by whitened scores would not be those of the data; leave whiten out.")
    n = adata.n_obs
    if isinstance(n_neighbors, bool) or not isinstance(n_neighbors, int | np.integer) or not 2 <= n_neighbors <= n:
        raise ValueError(
            f"n_neighbors={n_neighbors!r} must be a whole number between 2 and the number of cells, {n}, for it counts "
            "the cell itself."
        )
    if use not in ("scores", "corrected"):
        raise ValueError(f"use must be 'scores' or 'corrected'; it is {use!r}.")
    data = select(adata, layer, mask_var, dropouts)
    n_components = "all" if n < ALL_COMPONENTS_SAMPLES else min(LEADING_COMPONENTS, *data.X.shape)
    model = PCA(**{"n_components": n_components, "random_state": random_state, **settings})
    scores, gram = model._fit(data.X, data.mask)
    seed = int(check_random_state(random_state).randint(2**31))
    if use == "corrected":
        from nanfold.neighbors import corrected_neighbors

        indices, distances = corrected_neighbors(gram, n_neighbors - 1, scores=scores, random_state=seed)
    else:
        indices, distances = _among_scores(scores, n_neighbors - 1, seed)
    distances = _positive(distances)
    graph = sparse.csr_matrix((distances.ravel(), indices.ravel(), np.arange(n + 1) * (n_neighbors - 1)), shape=(n, n))
    adata.obsp[f"{prefix}distances"] = graph
    adata.obsp[f"{prefix}connectivities"] = _connectivities(indices, distances)
    adata.obsm[f"X_{key}"] = scores[:, :LEADING_COMPONENTS]
    # scanpy reads these.
    read = {"n_neighbors": int(n_neighbors), "method": "umap", "metric": "euclidean", "use_rep": f"X_{key}"}
    adata.uns[key] = {
        "connectivities_key": f"{prefix}connectivities",
        "distances_key": f"{prefix}distances",
        "params": described("pp.neighbors", model, {**data.params, **read, "use": use}),
    }
    return adata if copy else None


def _among_scores(scores: np.ndarray, k: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The k nearest other cells, exactly where there are few cells."""
    n = len(scores)
    if n < ALL_COMPONENTS_SAMPLES:
        distances, indices = NearestNeighbors(n_neighbors=k).fit(scores).kneighbors()
        return indices, distances
    from pynndescent import NNDescent

    indices, distances = NNDescent(scores, n_neighbors=k + 1, random_state=seed).neighbor_graph
    # One of k + 1 goes: the cell itself or, where cells are equal and it was not found, the last.
    out = indices == np.arange(n)[:, None]
    out[~out.any(axis=1), -1] = True
    return indices[~out].reshape(n, k), distances[~out].reshape(n, k)


def _positive(distances: np.ndarray) -> np.ndarray:
    """Zeros replaced by a distance so small that the order stays as it is."""
    least = np.min(distances, where=distances > 0, initial=np.inf)
    return np.where(distances > 0, distances, 1e-3 * least if np.isfinite(least) else 1e-3)


def _connectivities(indices: np.ndarray, distances: np.ndarray) -> sparse.csr_matrix:
    """UMAP's fuzzy simplicial set over neighbours that do not include the cell itself."""
    with warnings.catch_warnings():
        # umap-learn says at import that one of its classes, not the one used here, needs Tensorflow.
        warnings.simplefilter("ignore", ImportWarning)
        from umap.umap_ import fuzzy_simplicial_set

    n, k = indices.shape
    graph = fuzzy_simplicial_set(
        sparse.coo_matrix((n, 1)),  # only its shape is looked at
        k + 1,
        random_state=None,
        metric="precomputed",
        knn_indices=np.hstack([np.arange(n)[:, None], indices]),
        knn_dists=np.hstack([np.zeros((n, 1)), distances]).astype(np.float32),
    )[0]
    return graph.tocsr()
