"""PCA: scikit-learn's on complete data to the last attribute, its contract, and rows with holes."""

import itertools
import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.linalg import subspace_angles
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA as CompletePCA  # noqa: N811
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import nanfold as nf
from nanfold.observed import StructuredMask
from storages import counts_and_mask

SHAPES = {"tall": (80, 15), "wide": (20, 60), "square": (30, 30)}
ATTRIBUTES = (
    "components_",
    "explained_variance_",
    "explained_variance_ratio_",
    "singular_values_",
    "mean_",
    "noise_variance_",
)


def table(n: int, d: int, dtype: type = np.float64, seed: int = 0) -> np.ndarray:
    """Columns of different sizes and means, with a few strong directions."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3)) @ (2.0 * rng.standard_normal((3, d))) + rng.standard_normal((n, d))
    return (X * rng.uniform(0.5, 2.0, d) + rng.uniform(-5, 5, d)).astype(dtype)


def with_holes(X: np.ndarray, share: float = 0.3, seed: int = 1) -> np.ndarray:
    X = X.copy()
    X[np.random.default_rng(seed).random(X.shape) < share] = np.nan
    return X


def same(actual: np.ndarray, expected: np.ndarray, rtol: float) -> None:
    """Equal to a relative tolerance, absolute where the expected vanishes beside its largest."""
    assert_allclose(actual, expected, rtol=rtol, atol=rtol * np.max(np.abs(expected)))


class TestCompleteData:
    """Everything equals scikit-learn's."""

    @pytest.fixture(params=SHAPES)
    def shape(self, request):
        return SHAPES[request.param]

    @pytest.mark.parametrize(
        ("form", "n_components"),
        [
            *itertools.product(["dense", "sparse", "mask of ones", "assisted"], [None, 1, 4, 0.8]),
            *itertools.product(["krylov"], [1, 4, 0.8]),  # which does not find all of them
        ],
    )
    def test_attributes_and_scores(self, shape, n_components, form):
        X = table(*shape)
        options = {"krylov": {"solver": "krylov", "tol": 1e-10}, "assisted": {"assist": 3}}.get(form, {})
        data = sparse.csr_array(X) if form == "sparse" else X
        mask = np.ones(shape) if form == "mask of ones" else None
        ours = nf.PCA(n_components, **options)
        scores = ours.fit_transform(data, mask=mask)
        theirs = CompletePCA(n_components, svd_solver="full").fit(X)
        k = theirs.n_components_
        if n_components is None and shape[0] <= shape[1]:
            k -= 1  # The last direction has no variance, and is anybody's.
        for name in ATTRIBUTES:
            one, other = getattr(ours, name), getattr(theirs, name)
            if name == "components_":
                one, other = one[:k], other[:k]
            same(one, other, 1e-6)
        assert ours.n_components_ == theirs.n_components_
        same(scores[:, :k], theirs.transform(X)[:, :k], 1e-6)
        new = table(*shape, seed=5)
        if form != "mask of ones":
            same(ours.transform(data)[:, :k], scores[:, :k], 1e-6)
        same(ours.transform(new)[:, :k], theirs.transform(new)[:, :k], 1e-6)
        same(ours.inverse_transform(scores), theirs.inverse_transform(theirs.transform(X)), 1e-6)

    def test_likelihoods(self, shape):
        X, new = table(*shape), table(*shape, seed=5)
        for k in (1, 5) if shape[0] <= shape[1] else (1, 5, None):
            ours, theirs = nf.PCA(k).fit(X), CompletePCA(k, svd_solver="full").fit(X)
            same(ours.get_covariance(), theirs.get_covariance(), 1e-6)
            same(ours.get_precision(), theirs.get_precision(), 1e-6)
            same(ours.score_samples(new), theirs.score_samples(new), 1e-6)
            assert ours.score(new) == pytest.approx(theirs.score(new), rel=1e-6)
            assert_allclose(ours.get_covariance() @ ours.get_precision(), np.eye(shape[1]), atol=1e-8)

    def test_whitening(self, shape):
        X, new = table(*shape), table(*shape, seed=5)
        ours, theirs = nf.PCA(4, whiten=True), CompletePCA(4, whiten=True, svd_solver="full").fit(X)
        scores = ours.fit_transform(X)
        same(scores, theirs.transform(X), 1e-6)
        same(scores.std(axis=0, ddof=1), np.ones(4), 1e-6)
        same(ours.transform(new), theirs.transform(new), 1e-6)
        same(ours.inverse_transform(scores), theirs.inverse_transform(scores), 1e-6)
        # scikit-learn's own covariance is scaled a second time when whitening; what is modelled does not change.
        same(ours.get_covariance(), CompletePCA(4).fit(X).get_covariance(), 1e-6)
        same(ours.score_samples(new), CompletePCA(4).fit(X).score_samples(new), 1e-6)

    def test_float32(self, shape):
        X = table(*shape, dtype=np.float32)
        ours, theirs = nf.PCA(4), CompletePCA(4, svd_solver="full").fit(X.astype(np.float64))
        scores = ours.fit_transform(X)
        for name in ATTRIBUTES:
            same(getattr(ours, name), getattr(theirs, name), 1e-4)
        same(scores, theirs.transform(X.astype(np.float64)), 1e-4)
        for array in (scores, ours.transform(X), ours.components_, ours.mean_, ours.explained_variance_):
            assert array.dtype == np.float32

    def test_no_centring_is_the_singular_value_decomposition(self, shape):
        X = table(*shape)
        ours = nf.PCA(3, center=False)
        scores = ours.fit_transform(X)
        U, sigma, Vt = np.linalg.svd(X, full_matrices=False)
        same(ours.singular_values_, sigma[:3], 1e-8)
        same(np.abs(ours.components_), np.abs(Vt[:3]), 1e-8)
        same(np.abs(scores), np.abs(U[:, :3] * sigma[:3]), 1e-8)
        assert_array_equal(ours.mean_, 0.0)

    def test_more_samples_than_a_dense_decomposition_is_for(self):
        """Complete tall data go through the table and never through n x n."""
        X = table(20_000, 8)
        theirs = CompletePCA(3, svd_solver="full").fit(X)
        same(nf.PCA(3).fit_transform(X), theirs.transform(X), 1e-6)


