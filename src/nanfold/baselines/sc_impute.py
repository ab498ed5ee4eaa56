"""scImpute: find the entries that are likely dropouts, and impute those, and only those, from similar cells.

Li and Li, "An accurate and robust imputation method scImpute for single-cell RNA-seq data" (2018).
"""

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import Tags, check_random_state
from threadpoolctl import threadpool_limits

from nanfold.baselines._cell_distances import FEWEST_COMPONENTS, component_scores, distances, far_cells, variable_genes
from nanfold.baselines._counts import dense_counts, name_some
from nanfold.baselines._impute_cells import impute_group
from nanfold.baselines._kernel_spectral import spectral_clusters
from nanfold.baselines._mixture import ZERO
from nanfold.observed.checks import is_missing

RANDOMISE_FROM = 5000
RANDOMISE_CLASS_FROM = 1000


class ScImpute(BaseEstimator):
    """Counts with the likely dropouts imputed, group of cells by group of cells.

    Parameters
    ----------
    n_clusters : int, optional
        Groups to divide the cells into; None is a single group. Not used where `fit` is given labels or clusters.
    drop_threshold : float, default=0.5
        An entry is imputed if its dropout probability is larger.
    random_state : int, RandomState or None
        For the clustering, and for the principal components of 5000 cells (of 1000 in one class) or more.

    Attributes
    ----------
    imputed_ : ndarray of shape (n_cells, n_genes)
        On the scale of the input, rounded to 2 decimals.
    imputed_log10_ : ndarray of shape (n_cells, n_genes)
        log10(counts per million + 1.01).
    labels_ : ndarray of shape (n_cells,)
        Each cell's group, from 0; -1 for outliers, which are neither imputed nor used.
    outliers_ : ndarray
        The outliers' indices.
    dropout_probability_ : ndarray of shape (n_cells, n_genes)
        NaN for outliers, and where the gene is not used in the cell's group.
    mixture_ : ndarray of shape (n_genes, 5, n_groups)
        Rate, a, b, mu, sigma of rate Gamma(a, b) + (1 - rate) Normal(mu, sigma); NaN where there is no fit.
    valid_genes_ : ndarray of bool of shape (n_genes, n_groups)
        The genes that are used; none in a group that is left as it is because 10 or fewer would do.
    classes_ : ndarray
        The label of each group; its number where there are no `labels`.
    """

    def __init__(
        self,
        n_clusters: int | None = None,
        drop_threshold: float = 0.5,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.drop_threshold = drop_threshold
        self.random_state = random_state

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        return tags

    def fit(self, X: Any, labels: Any = None, *, clusters: Any = None, gene_lengths: Any = None) -> Self:
        """Impute X (cells x genes; a NumPy array, SciPy sparse or a data frame).

        Parameters
        ----------
        X : counts, or transcripts per million if `gene_lengths` are given
        labels : sequence of length n_cells, optional
            Known cell types, which become the groups; distances are then taken inside each of them.
        clusters : sequence of int of length n_cells, optional
            The groups, numbered from 0, -1 for outliers, in place of the clustering of the method.
        gene_lengths : sequence of length n_genes, optional
        """
        X = dense_counts(self, X)
        if gene_lengths is not None:
            lengths = _check_lengths(gene_lengths, X.shape[1])
            X = X * lengths
        if not isinstance(self.drop_threshold, int | float | np.number) or not 0 < self.drop_threshold < 1:
            raise ValueError(f"drop_threshold must lie between 0 and 1; it is {self.drop_threshold!r}.")
        totals = X.sum(axis=1)
        # A cell without counts stays 0 whatever it is divided by.
        y = np.log10(X * 1e6 / np.where(totals == 0, 1, totals)[:, None] + 1.01)
        groups = self._group(y, labels, clusters)
        self._impute(y, groups)
        self.imputed_ = np.round((10**self.imputed_log10_ - 1.01) * totals[:, None] / 1e6, 2)
        if gene_lengths is not None:
            self.imputed_ /= lengths
        return self

    def _group(self, y: np.ndarray, labels: Any, clusters: Any) -> list[tuple[np.ndarray, np.ndarray]]:
        """Set labels_ and outliers_; return the cells of each group and the distances between them."""
        if labels is not None and clusters is not None:
            raise ValueError("Give labels or clusters, not both.")
        random_state = check_random_state(self.random_state)
        genes = variable_genes(y)
        if labels is not None:
            self.classes_, self.labels_ = _check_labels(labels, len(y))
            self.outliers_ = np.empty(0, dtype=np.intp)
            return [
                (cells, distances(component_scores(y[np.ix_(cells, genes)], 0, RANDOMISE_CLASS_FROM, random_state)))
                for cells in _members(self.labels_)
            ]
        self.labels_, n_clusters = self._check_clusters(clusters, len(y))
        scores = component_scores(y[:, genes], n_clusters, RANDOMISE_FROM, random_state)
        D = distances(scores)
        if clusters is None and n_clusters > 1:
            if not np.ptp(y, axis=0).any():
                raise ValueError("All cells are equal, so there are no clusters to find: leave n_clusters out.")
            self.labels_[far_cells(D)] = -1
            inside = np.flatnonzero(self.labels_ == 0)
            self.labels_[inside] = spectral_clusters(scores[inside], n_clusters, random_state)
        self.outliers_ = np.flatnonzero(self.labels_ == -1)
        self.classes_ = np.arange(n_clusters)
        return [(cells, D[np.ix_(cells, cells)]) for cells in _members(self.labels_)]

    def _check_clusters(self, clusters: Any, n_cells: int) -> tuple[np.ndarray, int]:
        """Return the clusters as given, or 0 for every cell, and how many there are to be."""
        if clusters is not None:
            return _check_assignment(clusters, n_cells)
        n_clusters = 1 if self.n_clusters is None else self.n_clusters
        if not (isinstance(n_clusters, int | np.integer) and 1 <= n_clusters <= n_cells):
            raise ValueError(f"n_clusters must be None or an int from 1 to the {n_cells} cells; it is {n_clusters!r}.")
        return np.zeros(n_cells, dtype=np.intp), int(n_clusters)

    def _impute(self, y: np.ndarray, groups: list[tuple[np.ndarray, np.ndarray]]) -> None:
        n_genes = y.shape[1]
        self.imputed_log10_ = y.copy()
        self.dropout_probability_ = np.full(y.shape, np.nan)
        self.mixture_ = np.full((n_genes, 5, len(groups)), np.nan)
        self.valid_genes_ = np.zeros((n_genes, len(groups)), dtype=bool)
        for k, (cells, D) in enumerate(groups):
            # The systems are small: on two busy cores, BLAS's own threads made this five times slower.
            with threadpool_limits(1, user_api="blas"):
                group = impute_group(y[cells], D, self.drop_threshold)
            self.mixture_[:, :, k] = group.parameters
            self.valid_genes_[group.usable, k] = True
            self.dropout_probability_[np.ix_(cells, group.usable)] = group.probability
            self.imputed_log10_[np.ix_(cells, group.usable)] = group.imputed
        np.maximum(self.imputed_log10_, ZERO, out=self.imputed_log10_)


def _members(labels: np.ndarray) -> list[np.ndarray]:
    return [np.flatnonzero(labels == k) for k in range(labels.max() + 1)]


def _check_length(values: Any, name: str, n: int, of: str) -> np.ndarray:
    values = np.asarray(values)
    if values.shape != (n,):
        raise ValueError(f"{name} must hold one value for each of the {n} {of}; its shape is {values.shape}.")
    return values


def _check_labels(labels: Any, n_cells: int) -> tuple[np.ndarray, np.ndarray]:
    # Looked for before NumPy would make "nan" of a NaN among strings.
    given = labels if isinstance(labels, list | tuple) else np.ravel(labels)
    unknown = np.flatnonzero([is_missing(label) for label in given])
    labels = _check_length(labels, "labels", n_cells, "cells")
    if len(unknown):
        raise ValueError(f"labels are missing for cells {name_some(unknown)}: leave these out, or do without labels.")
    classes, codes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    if counts.min() < FEWEST_COMPONENTS:
        small = classes[np.argmin(counts)]
        raise ValueError(
            f"Class {small} has {counts.min()} cells and scImpute needs at least {FEWEST_COMPONENTS} in each: "
            "leave it out, or join it to another."
        )
    return classes, codes


def _check_assignment(clusters: Any, n_cells: int) -> tuple[np.ndarray, int]:
    clusters = _check_length(clusters, "clusters", n_cells, "cells")
    if not np.issubdtype(clusters.dtype, np.integer) or clusters.min() < -1 or clusters.max() < 0:
        raise ValueError("clusters must be integers from 0 on, with -1 for outliers.")
    counts = np.bincount(clusters[clusters >= 0])
    if not counts.all():
        raise ValueError(
            f"clusters are numbered up to {len(counts) - 1}, but {name_some(np.flatnonzero(counts == 0))} has no cells."
        )
    return clusters.astype(np.intp), len(counts)


def _check_lengths(gene_lengths: Any, n_genes: int) -> np.ndarray:
    lengths = _check_length(gene_lengths, "gene_lengths", n_genes, "genes").astype(np.float64)
    bad = np.flatnonzero(~(np.isfinite(lengths) & (lengths > 0)))
    if len(bad):
        raise ValueError(f"gene_lengths must be positive and finite; those of genes {name_some(bad)} are not.")
    return lengths
