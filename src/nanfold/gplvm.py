"""GPLVM of data with holes: Gaussian process latent variables on the positive part of the corrected Gram matrix."""

from typing import Any

import numpy as np
from scipy.linalg import eigh
from sklearn.utils import check_random_state

from nanfold.components import null_eigenvalues, signflip_limit
from nanfold.gp.fit import fit
from nanfold.gp.predict import locate
from nanfold.gp.problem import Factor
from nanfold.gram import Gram, UnbiasedGram
from nanfold.representation import OnCorrectedScores, n_varying

# Up to this many samples the exact objective, O(n^3) an iteration, is affordable.
EXACT_SAMPLES = 1500
INDUCING = 100
# The largest eigenvalue under random signs differs little between draws.
FLIPS = 3


def standing_out(values: np.ndarray, total: float, most: int, limit: float, error: float) -> int:
    """How many leading eigenvalues exceed what noise makes, each with those before it taken off.

    Parameters
    ----------
    values : eigenvalues, falling
    total : the sum of all, negative ones too
    most : how many there can be, which noise is spread over
    limit : the largest eigenvalue of noise with that sum; what is left has it smaller as its mean is
    error : no eigenvalue of this size or below counts
    """
    left = (total - np.cumsum(values) + values) / (most - np.arange(len(values)))
    noise = values <= np.maximum(limit * left / (total / most), error)
    return int(noise.argmax()) if noise.any() else len(values)


