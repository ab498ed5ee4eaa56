"""Fitting every method to one estimate."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from nanfold.dropout import Dropouts
from nanfold.gplvm import GPLVM
from nanfold.io.table import Table
from nanfold.observed import Observed
from nanfold.study.scree import Scree, scree_of
from nanfold.study.settings import TITLES, Settings
from nanfold.together import Together
from nanfold.tsne import TSNE
from nanfold.umap import UMAP

# The exact GPLVM costs n^3 an iteration; a bound with so many inducing inputs is as good a picture from here on.
EXACT_SAMPLES, INDUCING = 300, 50
GPLVM_ITERATIONS, GPLVM_TOLERANCE = 400, 1e-7
NEIGHBORS = 15
FEWEST_COMPONENTS = 2


@dataclass
class Study:
    """What came out.

    Attributes
    ----------
    table, settings : what was studied, and how
    together : the estimate behind all methods
    models : the fitted estimators by method; "dropouts" too, where there are any
    coordinates : (n, k) arrays by method
    scree : the eigenvalues, and how many components were kept
    seconds : by what took them
    notes : what was chosen for the user, in sentences
    """

    table: Table
    settings: Settings
    together: Together
    scree: Scree
    models: dict[str, Any] = field(default_factory=dict)
    coordinates: dict[str, np.ndarray] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def observed(self) -> Observed:
        """The data with their holes."""
        return self.together.observed


def study(table: Table, settings: Settings, progress: Callable[[float, str], None] = lambda share, what: None) -> Study:
    """Fit all methods to a table."""
    steps = _Steps(progress, ["reading dropouts", "the Gram matrix", "components", *settings.methods])
    steps.begin("reading dropouts")
    X, dropouts, notes = prepared(table, settings.seed)
    steps.begin("the Gram matrix")
    missing = "unstored" if table.unstored else "nan"
    together = Together(
        X,
        dropouts,
        random_state=settings.seed,
        missing=missing,
        assist=settings.assist,
        observation=settings.observation,
    )
    steps.begin("components")
    scree = scree_of(together, settings.components, settings.seed)
    out = Study(table, settings, together, scree, notes=[*settings.notes, *notes])
    if dropouts is not None:
        out.models["dropouts"] = dropouts
    if scree.note:
        out.notes.append(scree.note)
    for name in settings.methods:
        steps.begin(name)
        if name == "pca":
            out.models[name], out.coordinates[name] = together.pca(scree.asked)
        else:
            out.models[name] = together.embed(_method(name, table.shape[0], settings.seed))
            out.coordinates[name] = np.asarray(out.models[name].embedding_)
    steps.end()
    out.seconds = steps.seconds
    return out


def _method(name: str, n: int, seed: int) -> Any:
    if name == "umap":
        return UMAP(n_neighbors=min(NEIGHBORS, n - 1), random_state=seed)
    if name == "tsne":
        return TSNE(random_state=seed)
    inducing = None if n <= EXACT_SAMPLES else INDUCING
    return GPLVM(inducing=inducing, max_iter=GPLVM_ITERATIONS, tol=GPLVM_TOLERANCE, random_state=seed)


def prepared(table: Table, seed: int) -> tuple[Any, Dropouts | None, list[str]]:
    """The values that the methods see, the fitted dropouts if zeros may be holes, and what was done."""
    if not table.dropouts:
        return table.X, None, []
    X, notes = table.X, []
    values = X.data if sparse.issparse(X) else X
    if np.all(values % 1 == 0):
        X = depth_scaled(X)
        notes.append("The counts were scaled to a common depth and logged: log(1 + count x middle depth / depth).")
    return X, Dropouts(random_state=seed).fit(X), notes


def depth_scaled(X: Any) -> Any:
    """Counts of every sample scaled to the median sum of a sample, and logged."""
    depth = np.asarray(X.sum(axis=1), dtype=np.float64).ravel()
    scale = np.median(depth[depth > 0]) / np.maximum(depth, 1.0)
    dtype = np.result_type(X.dtype, np.float32)
    if not sparse.issparse(X):
        return np.log1p(X * scale[:, None]).astype(dtype)
    out = sparse.csr_array(X, dtype=dtype, copy=True)
    out.data = np.log1p(out.data * np.repeat(scale, np.diff(out.indptr))).astype(dtype)
    return out


class _Steps:
    """Which step it is, and how long each took."""

    def __init__(self, progress: Callable[[float, str], None], names: list[str]) -> None:
        self.progress, self.names = progress, names
        self.seconds: dict[str, float] = {}
        self._current: str | None = None

    def begin(self, name: str) -> None:
        self.end()
        self._current, self._since = name, time.perf_counter()
        self.progress(self.names.index(name) / len(self.names), TITLES.get(name, name))

    def end(self) -> None:
        if self._current is not None:
            self.seconds[self._current] = time.perf_counter() - self._since
