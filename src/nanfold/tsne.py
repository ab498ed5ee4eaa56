"""t-SNE of data with holes: the corrected representation, then openTSNE."""

import copy
from typing import Any, Self

import numpy as np
from sklearn.utils import check_random_state

from nanfold.gram import Gram
from nanfold.neighbors import corrected_neighbors
from nanfold.representation import OnCorrectedScores, check_neighbors_source, initial_positions

# openTSNE looks at this many neighbours for every unit of perplexity.
NEIGHBORS_PER_PERPLEXITY = 3
DEFAULT_PERPLEXITY = 30.0
# openTSNE's gradient by trees goes wrong in more dimensions than these, and that by interpolation is not made for more.
BY_TREES, BY_INTERPOLATION = 3, 2


class TSNE(OnCorrectedScores):
    """t-SNE on the scores of the corrected PCA, by openTSNE.

    Parameters
    ----------
    n_components : int
        Dimensions of the embedding.
    perplexity : "auto" or float
        As in ``openTSNE.TSNE``; "auto" is 30, or a third of the other samples where there are fewer than 90.
    learning_rate, early_exaggeration_iter, early_exaggeration, n_iter, exaggeration, dof, theta, \
n_interpolation_points, min_num_intervals, ints_in_interval, initial_momentum, final_momentum, max_grad_norm, \
max_step_norm, negative_gradient_method, callbacks, callbacks_every_iters, n_jobs, verbose
        As in ``openTSNE.TSNE``.
    initialization : "pca", "random", "spectral" or array
        "pca" is the corrected PCA.
    neighbors : {"scores", "corrected"}
        Whether neighbours are found among the scores, or by the corrected distances themselves.
    missing : {"nan", "unstored"}
        Whether holes are NaN, or what a sparse array does not store.
    observation : str, array, pair of arrays or model
        The model of the probability of being observed, as in :class:`nanfold.PCA`.
    assist : int, "auto" or "low-rank"
        The guess of the complete data that assists the Gram matrix, as in :class:`nanfold.PCA`.
    diagonal : {"unbiased", "denoised"}
        The diagonal of the Gram matrix, as in :class:`nanfold.PCA`.
    center : bool
        Whether the mean of the observed entries is subtracted from each feature.
    representation : "auto", int, float or str
        The components of the corrected PCA that t-SNE sees, as `n_components` of :class:`nanfold.PCA`; "auto" is
        "all" below 4096 samples and 50 from there on.
    random_state : int, RandomState or None
        Seed.

    Attributes
    ----------
    embedding_ : (n_samples, n_components) array
    perplexity_ : float
    kl_divergence_ : float
    pca_ : the corrected PCA underneath
    """

    def __init__(
        self,
        n_components: int = 2,
        *,
        perplexity: Any = "auto",
        learning_rate: Any = "auto",
        early_exaggeration_iter: int = 250,
        early_exaggeration: Any = "auto",
        n_iter: int = 500,
        exaggeration: float | None = None,
        dof: float = 1,
        theta: float = 0.5,
        n_interpolation_points: int = 3,
        min_num_intervals: int = 50,
        ints_in_interval: float = 1,
        initial_momentum: float = 0.8,
        final_momentum: float = 0.8,
        max_grad_norm: float | None = None,
        max_step_norm: float | None = 5,
        negative_gradient_method: Any = "auto",
        callbacks: Any = None,
        callbacks_every_iters: int = 50,
        initialization: Any = "pca",
        neighbors: str = "scores",
        missing: str = "nan",
        observation: Any = "rank-one",
        assist: Any = "auto",
        diagonal: str = "unbiased",
        center: bool = True,
        representation: Any = "auto",
        n_jobs: int = 1,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.n_components = n_components
        self.perplexity = perplexity
        self.learning_rate = learning_rate
        self.early_exaggeration_iter = early_exaggeration_iter
        self.early_exaggeration = early_exaggeration
        self.n_iter = n_iter
        self.exaggeration = exaggeration
        self.dof = dof
        self.theta = theta
        self.n_interpolation_points = n_interpolation_points
        self.min_num_intervals = min_num_intervals
        self.ints_in_interval = ints_in_interval
        self.initial_momentum = initial_momentum
        self.final_momentum = final_momentum
        self.max_grad_norm = max_grad_norm
        self.max_step_norm = max_step_norm
        self.negative_gradient_method = negative_gradient_method
        self.callbacks = callbacks
        self.callbacks_every_iters = callbacks_every_iters
        self.initialization = initialization
        self.neighbors = neighbors
        self.missing = missing
        self.observation = observation
        self.assist = assist
        self.diagonal = diagonal
        self.center = center
        self.representation = representation
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    _of_the_library = (
        "learning_rate",
        "early_exaggeration_iter",
        "early_exaggeration",
        "n_iter",
        "exaggeration",
        "dof",
        "theta",
        "n_interpolation_points",
        "min_num_intervals",
        "ints_in_interval",
        "initial_momentum",
        "final_momentum",
        "max_grad_norm",
        "max_step_norm",
        "negative_gradient_method",
        "callbacks",
        "callbacks_every_iters",
        "n_jobs",
        "verbose",
    )

    def _check_settings(self, n: int, d: int) -> None:
        super()._check_settings(n, d)
        method = self.negative_gradient_method
        most = BY_INTERPOLATION if method in ("fft", "FFT", "interpolation") else BY_TREES
        if self.n_components > most and not callable(method):
            raise ValueError(
                f"n_components={self.n_components} is too many for t-SNE: negative_gradient_method={method!r} computes "
                f"its gradient in up to {most} dimensions; choose no more."
            )
        check_neighbors_source(self.neighbors)
        self._checked_perplexity(n)

    def _checked_perplexity(self, n: int) -> float:
        most = (n - 1) / NEIGHBORS_PER_PERPLEXITY
        least = min(1.0, most)  # no distribution has less; but three samples or fewer have no more
        if isinstance(self.perplexity, str) and self.perplexity == "auto":
            return min(DEFAULT_PERPLEXITY, most)
        number = isinstance(self.perplexity, int | float | np.number) and not isinstance(self.perplexity, bool)
        if not number or not least <= self.perplexity <= most:
            raise ValueError(
                f"perplexity={self.perplexity!r} is out of range: with {n} samples it must be 'auto' or lie between "
                f"{least:.4g} and {most:.4g}, a third of the other samples."
            )
        return float(self.perplexity)

    def _embed(self, scores: np.ndarray, gram: Gram) -> None:
        import openTSNE

        self.perplexity_ = self._checked_perplexity(len(scores))
        # Seeds for the library, which draws from them in several places.
        seed = int(check_random_state(self.random_state).randint(2**31))
        start = initial_positions("initialization", self.initialization, scores, self.n_components)
        if isinstance(start, np.ndarray):
            start = openTSNE.initialization.rescale(start, target_std=1e-4)
        affinities = self._affinities(scores, gram, seed)
        settings = {name: getattr(self, name) for name in self._of_the_library}
        if settings["negative_gradient_method"] == "auto" and self.n_components > 2:
            settings["negative_gradient_method"] = "bh"  # however many samples there are
        method = openTSNE.TSNE(self.n_components, perplexity=self.perplexity_, random_state=seed, **settings)
        if isinstance(start, str):
            start = (
                openTSNE.initialization.random(len(scores), self.n_components, random_state=seed)
                if start == "random"
                else openTSNE.initialization.spectral(affinities.P, self.n_components, random_state=seed)
            )
        self._embedding = method.fit(affinities=affinities, initialization=start)
        self.embedding_ = np.asarray(self._embedding).copy()
        self.kl_divergence_ = float(self._embedding.kl_divergence)
        self._training_scores, self._affinities_of_leading = scores[:, : self._n_leading], None

    def _affinities(self, scores: np.ndarray, gram: Gram, seed: int) -> Any:
        from openTSNE.affinity import PerplexityBasedNN
        from openTSNE.nearest_neighbors import PrecomputedNeighbors

        settings = {"perplexity": self.perplexity_, "n_jobs": self.n_jobs, "random_state": seed}
        if self.neighbors == "scores":
            return PerplexityBasedNN(scores, verbose=self.verbose, **settings)
        k = int(NEIGHBORS_PER_PERPLEXITY * self.perplexity_)
        indices, distances = corrected_neighbors(gram, k, scores=scores, random_state=seed)
        return PerplexityBasedNN(knn_index=PrecomputedNeighbors(indices, distances), verbose=self.verbose, **settings)

    def transform(self, X: Any, mask: Any = None) -> np.ndarray:
        """Place new rows, with holes of their own, into the embedding, which stays as it is.

        Parameters
        ----------
        X : (n_samples, n_features) array, table or sparse array
        mask : True where observed, or a structured mask of these rows; None if X itself shows its holes
        """
        scores = self._new_scores(X, mask)[:, : self._n_leading]
        embedding = self._embedding
        kept = embedding.affinities
        embedding.affinities = self._leading_affinities(kept)
        try:
            placed = np.asarray(embedding.transform(scores))
        finally:
            embedding.affinities = kept
        # openTSNE centres the embedding first, and places new rows in what it has moved.
        return placed - np.mean(np.asarray(embedding) - self.embedding_, axis=0)

    def _leading_affinities(self, of_all: Any) -> Any:
        """Affinities on the leading components, on which alone new rows are compared."""
        from openTSNE.affinity import PerplexityBasedNN

        if self.neighbors == "scores" and self._training_scores.shape[1] == self.pca_.n_components_:
            return of_all
        if self._affinities_of_leading is None:
            seed = int(check_random_state(self.random_state).randint(2**31))
            self._affinities_of_leading = PerplexityBasedNN(
                self._training_scores, perplexity=self.perplexity_, n_jobs=self.n_jobs, random_state=seed
            )
        return self._affinities_of_leading

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        new = copy.copy(self)
        for name, value in vars(self).items():
            setattr(new, name, _copied(value) if name == "_embedding" else copy.deepcopy(value, memo))
        return new


def _copied(embedding: Any) -> Any:
    """openTSNE's embedding is an array, a deep copy of which would lose all that new rows are placed by."""
    build, arguments, state = embedding.__reduce__()
    new = build(*arguments)
    new.__setstate__(state)
    return new
