"""Several methods on one estimate: the Gram matrix and the representation are computed once, whoever asks for them."""

import copy
import functools
from typing import Any

import numpy as np

from nanfold.gram import Gram, UnbiasedGram
from nanfold.observed import Observed
from nanfold.pca import PCA
from nanfold.representation import OnCorrectedScores, components_of


class Together:
    """The corrected Gram matrix of X, and whatever methods are fitted to it.

    Each method comes out as if it had been fitted to X alone with the same `random_state`.

    Parameters
    ----------
    X, mask : as in ``PCA.fit``
    random_state : int or None
        Seed of the estimate, and of every PCA.
    **settings
        Of :class:`nanfold.PCA`: `missing`, `observation`, `assist`, `diagonal`, `center`.
    """

    def __init__(self, X: Any, mask: Any = None, *, random_state: int | None = None, **settings: Any) -> None:
        self._settings = {**settings, "random_state": random_state}
        self._first = PCA(**self._settings)
        self._estimate = self._first._estimate(X, mask)

    @property
    def gram(self) -> Gram:
        """The Gram matrix that the methods see."""
        return self._estimate.gram

    @property
    def plain(self) -> UnbiasedGram:
        """The unbiased Gram matrix, without assistance."""
        return self._estimate.plain

    @property
    def observed(self) -> Observed:
        """The data."""
        return self.plain.observed

    def pca(self, n_components: Any) -> tuple[PCA, np.ndarray]:
        """A fitted PCA, and its scores."""
        model, scores, _ = self._fitted(n_components)
        return model, scores

    def _fitted(self, n_components: Any) -> tuple[PCA, np.ndarray, Gram]:
        model = copy.copy(self._first).set_params(n_components=n_components)
        # Every PCA goes on from where the estimate left the generator, as one that is fitted alone does.
        scores, gram = model._decompose(self._estimate._replace(rng=copy.deepcopy(self._estimate.rng)))
        return model, scores, gram

    @functools.cached_property
    def representation(self) -> tuple[PCA, np.ndarray, Gram]:
        """What t-SNE, UMAP and GPLVM see: the PCA underneath, its scores, and the Gram matrix they come from."""
        return self._fitted(components_of("auto", self.observed.shape))

    def embed(self, method: OnCorrectedScores) -> OnCorrectedScores:
        """Fit a method, and return it; its settings of the PCA become those of the estimate."""
        method.set_params(**self._settings)
        if method.representation != "auto":
            raise ValueError(
                f"representation must be 'auto' for methods that share it; it is {method.representation!r}."
            )
        method._check_settings(*self.observed.shape)
        pca, scores, gram = self.representation
        method._embed(method._stand_on(pca, scores, gram), gram)
        return method
