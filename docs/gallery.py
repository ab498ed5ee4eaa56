"""Draw the pictures of the gallery, from scikit-learn's bundled data and simulations, on light and on dark paper.

``make images`` runs this; with names, only those are drawn: ``.venv/bin/python docs/gallery.py digits wine``.
"""

import functools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from sklearn.cluster import KMeans
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import StandardScaler

import nanfold as nf
from nanfold.demo.pictures import DARK, LIGHT, Theme, style

FOLDER = Path(__file__).resolve().parent / "images" / "gallery"
MARKERS = "o^sDvXP*<>"


class Panel(NamedTuple):
    """One embedding: a title, positions (n, 2), and the class of each sample."""

    title: str
    positions: np.ndarray
    labels: np.ndarray


def mean_filled(H: np.ndarray) -> np.ndarray:
    """The table with the mean of each column in its holes."""
    return np.where(np.isnan(H), np.nanmean(H, axis=0), H)


def found(positions: np.ndarray, labels: np.ndarray) -> float:
    """The adjusted Rand index of k-means with as many clusters as there are classes."""
    clusters = KMeans(len(np.unique(labels)), n_init=30, random_state=0).fit_predict(positions)
    return adjusted_rand_score(labels, clusters)


def three_ways(method: str, X: np.ndarray, H: np.ndarray, labels: np.ndarray, **settings: object) -> list[Panel]:
    """The same method on the complete table, on means in the holes, and by nanfold."""
    panels = []
    for name, table in (("nothing hidden", X), ("means in the holes", mean_filled(H)), ("nanfold", H)):
        positions = getattr(nf, method)(random_state=0, **settings).fit_transform(table)
        panels.append(Panel(f"{name}\nARI {found(positions, labels):.2f}", positions, labels))
    return panels


@functools.cache
def digits_with_holes() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scikit-learn's 1797 digits, 40 % of their pixels hidden, and which digit each is."""
    X, labels = load_digits(return_X_y=True)
    seen = X.std(axis=0) > 0
    return X[:, seen], nf.datasets.hide(X[:, seen], random_state=0), labels


@functools.cache
def digits_data() -> list[Panel]:
    """UMAP of the digits."""
    X, H, labels = digits_with_holes()
    return three_ways("UMAP", X, H, labels)


def digits(theme: Theme) -> Figure:
    """UMAP of the digits, each in its colour and named where it lies."""
    return side_by_side(digits_data(), theme, [str(k) for k in range(10)])


@functools.cache
def pixels_data() -> list[np.ndarray]:
    """Eight digits four ways: complete, with holes (NaN), means in the holes, and the reconstruction."""
    X, labels = load_digits(return_X_y=True)
    seen = X.std(axis=0) > 0
    _, H, _ = digits_with_holes()
    pca = nf.PCA(n_components=20, random_state=0).fit(H)
    filled = np.where(np.isnan(H), pca.inverse_transform(pca.transform(H)), H)
    which = [np.flatnonzero(labels == k)[3] for k in range(10)]
    rows = []
    for table in (X[:, seen], H, mean_filled(H), filled):
        images = np.zeros((10, 64))
        images[:, seen] = table[which]
        rows.append(images.reshape(10, 8, 8))
    return rows


def pixels(theme: Theme) -> Figure:
    """The eight digits four ways, holes in a colour of their own."""
    figure = Figure(figsize=(8.6, 3.9), layout="constrained")
    panels = figure.subplots(4, 10)
    shades = matplotlib.colormaps["gray" if theme is DARK else "gray_r"].with_extremes(bad=theme.orange)
    names = ("nothing hidden", "40 % hidden", "means", "reconstructed")
    for row, name, images in zip(panels, names, pixels_data(), strict=True):
        for axes, image in zip(row, images, strict=True):
            axes.imshow(image, cmap=shades, vmin=0, vmax=16)
            axes.set(xticks=[], yticks=[])
            axes.spines[:].set_visible(False)
        row[0].set_ylabel(name, rotation=0, ha="right", va="center")
    return figure


