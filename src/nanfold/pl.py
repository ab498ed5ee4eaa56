"""Pictures of an AnnData: its embeddings, and how much of it was observed."""

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from nanfold._anndata import DROPOUTS, checked, select
from nanfold.observed import observe

# Okabe and Ito's colours, which the colour-blind can tell apart (less the yellow, which is lost on white); marks of
# another shape go on where they end.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
MARKERS = ("o", "^", "s", "X", "D", "v", "P", "<")
FAINT, INK = "#c9ced4", "#1b1f24"
MOST_CATEGORIES = len(COLOURS) * len(MARKERS)
# Above this many points a vector file would be unwieldy.
RASTER_POINTS = 5000


def embedding(
    adata: Any,
    basis: str,
    color: str | Sequence[str] | None = None,
    *,
    components: tuple[int, int] = (1, 2),
    layer: str | None = None,
    size: float | None = None,
    title: str | None = None,
    legend: bool = True,
    ax: Any = None,
) -> Any:
    """Draw an embedding, coloured by a column of ``obs`` or by a gene.

    Categories have colours that the colour-blind can tell apart, and marks of different shape from the eighth on.
    Cells without a value are drawn in grey, below the others.

    Parameters
    ----------
    adata : AnnData
    basis : str
        The embedding, such as "umap" for ``obsm["X_umap"]``, or the key in ``obsm`` itself.
    color : str or sequence of str, optional
        A column of ``adata.obs`` or a gene; a sequence draws one picture each.
    components : pair of int
        The dimensions to draw, from 1 on.
    layer : str, optional
        The layer that holds the values of genes; None for ``adata.X``.
    size : float, optional
        The area of a point, in points squared; by the number of cells if None.
    title : str, optional
        The title; what it is coloured by if None.
    legend : bool
        Whether to explain the colours.
    ax : matplotlib Axes, optional
        Where to draw; a new figure if None.

    Returns
    -------
    The Axes, or a list of them for a sequence of colours.
    """
    adata = checked(adata)
    points, label = _positions(adata, basis, components)
    if not (color is None or isinstance(color, Collection)):
        raise TypeError(f"color must be a column of adata.obs, a gene, or a sequence of such names; it is {color!r}.")
    if color is None or isinstance(color, str):
        ax = _figure(1)[0] if ax is None else ax
        return _draw(ax, points, label, _values(adata, color, layer), color, size, title, legend)
    if ax is not None:
        raise ValueError("ax is one place to draw, and color names several pictures; call once for each.")
    return [
        _draw(place, points, label, _values(adata, name, layer), name, size, title, legend)
        for place, name in zip(_figure(len(color)), color, strict=True)
    ]


def missingness(
    adata: Any,
    *,
    layer: str | None = None,
    mask_var: Any = None,
    dropouts: str | None = DROPOUTS,
    axes: Any = None,
) -> Any:
    """Draw how much was observed: of each cell, and of each gene against its mean.

    With a mask of dropouts, an entry that is not zero was observed, and a zero as far as its weight says; the share of
    entries that are not zero is drawn beside it.

    Parameters
    ----------
    adata : AnnData
    layer : str, optional
        The layer to use; None for ``adata.X``.
    mask_var : "auto", str, array of bool or None
        The genes to use, as in :func:`nanfold.tl.pca`; None for all.
    dropouts : str or None
        The key of a mask by :func:`nanfold.pp.dropouts`; without one only NaN are holes.
    axes : two matplotlib Axes, optional
        Where to draw; a new figure if None.

    Returns
    -------
    The two Axes.
    """
    adata = checked(adata)
    data = select(adata, layer, mask_var, dropouts)
    observed = observe(data.X, data.mask)
    n, d = observed.shape
    axes = _figure(2) if axes is None else list(np.ravel(axes))
    if len(axes) != 2:
        raise ValueError(f"axes must be two places to draw; there are {len(axes)}.")
    cells, genes = {"observed": observed.row_counts / d}, {"observed": observed.column_counts / n}
    if data.mask is not None:
        known = data.X != 0
        cells["not zero"] = np.asarray(known.sum(axis=1)).ravel() / d
        genes["not zero"] = np.asarray(known.sum(axis=0)).ravel() / n
    _histograms(axes[0], cells)
    _against_mean(axes[1], observed.mean, genes)
    return axes


