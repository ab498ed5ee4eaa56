"""Principal component analysis of data with holes, with scikit-learn's contract."""

from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_array, check_random_state
from sklearn.utils.extmath import svd_flip
from sklearn.utils.validation import check_is_fitted

from nanfold.components import N_FLIPS, check_n_components, leading_components, signflip_rank
from nanfold.correction import check_assist, corrected_gram
from nanfold.diagonal import check_diagonal, denoised
from nanfold.gram import Gram, UnbiasedGram
from nanfold.least_squares import solve_rows
from nanfold.likelihood import gaussian_log_likelihood
from nanfold.loadings import fit_loadings, varying
from nanfold.observation import observation_model
from nanfold.observed import Observed, apply_to_chunks, is_dask, observe
from nanfold.spectrum import Eigenpairs, check_solver


class Estimate(NamedTuple):
    """The Gram matrix that PCA decomposes, the unbiased one it rests on, and where further randomness comes from."""

    gram: Gram
    plain: UnbiasedGram
    rng: np.random.Generator


class PCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Principal component analysis from the unbiased Gram matrix.

    On complete data everything equals scikit-learn's PCA. With holes, the scores are the leading eigenvectors of the
    corrected Gram matrix times the root of d times their eigenvalues, and the loadings are the least-squares fit of
    the observed entries given the scores.

    Parameters
    ----------
    n_components : int, float in (0, 1), "cng", "signflip", "all" or None
        A number; a share of the variance; the scree test of Cattell, Nelson and Gorsuch; those that stand out of data
        with random signs; or all with non-negative eigenvalues, at most min(n_samples, n_features) ("all" and None).
    missing : {"nan", "unstored"}
        Whether holes are NaN, or what a sparse array does not store.
    observation : str, array, pair of arrays or model
        The model of the probability of being observed: "rank-one", "rank-one-bounded", "homogeneous", "pairwise", an
        array of probabilities, a pair of factors (c, g), or a model of :mod:`nanfold.observation`.
    assist : int, "auto" or "low-rank"
        The guess that assists the Gram matrix: 0 for none, the unbiased Gram matrix alone; a rank; "low-rank" for the
        rank that predicts held-out entries best; or "auto", which also tries averages over neighbours where dense
        arrays of the data's size are small. By either there is none for complete data, and where no single entries can
        be held out: counts with inferred dropouts, masks of weights, and sparse arrays with NaN beside known zeros.
    diagonal : {"unbiased", "denoised"}
        Whether the diagonal of the Gram matrix is its estimate, or that of its low-rank approximation, for noise that
        differs between samples.
    center : bool
        Whether the mean of the observed entries is subtracted from each feature.
    whiten : bool
        Whether scores are scaled to unit variance.
    solver : {"auto", "exact", "krylov"}
        How the eigenpairs are found.
    tol : float
        The Krylov solver stops when every residual is below tol times its eigenvalue.
    max_iter : int
        The most products with a block of vectors that the Krylov solver may spend.
    random_state : int, RandomState or None
        Seeds the Krylov solver's start and the sign flips.

    Attributes
    ----------
    components_ : (n_components_, n_features_in_) array
        Orthonormal loadings.
    explained_variance_, explained_variance_ratio_, singular_values_ : (n_components_,) arrays
    mean_ : (n_features_in_,) array
        Means of the observed entries.
    n_components_, n_features_in_, n_samples_ : int
    noise_variance_ : float
        The mean variance of the directions that were not kept; 0 if those kept explain everything already.
    residual_variance_ : float
        The variance of one entry outside of the kept components, which sets the ridge for rows with holes.
    score_covariance_ : (n_components_, n_components_) array
        The covariance of the scores without what noise adds to it, towards which rows with holes are drawn.
    assist_ : int
        The rank of the low-rank guess; 0 for none.
    assist_neighbors_ : int
        Over how many neighbours the guess averages; 0 if it does not.
    eigen_residuals_ : (n_components_,) array
        |G u - lambda u| / |lambda| of each eigenpair.
    n_iter_ : int
        Products with a block of vectors that the Krylov solver spent; 1 for an exact decomposition.
    observation_ : ObservationModel
        The fitted model of what is observed.
    """

    def __init__(
        self,
        n_components: Any = None,
        *,
        missing: str = "nan",
        observation: Any = "rank-one",
        assist: Any = "auto",
        diagonal: str = "unbiased",
        center: bool = True,
        whiten: bool = False,
        solver: str = "auto",
        tol: float = 1e-6,
        max_iter: int = 200,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.missing = missing
        self.observation = observation
        self.assist = assist
        self.diagonal = diagonal
        self.center = center
        self.whiten = whiten
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    def fit(self, X: Any, y: Any = None, mask: Any = None) -> Self:
        """Fit to X.

        Parameters
        ----------
        X : (n_samples, n_features) array, table, sparse array or Dask array
        y : ignored
        mask : True where observed, or a fitted ``Dropouts``; None if X itself shows its holes
        """
        self._fit(X, mask)
        return self

    def fit_transform(self, X: Any, y: Any = None, mask: Any = None) -> np.ndarray:
        """Fit to X and return the scores of its rows.

        With holes these are the scores of the corrected Gram matrix; ``transform`` of the same rows gives the
        least-squares scores on the fitted loadings, which are close to them but not the same.
        """
        scores, _ = self._fit(X, mask)
        return scores / self._scale() if self.whiten else scores

    def _fit(self, X: Any, mask: Any) -> tuple[np.ndarray, Gram]:
        """Set the fitted attributes; return the scores and the Gram matrix they come from."""
        return self._decompose(self._estimate(X, mask))

    def _estimate(self, X: Any, mask: Any) -> Estimate:
        """Estimate the Gram matrix, and set what is known before it is decomposed."""
        check_solver(self.solver, self.tol, self.max_iter)
        check_diagonal(self.diagonal)
        observed = observe(X, mask, self.missing, center=bool(self.center), estimator=self)
        check_n_components(self.n_components, *observed.shape)
        check_assist(self.assist, *observed.shape)
        self._masked_counts = observed.has_counts and mask is not None
        self.observation_ = observation_model(self.observation).fit(observed)
        plain = UnbiasedGram(observed, self.observation_)
        if not plain.diagonal().sum() > 0:
            raise ValueError("X does not vary: every observed entry equals the mean of its column.")
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31))
        gram = corrected_gram(plain, self.assist, rng=rng)
        self.assist_, self.assist_neighbors_ = gram.rank, gram.neighbors
        return Estimate(gram, plain, rng)

    def _decompose(self, estimate: Estimate) -> tuple[np.ndarray, Gram]:
        """Set the fitted attributes from an estimate; return the scores and the Gram matrix they come from."""
        gram, plain, rng = estimate
        check_n_components(self.n_components, *plain.observed.shape)
        total = float(gram.diagonal().sum())
        if self.diagonal == "denoised":
            gram = self._denoised(gram, plain, rng)
        pairs = leading_components(
            gram, self.n_components, self.solver, tol=self.tol, max_iter=self.max_iter, plain=plain, rng=rng
        )
        return self._describe(plain.observed, gram, pairs, total), gram

    def _denoised(self, gram: Gram, plain: UnbiasedGram, rng: np.random.Generator) -> Gram:
        if isinstance(self.n_components, int | np.integer):
            k = int(self.n_components)
        else:
            k = signflip_rank(plain, N_FLIPS, rng)
        return denoised(gram, k, rng=rng)

    def _describe(self, observed: Observed, gram: Gram, pairs: Eigenpairs, total: float) -> np.ndarray:
        """Set the fitted attributes, in the dtype of the data, and return the scores."""
        n, d = observed.shape
        k = len(pairs.values)
        left = max(total - float(pairs.values.sum()), 0.0)
        if left <= n * np.finfo(observed.dtype).eps * total or k == min(n, d):
            left = 0.0
        # The ridge must not vanish with what is left, or rows with fewer entries than components have no answer.
        least = float(pairs.values[varying(pairs.values, observed)][-1]) / n
        # Beyond the baseline's rank the eigenvalues are mostly noise, which leaves too little.
        loadings = fit_loadings(observed, pairs, max(left / n, least, gram.residual_variance))
        self.residual_variance_ = max(loadings.residual_variance, least)
        self.n_samples_, self.n_components_ = n, k
        self.noise_variance_ = d * left / ((n - 1) * max(min(n, d) - k, 1))
        # svd_flip writes over what it is given.
        vectors, components = svd_flip(pairs.vectors, loadings.components.copy(), u_based_decision=False)
        signs = np.sign(np.einsum("as,as->a", components, loadings.components))
        self.score_covariance_ = signs[:, None] * loadings.score_covariance * signs
        dtype = observed.dtype
        self.components_ = components.astype(dtype)
        self.explained_variance_ = (d * pairs.values / (n - 1)).astype(dtype)
        self.explained_variance_ratio_ = (pairs.values / total).astype(dtype)
        self.singular_values_ = np.sqrt(d * pairs.values).astype(dtype)
        self.mean_ = observed.mean.astype(dtype)
        self.eigen_residuals_ = pairs.residuals
        self.n_iter_ = pairs.n_iter
        return (vectors * np.sqrt(d * pairs.values)).astype(dtype)

    def _scale(self) -> np.ndarray:
        """Standard deviations of the scores, those that vanish kept from dividing."""
        scale = np.sqrt(self.explained_variance_)
        smallest = np.finfo(scale.dtype).eps
        scale[scale < smallest] = smallest
        return scale

    def _check_fitted(self, mask: Any) -> None:
        check_is_fitted(self)
        if self._masked_counts and mask is None:
            raise ValueError(
                "This PCA was fitted to counts with a mask of dropouts; give the mask of the new rows too, for example "
                "mask=dropouts.predict(X)."
            )

    def _observe(self, X: Any, mask: Any) -> Observed:
        return observe(X, mask, self.missing, center=self.mean_.astype(np.float64), estimator=self, reset=False)

    def transform(self, X: Any, mask: Any = None) -> np.ndarray:
        """Scores of new rows: least squares on what each row has.

        The ridge, residual variance over the covariance of the scores, is scaled by the share of the row that is
        missing, so that a complete row gets scikit-learn's scores exactly.

        Parameters
        ----------
        X : (n_samples, n_features) array, table, sparse array or Dask array
        mask : True where observed, or a structured mask of these rows; None if X itself shows its holes

        Returns
        -------
        (n_samples, n_components_) array; of a Dask array a Dask array, whose chunks are read when it is computed
        """
        self._check_fitted(mask)
        if is_dask(X):
            return apply_to_chunks(self.transform, X, mask, self.n_components_, estimator=self)
        observed = self._observe(X, mask)
        V = self.components_.T.astype(np.float64)
        if observed.complete:
            scores = observed.matmul(V)
        else:
            missing = np.maximum(1.0 - observed.row_counts / observed.shape[1], 0.0)
            variance, axes = np.linalg.eigh(self.score_covariance_)
            ridge = self.residual_variance_ / np.maximum(variance, np.finfo(np.float64).eps * variance.max())
            scores = solve_rows(observed, V @ axes, np.outer(missing, ridge)) @ axes.T
        scores = scores.astype(np.result_type(observed.dtype, self.components_.dtype))
        return scores / self._scale() if self.whiten else scores

    def inverse_transform(self, X: Any) -> np.ndarray:
        """The low-rank reconstruction of complete rows from scores."""
        check_is_fitted(self)
        scores = X if is_dask(X) else check_array(X, dtype=[np.float64, np.float32], input_name="X")
        if scores.ndim == 2 and scores.shape[1] != self.n_components_:
            raise ValueError(
                f"X has {scores.shape[1]} scores a row, but this PCA has {self.n_components_} components; give what "
                "transform returns."
            )
        if is_dask(X):
            return apply_to_chunks(self.inverse_transform, X, None, self.n_features_in_)
        if self.whiten:
            scores = scores * self._scale()
        return scores @ self.components_ + self.mean_

    def get_covariance(self) -> np.ndarray:
        """The covariance of the features under the fitted model, n_features x n_features."""
        check_is_fitted(self)
        beyond = np.maximum(self.explained_variance_ - self.noise_variance_, 0.0)
        covariance = (self.components_.T * beyond) @ self.components_
        covariance[np.diag_indices_from(covariance)] += self.noise_variance_
        return covariance

    def get_precision(self) -> np.ndarray:
        """The inverse of the covariance."""
        check_is_fitted(self)
        if self.noise_variance_ == 0:
            if self.n_components_ < self.n_features_in_:
                raise ValueError(
                    f"The {self.n_components_} components kept explain all the variance, so the covariance has no "
                    "inverse; keep fewer components."
                )
            return np.linalg.inv(self.get_covariance())
        beyond = np.maximum(self.explained_variance_ - self.noise_variance_, 0.0)
        shrink = beyond / (beyond + self.noise_variance_)
        precision = -(self.components_.T * (shrink / self.noise_variance_)) @ self.components_
        precision[np.diag_indices_from(precision)] += 1.0 / self.noise_variance_
        return precision

    def score_samples(self, X: Any, mask: Any = None) -> np.ndarray:
        """The log-likelihood of what is observed of each row, under the probabilistic model of PCA."""
        self._check_fitted(mask)
        if is_dask(X):
            return apply_to_chunks(self.score_samples, X, mask, None, estimator=self)
        observed = self._observe(X, mask)
        beyond = np.maximum(self.explained_variance_ - self.noise_variance_, 0.0).astype(np.float64)
        return gaussian_log_likelihood(observed, self.components_.T * np.sqrt(beyond), float(self.noise_variance_))

    def score(self, X: Any, y: Any = None, mask: Any = None) -> float:
        """The mean log-likelihood of what is observed of the rows."""
        return float(np.mean(self.score_samples(X, mask)))
