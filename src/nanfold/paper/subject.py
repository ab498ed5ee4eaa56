"""A set with its holes as one repetition sees it, and what each way of dealing with holes makes of it."""

import functools
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from nanfold.baselines import CIDR, ChainedEquations, ScImpute, SoftImpute, embed_dissimilarity
from nanfold.datasets import hide
from nanfold.dropout import Dropouts
from nanfold.gplvm import GPLVM
from nanfold.observed import StructuredMask
from nanfold.pca import PCA
from nanfold.together import Together
from nanfold.tsne import TSNE
from nanfold.umap import UMAP

# Chained equations make a regression a feature and round: with 20,000 genes one repetition would take longer than all
# the rest together. They see so many features, the most variable; so many others predict each; and so many rounds.
ICE_FEATURES, ICE_PREDICTORS, ICE_ROUNDS = 2000, 20, 5
# softImpute's rank, how many penalties it chooses among, and the duality gap at which it stops.
SOFT_RANK, SOFT_PENALTIES, SOFT_TOL = 50, 10, 1e-3
KNN_NEIGHBORS = 5

EMBEDDINGS = {"gplvm": GPLVM, "tsne": TSNE, "umap": UMAP}


class Subject:
    """A labelled set with its holes; what is costly is made when it is first asked for.

    Parameters
    ----------
    X : (n, d) array
        Logarithms of expression, whose zeros may be dropouts; or complete data, of which some will be hidden.
    labels : (n,) array, the classes
    seed : of the hiding, of the clusterings that find dropouts, and of all methods
    counts : (n, d) array or None
        The expression before the logarithm, as it was counted; None for data that are no expression.
    n_components : dimensions of PCA, or the rule that chooses them
    hidden : (n, d) array or None
        True where complete data are hidden; None for the paper's mechanism, drawn with the seed.
    """

    def __init__(
        self,
        X: np.ndarray,
        labels: np.ndarray,
        seed: int,
        counts: np.ndarray | None = None,
        *,
        n_components: Any = "cng",
        hidden: np.ndarray | None = None,
    ) -> None:
        self.X, self.labels, self.seed, self.counts = X, labels, seed, counts
        self.n_components, self._hidden = n_components, hidden

    @property
    def n_classes(self) -> int:
        """How many classes there are."""
        return len(np.unique(self.labels))

    @functools.cached_property
    def dropouts(self) -> Dropouts:
        """Which zeros are dropouts by the paper's rule."""
        return Dropouts(rule="vote", random_state=self.seed).fit(self.X)

    @functools.cached_property
    def holed(self) -> np.ndarray:
        """The data with NaN in the holes: the hidden entries, or the zeros that were inferred to be dropouts."""
        if self._hidden is not None:
            return np.where(self._hidden, np.nan, self.X)
        if self.counts is None:
            return hide(self.X, random_state=self.seed)
        mask = self.dropouts.mask_
        return np.where((self.X == 0) & (mask.weights[mask.groups] == 0), np.nan, self.X)


class View(Protocol):
    """What the methods of dimension reduction see."""

    notes: tuple[str, ...]

    def embed(self, method: str) -> np.ndarray:
        """Positions of the samples by this method."""
        ...


class TableView:
    """A table, complete or with holes, whose Gram matrix is estimated once for all methods."""

    def __init__(
        self,
        subject: Subject,
        X: np.ndarray,
        mask: Dropouts | StructuredMask | None = None,
        *,
        notes: tuple[str, ...] = (),
        **settings: Any,
    ) -> None:
        self.notes = notes
        self._n_components, self._seed = subject.n_components, subject.seed
        self._together = Together(X, mask, random_state=subject.seed, **settings)

    def embed(self, method: str) -> np.ndarray:
        if method == "pca":
            return self._together.pca(self._n_components)[1]
        return self._together.embed(_model(method, self._seed)).embedding_


