"""The pictures: the scores of each method side by side, and what is found again against the number of features."""

import io
import re
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from nanfold.demo.comparison import Comparison


@dataclass(frozen=True)
class Theme:
    """The colours of a picture; those of the data are Okabe and Ito's, and marks of different shape say the same."""

    ink: str
    faint: str
    paper: str
    blue: str
    orange: str
    green: str


LIGHT = Theme(ink="#1b1f24", faint="#c9ced4", paper="#ffffff", blue="#0072b2", orange="#d55e00", green="#009e73")
DARK = Theme(ink="#e6e8eb", faint="#4a5058", paper="#14171a", blue="#56b4e9", orange="#e69f00", green="#009e73")


def save(found: Comparison, folder: Path) -> None:
    """Write clusters and features into the folder, as svg and as png on light and on dark."""
    for name, draw in (("clusters", clusters), ("features", features)):
        with style(LIGHT):
            draw(found, LIGHT).savefig(folder / f"{name}.svg", metadata={"Date": None})
            draw(found, LIGHT).savefig(folder / f"{name}.png", dpi=140)
        with style(DARK):
            draw(found, DARK).savefig(folder / f"{name}-dark.png", dpi=140)


def inline(draw: Callable[[Theme], Figure], salt: str) -> str:
    """A picture as an svg element for the page, with identifiers that differ by `salt`."""
    with style(LIGHT), matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": salt}):
        out = io.StringIO()
        draw(LIGHT).savefig(out, format="svg", transparent=True, metadata={"Date": None})
    svg = out.getvalue()
    svg = svg[svg.index("<svg") :]
    # Only what is referred to is named, for a name may stand once in the page.
    svg = re.sub(r' id="([^"]+)"', lambda name: name[0] if f"#{name[1]}" in svg else "", svg)
    # The page's own colours, so that the picture follows it from light to dark.
    for name, colour in asdict(LIGHT).items():
        svg = svg.replace(colour, f"var(--{name})")
    return svg


def clusters(found: Comparison, theme: Theme) -> Figure:
    """The scores of every method in the first draw, side by side and on one scale."""
    figure = Figure(figsize=(10.4, 2.9), layout="constrained")
    panels = figure.subplots(1, len(found.scores), sharex=True, sharey=True)
    for m, name in enumerate(found.scores):
        _scores(panels[m], found, name, theme)
        panels[m].set_ylabel("component 2" if m == 0 else "")
    return figure


def panel(found: Comparison, name: str, theme: Theme) -> Figure:
    """The scores of one method in the first draw."""
    figure = Figure(figsize=(2.8, 2.7), layout="constrained")
    _scores(figure.subplots(), found, name, theme)
    return figure


def features(found: Comparison, theme: Theme) -> Figure:
    """The adjusted Rand index of every method against the number of features: the mean, and every draw."""
    # Nanfold's line and marks are the widest and lie below, for it may run under another.
    styles: Iterable[dict[str, Any]] = (
        {"color": theme.ink, "marker": "D", "markersize": 5, "linewidth": 1.4, "linestyle": (0, (4, 2))},
        {"color": theme.orange, "marker": "v", "markersize": 6, "linewidth": 1.4},
        {"color": theme.green, "marker": "s", "markersize": 4.5, "linewidth": 1.4, "zorder": 3},
        {"color": theme.blue, "marker": "o", "markersize": 9, "linewidth": 3.2, "zorder": 2},
    )
    figure = Figure(figsize=(5.6, 3.7), layout="constrained")
    axes = figure.subplots()
    for name, ari, style in zip(found.scores, found.ari, styles, strict=True):
        axes.plot(found.sizes, ari.mean(axis=1), label=name, **style)
        if found.n_draws > 1:
            every = np.repeat(found.sizes, found.n_draws)
            axes.scatter(every, ari.ravel(), s=9, color=style["color"], alpha=0.3, linewidths=0, zorder=1)
    axes.set(xlabel="number of features", ylabel="adjusted Rand index", ylim=(0, 1.04), xticks=found.sizes)
    axes.grid(axis="y", color=theme.faint, linewidth=0.6)
    axes.legend(fontsize=9, loc="lower right", framealpha=1, facecolor=theme.paper, edgecolor=theme.paper)
    return figure


def _scores(axes: Any, found: Comparison, name: str, theme: Theme) -> None:
    scores = found.scores[name]
    for label, (colour, marker) in enumerate(((theme.blue, "o"), (theme.orange, "^"), (theme.green, "s"))):
        here = found.labels == label
        axes.scatter(*scores[here].T, s=12, color=colour, marker=marker, alpha=0.75, linewidths=0)
    ari = found.ari[list(found.scores).index(name), -1, 0]
    axes.set_title(f"{name}\nARI {ari:.2f}", color=theme.ink)
    axes.set(xlabel="component 1", ylabel="component 2")
    axes.locator_params(nbins=5)
    # One scale for all: a method that shrinks distances shows it.
    reach = 1.06 * np.abs(np.stack(list(found.scores.values()))).max(axis=(0, 1))
    axes.set(xlim=(-reach[0], reach[0]), ylim=(-reach[1], reach[1]))


def style(theme: Theme) -> Any:
    """Matplotlib's settings in the colours of a theme, as a context."""
    return matplotlib.rc_context(
        {
            "font.size": 10,
            "axes.titlesize": 10.5,
            "axes.edgecolor": theme.faint,
            "axes.facecolor": "none",
            "axes.labelcolor": theme.ink,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.axisbelow": True,
            "figure.facecolor": theme.paper,
            "legend.labelcolor": theme.ink,
            "savefig.facecolor": "auto",
            "svg.hashsalt": "nanfold",
            "text.color": theme.ink,
            "xtick.color": theme.faint,
            "ytick.color": theme.faint,
            "xtick.labelcolor": theme.ink,
            "ytick.labelcolor": theme.ink,
        }
    )