def _figure(count: int) -> list[Any]:
    """Axes side by side in a new figure, up to four in a row."""
    plt = _pyplot()
    columns = min(max(count, 1), 4)
    rows = -(-count // columns) if count else 1
    _, axes = plt.subplots(rows, columns, figsize=(4.6 * columns, 3.9 * rows), layout="constrained", squeeze=False)
    for spare in axes.ravel()[count:]:
        spare.remove()
    return list(axes.ravel()[:count])


def _pyplot() -> Any:
    try:
        from matplotlib import pyplot
    except ImportError:
        raise ImportError("nanfold.pl needs matplotlib: pip install 'nanfold[plot]'.") from None
    return pyplot


def _positions(adata: Any, basis: str, components: tuple[int, int]) -> tuple[np.ndarray, str]:
    """The two dimensions to draw, and what to call them."""
    key = f"X_{basis}" if f"X_{basis}" in adata.obsm else basis
    if key not in adata.obsm:
        there = ", ".join(repr(name.removeprefix("X_")) for name in adata.obsm) or "none"
        raise ValueError(f"There is no embedding {basis!r} in adata.obsm, which has {there}.")
    points = np.asarray(adata.obsm[key])
    if np.shape(components) != (2,) or not all(c in range(1, points.shape[1] + 1) for c in components):
        raise ValueError(
            f"components={components!r} must be two of the dimensions 1 to {points.shape[1]} of {basis!r}."
        )
    name = basis.removeprefix("X_")
    short = {"pca": "PC", "tsne": "t-SNE ", "umap": "UMAP ", "gplvm": "GPLVM "}.get(name, f"{name} ")
    first, second = components
    return points[:, [first - 1, second - 1]], f"{short}{first}|{short}{second}"


def _values(adata: Any, name: str | None, layer: str | None) -> Any:
    """The column of obs, or the gene, as a pandas Series."""
    import pandas as pd

    if name is None:
        return None
    if name in adata.obs:
        return adata.obs[name]
    if name not in adata.var_names:
        raise ValueError(f"color={name!r} is neither a column of adata.obs nor a gene.")
    if np.sum(adata.var_names == name) > 1:
        raise ValueError(f"color={name!r} is the name of several genes; call adata.var_names_make_unique() first.")
    if layer is not None and layer not in adata.layers:
        raise ValueError(f"There is no layer {layer!r} in adata.layers.")
    return pd.Series(adata.obs_vector(name, layer=layer), index=adata.obs_names)


def _draw(
    ax: Any,
    points: np.ndarray,
    label: str,
    values: Any,
    name: str | None,
    size: float | None,
    title: str | None,
    legend: bool,
) -> Any:
    n = len(points)
    style = {
        "s": max(2.0, min(30.0, 12000.0 / n)) if size is None else size,
        "linewidths": 0,
        "rasterized": n > RASTER_POINTS,
    }
    if values is None:
        ax.scatter(*points.T, color=COLOURS[0], **style)
    else:
        numbers = values.dtype.kind in "iuf"
        if numbers:
            values = values.to_numpy(dtype=np.float64, na_value=np.nan)
        missing = ~np.isfinite(values) if numbers else values.isna().to_numpy()
        drawn = {}
        if missing.any():
            drawn["missing"] = ax.scatter(*points[missing].T, color=FAINT, **style)
        if numbers:
            _continuous(ax, points[~missing], values[~missing], legend, style)
        else:
            _categories(ax, points, values, drawn, legend, style)
    first, second = label.split("|")
    ax.set(xlabel=first, ylabel=second, xticks=[], yticks=[])
    ax.set_title(name or "" if title is None else title, fontsize=10, color=INK, loc="left")
    _sober(ax)
    return ax


def _continuous(ax: Any, points: np.ndarray, values: np.ndarray, legend: bool, style: dict[str, Any]) -> None:
    # The largest values last, so that few high ones are not covered by many low ones.
    order = np.argsort(values, kind="stable")
    drawn = ax.scatter(*points[order].T, c=values[order], cmap="cividis", **style)
    if legend:
        bar = ax.figure.colorbar(drawn, ax=ax, shrink=0.6, aspect=18)
        bar.outline.set_visible(False)
        bar.ax.tick_params(labelsize=8)


def _categories(
    ax: Any, points: np.ndarray, values: Any, drawn: dict[str, Any], legend: bool, style: dict[str, Any]
) -> None:
    values = values.astype("category").cat.remove_unused_categories()
    names = list(values.cat.categories)
    if len(names) > MOST_CATEGORIES:
        raise ValueError(
            f"color={values.name!r} has {len(names)} categories, more than the {MOST_CATEGORIES} that can be told "
            "apart; choose a coarser column."
        )
    codes = values.cat.codes.to_numpy()
    places = []
    for code in range(len(names)):
        colour, marker = COLOURS[code % len(COLOURS)], MARKERS[code // len(COLOURS)]
        places.append(ax.scatter(*points[codes == code].T, color=colour, marker=marker, **style))
    if legend:
        columns = -(-(len(names) + 1) // 16)
        # Said one by one, for a legend of what is labelled would leave out names with an underscore before them.
        shown = ax.legend(
            [*drawn.values(), *places],
            [*drawn, *map(str, names)],
            loc="center left",
            bbox_to_anchor=(1.0, 0.5),
            frameon=False,
            fontsize=8,
            ncols=columns,
            handletextpad=0.2,
        )
        for handle in shown.legend_handles:
            handle.set_sizes([28.0])


def _histograms(ax: Any, shares: dict[str, np.ndarray]) -> None:
    """Shares of the genes that each cell has, on bins that all of them share."""
    low, high = min(s.min() for s in shares.values()), max(s.max() for s in shares.values())
    bins = np.linspace(low, high, 41) if high > low else np.linspace(low - 0.005, low + 0.005, 3)
    for (name, values), colour in zip(shares.items(), (COLOURS[0], FAINT), strict=False):
        ax.hist(values, bins=bins, color=colour, alpha=0.9, label=name)
    ax.set(xlabel="share of the genes", ylabel="cells")
    ax.set_title("Cells", fontsize=10, color=INK, loc="left")
    if len(shares) > 1:
        ax.legend(frameon=False, fontsize=8)
    _sober(ax)


def _against_mean(ax: Any, mean: np.ndarray, shares: dict[str, np.ndarray]) -> None:
    """Shares of the cells that have each gene, over the mean of what was observed of it."""
    many = len(mean) > RASTER_POINTS
    for (name, values), colour, marker in reversed(list(zip(shares.items(), (COLOURS[0], FAINT), "o^", strict=False))):
        ax.scatter(
            mean, values, s=3 if many else 8, color=colour, marker=marker, linewidths=0, label=name, rasterized=many
        )
    positive = mean[mean > 0]
    if len(positive) == len(mean) and mean.max() > 100 * mean.min():
        ax.set_xscale("log")
    elif not np.any(mean < 0) and len(positive) and positive.max() > 100 * np.quantile(positive, 0.05):
        ax.set_xscale("symlog", linthresh=float(np.quantile(positive, 0.05)))
    ax.set(xlabel="mean of what was observed", ylabel="share of the cells", ylim=(-0.03, 1.03))
    ax.set_title("Genes", fontsize=10, color=INK, loc="left")
    if len(shares) > 1:
        ax.legend(frameon=False, fontsize=8, markerscale=2, reverse=True)
    _sober(ax)


def _sober(ax: Any) -> None:
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(FAINT)
    ax.tick_params(color=FAINT, labelsize=8)
