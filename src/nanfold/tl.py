"""PCA, t-SNE, UMAP and GPLVM of an AnnData, with results where scanpy looks for them."""

from typing import Any

import numpy as np

from nanfold._anndata import DROPOUTS, HIGHLY_VARIABLE, check_settings, described, refuse_clash, select, target
from nanfold.components import check_n_components
from nanfold.pca import PCA

DEFAULT_COMPONENTS = 50
# Up to this many cells all components are found first, for fewer than 50 of them may have positive eigenvalues.
FEW_CELLS = 200


def pca(
    adata: Any,
    n_comps: Any = None,
    *,
    layer: str | None = None,
    mask_var: Any = "auto",
    dropouts: str | None = DROPOUTS,
    key_added: str | None = None,
    copy: bool = False,
    random_state: Any = 0,
    **settings: Any,
) -> Any:
    """Principal components from the unbiased Gram matrix, by :class:`nanfold.PCA`.

    Parameters
    ----------
    adata : AnnData
        Cells x genes: dense, sparse, a Dask array, or backed (what is used of it is read into memory). NaN are holes.
    n_comps : int, float in (0, 1), "cng", "signflip", "all" or None
        How many components, as `n_components` of :class:`nanfold.PCA`; None for 50, or for as many as there are.
    layer : str, optional
        The layer to use; None for ``adata.X``.
    mask_var : "auto", str, array of bool or None
        The genes to use, a column of ``adata.var`` or an array; "auto" for "highly_variable" if there is such a column
        and for all genes otherwise; None for all.
    dropouts : str or None
        The key of a mask by :func:`nanfold.pp.dropouts`. Without a mask under "dropouts", and with None, all zeros are
        taken as observed.
    key_added : str, optional
        The key in ``obsm``, ``varm`` and ``uns``; "X_pca", "PCs" and "pca" if None.
    copy : bool
        Whether to return a copy of `adata` with the result, and leave `adata` as it is.
    random_state : int, RandomState or None
        Seed.
    **settings
        Further parameters of :class:`nanfold.PCA`, such as ``observation`` and ``assist``.

    Returns
    -------
    None, or the copy. Written are

    ``obsm["X_pca"]``
        The scores.
    ``varm["PCs"]``
        The loadings; zero for genes that were not used.
    ``uns["pca"]``
        `params`, `variance` and `variance_ratio`.
    """
    adata = target(adata, copy)
    in_obsm, in_varm, in_uns = ("X_pca", "PCs", "pca") if key_added is None else (key_added,) * 3
    if key_added is not None:
        refuse_clash(adata, key_added, "tl.pca", obsm=key_added, varm=key_added)
    if "n_components" in settings:
        raise TypeError("nanfold.tl.pca calls the number of components n_comps, as scanpy does; give that.")
    check_settings(PCA, "tl.pca", settings)
    data = select(adata, layer, mask_var, dropouts)
    n, d = data.X.shape
    check_n_components(n_comps, n, d, "n_comps")
    n_components, most = n_comps, None
    if n_comps is None:
        most = max(1, min(DEFAULT_COMPONENTS, min(n, d) - 1))
        n_components = "all" if adata.n_obs <= FEW_CELLS else most
    model = PCA(n_components, random_state=random_state, **settings)
    scores = model.fit_transform(data.X, mask=data.mask)[:, :most]
    components = model.components_[:most]
    loadings = np.zeros((adata.n_vars, len(components)), dtype=components.dtype)
    loadings[slice(None) if data.genes is None else data.genes] = components.T
    # The first two are what scanpy writes, and reads in places.
    params = {
        "zero_center": bool(model.center),
        "use_highly_variable": isinstance(data.params["mask_var"], str) and data.params["mask_var"] == HIGHLY_VARIABLE,
        **data.params,
        "n_components": scores.shape[1],
        "rank": model.assist_,
    }
    adata.obsm[in_obsm] = scores
    adata.varm[in_varm] = loadings
    adata.uns[in_uns] = {
        "params": described("tl.pca", model, params),
        "variance": model.explained_variance_[:most],
        "variance_ratio": model.explained_variance_ratio_[:most],
    }
    return adata if copy else None


