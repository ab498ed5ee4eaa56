"""UMAP of data with holes: the corrected representation, then umap-learn."""

import warnings
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.utils import check_random_state

from nanfold.gram import Gram
from nanfold.neighbors import corrected_neighbors, is_whole_number
from nanfold.representation import OnCorrectedScores, check_neighbors_source, initial_positions

# Up to this many samples umap-learn works from all distances itself; beyond, it needs an index to place new rows.
SMALL_SAMPLES = 4096


class UMAP(OnCorrectedScores):
    """UMAP on the scores of the corrected PCA, by umap-learn.

    Parameters
    ----------
    n_components : int
        Dimensions of the embedding.
    n_neighbors, min_dist, spread, n_epochs, learning_rate, set_op_mix_ratio, local_connectivity, repulsion_strength, \
negative_sample_rate, transform_queue_size, a, b, densmap, dens_lambda, dens_frac, dens_var_shift, \
disconnection_distance, transform_seed, tqdm_kwds, n_jobs, low_memory, verbose
        As in ``umap.UMAP``.
    init : "pca", "spectral", "random" or array
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
        The components of the corrected PCA that UMAP sees, as `n_components` of :class:`nanfold.PCA`; "auto" is
        "all" below 4096 samples and 50 from there on.
    random_state : int, RandomState or None
        Seed. With one, umap-learn runs on a single thread.

    Attributes
    ----------
    embedding_ : (n_samples, n_components) array
    graph_ : sparse array, the fuzzy neighbour graph
    pca_ : the corrected PCA underneath
    """

    def __init__(
        self,
        n_components: int = 2,
        *,
        n_neighbors: int = 15,
        min_dist: float = 0.1,
        spread: float = 1.0,
        n_epochs: int | None = None,
        learning_rate: float = 1.0,
        set_op_mix_ratio: float = 1.0,
        local_connectivity: float = 1.0,
        repulsion_strength: float = 1.0,
        negative_sample_rate: int = 5,
        transform_queue_size: float = 4.0,
        a: float | None = None,
        b: float | None = None,
        densmap: bool = False,
        dens_lambda: float = 2.0,
        dens_frac: float = 0.3,
        dens_var_shift: float = 0.1,
        disconnection_distance: float | None = None,
        transform_seed: int = 42,
        init: Any = "pca",
        neighbors: str = "scores",
        missing: str = "nan",
        observation: Any = "rank-one",
        assist: Any = "auto",
        diagonal: str = "unbiased",
        center: bool = True,
        representation: Any = "auto",
        low_memory: bool = True,
        n_jobs: int = -1,
        random_state: Any = None,
        verbose: bool = False,
        tqdm_kwds: dict[str, Any] | None = None,
    ) -> None:
        self.n_components = n_components
        self.n_neighbors = n_neighbors
        self.min_dist = min_dist
        self.spread = spread
        self.n_epochs = n_epochs
        self.learning_rate = learning_rate
        self.set_op_mix_ratio = set_op_mix_ratio
        self.local_connectivity = local_connectivity
        self.repulsion_strength = repulsion_strength
        self.negative_sample_rate = negative_sample_rate
        self.transform_queue_size = transform_queue_size
        self.a = a
        self.b = b
        self.densmap = densmap
        self.dens_lambda = dens_lambda
        self.dens_frac = dens_frac
        self.dens_var_shift = dens_var_shift
        self.disconnection_distance = disconnection_distance
        self.transform_seed = transform_seed
        self.init = init
        self.neighbors = neighbors
        self.missing = missing
        self.observation = observation
        self.assist = assist
        self.diagonal = diagonal
        self.center = center
        self.representation = representation
        self.low_memory = low_memory
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.tqdm_kwds = tqdm_kwds

    _of_the_library = (
        "n_neighbors",
        "min_dist",
        "spread",
        "n_epochs",
        "learning_rate",
        "set_op_mix_ratio",
        "local_connectivity",
        "repulsion_strength",
        "negative_sample_rate",
        "transform_queue_size",
        "a",
        "b",
        "densmap",
        "dens_lambda",
        "dens_frac",
        "dens_var_shift",
        "disconnection_distance",
        "transform_seed",
        "low_memory",
        "verbose",
        "tqdm_kwds",
    )

    def _check_settings(self, n: int, d: int) -> None:
        super()._check_settings(n, d)
        check_neighbors_source(self.neighbors)
        if n < 3:
            raise ValueError(f"UMAP needs at least 3 samples; X has {n}.")
        if not is_whole_number(self.n_neighbors) or not 2 <= self.n_neighbors < n:
            raise ValueError(
                f"n_neighbors={self.n_neighbors!r} is out of range: with {n} samples it must be a whole number between "
                f"2 and {n - 1}."
            )

    def _embed(self, scores: np.ndarray, gram: Gram) -> None:
        with warnings.catch_warnings():
            # umap-learn says at import that one of its classes, not this one, needs Tensorflow.
            warnings.simplefilter("ignore", ImportWarning)
            import umap

        n = len(scores)
        seed = None
        if self.random_state is not None:
            seed = int(check_random_state(self.random_state).randint(2**31))
        settings: dict[str, Any] = {name: getattr(self, name) for name in self._of_the_library}
        settings["init"] = initial_positions("init", self.init, scores, self.n_components)
        settings["n_jobs"] = self.n_jobs if seed is None else 1
        X = scores
        self._training_scores = None
        if n < SMALL_SAMPLES:
            # From distances, so that new rows can be compared on other components than the training rows.
            self._training_scores = scores[:, : self._n_leading]
            settings["metric"] = "precomputed"
            X = _pairwise(scores, gram, self.neighbors)
        elif self.neighbors == "corrected":
            settings["precomputed_knn"] = _with_index(scores, gram, self.n_neighbors, seed)
        self._umap = umap.UMAP(n_components=self.n_components, random_state=seed, **settings)
        with warnings.catch_warnings():
            # The seed makes umap-learn say that it runs on one thread, and precomputed distances that there is no
            # inverse transform; both are as intended.
            warnings.filterwarnings("ignore", message="n_jobs value")
            warnings.filterwarnings("ignore", message="using precomputed metric")
            self._umap.fit(X)
        self.embedding_ = self._umap.embedding_
        self.graph_ = self._umap.graph_

    def transform(self, X: Any, mask: Any = None) -> np.ndarray:
        """Place new rows, with holes of their own, into the embedding, which stays as it is.

        Parameters
        ----------
        X : (n_samples, n_features) array, table or sparse array
        mask : True where observed, or a structured mask of these rows; None if X itself shows its holes
        """
        scores = self._new_scores(X, mask)
        if self._training_scores is None:
            return self._umap.transform(scores)
        leading = scores[:, : self._n_leading]
        with warnings.catch_warnings():
            # It says what it takes the distances for, which is what they are.
            warnings.filterwarnings("ignore", message="Transforming new data with precomputed metric")
            return self._umap.transform(cdist(leading, self._training_scores).astype(np.float32))


def _pairwise(scores: np.ndarray, gram: Gram, neighbors: str) -> np.ndarray:
    """All distances between samples, n x n."""
    if neighbors == "scores":
        return cdist(scores, scores).astype(np.float32)
    squared = gram.n_features * gram.squared_distances()
    # Noise makes some negative: those pairs are nearer than any other.
    squared[squared <= 0] = 0.5 * np.min(squared, where=squared > 0, initial=np.inf)
    np.fill_diagonal(squared, 0.0)
    return np.sqrt(squared).astype(np.float32)


def _with_index(scores: np.ndarray, gram: Gram, n_neighbors: int, seed: int | None) -> tuple[Any, Any, Any]:
    """Neighbours by corrected distance, each sample its own first, and an index of the scores for new rows."""
    from pynndescent import NNDescent

    indices, distances = corrected_neighbors(gram, n_neighbors - 1, scores=scores, random_state=seed)
    itself = np.arange(len(scores))[:, None]
    indices = np.hstack([itself, indices])
    distances = np.hstack([np.zeros((len(scores), 1)), distances])
    index = NNDescent(scores, n_neighbors=n_neighbors, random_state=seed)
    index.prepare()
    return indices, distances, index
