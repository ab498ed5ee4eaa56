"""A labelled data set, the checks that it holds together, and the paper's preprocessing."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

# How the values of X were made. All but "complete" are expression: what is zero may be a dropout.
VALUES = ("counts", "linear", "log2", "log10", "complete")
# A gene that fewer cells than this have is dropped.
FEWEST_CELLS = 2


@dataclass(frozen=True)
class Dataset:
    """Samples with known classes.

    Attributes
    ----------
    name : str
    X : (n_samples, n_features) array
    labels : (n_samples,) array of str, the classes
    values : {"counts", "linear", "log2", "log10", "complete"}
        What X holds: counts whose depth varies between cells; expression on a linear scale (TPM, RPKM); the base-2 or
        base-10 logarithm of 1 plus such; or values without holes or dropouts, such as images.
    features, samples : arrays of str, or None where they have no names
    notes : what a reader should know, such as what was left out
    """

    name: str
    X: np.ndarray
    labels: np.ndarray
    values: str
    features: np.ndarray | None = None
    samples: np.ndarray | None = None
    notes: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        _check(self)

    @property
    def n_classes(self) -> int:
        """How many classes there are."""
        return len(np.unique(self.labels))

    @property
    def is_expression(self) -> bool:
        """Whether zeros may be dropouts."""
        return self.values != "complete"


def preprocess(data: Dataset) -> tuple[np.ndarray, np.ndarray]:
    """The paper's preprocessing of expression: log2(1 + x), without the genes that fewer than 2 cells have.

    Counts are scaled to a common depth first, the median of the cells. Returns the logarithms, and the same on a
    linear scale. A set that is no expression comes back as it is, twice.
    """
    X = np.asarray(data.X, dtype=np.float64)
    if not data.is_expression:
        return X, X
    X = X[:, np.count_nonzero(X, axis=0) >= FEWEST_CELLS]
    if X.shape[1] == 0:
        raise ValueError(f"{data.name}: no gene is seen in {FEWEST_CELLS} cells or more.")
    if data.values == "log2":
        return X, np.exp2(X) - 1
    if data.values == "log10":
        return X * np.log2(10.0), 10.0**X - 1
    if data.values == "counts":
        depth = X.sum(axis=1, keepdims=True)
        empty = np.flatnonzero(depth == 0)
        if empty.size:
            raise ValueError(f"{data.name}: sample {empty[0]} has no counts at all; drop it first.")
        X = X * (np.median(depth) / depth)
    return np.log2(1.0 + X), X


def as_dense(X: Any) -> np.ndarray:
    """X as a dense array."""
    return X.toarray() if sparse.issparse(X) else np.asarray(X)


def as_text(values: Any) -> np.ndarray:
    """Names or classes as an array of str."""
    values = np.asarray(values)
    if values.dtype.kind == "S":
        return np.char.decode(values, "utf-8")
    return values.astype(str)


def stratified(data: Dataset, n_samples: int, seed: int) -> Dataset:
    """As many samples of each class, drawn at random, `n_samples` in all."""
    classes, counts = np.unique(data.labels, return_counts=True)
    each = n_samples // len(classes)
    if n_samples % len(classes) or counts.min() < each:
        raise ValueError(
            f"{data.name}: {n_samples} samples cannot be drawn evenly from {len(classes)} classes, the smallest of "
            f"which has {counts.min()}."
        )
    rng = np.random.default_rng(seed)
    chosen = np.sort(
        np.concatenate([rng.choice(np.flatnonzero(data.labels == name), each, replace=False) for name in classes])
    )
    samples = None if data.samples is None else data.samples[chosen]
    return Dataset(data.name, data.X[chosen], data.labels[chosen], data.values, data.features, samples, data.notes)


def _check(data: Dataset) -> None:
    """One sentence about the first thing that does not fit."""
    if data.values not in VALUES:
        raise ValueError(f"{data.name}: values must be one of {', '.join(VALUES)}; they are {data.values!r}.")
    if data.X.ndim != 2 or min(data.X.shape) < 2:
        raise ValueError(f"{data.name}: X must have rows and columns, 2 of each at least; its shape is {data.X.shape}.")
    if data.X.dtype.kind not in "biuf":
        raise ValueError(f"{data.name}: X must hold numbers; its type is {data.X.dtype}.")
    n, d = data.X.shape
    for what, names, wanted in (
        ("labels", data.labels, n),
        ("samples", data.samples, n),
        ("features", data.features, d),
    ):
        if names is not None and np.shape(names) != (wanted,):
            raise ValueError(
                f"{data.name}: X has {n} rows and {d} columns, but {what} have the shape {np.shape(names)}; there must "
                f"be {wanted}."
            )
    if len(np.unique(data.labels)) < 2:
        raise ValueError(f"{data.name}: all labels are {str(data.labels[0])!r}; there must be two classes at least.")
    bad = ~np.isfinite(data.X)
    if data.is_expression:
        bad |= data.X < 0
    if bad.any():
        i, j = np.argwhere(bad)[0]
        wanted_values = "finite and not negative" if data.is_expression else "finite"
        raise ValueError(f"{data.name}: X holds {data.X[i, j]} at row {i}, column {j}; values must be {wanted_values}.")