def tsne(
    adata: Any,
    n_components: int = 2,
    *,
    layer: str | None = None,
    mask_var: Any = "auto",
    dropouts: str | None = DROPOUTS,
    key_added: str | None = None,
    copy: bool = False,
    random_state: Any = 0,
    **settings: Any,
) -> Any:
    """t-SNE of the corrected scores, by :class:`nanfold.TSNE`.

    Parameters
    ----------
    adata, layer, mask_var, dropouts, copy, random_state
        As in :func:`nanfold.tl.pca`.
    n_components : int
        Dimensions of the embedding.
    key_added : str, optional
        The key in ``obsm`` and ``uns``; "X_tsne" and "tsne" if None.
    **settings
        Further parameters of :class:`nanfold.TSNE`, such as ``perplexity`` and ``neighbors``.

    Returns
    -------
    None, or the copy. Written are ``obsm["X_tsne"]`` and, in ``uns["tsne"]``, `params` and `kl_divergence`.
    """
    from nanfold.tsne import TSNE

    check_settings(TSNE, "tl.tsne", settings)
    model = TSNE(n_components, random_state=random_state, **settings)
    return _embed(adata, model, "tsne", layer, mask_var, dropouts, key_added, copy, ("kl_divergence",))


def umap(
    adata: Any,
    n_components: int = 2,
    *,
    layer: str | None = None,
    mask_var: Any = "auto",
    dropouts: str | None = DROPOUTS,
    key_added: str | None = None,
    copy: bool = False,
    random_state: Any = 0,
    **settings: Any,
) -> Any:
    """UMAP of the corrected scores, by :class:`nanfold.UMAP`.

    Unlike scanpy's, it finds the neighbours itself. To lay out the graph of :func:`nanfold.pp.neighbors` instead, use
    ``scanpy.tl.umap``.

    Parameters
    ----------
    adata, layer, mask_var, dropouts, copy, random_state
        As in :func:`nanfold.tl.pca`.
    n_components : int
        Dimensions of the embedding.
    key_added : str, optional
        The key in ``obsm`` and ``uns``; "X_umap" and "umap" if None.
    **settings
        Further parameters of :class:`nanfold.UMAP`, such as ``n_neighbors`` and ``min_dist``.

    Returns
    -------
    None, or the copy. Written are ``obsm["X_umap"]`` and, in ``uns["umap"]``, `params`.
    """
    from nanfold.umap import UMAP

    check_settings(UMAP, "tl.umap", settings)
    model = UMAP(n_components, random_state=random_state, **settings)
    return _embed(adata, model, "umap", layer, mask_var, dropouts, key_added, copy)


def gplvm(
    adata: Any,
    n_components: int = 2,
    *,
    layer: str | None = None,
    mask_var: Any = "auto",
    dropouts: str | None = DROPOUTS,
    key_added: str | None = None,
    copy: bool = False,
    random_state: Any = 0,
    **settings: Any,
) -> Any:
    """Gaussian process latent variables on the corrected Gram matrix, by :class:`nanfold.GPLVM`.

    Parameters
    ----------
    adata, layer, mask_var, dropouts, copy, random_state
        As in :func:`nanfold.tl.pca`.
    n_components : int
        Latent dimensions.
    key_added : str, optional
        The key in ``obsm`` and ``uns``; "X_gplvm" and "gplvm" if None.
    **settings
        Further parameters of :class:`nanfold.GPLVM`, such as ``kernel`` and ``inducing``.

    Returns
    -------
    None, or the copy. Written are ``obsm["X_gplvm"]`` and, in ``uns["gplvm"]``, `params`, `log_likelihood`,
    `noise_variance` and `converged`.
    """
    from nanfold.gplvm import GPLVM

    check_settings(GPLVM, "tl.gplvm", settings)
    model = GPLVM(n_components, random_state=random_state, **settings)
    found = ("log_likelihood", "noise_variance", "converged")
    return _embed(adata, model, "gplvm", layer, mask_var, dropouts, key_added, copy, found)


def _embed(
    adata: Any,
    model: Any,
    basis: str,
    layer: str | None,
    mask_var: Any,
    dropouts: str | None,
    key_added: str | None,
    copy: bool,
    found: tuple[str, ...] = (),
) -> Any:
    """Fit `model`, and write its embedding, its settings and the fitted attributes named in `found`."""
    adata = target(adata, copy)
    in_obsm, in_uns = (f"X_{basis}", basis) if key_added is None else (key_added,) * 2
    if key_added is not None:
        refuse_clash(adata, key_added, f"tl.{basis}", obsm=key_added)
    data = select(adata, layer, mask_var, dropouts)
    adata.obsm[in_obsm] = model.fit_transform(data.X, mask=data.mask)
    results = {name: getattr(model, f"{name}_") for name in found}
    adata.uns[in_uns] = {"params": described(f"tl.{basis}", model, data.params), **results}
    return adata if copy else None
