"""The figures, fit to print: vectors, and colours that do not depend on seeing red and green."""

import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from nanfold.paper.compare import difference
from nanfold.paper.protocol import METHODS, PICTURED, VARIANTS, Result
from nanfold.paper.simulation import size_of
from nanfold.paper.tables import Entries, summarised, title_of

# Okabe and Ito's; classes beyond the eighth take the next marker.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#f0e442", "#1b1f24")
MARKERS = ("o", "^", "s", "D", "v", "P", "X")
INK, FAINT = "#1b1f24", "#c9ced4"
BLUE, VERMILION, GREEN, ORANGE = COLOURS[0], COLOURS[1], COLOURS[2], COLOURS[4]
# Of a variant in curves and boxes; what is not named here fills holes in.
OWN_COLOUR = {"complete": INK, "plain": VERMILION, "corrected": BLUE, "assisted": GREEN, "weighted": GREEN}
FILLING = "#8a929b"
# Beyond so many points a scatter plot's points are an image within the vectors.
VECTOR_POINTS = 6000
STYLE: Any = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "axes.edgecolor": FAINT,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "text.color": INK,
    "axes.labelcolor": INK,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "pdf.fonttype": 42,
    "svg.hashsalt": "nanfold",
}


def save(
    results: dict[str, list[Result]], folder: Path, progress: Callable[[float], None] = lambda share: None
) -> None:
    """Write every figure of both studies as svg, pdf and png."""
    drawings = list(_drawings(results))
    for number, (name, draw) in enumerate(drawings):
        with matplotlib.rc_context(STYLE):
            figure = draw()
            figure.savefig(folder / f"results-{name}.svg", metadata={"Date": None}, dpi=150)
            figure.savefig(folder / f"results-{name}.pdf", metadata={"CreationDate": None}, dpi=150)
            figure.savefig(folder / f"results-{name}.png", dpi=110)
        progress((number + 1) / len(drawings))


def _drawings(results: dict[str, list[Result]]) -> Iterator[tuple[str, Callable[[], Figure]]]:
    """The name of each figure, and what draws it."""
    simulated, real = summarised(results["simulation"]), summarised(results["real"])
    if simulated:
        yield "features", functools.partial(features, simulated)
        yield "simulated", functools.partial(scatter_grid, results["simulation"], _largest(simulated))
    if real:
        yield "differences", functools.partial(differences, real)
        for data in dict.fromkeys(data for data, _, _ in real):
            yield f"box-{data}", functools.partial(boxes, real, data)
            if any(result.cell.data == data and result.positions for result in results["real"]):
                yield f"scatter-{data}", functools.partial(scatter_grid, results["real"], data)


def features(entries: Entries) -> Figure:
    """The adjusted Rand index of PCA against the number of features, of each variant; means, and every draw."""
    figure = Figure(figsize=(5.2, 2.9), layout="constrained")
    axes = figure.subplots()
    sizes = sorted({size_of(data) for data, _, _ in entries})
    names = {size_of(data): data for data, _, _ in entries}
    variants = [v for v in VARIANTS if any(key[1:] == (v, "pca") for key in entries)]
    # Those that may run under another are wider and lie below.
    for number, variant in enumerate(variants):
        found = [entries.get((names[size], variant, "pca")) for size in sizes]
        means = [np.nan if entry is None else entry.mean for entry in found]
        colour = OWN_COLOUR.get(variant, ORANGE)
        style: dict[str, Any] = {"linewidth": np.clip(5 - number, 1, 3), "markersize": np.clip(10 - 2 * number, 3, 7)}
        style |= {"marker": MARKERS[number % len(MARKERS)], "linestyle": (0, (4, 2)) if variant == "complete" else "-"}
        axes.plot(sizes, means, color=colour, label=VARIANTS[variant].title, **style)
        for size, entry in zip(sizes, found, strict=True):
            if entry is not None:
                axes.scatter([size] * len(entry.aris), list(entry.aris.values()), s=6, color=colour, alpha=0.3, lw=0)
    least = min(
        ari for (_, _, method), entry in entries.items() if method == "pca" for ari in (0.0, *entry.aris.values())
    )
    axes.set(xlabel="number of features", ylabel="adjusted Rand index", ylim=(1.1 * least, 1.04), xticks=sizes)
    axes.grid(axis="y", color=FAINT, linewidth=0.5)
    # Beside the curves, which may lie anywhere.
    figure.legend(fontsize=7, loc="outside right center", frameon=False)
    return figure


def scatter_grid(results: list[Result], data: str) -> Figure:
    """The positions of the samples in the first repetition: methods in rows, variants in columns."""
    shown = {
        (r.cell.method, r.cell.variant): r for r in results if r.cell.data == data and r.cell.repetition == PICTURED
    }
    methods = [method for method in METHODS if any(key[0] == method for key in shown)]
    variants = [variant for variant in VARIANTS if any(key[1] == variant for key in shown)]
    figure = Figure(figsize=(1.25 * len(variants) + 0.3, 1.35 * len(methods) + 0.2), layout="constrained")
    panels = figure.subplots(len(methods), len(variants), squeeze=False)
    points = sum(len(result.labels) for result in shown.values() if result.labels is not None)
    for row, method in zip(panels, methods, strict=True):
        for axes, variant in zip(row, variants, strict=True):
            _panel(axes, shown.get((method, variant)), rasterized=points > VECTOR_POINTS)
            if method == methods[0]:
                axes.set_title(VARIANTS[variant].title)
        row[0].set_ylabel(METHODS[method])
    what = f"{title_of(data)}; the number below a panel is its adjusted Rand index"
    figure.suptitle(what, fontsize=8, x=0.01, ha="left")
    return figure