# What the installed scikit-learn cannot satisfy for an estimator that allows NaN would be named here, check by check.
EXPECTED_FAILURES: dict[str, str] = {}


@parametrize_with_checks(
    [nf.PCA(), nf.PCA(1, solver="krylov"), nf.PCA(1, whiten=True, assist=0, observation="homogeneous")],
    expected_failed_checks=lambda estimator: EXPECTED_FAILURES,
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def data():
    X = table(200, 60)
    return X, with_holes(X)


class TestHoles:
    @pytest.mark.parametrize("options", [{}, {"assist": 0}, {"assist": 3}, {"observation": "pairwise"}], ids=str)
    def test_directions_are_found(self, data, options):
        """Close to those of the complete data; the zero-filled control is far away."""
        X, holes = data
        truth = CompletePCA(3).fit(X).components_.T
        ours = nf.PCA(3, random_state=0, **options).fit(holes)
        angle = subspace_angles(ours.components_.T, truth).max()
        control = subspace_angles(CompletePCA(3).fit(np.nan_to_num(holes)).components_.T, truth).max()
        assert angle < 0.2
        assert control > 2 * angle
        assert_allclose(ours.components_ @ ours.components_.T, np.eye(3), atol=1e-12)
        variance = CompletePCA(3).fit(X).explained_variance_
        assert_allclose(ours.explained_variance_, variance, rtol=0.1)

    def test_scores_are_those_of_the_gram_matrix(self, data):
        _, holes = data
        gram = nf.unbiased_gram(holes)
        values, vectors = np.linalg.eigh(gram.toarray())
        scores = nf.PCA(3, assist=0).fit_transform(holes)
        expected = vectors[:, :-4:-1] * np.sqrt(60 * values[:-4:-1])
        same(np.abs(scores), np.abs(expected), 1e-9)

    def test_fitted_attributes_are_consistent(self, data):
        _, holes = data
        gram = nf.unbiased_gram(holes)
        ours = nf.PCA(3, assist=0).fit(holes)
        total = 60 * np.trace(gram.toarray()) / 199
        assert_allclose(ours.explained_variance_ratio_, ours.explained_variance_ / total, rtol=1e-12)
        assert_allclose(ours.singular_values_, np.sqrt(199 * ours.explained_variance_), rtol=1e-12)
        assert ours.noise_variance_ == pytest.approx((total - ours.explained_variance_.sum()) / 57)
        assert_allclose(ours.mean_, np.nanmean(holes, axis=0), rtol=1e-12)
        assert ours.eigen_residuals_.shape == (3,)
        assert ours.eigen_residuals_.max() < 1e-8
        assert (ours.n_features_in_, ours.n_samples_, ours.n_components_) == (60, 200, 3)
        assert isinstance(ours.observation_, nf.observation.RankOne)

    @pytest.mark.parametrize("solver", ["exact", "krylov"])
    def test_solvers_agree(self, data, solver):
        _, holes = data
        one, other = nf.PCA(3, solver=solver, tol=1e-10, random_state=0), nf.PCA(3, random_state=0)
        same(one.fit_transform(holes), other.fit_transform(holes), 1e-7)
        assert one.eigen_residuals_.max() < 1e-8

    def test_the_same_seed_gives_the_same_answer(self, data):
        _, holes = data
        options = {"solver": "krylov", "tol": 1e-3}
        one, again = (nf.PCA(5, random_state=3, **options).fit_transform(holes) for _ in range(2))
        assert_array_equal(one, again)

    def test_storages_agree(self, data):
        """NaN, a mask, a masked array, a sparse array of what is known: one answer."""
        _, holes = data
        M = ~np.isnan(holes)
        filled = np.nan_to_num(holes)
        stored = sparse.csr_array((holes[M], np.nonzero(M)), shape=M.shape)
        one = nf.PCA(3, assist=2, random_state=0).fit_transform(holes)
        for X, mask, missing in (
            (filled, M, "nan"),
            (np.ma.MaskedArray(filled + 99.0 * ~M, ~M), None, "nan"),
            (stored, None, "unstored"),
            (sparse.csr_array(filled), sparse.csr_array(M), "nan"),
        ):
            other = nf.PCA(3, assist=2, missing=missing, random_state=0).fit_transform(X, mask=mask)
            same(other, one, 1e-8)

    def test_float32(self, data):
        _, holes = data
        scores = nf.PCA(3, assist=0).fit_transform(holes.astype(np.float32))
        assert scores.dtype == np.float32
        same(scores, nf.PCA(3, assist=0).fit_transform(holes), 1e-4)


@pytest.fixture(scope="module")
def fitted():
    return nf.PCA(3, random_state=0).fit(with_holes(table(200, 30)))


class TestNewRows:
    def test_complete_rows_are_projected(self, fitted):
        new = table(9, 30, seed=7)
        assert_allclose(fitted.transform(new), (new - fitted.mean_) @ fitted.components_.T, rtol=1e-12)
        # Among rows with holes a complete row gets the same.
        mixed = with_holes(new)
        mixed[4] = new[4]
        assert_allclose(fitted.transform(mixed)[4], fitted.transform(new)[4], rtol=1e-10)

    def test_rows_with_holes_are_ridge_least_squares(self, fitted):
        """Row by row: the entries it has on the loadings of these, with a ridge that grows with what is missing."""
        new = with_holes(table(9, 30, seed=7), 0.6)
        scores = fitted.transform(new)
        for row, score in zip(new, scores, strict=True):
            seen = ~np.isnan(row)
            V = fitted.components_[:, seen].T
            ridge = (1 - seen.mean()) * fitted.residual_variance_ * np.linalg.inv(fitted.score_covariance_)
            expected = np.linalg.solve(V.T @ V + ridge, V.T @ (row[seen] - fitted.mean_[seen]))
            assert_allclose(score, expected, rtol=1e-9)

    def test_storages_agree(self, fitted):
        new = with_holes(table(9, 30, seed=7), 0.5)
        M = ~np.isnan(new)
        expected = fitted.transform(new)
        same(fitted.transform(np.nan_to_num(new), mask=M), expected, 1e-10)
        same(fitted.transform(sparse.csr_array(new)), expected, 1e-10)
        unstored = clone(fitted).set_params(missing="unstored")
        unstored.__dict__.update({name: value for name, value in vars(fitted).items() if name.endswith("_")})
        unstored._masked_counts = False
        same(unstored.transform(sparse.csr_array((new[M], np.nonzero(M)), shape=M.shape)), expected, 1e-10)

    def test_one_row_at_a_time(self, fitted):
        new = with_holes(table(5, 30, seed=7), 0.5)
        assert_allclose(np.vstack([fitted.transform(row[None]) for row in new]), fitted.transform(new), rtol=1e-10)

    def test_columns_that_nobody_has(self, fitted):
        """New rows need not have every column."""
        new = table(4, 30, seed=7)
        new[:, 5] = np.nan
        assert np.isfinite(fitted.transform(new)).all()

    @pytest.mark.parametrize("known", [1, 2])
    def test_fewer_entries_than_components(self, fitted, known):
        new = np.full((3, 30), np.nan)
        new[:, :known] = 4.0
        assert np.isfinite(fitted.transform(new)).all()

    def test_components_that_explain_everything(self):
        """All components of complete data: what they leave is nothing, and rows with holes still have an answer."""
        X = table(10, 40)
        pca = nf.PCA().fit(X)
        new = table(4, 40, seed=7)
        new[:, 3:] = np.nan
        scores = pca.transform(new)
        assert np.isfinite(scores).all()
        assert np.abs(scores).max() < 10 * np.abs(pca.transform(X)).max()

    def test_it_finds_the_scores(self, fitted):
        """The scores of rows with a third of their entries gone are close to those of the complete rows."""
        X = table(300, 30)
        pca = nf.PCA(3, random_state=0).fit(with_holes(X[:200]))
        whole = pca.transform(X[200:])
        error = pca.transform(with_holes(X[200:], 0.33, seed=8)) - whole
        assert np.mean(error**2) < 0.1 * np.mean(whole**2)

    def test_whitened(self, fitted):
        new = with_holes(table(9, 30, seed=7))
        white = clone(fitted).set_params(whiten=True).fit(with_holes(table(200, 30)))
        same(white.transform(new), fitted.transform(new) / np.sqrt(fitted.explained_variance_), 1e-9)

    def test_inverse_transform(self, fitted):
        scores = np.random.default_rng(0).standard_normal((4, 3))
        assert_allclose(fitted.inverse_transform(scores), scores @ fitted.components_ + fitted.mean_)
        with pytest.raises(ValueError, match="X has 2 scores a row, but this PCA has 3 components"):
            fitted.inverse_transform(scores[:, :2])


class TestLikelihood:
    def test_observed_entries_against_scipy(self):
        """Row by row: the normal density of what is observed, under the covariance of these columns."""
        pca = nf.PCA(3, random_state=0).fit(with_holes(table(200, 12)))
        new = with_holes(table(7, 12, seed=7), 0.4)
        new[0] = table(1, 12, seed=8)
        new[1] = np.where(np.arange(12) == 4, 1.0, np.nan)
        covariance = pca.get_covariance()
        for row, value in zip(new, pca.score_samples(new), strict=True):
            seen = ~np.isnan(row)
            expected = multivariate_normal.logpdf(row[seen], pca.mean_[seen], covariance[np.ix_(seen, seen)])
            assert value == pytest.approx(expected, rel=1e-9)
        assert pca.score(new) == pytest.approx(pca.score_samples(new).mean())

    def test_as_many_components_as_features(self):
        pca = nf.PCA().fit(table(200, 6))
        new = with_holes(table(7, 6, seed=7), 0.4)
        new[np.isnan(new).all(axis=1), 0] = 1.0
        for row, value in zip(new, pca.score_samples(new), strict=True):
            seen = ~np.isnan(row)
            expected = multivariate_normal.logpdf(row[seen], pca.mean_[seen], pca.get_covariance()[np.ix_(seen, seen)])
            assert value == pytest.approx(expected, rel=1e-9)

    def test_storages_agree(self):
        pca = nf.PCA(3, random_state=0).fit(with_holes(table(200, 12)))
        new = with_holes(table(7, 12, seed=7), 0.4)
        M = ~np.isnan(new)
        expected = pca.score_samples(new)
        assert_allclose(pca.score_samples(np.nan_to_num(new), mask=M), expected, rtol=1e-10)
        assert_allclose(pca.score_samples(sparse.csr_array(new)), expected, rtol=1e-10)

    def test_no_noise_to_rest_on(self):
        pca = nf.PCA().fit(table(10, 40))
        with pytest.raises(ValueError, match="has no noise to rest on; keep fewer components"):
            pca.score(table(3, 40))
        with pytest.raises(ValueError, match="the covariance has no inverse; keep fewer components"):
            pca.get_precision()

    def test_soft_weights_have_none(self):
        rng = np.random.default_rng(0)
        X, mask, _ = counts_and_mask(rng, np.float64, 40, 12, soft=True)
        pca = nf.PCA(2).fit(X, mask=mask)
        with pytest.raises(ValueError, match="weights between 0 and 1 have no likelihood"):
            pca.score(X, mask=mask)


class TestCounts:
    def test_mask_is_needed_again(self):
        rng = np.random.default_rng(0)
        X, mask, _ = counts_and_mask(rng, np.float64, 40, 12, soft=False)
        pca = nf.PCA(2).fit(sparse.csr_array(X), mask=mask)
        with pytest.raises(ValueError, match="give the mask of the new rows too"):
            pca.transform(sparse.csr_array(X))
        assert pca.transform(sparse.csr_array(X), mask=mask).shape == (40, 2)

    def test_something_fitted_can_be_the_mask(self):
        class Fitted:
            mask_: StructuredMask

        rng = np.random.default_rng(0)
        X, mask, _ = counts_and_mask(rng, np.float64, 40, 12, soft=True)
        fitted = Fitted()
        fitted.mask_ = mask
        assert_array_equal(nf.PCA(2).fit_transform(X, mask=fitted), nf.PCA(2).fit_transform(X, mask=mask))


class TestConvenience:
    def test_clone_and_parameters(self):
        pca = nf.PCA(3, missing="unstored", observation="pairwise", whiten=True, tol=1e-3)
        assert clone(pca).get_params() == pca.get_params()
        assert "n_components=3" in repr(pca)

    def test_pickle(self):
        holes = with_holes(table(60, 12))
        pca = nf.PCA(2, random_state=0).fit(holes)
        again = pickle.loads(pickle.dumps(pca))
        assert_array_equal(again.transform(holes), pca.transform(holes))

    def test_pandas_in_and_out(self):
        frame = pd.DataFrame(with_holes(table(30, 5)), columns=list("abcde"), index=[f"row{i}" for i in range(30)])
        pca = nf.PCA(2).set_output(transform="pandas")
        scores = pca.fit_transform(frame)
        assert list(scores.columns) == ["pca0", "pca1"] == list(pca.get_feature_names_out())
        assert list(scores.index) == list(frame.index)
        assert list(pca.feature_names_in_) == list("abcde")
        assert list(pca.transform(frame).columns) == ["pca0", "pca1"]
        with pytest.raises(ValueError, match="feature names should match"):
            pca.transform(frame[list("edcba")])

    def test_nullable_columns(self):
        """pandas' own missing values are holes."""
        frame = pd.DataFrame({"a": pd.array([1, 2, None, 4, 7], dtype="Int64"), "b": [0.5, np.nan, 2.0, 1.0, 0.0]})
        frame["c"] = [True, False, True, True, False]
        plain = np.array([[1, 0.5, 1], [2, np.nan, 0], [np.nan, 2, 1], [4, 1, 1], [7, 0, 0]])
        one, other = (nf.PCA(2, assist=0).fit_transform(form) for form in (frame, plain))
        assert_allclose(one, other)

    def test_pipelines(self):
        holes = with_holes(table(90, 12))
        model = make_pipeline(StandardScaler(), nf.PCA(2, random_state=0), KMeans(2, n_init=2, random_state=0))
        assert model.fit_predict(holes).shape == (90,)
        assert model.predict(holes[:4]).shape == (4,)

    def test_choosing_components_by_likelihood(self):
        """The score is that of rows that were not fitted to, so that cross-validation finds the planted rank."""
        rng = np.random.default_rng(0)
        holes = rng.standard_normal((300, 3)) @ rng.standard_normal((3, 20)) + rng.standard_normal((300, 20))
        holes = with_holes(holes, 0.2)
        search = GridSearchCV(nf.PCA(random_state=0), {"n_components": [1, 2, 3, 4, 6, 9]}, cv=3).fit(holes)
        assert search.best_params_ == {"n_components": 3}
        assert cross_val_score(nf.PCA(3), holes, cv=3).shape == (3,)

    def test_mask_is_routed_as_metadata(self):
        X = table(60, 12)
        M = np.random.default_rng(2).random(X.shape) < 0.8
        with sklearn.config_context(enable_metadata_routing=True):
            pca = nf.PCA(2, random_state=0).set_fit_request(mask=True).set_transform_request(mask=True)
            routed = make_pipeline(pca).fit(X, mask=M)[-1]
        assert_allclose(routed.components_, nf.PCA(2, random_state=0).fit(np.where(M, X, np.nan)).components_)

    def test_not_fitted(self):
        for method in ("transform", "inverse_transform", "score", "score_samples"):
            with pytest.raises(NotFittedError):
                getattr(nf.PCA(), method)(np.ones((3, 2)))
        for method in ("get_covariance", "get_precision", "get_feature_names_out"):
            with pytest.raises(NotFittedError):
                getattr(nf.PCA(), method)()
