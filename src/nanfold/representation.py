"""What t-SNE, UMAP and GPLVM stand on: the corrected scores of the samples, and of new rows."""

from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from nanfold.components import check_n_components
from nanfold.gram import Gram
from nanfold.neighbors import is_whole_number
from nanfold.observed.checks import check_shared_features, from_list
from nanfold.pca import PCA

# Below this many samples the representation has every component with a non-negative eigenvalue.
ALL_COMPONENTS_SAMPLES = 4096
# Leading components otherwise.
LEADING_COMPONENTS = 50
# A component whose variance is below this share of the largest does not vary.
SMALLEST_SHARE = 1e-12


class OnCorrectedScores(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Base of the methods that see the data through the scores of the corrected PCA."""

    # Named by the subclasses' __init__, which only store.
    n_components: int
    missing: str
    observation: Any
    assist: Any
    diagonal: str
    center: bool
    representation: Any
    random_state: Any

    _parameters_of_pca: ClassVar[tuple[str, ...]] = (
        "missing",
        "observation",
        "assist",
        "diagonal",
        "center",
        "random_state",
    )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        return tags

    @property
    def _n_features_out(self) -> int:
        return self.embedding_.shape[1]

    def _represent(self, X: Any, mask: Any) -> tuple[np.ndarray, Gram]:
        """Fit the corrected PCA, and return the scores (float64) and the Gram matrix behind them."""
        X = from_list(X) if isinstance(X, list | tuple) else X
        shape = np.shape(X)
        if len(shape) == 2 and shape[0] > 1 and shape[1]:
            self._check_settings(*shape)
        settings = {name: getattr(self, name) for name in self._parameters_of_pca}
        pca = PCA(components_of(self.representation, shape), **settings)
        scores, gram = pca._fit(X, mask)
        return self._stand_on(pca, scores, gram), gram

    def _check_settings(self, n: int, d: int) -> None:
        """Refuse settings that cannot be for data of this shape, before anything is estimated."""
        check_dimensions(self.n_components)
        check_n_components(components_of(self.representation, (n, d)), n, d, "representation")

    def _stand_on(self, pca: PCA, scores: np.ndarray, gram: Gram) -> np.ndarray:
        """Take a fitted PCA as the one underneath; its scores in float64."""
        check_shared_features(gram.observed)
        self.pca_ = pca
        self.n_features_in_ = pca.n_features_in_
        if hasattr(pca, "feature_names_in_"):
            self.feature_names_in_ = pca.feature_names_in_
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        return scores.astype(np.float64)

    def _new_scores(self, X: Any, mask: Any) -> np.ndarray:
        """Scores of new rows."""
        check_is_fitted(self)
        return self.pca_.transform(X, mask).astype(np.float64)

    @property
    def _n_leading(self) -> int:
        """How many components new rows are compared on.

        A new row has no share in the noise that the trailing components of the training rows hold, so on those its
        distances would follow the noise of the others.
        """
        return min(self.pca_.n_components_, max(LEADING_COMPONENTS, 2 * self.pca_.assist_))

    def fit(self, X: Any, y: Any = None, mask: Any = None) -> Any:
        """Fit to X.

        Parameters
        ----------
        X : (n_samples, n_features) array, table or sparse array
        y : ignored
        mask : True where observed, or a fitted ``Dropouts``; None if X itself shows its holes
        """
        scores, gram = self._represent(X, mask)
        self._embed(scores, gram)
        return self

    def fit_transform(self, X: Any, y: Any = None, mask: Any = None) -> np.ndarray:
        """Fit to X and return its embedding."""
        return self.fit(X, mask=mask).embedding_

    def _embed(self, scores: np.ndarray, gram: Gram) -> None:
        raise NotImplementedError


def components_of(representation: Any, shape: tuple[int, ...]) -> Any:
    """The `n_components` of the corrected PCA underneath, for X of this shape."""
    if not (isinstance(representation, str) and representation == "auto"):
        return representation
    if len(shape) != 2 or shape[0] < ALL_COMPONENTS_SAMPLES:
        return "all"
    return min(LEADING_COMPONENTS, *shape)


def initial_positions(name: str, initialization: Any, scores: np.ndarray, n_components: int) -> Any:
    """The corrected PCA's leading scores for "pca"; "random" and "spectral" as they are; a given array, checked.

    Parameters
    ----------
    name : of the parameter, for the error
    initialization : its value
    scores : the corrected scores
    n_components : dimensions of the embedding
    """
    shape = (len(scores), n_components)
    if isinstance(initialization, str):
        if initialization in ("random", "spectral"):
            return initialization
        if initialization == "pca":
            varying = n_varying(scores)
            if varying < n_components:
                raise ValueError(
                    f"The corrected PCA has {varying} components, too few to start {n_components} dimensions from; "
                    "lower n_components or choose another initialisation."
                )
            return np.ascontiguousarray(scores[:, :n_components])
    elif np.shape(initialization) == shape and np.all(np.isfinite(initialization)):
        start = np.array(initialization, dtype=np.float64)
        constant = np.flatnonzero(np.ptp(start, axis=0) == 0)
        if constant.size:
            raise ValueError(
                f"{name} holds one value alone in dimension {constant[0]}; start from positions that vary in each."
            )
        return start
    given = repr(initialization) if np.ndim(initialization) == 0 else f"of shape {np.shape(initialization)}"
    raise ValueError(f"{name} must be 'pca', 'random', 'spectral' or a finite array of shape {shape}; it is {given}.")


def n_varying(scores: np.ndarray) -> int:
    """How many components have a variance above the rounding of the largest."""
    squares = np.einsum("ik,ik->k", scores, scores)
    return int(np.sum(squares > SMALLEST_SHARE * squares.max()))


def check_dimensions(n_components: Any) -> None:
    """One sentence for a number of dimensions that cannot be."""
    if not is_whole_number(n_components) or n_components < 1:
        raise ValueError(f"n_components must be a whole number of at least 1; it is {n_components!r}.")


def check_neighbors_source(neighbors: str) -> None:
    """One sentence for a `neighbors` that cannot be."""
    if neighbors not in ("scores", "corrected"):
        raise ValueError(f"neighbors must be 'scores' or 'corrected'; it is {neighbors!r}.")
