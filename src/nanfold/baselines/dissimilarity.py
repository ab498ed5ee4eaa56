"""A dissimilarity in the place of data: doubly centred into a Gram matrix, or as it is."""

from typing import Any

import numpy as np
from sklearn.base import clone

from nanfold.baselines._principal_coordinates import double_centred, principal_coordinates
from nanfold.gram import Gram
from nanfold.observed import observe
from nanfold.pca import PCA
from nanfold.representation import OnCorrectedScores


class DissimilarityGram(Gram):
    """G = H (-D^2 / 2) H / d, whose distances are those that it was made from: G_ii + G_jj - 2 G_ij = D_ij^2 / d.

    It has negative eigenvalues where D is not Euclidean.

    Parameters
    ----------
    D : (n, n) array
        The dissimilarities.
    n_features : int
        d, over how many features the squared dissimilarities are sums.
    coordinates : (n, p) array
        The principal coordinates of D, which stand for the data.
    """

    def __init__(self, D: np.ndarray, n_features: int, coordinates: np.ndarray) -> None:
        self.D = D
        self.shape = (len(D), len(D))
        self.n_features = n_features
        self.observed = observe(coordinates)
        self._G = double_centred(-0.5 / n_features * D**2)

    def __matmul__(self, V: np.ndarray) -> np.ndarray:
        return self._G @ np.asarray(V, dtype=np.float64)

    def diagonal(self) -> np.ndarray:
        return self._G.diagonal().copy()

    def toarray(self) -> np.ndarray:
        return self._G.copy()

    def rows(self, start: int, stop: int) -> np.ndarray:
        return self._G[start:stop].copy()

    def squared_distances(self) -> np.ndarray:
        """The squares of D, per feature, without the rounding of a way through the Gram matrix."""
        return self.D**2 / self.n_features


def embed_dissimilarity(D: Any, estimator: Any, n_features: int) -> np.ndarray:
    """Embed samples of which only the dissimilarities are known, by one of nanfold's own methods.

    PCA and GPLVM see a Gram matrix, D doubly centred: H (-D^2 / 2) H, of which they keep the positive part. PCA's
    scores are then the principal coordinates of D. TSNE and UMAP take their neighbours and distances from D as it is,
    and start from the principal coordinates.

    Parameters
    ----------
    D : (n, n) array
        Symmetric, not negative, zero on the diagonal.
    estimator : PCA, GPLVM, TSNE or UMAP
        With its settings. It is not fitted itself, but a copy of it.
    n_features : int
        Over how many features the squares of D are sums. Only the likelihood of GPLVM depends on it.

    Returns
    -------
    (n, n_components) array
    """
    D = _checked(D)
    if isinstance(n_features, bool) or not isinstance(n_features, int | np.integer) or n_features < 1:
        raise ValueError(f"n_features must be a whole number of at least 1; it is {n_features!r}.")
    if not isinstance(estimator, PCA | OnCorrectedScores):
        raise TypeError(
            f"estimator must be a PCA, GPLVM, TSNE or UMAP of nanfold; it is of type {type(estimator).__name__}."
        )
    coordinates, _ = principal_coordinates(D)
    if not coordinates.shape[1]:
        raise ValueError("All dissimilarities are zero, so there is nothing to embed.")
    if estimator.diagonal != "unbiased":
        raise ValueError(
            f"diagonal={estimator.diagonal!r} would take noise out of data, and a dissimilarity has none on its "
            "diagonal; leave it at 'unbiased'."
        )
    # The principal coordinates that stand for the data have no holes.
    model = clone(estimator).set_params(missing="nan")
    if isinstance(model, PCA):
        return model.fit_transform(coordinates)
    if "neighbors" in model.get_params():
        model.set_params(neighbors="corrected")
    scores, _ = model._represent(coordinates, None)
    model._embed(scores, DissimilarityGram(D, int(n_features), coordinates))
    return model.embedding_


def _checked(D: Any) -> np.ndarray:
    D = np.asarray(D, dtype=np.float64)
    if D.ndim != 2 or D.shape[0] != D.shape[1] or len(D) < 2:
        raise ValueError(f"D must be a square of at least 2 x 2 dissimilarities; its shape is {D.shape}.")
    bad = ~(np.isfinite(D) & (D >= 0))
    if bad.any():
        i, j = np.argwhere(bad)[0]
        raise ValueError(f"D holds {D[i, j]:g} between samples {i} and {j}; dissimilarities are finite and >= 0.")
    uneven = np.abs(D - D.T) > 1e-9 * D.max()
    if uneven.any():
        i, j = np.argwhere(uneven)[0]
        raise ValueError(f"D is not symmetric: {D[i, j]:g} from sample {i} to {j}, and {D[j, i]:g} back.")
    if D.diagonal().any():
        i = int(np.flatnonzero(D.diagonal())[0])
        raise ValueError(f"D holds {D[i, i]:g} between sample {i} and itself; the diagonal must be zero.")
    return (D + D.T) / 2