class GPLVM(OnCorrectedScores):
    """Gaussian process latent variable model on the corrected Gram matrix.

    Maximises -(d/2) [log|K| + tr(K^-1 G+)] over the latent positions, the kernel's parameters and the noise, with G+
    the projection of the corrected Gram matrix on the positive semi-definite ones. It sees the data only through a
    factor of G+ and the number of features d. The raw Gram matrix, which is indefinite, has no maximum: the objective
    runs off to infinity as the noise falls.

    Parameters
    ----------
    n_components : int
        Latent dimensions.
    kernel : {"rbf", "matern32", "matern52", "linear"}, a sum such as "rbf+linear", or a kernel
        The covariance; "rbf-ard" (or "-ard" behind either Matern) has a lengthscale for each component. A kernel of
        :mod:`nanfold.gp.kernels` brings its own starting values.
    inducing : "auto", int, array or None
        None for the exact objective; a number of inducing inputs for the sparse bound, whose cost grows linearly with
        the samples; "auto" is exact up to 1500 samples and 100 inducing inputs beyond.
    init : {"auto", "pca", "geodesic"} or array of (n_samples, n_components)
        Where the search starts: at the scores of the PCA; where these are unfolded along a graph of neighbours; or at
        positions of your own. "auto" tries the first two, a kernel that is named is tried at two lengthscales, and what
        short trials on at most 300 samples bring highest goes on.
    noise_floor : float
        The noise variance is kept above this share of the mean variance of a sample.
    max_iter, tol
        The most iterations of L-BFGS, and the relative improvement at which it stops.
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
        The components of the corrected PCA that make G+, as `n_components` of :class:`nanfold.PCA`; what they leave out
        counts as noise. "auto" takes those that stand out of noise, which random signs and the negative eigenvalues
        show, and no fewer than `n_components`; and 50 from 4096 samples on. "all" is the whole projection, in which
        noise and the errors of the estimate count as structure.
    random_state : int, RandomState or None
        Seeds the eigensolver, the random signs and where the inducing inputs start.
    verbose : bool
        Keep a line about the state of the fit on standard error.

    Attributes
    ----------
    embedding_ : (n_samples, n_components) array
        Latent positions.
    kernel_ : the fitted kernel
    noise_variance_ : float
    log_likelihood_ : float
        The objective at the end; on the sparse path, and where components are left out, a lower bound of it.
    n_iter_, converged_ : how the fit ended
    pca_ : the corrected PCA underneath
    """

    def __init__(
        self,
        n_components: int = 2,
        *,
        kernel: Any = "rbf",
        inducing: Any = "auto",
        init: Any = "auto",
        noise_floor: float = 1e-6,
        max_iter: int = 1000,
        tol: float = 1e-8,
        missing: str = "nan",
        observation: Any = "rank-one",
        assist: Any = "auto",
        diagonal: str = "unbiased",
        center: bool = True,
        representation: Any = "auto",
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.n_components = n_components
        self.kernel = kernel
        self.inducing = inducing
        self.init = init
        self.noise_floor = noise_floor
        self.max_iter = max_iter
        self.tol = tol
        self.missing = missing
        self.observation = observation
        self.assist = assist
        self.diagonal = diagonal
        self.center = center
        self.representation = representation
        self.random_state = random_state
        self.verbose = verbose

    def _embed(self, scores: np.ndarray, gram: Gram) -> None:
        self._check_rank(scores)
        n, d = gram.shape[0], gram.n_features
        kept = self._kept(scores, gram)
        Z = scores[:, :kept] / np.sqrt(d)
        # Leading components leave a part of the trace out, which belongs to the noise.
        trace = max(float(gram.diagonal().sum()), float(np.vdot(Z, Z)))
        inducing = self.inducing
        if isinstance(inducing, str):
            if inducing != "auto":
                raise ValueError(f"inducing must be 'auto', a number, an array or None; it is {inducing!r}.")
            inducing = None if n <= EXACT_SAMPLES else INDUCING
        self._fit = fit(
            Factor(Z, d, trace if kept < scores.shape[1] or self._leaves_out(scores) else None),
            self.n_components,
            kernel=self.kernel,
            inducing=inducing,
            init=self.init,
            noise_floor=self.noise_floor,
            max_iter=self.max_iter,
            tol=self.tol,
            progress=self.verbose,
            random_state=self.random_state,
        )
        self.embedding_ = self._fit.X
        self.kernel_ = self._fit.kernel
        self.noise_variance_ = self._fit.noise
        self.log_likelihood_ = self._fit.report.objective
        self.n_iter_ = max(self._fit.report.n_iter, 1)
        self.converged_ = self._fit.report.converged

    def _check_rank(self, scores: np.ndarray) -> None:
        """As many components that vary as there are latent dimensions, which start from them."""
        most = n_varying(scores)
        if self.n_components > most:
            raise ValueError(
                f"n_components={self.n_components} is more than there can be: the corrected PCA has {most} components "
                "to start from; choose fewer."
            )

    def _kept(self, scores: np.ndarray, gram: Gram) -> int:
        """How many of the components the model sees.

        Noise spreads the small eigenvalues, and holes spread them further. The likelihood takes what is spread for
        structure: with all components its optimum may explain the noise, and tear clusters apart for it.
        """
        # dissimilarities have no features whose signs could be drawn
        of_features = gram.n_features == gram.observed.shape[1]
        if self.representation != "auto" or self.pca_.n_components != "all" or not of_features:
            return scores.shape[1]
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31))
        null = null_eigenvalues(UnbiasedGram(gram.observed, self.pca_.observation_), FLIPS, rng)
        # the Gram matrix itself has no negative eigenvalues, so the estimate's are errors
        error = -eigh(gram.toarray(), eigvals_only=True, subset_by_index=[0, 0])[0]
        values = np.einsum("ik,ik->k", scores, scores) / gram.n_features
        most = min(gram.shape[0], gram.n_features)
        found = standing_out(values, float(gram.diagonal().sum()), most, signflip_limit(null), error)
        return min(max(found, self.n_components), scores.shape[1])

    def _leaves_out(self, scores: np.ndarray) -> bool:
        """Whether there may be positive eigenvalues beyond the components kept."""
        return self.pca_.n_components != "all" and scores.shape[1] < min(scores.shape[0], self.n_features_in_)

    def transform(self, X: Any, mask: Any = None) -> np.ndarray:
        """Latent positions of new rows, with holes of their own: where their predictive density is largest.

        Parameters
        ----------
        X : (n_samples, n_features) array, table or sparse array
        mask : True where observed, or a structured mask of these rows; None if X itself shows its holes
        """
        scores = self._new_scores(X, mask)[:, : self._fit.factor.Z.shape[1]]
        return locate(self._fit, scores / np.sqrt(self.n_features_in_)).X