@functools.cache
def wine_data() -> list[Panel]:
    """PCA of 178 wines with 13 measurements, half of them hidden."""
    X, labels = load_wine(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    return three_ways("PCA", X, nf.datasets.hide(X, 0.5, random_state=0), labels, n_components=2)


def wine(theme: Theme) -> Figure:
    """PCA of the wines."""
    return side_by_side(wine_data(), theme, ["cultivar 1", "cultivar 2", "cultivar 3"], same_scale=True)


@functools.cache
def cancer_data() -> list[Panel]:
    """t-SNE of 569 tumours with 30 measurements, 60 % of them hidden."""
    X, labels = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    return three_ways("TSNE", X, nf.datasets.hide(X, 0.6, random_state=0), labels)


def cancer(theme: Theme) -> Figure:
    """t-SNE of the tumours."""
    return side_by_side(cancer_data(), theme, load_breast_cancer().target_names)


@functools.cache
def sheet_data() -> tuple[list[tuple[str, np.ndarray]], np.ndarray]:
    """GPLVM of samples on a curved sheet: where they lie on it, and what is found from a table with holes."""
    rng = np.random.default_rng(3)
    places = rng.uniform(-1, 1, size=(400, 2))
    X = np.sin(2.0 * places @ rng.normal(size=(2, 300)) + rng.uniform(0, 6, 300)) + 0.5 * rng.normal(size=(400, 300))
    # Rows differ in how much of them was seen, from a tenth to nearly all.
    H = np.where(rng.random(X.shape) < rng.uniform(0.1, 0.9, size=(400, 1)), X, np.nan)
    panels = [("the sheet", places)]
    for name, table in (("means in the holes", mean_filled(H)), ("nanfold", H)):
        latent = nf.GPLVM(random_state=0, tol=1e-6).fit_transform(table)
        panels.append((name, turned(latent, places)))
    return panels, places


def turned(positions: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Positions turned, flipped, scaled and moved to lie as near to the target as they can."""
    moved, wanted = positions - positions.mean(axis=0), target - target.mean(axis=0)
    U, sizes, Vt = np.linalg.svd(moved.T @ wanted)
    return sizes.sum() / np.vdot(moved, moved) * moved @ U @ Vt + target.mean(axis=0)


def sheet(theme: Theme) -> Figure:
    """The latent positions, coloured by one coordinate of the sheet and sized by the other."""
    panels, places = sheet_data()
    figure = Figure(figsize=(9.4, 3.2), layout="constrained")
    for axes, (name, positions) in zip(figure.subplots(1, 3), panels, strict=True):
        error = np.sqrt(np.mean((positions - places) ** 2))
        axes.set_title(name if name == "the sheet" else f"{name}\nroot mean square error {error:.2f}")
        axes.scatter(*positions.T, c=places[:, 0], s=10 + 12 * (places[:, 1] + 1), cmap="viridis", linewidths=0)
        axes.set(aspect="equal", xticks=[], yticks=[], xlim=(-1.6, 1.6), ylim=(-1.6, 1.6))
    return figure


@functools.cache
def cells_data() -> list[Panel]:
    """t-SNE of simulated counts of 300 cells of five types, of which a cell lost between a fifth and three fifths."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(5), 60)
    markers = (rng.random((5, 800)) < 0.1) * rng.normal(0, 0.7, size=(5, 800))
    true = rng.poisson(np.exp(rng.normal(1.5, 1.0, size=800) + markers)[labels])
    lost = rng.uniform(0.2, 0.6, size=(300, 1)) * rng.uniform(0.6, 1.0, size=800)
    counts = np.where(rng.random(true.shape) < lost, 0, true)
    ways = {
        "no dropouts": (true, None),
        "zeros as they are": (counts, None),
        "nanfold, default": (counts, "contrast"),
        'nanfold, rule="vote"': (counts, "vote"),
    }
    panels = []
    for name, (table, rule) in ways.items():
        logged = np.log1p(table)
        mask = nf.Dropouts(rule=rule, random_state=0).fit(logged) if rule else None
        positions = nf.TSNE(random_state=0).fit_transform(logged, mask=mask)
        panels.append(Panel(f"{name}\nARI {found(positions, labels):.2f}", positions, labels))
    return panels


def cells(theme: Theme) -> Figure:
    """t-SNE of the cells."""
    return side_by_side(cells_data(), theme, [f"type {t}" for t in "ABCDE"])


def side_by_side(panels: Sequence[Panel], theme: Theme, names: Sequence[str], same_scale: bool = False) -> Figure:
    """Embeddings beside one another; every class has a colour, a mark, and its name in the legend."""
    figure = Figure(figsize=(9.4, 3.4), layout="constrained")
    row = figure.subplots(1, len(panels), sharex=same_scale, sharey=same_scale)
    few = len(names) <= 5
    palette = [theme.blue, theme.orange, theme.green, "#cc79a7", theme.ink] if few else matplotlib.colormaps["tab10"]
    for axes, panel in zip(row, panels, strict=True):
        axes.set_title(panel.title)
        for k, name in enumerate(names):
            here = panel.positions[panel.labels == k]
            colour = palette[k] if few else palette(k)
            axes.scatter(*here.T, s=11, color=colour, marker=MARKERS[k], alpha=0.75, linewidths=0, label=name)
            if not few:
                outline = {"boxstyle": "circle,pad=0.15", "facecolor": theme.paper, "edgecolor": colour, "alpha": 0.85}
                axes.text(*np.median(here, axis=0), name, fontsize=8, ha="center", va="center", bbox=outline)
        axes.set(xticks=[], yticks=[])
    if few:
        figure.legend(*row[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(names), frameon=False)
    return figure


PICTURES = {"digits": digits, "pixels": pixels, "wine": wine, "cancer": cancer, "sheet": sheet, "cells": cells}


def main(names: Sequence[str]) -> None:
    """Draw the pictures of these names, or all."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in names or PICTURES:
        for theme, ending in ((LIGHT, ""), (DARK, "-dark")):
            with style(theme):
                PICTURES[name](theme).savefig(FOLDER / f"{name}{ending}.png", dpi=110)


if __name__ == "__main__":
    main(sys.argv[1:])