def _panel(axes: Any, result: Result | None, rasterized: bool) -> None:
    axes.set(xticks=[], yticks=[])
    if result is None or result.positions is None:
        axes.text(0.5, 0.5, "failed" if result else "", ha="center", va="center", transform=axes.transAxes)
        return
    positions, labels = np.array(result.positions), np.array(result.labels)
    if positions.shape[1] == 1:
        positions = np.column_stack([positions, np.zeros(len(positions))])
    size = 6.0 if len(labels) < 500 else 3.0
    for label in np.unique(labels):
        marker = MARKERS[label // len(COLOURS) % len(MARKERS)]
        here, colour = labels == label, COLOURS[label % len(COLOURS)]
        axes.scatter(*positions[here].T, s=size, color=colour, marker=marker, lw=0, alpha=0.8, rasterized=rasterized)
    axes.margins(0.08)
    axes.set_xlabel(f"{result.ari:.2f}", labelpad=1, fontsize=7)


def boxes(entries: Entries, data: str) -> Figure:
    """Box plots of the adjusted Rand index over the repetitions: a panel a method, a box a variant."""
    own = [entry for entry in entries.values() if entry.data == data]
    methods = [method for method in METHODS if any(entry.method == method for entry in own)]
    variants = [variant for variant in VARIANTS if any(entry.variant == variant for entry in own)]
    figure = Figure(figsize=(1.75 * len(methods) + 0.7, 0.19 * len(variants) + 0.75), layout="constrained")
    panels = figure.subplots(1, len(methods), sharex=True, sharey=True, squeeze=False)[0]
    for axes, method in zip(panels, methods, strict=True):
        for height, variant in enumerate(reversed(variants)):
            entry = entries.get((data, variant, method))
            if entry is None or not entry.aris:
                here = axes.get_yaxis_transform()
                axes.text(0.02, height, "failed" if entry else "", va="center", fontsize=6, transform=here)
                continue
            values, colour = list(entry.aris.values()), OWN_COLOUR.get(variant, FILLING)
            line = {"color": colour, "linewidth": 0.9}
            axes.boxplot(
                values, positions=[height], orientation="horizontal", widths=0.62, showfliers=False,
                boxprops=line, whiskerprops=line, capprops=line, medianprops={**line, "linewidth": 1.6},
            )  # fmt: skip
            axes.scatter(values, [height] * len(values), s=5, color=colour, alpha=0.6, lw=0, zorder=3)
        axes.set(title=METHODS[method], yticks=range(len(variants)), ylim=(-0.6, len(variants) - 0.4))
        axes.set_yticklabels([VARIANTS[variant].title for variant in reversed(variants)])
        axes.grid(axis="x", color=FAINT, linewidth=0.5)
    figure.suptitle(f"{title_of(data)}: adjusted Rand index", fontsize=8, x=0.01, ha="left")
    return figure


def differences(entries: Entries) -> Figure:
    """What the correction gains over zeros in the holes on every set, by method, with two standard errors."""
    sets = list(dict.fromkeys(data for data, _, _ in entries))
    methods = [method for method in METHODS if any(key[2] == method for key in entries)]
    figure = Figure(figsize=(1.5 * len(methods) + 1.0, 0.23 * len(sets) + 0.75), layout="constrained")
    panels = figure.subplots(1, len(methods), sharex=True, sharey=True, squeeze=False)[0]
    for axes, method in zip(panels, methods, strict=True):
        axes.axvline(0, color=INK, linewidth=0.8)
        for height, data in enumerate(reversed(sets)):
            pair = [entries.get((data, variant, method)) for variant in ("corrected", "plain")]
            found = difference(*pair)
            if found is None:
                continue
            colour = {"better": BLUE, "worse": VERMILION}.get(found.verdict, FILLING)
            error = 0.0 if np.isnan(found.error) else 2 * found.error
            marker = {"better": "o", "worse": "v"}.get(found.verdict, "s")
            axes.errorbar(found.mean, height, xerr=error, fmt=marker, color=colour, markersize=4, linewidth=1)
        axes.set(title=METHODS[method], yticks=range(len(sets)), ylim=(-0.6, len(sets) - 0.4))
        axes.set_yticklabels([title_of(data) for data in reversed(sets)])
        axes.grid(axis="x", color=FAINT, linewidth=0.5)
    figure.supxlabel("adjusted Rand index, corrected minus zero-filled", fontsize=8)
    return figure


def _largest(entries: Entries) -> str:
    return max((data for data, _, _ in entries), key=size_of)
