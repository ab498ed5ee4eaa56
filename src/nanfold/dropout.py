"""Which zeros of single-cell counts are dropouts, that is holes, and which are true zeros."""

import warnings
from collections.abc import Iterable
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from nanfold._cells import ChunkedCells
from nanfold._clusterings import ClusterSummaries, cluster_cells
from nanfold._threads import even_blocks
from nanfold.observed import StructuredMask, is_dask
from nanfold.observed.checks import checked_values, is_missing, refuse_type
from nanfold.observed.contract import PANEL_VALUES

METHODS = ("kmeans", "spectral")
RULES = ("contrast", "soft", "vote")
# How much of the difference between the share of zeros in the clusters and that over all cells is added to the former.
CONTRAST = 0.5


class Dropouts(BaseEstimator):
    """Decide for every zero how far it is an observed zero, and how far a hole (a dropout).

    The cells are clustered several times. A zero is believed where the other cells of its cluster have zeros for that
    gene too. The decisions depend only on the gene and on the cell's tuple of clusters, so that they are kept as one
    row of weights for every distinct tuple, and no dense array of cells x genes is ever made.

    Parameters
    ----------
    n_clusters : int or sequence of int
        Numbers of clusters; every method is run with each of them.
    methods : sequence of {"kmeans", "spectral"}
        Methods of clustering.
    rule : {"contrast", "soft", "vote"}
        "soft": a zero counts as observed with a weight, the mean over clusterings of the share of zeros for that gene
        in the cell's cluster. "contrast": the same, moved away from the share z of zeros for that gene over all cells
        by half of the difference: w + (w - z) / 2, kept in [0, 1]. "vote", the paper's rule: in one clustering a zero
        is true if more than `threshold` of its cluster has zero for that gene, and a zero is observed if more than
        `votes` of the clusterings call it true.
    threshold : float in [0, 1)
        The share of zeros in a cluster that must be exceeded for a true zero; for ``rule="vote"``.
    votes : float in [0, 1)
        The share of clusterings that must be exceeded for a true zero; for ``rule="vote"``.
    n_components : int or None
        How many leading principal components the clusterings see; None for all, which means all genes.
    n_neighbors : int
        The scale h of the affinity exp(-dist^2 / (2 h^2)) is the mean distance to the neighbour of this rank.
    max_dense : int
        Up to this many cells, k-means sees all of them at once and spectral clustering uses the affinities between all
        of them. With more, k-means goes through mini-batches, and spectral clustering is done on this many cells drawn
        at random, the others joining the cluster whose mean is nearest.
    random_state : int, RandomState or None
        Seeds the clusterings.

    Attributes
    ----------
    labels_ : (n_cells, n_clusterings) array of int
        The clusters: all numbers of clusters by the first method, then all by the second; or the labels given to
        ``fit``, numbered in the order in which they first appear.
    mask_ : StructuredMask
        The weights of the zeros; hand the fitted object, or this, to the other estimators as ``mask``.
    n_groups_ : int
        How many distinct tuples of clusters there are.
    n_features_in_ : int
    feature_names_in_ : array of str
        Only if X has column names that are all strings.

    Notes
    -----
    The paper clusters the cells on all genes. k-means on the leading components is as close to k-means on all genes as
    two random starts of the latter are to each other. Spectral clustering uses the distance over all genes, up to the
    approximation that what the components leave out is orthogonal between cells; the distance on the components alone
    makes other clusters.
    """

    def __init__(
        self,
        n_clusters: Any = (4, 6, 8, 10, 12),
        *,
        methods: Any = METHODS,
        rule: str = "contrast",
        threshold: float = 0.85,
        votes: float = 0.5,
        n_components: int | None = 50,
        n_neighbors: int = 7,
        max_dense: int = 4000,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.methods = methods
        self.rule = rule
        self.threshold = threshold
        self.votes = votes
        self.n_components = n_components
        self.n_neighbors = n_neighbors
        self.max_dense = max_dense
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        return tags

    def fit(self, X: Any, labels: Any = None) -> Self:
        """Cluster the cells and weigh their zeros.

        Parameters
        ----------
        X : (n_cells, n_genes) array, table, sparse array or Dask array
            Counts or expression, without negative or missing entries. The clusterings see X as it is: scale the cells
            to a common depth and take logarithms first. The zeros are the same before and after.
        labels : (n_cells,) or (n_cells, n_clusterings) array, optional
            Clusterings to use instead of our own; numbers, strings or categories.
        """
        n_clusters, methods = self._checked_parameters()
        X = self._checked_cells(X, reset=True)
        _warn_of_empty_genes(X, getattr(self, "feature_names_in_", None))
        if labels is None:
            self._check_size(X.shape[0], n_clusters)
            _warn_of_raw_counts(X)
            labels = cluster_cells(
                X,
                n_clusters,
                methods,
                n_components=self.n_components,
                n_neighbors=self.n_neighbors,
                max_dense=self.max_dense,
                random_state=check_random_state(self.random_state),
            )
        else:
            labels = _numbered(labels, X.shape[0])
        self.labels_ = labels
        self._clusters = ClusterSummaries(X, labels)
        self.mask_ = self._mask(labels)
        self.n_groups_ = len(self.mask_.weights)
        return self

    def predict(self, X: Any) -> StructuredMask:
        """Weigh the zeros of new cells, each of which joins the cluster with the nearest mean in every clustering.

        What the new cells hold does not change the shares of zeros. Cells of the fit may join another cluster than
        they were in; their own weights are those of ``mask_``.
        """
        check_is_fitted(self)
        X = self._checked_cells(X, reset=False)
        return self._mask(self._clusters.nearest(X))

    def _mask(self, labels: np.ndarray) -> StructuredMask:
        """One row of weights for every distinct row of labels."""
        tuples, groups = np.unique(labels, axis=0, return_inverse=True)
        places = tuples + self._clusters.offsets[:-1]
        shares, overall = self._clusters.zero_shares, self._clusters.overall_zero_shares
        if self.rule == "vote":
            shares = (shares > self.threshold).astype(np.float64)
        weights = np.empty((len(tuples), shares.shape[1]), dtype=np.float32)
        for start, stop in even_blocks(len(tuples), max(1, PANEL_VALUES // (shares.shape[1] * places.shape[1]))):
            means = shares[places[start:stop]].mean(axis=1)
            if self.rule == "contrast":
                means = np.clip(means + CONTRAST * (means - overall), 0.0, 1.0)
            weights[start:stop] = means > self.votes if self.rule == "vote" else means
        return StructuredMask(groups.ravel(), weights)

    def _checked_parameters(self) -> tuple[tuple[int, ...], tuple[str, ...]]:
        n_clusters = tuple(np.atleast_1d(self.n_clusters).tolist())
        several = isinstance(self.methods, Iterable) and not isinstance(self.methods, str)
        methods = tuple(self.methods) if several else (self.methods,)
        if not n_clusters or any(isinstance(k, bool) or not isinstance(k, int) or k < 2 for k in n_clusters):
            raise ValueError(f"n_clusters must be whole numbers from 2 on; it is {self.n_clusters!r}.")
        if not methods or any(method not in METHODS for method in methods):
            raise ValueError(f"methods must be among {', '.join(map(repr, METHODS))}; it is {self.methods!r}.")
        if self.rule not in RULES:
            raise ValueError(f"rule must be one of {', '.join(map(repr, RULES))}; it is {self.rule!r}.")
        for name in ("threshold", "votes"):
            value = getattr(self, name)
            if not isinstance(value, int | float | np.number) or not 0 <= value < 1:
                raise ValueError(f"{name} must be at least 0 and below 1; it is {value!r}.")
        for name, least in (("n_components", 1), ("n_neighbors", 1), ("max_dense", 100)):
            value = getattr(self, name)
            if value is None and name == "n_components":
                continue
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
                raise ValueError(f"{name} must be a whole number of at least {least}; it is {value!r}.")
        return n_clusters, methods

    def _check_size(self, n: int, n_clusters: tuple[int, ...]) -> None:
        if max(n_clusters) > min(n, self.max_dense):
            raise ValueError(
                f"n_clusters={max(n_clusters)} needs at least as many cells, and X has {n} (max_dense is "
                f"{self.max_dense}); ask for fewer clusters, or give labels."
            )

    def _checked_cells(self, X: Any, reset: bool) -> sparse.csr_array | ChunkedCells:
        """X as a CSR array, or cells in chunks, of finite entries >= 0, no row of which is zero throughout."""
        if is_dask(X):
            refuse_type(X)
            validate_data(self, X, reset=reset, skip_check_array=True)
            X = ChunkedCells.read(X)
        if isinstance(X, ChunkedCells):
            self.n_features_in_ = X.shape[1]
            for i, s, value in X.bad[:1]:
                _refuse_no_count(int(i), int(s), value)
            _refuse_empty_cells(X.nonzeros)
            return X
        if isinstance(X, np.ma.MaskedArray):
            # Taken here because scikit-learn would drop the mask in silence.
            X = np.ma.filled(X.astype(np.float64), np.nan)
        X = sparse.csr_array(checked_values(X, self, reset))
        bad = ~(X.data >= 0) | np.isinf(X.data)
        if bad.any():
            at = int(np.argmax(bad))
            i = int(np.searchsorted(X.indptr, at, side="right")) - 1
            _refuse_no_count(i, X.indices[at], X.data[at])
        _refuse_empty_cells(np.bincount(np.repeat(np.arange(X.shape[0]), np.diff(X.indptr)), X.data != 0, X.shape[0]))
        return X


def _refuse_no_count(i: int, s: int, value: float) -> None:
    raise ValueError(
        f"X holds {value:.6g} at row {i}, column {s}; counts and expression are finite and never negative. Give X "
        "complete, and before any centring or scaling of genes: only a zero can be a dropout."
    )


def _refuse_empty_cells(nonzeros: np.ndarray) -> None:
    empty = np.flatnonzero(nonzeros == 0)
    if empty.size:
        raise ValueError(f"All entries of {_some('row', empty)} of X are zero; drop such cells first.")


def _numbered(labels: Any, n: int) -> np.ndarray:
    """Clusterings of any type as an array of cells x clusterings, each numbered from 0 in the order of appearance."""
    # NumPy would make strings of all that a list holds beside strings, and "nan" of NaN.
    labels = np.asarray(labels, dtype=object if isinstance(labels, list | tuple) else None)
    table = labels[:, None] if labels.ndim == 1 else labels
    if table.ndim != 2 or len(table) != n or not table.shape[1]:
        raise ValueError(
            f"labels must have one row for each of the {n} cells and one column for each clustering; its shape is "
            f"{labels.shape}."
        )
    out = np.empty(table.shape, dtype=np.int64)
    for c, column in enumerate(table.T.tolist()):
        numbers: dict[Any, int] = {}
        for i, name in enumerate(column):
            if is_missing(name):
                raise ValueError(f"The label of cell {i} is missing in clustering {c}; give every cell a label.")
            out[i, c] = numbers.setdefault(name, len(numbers))
    return out


def _warn_of_empty_genes(X: sparse.csr_array | ChunkedCells, names: Any) -> None:
    empty = np.flatnonzero(_gene_cells(X) == 0)
    if empty.size:
        warnings.warn(
            f"All entries of {_some('column', empty if names is None else names[empty])} of X are zero. They count as "
            "true zeros, which blurs the differences between cells in how much was observed; drop such genes first.",
            UserWarning,
            stacklevel=3,
        )


def _gene_cells(X: sparse.csr_array | ChunkedCells) -> np.ndarray:
    """How many cells have each gene."""
    if isinstance(X, ChunkedCells):
        return X.gene_cells
    return np.bincount(X.indices[X.data != 0], minlength=X.shape[1])


def _warn_of_raw_counts(X: sparse.csr_array | ChunkedCells) -> None:
    """Clusters of raw counts follow the depth of the cells, so say so where that varies and all entries are whole."""
    if isinstance(X, ChunkedCells):
        depth, whole = X.depth, X.whole
    else:
        depth = X.sum(axis=1)
        whole = all(np.all(X.data[a:b] % 1 == 0) for a, b in even_blocks(X.nnz, PANEL_VALUES))
    low, high = np.quantile(depth, [0.05, 0.95])
    if whole and high > 2 * low:
        warnings.warn(
            f"X holds raw counts, and the depth of the cells varies (5 % have less than {low:.6g}, 5 % more than "
            f"{high:.6g} counts), so clusters will follow depth; scale the cells to a common depth and take logarithms "
            "first.",
            UserWarning,
            stacklevel=3,
        )


def _some(what: str, places: Any, most: int = 5) -> str:
    shown = ", ".join(str(place) for place in places[:most])
    rest = "" if len(places) <= most else f" and {len(places) - most} more"
    return f"{what}{'' if len(places) == 1 else 's'} {shown}{rest}"