class DissimilarityView:
    """Dissimilarities, which PCA and GPLVM see doubly centred and the others as they are."""

    notes: tuple[str, ...] = ()

    def __init__(self, subject: Subject, D: np.ndarray, n_features: int) -> None:
        self._n_components, self._seed = subject.n_components, subject.seed
        self._D, self._n_features = D, n_features

    def embed(self, method: str) -> np.ndarray:
        model = PCA(self._n_components) if method == "pca" else _model(method, self._seed)
        return embed_dissimilarity(self._D, model, self._n_features)


def _model(method: str, seed: int) -> Any:
    settings: dict[str, Any] = {"random_state": seed}
    if method != "gplvm":
        settings["n_jobs"] = 1
    return EMBEDDINGS[method](**settings)


def _complete(subject: Subject) -> View:
    return TableView(subject, subject.X)


def _plain(subject: Subject) -> View:
    return TableView(subject, subject.X if subject.counts is not None else np.nan_to_num(subject.holed))


def _corrected(subject: Subject) -> View:
    """The paper's estimator to the letter."""
    settings: dict[str, Any] = {"assist": 0, "observation": "rank-one-bounded"}
    if subject.counts is None:
        return TableView(subject, subject.holed, **settings)
    return TableView(subject, subject.X, subject.dropouts, **settings)


def _assisted(subject: Subject) -> View:
    return TableView(subject, subject.holed, assist="auto")


def _weighted(subject: Subject) -> View:
    """The default of ``Dropouts``, on the clusterings that the paper's rule saw."""
    return TableView(subject, subject.X, Dropouts().fit(subject.X, subject.dropouts.labels_))


def _mean(subject: Subject) -> View:
    holed = subject.holed
    return TableView(subject, np.where(np.isnan(holed), np.nanmean(holed, axis=0), holed))


def _knn(subject: Subject) -> View:
    from sklearn.impute import KNNImputer

    return TableView(subject, KNNImputer(n_neighbors=KNN_NEIGHBORS).fit_transform(subject.holed))


def _softimpute(subject: Subject) -> View:
    n, d = subject.X.shape
    model = SoftImpute(rank=min(SOFT_RANK, n, d), n_penalties=SOFT_PENALTIES, tol=SOFT_TOL, random_state=subject.seed)
    return TableView(subject, model.fit_transform(subject.holed))


def _ice(subject: Subject) -> View:
    holed, notes = subject.holed, []
    d = holed.shape[1]
    if d > ICE_FEATURES:
        most_variable = np.argsort(-np.nanvar(holed, axis=0), kind="stable")[:ICE_FEATURES]
        holed = holed[:, np.sort(most_variable)]
        notes.append(f"ice sees the {ICE_FEATURES} features of largest variance")
    if holed.shape[1] > ICE_PREDICTORS + 1:
        notes.append(f"ice predicts a feature from {ICE_PREDICTORS} others at a time, in {ICE_ROUNDS} rounds")
    model = ChainedEquations(min(ICE_PREDICTORS, holed.shape[1] - 1), max_iter=ICE_ROUNDS, random_state=subject.seed)
    return TableView(subject, model.fit_transform(holed), notes=tuple(notes))


def _cidr(subject: Subject) -> View:
    model = CIDR().fit(subject.counts)
    return DissimilarityView(subject, model.dissimilarity_, model.n_expressed_)


def _scimpute(subject: Subject) -> View:
    imputed = ScImpute(n_clusters=subject.n_classes, random_state=subject.seed).fit(subject.counts).imputed_
    depth = imputed.sum(axis=1, keepdims=True)
    return TableView(subject, np.log2(1.0 + imputed * (np.median(depth) / depth)))


VIEWS: dict[str, Callable[[Subject], View]] = {
    "complete": _complete,
    "plain": _plain,
    "corrected": _corrected,
    "softimpute": _softimpute,
    "ice": _ice,
    "cidr": _cidr,
    "scimpute": _scimpute,
    "assisted": _assisted,
    "weighted": _weighted,
    "mean": _mean,
    "knn": _knn,
}
