"""CIDR: dissimilarities between cells that impute each dropout candidate from its partner.

Lin, Troup and Ho, "CIDR: Ultrafast and accurate clustering through imputation for single-cell RNA-seq data" (2017).
"""

from typing import Any, Self

import numpy as np
from scipy.cluster.hierarchy import cut_tree, ward
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from nanfold.baselines._cidr_clusters import calinski_harabasz, choose_n_clusters, choose_n_components
from nanfold.baselines._cidr_dissimilarity import fit_dropout_curve, smooth_dissimilarity, step_dissimilarity
from nanfold.baselines._cidr_dropouts import FAST_ABOVE, clipped_thresholds, common_threshold, log_cpm
from nanfold.baselines._counts import dense_counts, name_some
from nanfold.baselines._principal_coordinates import cailliez_constant, principal_coordinates
from nanfold.baselines.dissimilarity import embed_dissimilarity


class CIDR(ClusterMixin, BaseEstimator):
    """Dissimilarities, principal coordinates and clusters of cells, with dropouts imputed pair by pair.

    Parameters
    ----------
    n_clusters : int, optional
        Clusters to cut; by default where the Calinski-Harabasz index bends down most.
    n_components : int, optional
        Principal coordinates to cluster on; by default CIDR's own rule, which answers 4 where it finds no elbow.
    step_function : bool, default=True
        Impute a candidate wholly if its partner is below the weight threshold and not at all otherwise. False weighs it
        by the fitted dropout curve.
    cutoff : float, default=0.5
        Dropout probability at which the weight threshold lies, in (0, 1).
    tag_type : {"raw", "cpm"}, default="raw"
        "cpm" if X is already in counts per million.
    correction : bool, default=False
        Add Cailliez' constant to the dissimilarities, which makes them Euclidean.
    zeros_only : bool, default=False
        Take the zeros, and only them, for dropout candidates.
    fast : bool, default=True
        With more than 2000 cells of raw counts, give every cell the median threshold of the 2000 largest libraries.

    Attributes
    ----------
    dissimilarity_ : ndarray of shape (n_cells, n_cells)
    embedding_ : ndarray of shape (n_cells, n_components_)
        The principal coordinates that were clustered.
    eigenvalues_ : ndarray of shape (n_cells,)
        Of the doubly centred -D^2 / 2, largest first, the negative ones too.
    variation_ : ndarray
        The positive eigenvalues as shares of their sum.
    n_components_, n_clusters_ : int
    calinski_harabasz_ : ndarray
        The index for 1 (NaN), 2, ... clusters.
    labels_ : ndarray of shape (n_cells,)
        Numbered from 0 in order of appearance.
    thresholds_ : ndarray of shape (n_cells,)
        tau: what lies below, on the scale of log2(1 + counts per million), is a dropout candidate.
    dropout_candidates_ : ndarray of bool of shape (n_cells, n_features_in_)
    n_expressed_ : int
        Genes with a count in any cell; the squared dissimilarities are sums over these.
    a_, b_ : float
        Of the dropout curve 1 / (1 + exp(a (e - b))).
    weight_threshold_ : float
        Where that curve equals `cutoff`.
    """

    def __init__(
        self,
        n_clusters: int | None = None,
        n_components: int | None = None,
        step_function: bool = True,
        cutoff: float = 0.5,
        tag_type: str = "raw",
        correction: bool = False,
        zeros_only: bool = False,
        fast: bool = True,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_components = n_components
        self.step_function = step_function
        self.cutoff = cutoff
        self.tag_type = tag_type
        self.correction = correction
        self.zeros_only = zeros_only
        self.fast = fast

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        return tags

    def fit(self, X: Any, y: None = None) -> Self:
        """Compute everything from counts X (cells x genes; a NumPy array, SciPy sparse or a data frame)."""
        X = dense_counts(self, X)
        self._check_options(len(X))
        z, limits = self._find_candidates(X)
        self.a_, self.b_ = fit_dropout_curve(z, z < limits[:, None])
        self.weight_threshold_ = self.b_ + np.log(1 / self.cutoff - 1) / self.a_
        if self.step_function:
            D = step_dissimilarity(z, limits, self.weight_threshold_)
        else:
            D = smooth_dissimilarity(z, limits, self.a_, self.b_)
        if self.correction:
            D += cailliez_constant(D) * (1 - np.eye(len(D)))
        self.dissimilarity_ = D
        self._embed()
        self._cut()
        return self

    def embed(self, estimator: Any) -> np.ndarray:
        """Embed the cells by their dissimilarities, with a PCA, GPLVM, TSNE or UMAP of nanfold and its settings.

        PCA and GPLVM see them doubly centred, as a Gram matrix; TSNE and UMAP see them as they are.
        """
        check_is_fitted(self)
        return embed_dissimilarity(self.dissimilarity_, estimator, self.n_expressed_)

    def _check_options(self, n_cells: int) -> None:
        if self.tag_type not in ("raw", "cpm"):
            raise ValueError(f"tag_type must be 'raw' or 'cpm'; it is {self.tag_type!r}.")
        if not isinstance(self.cutoff, int | float | np.number) or not 0 < self.cutoff < 1:
            raise ValueError(f"cutoff must lie between 0 and 1; it is {self.cutoff!r}.")
        for name in ("n_clusters", "n_components"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, int | np.integer) and 1 <= value <= n_cells):
                raise ValueError(f"{name} must be None or an int from 1 to the {n_cells} cells; it is {value!r}.")

    def _find_candidates(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return log2(1 + cpm) of the genes that have counts, and each cell's limit: what is below is a candidate."""
        empty = np.flatnonzero(~X.any(axis=1))
        if len(empty):
            raise ValueError(f"Cells {name_some(empty)} have no counts at all: leave them out.")
        expressed = np.any(X, axis=0)
        self.n_expressed_ = int(expressed.sum())
        X = X.compress(expressed, axis=1)
        library_sizes = X.sum(axis=1) if self.tag_type == "raw" else np.full(len(X), 1e6)
        z = log_cpm(X, library_sizes)
        if self.zeros_only:
            self.thresholds_ = np.log2(1 / library_sizes * 1e6 + 1)
            limits = np.full(len(X), np.finfo(np.float64).tiny)
        else:
            common = self.fast and self.tag_type == "raw" and len(X) > FAST_ABOVE
            self.thresholds_ = (common_threshold if common else clipped_thresholds)(z, library_sizes)
            limits = self.thresholds_
        # A gene without counts is 0 everywhere, which is below every threshold.
        self.dropout_candidates_ = np.ones((len(X), expressed.size), dtype=bool)
        self.dropout_candidates_[:, expressed] = z < limits[:, None]
        return z, limits

    def _embed(self) -> None:
        coordinates, self.eigenvalues_ = principal_coordinates(self.dissimilarity_)
        positive = self.eigenvalues_[: coordinates.shape[1]]
        self.variation_ = positive / positive.sum()
        self.n_components_ = self.n_components or choose_n_components(self.variation_)
        if self.n_components_ > len(positive):
            raise ValueError(
                f"There are {len(positive)} coordinates with a positive eigenvalue and {self.n_components_} are asked "
                "for: give a smaller n_components."
            )
        self.embedding_ = coordinates[:, : self.n_components_]

    def _cut(self) -> None:
        n_cells, most = len(self.embedding_), 3 * self.n_components_ + 3
        tree = ward(self.embedding_)
        self.calinski_harabasz_ = calinski_harabasz(self.embedding_, tree, min(most, n_cells - 1))
        if self.n_clusters is None and n_cells <= most:
            raise ValueError(
                f"{n_cells} cells are too few to choose among up to {most} clusters: give n_clusters, or fewer than "
                f"{self.n_components_} n_components."
            )
        self.n_clusters_ = self.n_clusters or choose_n_clusters(self.calinski_harabasz_)
        self.labels_ = cut_tree(tree, self.n_clusters_)[:, 0]
