"""The embeddings as pictures, png and svg: one a method, and all side by side."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nanfold.pl import COLOURS, FAINT, INK, MARKERS, MOST_CATEGORIES, RASTER_POINTS
from nanfold.study.fitting import Study
from nanfold.study.settings import TITLES

ACROSS = 2


@dataclass(frozen=True)
class Colour:
    """By what the points are coloured: strings ("" where not known), or numbers (NaN where not known)."""

    name: str
    values: np.ndarray


def colour_of(study: Study, asked: list[str]) -> Colour:
    """The first label that was asked for, or that has few enough classes to tell apart; else the share observed."""
    labels = study.table.labels
    for name in [*asked, *labels]:
        values = labels[name]
        if values.dtype.kind == "f" or 2 <= len(set(values.tolist()) - {""}) <= MOST_CATEGORIES:
            return Colour(name, values)
    share = np.clip(study.observed.row_counts / study.table.shape[1], 0.0, 1.0)
    return Colour("share observed", share)


def axes_of(study: Study, method: str) -> tuple[str, str]:
    """What the axes of a picture are."""
    if method != "pca":
        return f"{TITLES[method]} 1", f"{TITLES[method]} 2"
    ratios = study.models["pca"].explained_variance_ratio_
    names = [f"component {a + 1} ({100 * ratio:.0f} %)" for a, ratio in enumerate(ratios[:2])]
    return names[0], names[1] if len(names) > 1 else ""


def plane_of(study: Study, method: str) -> np.ndarray:
    """The first two coordinates; zero for a second one that is not there."""
    points = np.asarray(study.coordinates[method], dtype=np.float64)[:, :2]
    return points if points.shape[1] == 2 else np.hstack([points, np.zeros((len(points), 1))])


def save_pictures(study: Study, colour: Colour, folder: Path) -> list[str]:
    """Write them; their names without ending."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    names = []
    with rc_context({"svg.hashsalt": "nanfold", "font.size": 9, "text.color": INK, "axes.labelcolor": INK}):
        groups: list[tuple[str, ...]] = [(method,) for method in study.settings.methods]
        if len(groups) > 1:
            groups.append(study.settings.methods)
        for group in groups:
            across = min(ACROSS, len(group))
            down = -(-len(group) // across)
            figure = Figure(figsize=(4.4 * across + 1.4, 4.0 * down), layout="constrained")
            places = figure.subplots(down, across, squeeze=False).ravel()
            for spare in places[len(group) :]:
                spare.remove()
            drawn = [_draw(ax, study, name, colour) for ax, name in zip(places, group, strict=False)]
            _explain(figure, places[: len(group)], drawn, colour)
            name = group[0] if len(group) == 1 else "all"
            figure.savefig(folder / f"{name}.png", dpi=140)
            figure.savefig(folder / f"{name}.svg", metadata={"Date": None}, dpi=140)
            names.append(name)
    return names


def _draw(ax: Any, study: Study, method: str, colour: Colour) -> Any:
    points, values = plane_of(study, method), colour.values
    n = len(points)
    style = {"s": max(2.0, min(24.0, 9000.0 / n)), "linewidths": 0, "rasterized": n > RASTER_POINTS}
    ax.set_title(TITLES[method], loc="left", fontsize=10)
    first, second = axes_of(study, method)
    ax.set(xlabel=first, ylabel=second, xticks=[], yticks=[])
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(FAINT)
    known = ~np.isnan(values) if values.dtype.kind == "f" else values != ""
    if not known.all():
        ax.scatter(*points[~known].T, color=FAINT, label="not known", **style)
    if values.dtype.kind == "f":
        order = np.argsort(values[known], kind="stable")
        return ax.scatter(*points[known][order].T, c=values[known][order], cmap="cividis", **style)
    for code, name in enumerate(sorted(set(values[known].tolist()))):
        look = {"color": COLOURS[code % len(COLOURS)], "marker": MARKERS[code // len(COLOURS)]}
        ax.scatter(*points[values == name].T, label=name, **look, **style)
    return None


def _explain(figure: Any, places: Any, drawn: list[Any], colour: Colour) -> None:
    if drawn[0] is not None:
        bar = figure.colorbar(drawn[0], ax=list(places), shrink=0.6, aspect=24, label=colour.name)
        bar.outline.set_visible(False)
        return
    handles, names = places[0].get_legend_handles_labels()
    shown = figure.legend(
        handles,
        names,
        loc="outside right upper",
        frameon=False,
        fontsize=8,
        title=colour.name,
        ncols=-(-len(names) // 28),
    )
    for handle in shown.legend_handles:
        handle.set_sizes([26.0])
