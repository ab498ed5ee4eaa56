"""t-SNE, UMAP and GPLVM on the corrected representation: what they share, and what each adds."""

import copy
import inspect
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score

import nanfold as nf
from nanfold.diagonal import ShiftedGram
from nanfold.gp.kernels import RBF
from nanfold.gplvm import standing_out

N = 120
# Settings of one method alone that no data of N samples allow.
WRONG = {
    "TSNE": [{"perplexity": 40}, {"neighbors": "near"}, {"n_components": 4}],
    "UMAP": [{"n_neighbors": N}, {"neighbors": "near"}],
}


@pytest.fixture(scope="module")
def data():
    """Four clusters in 60 features, 40 % hidden, and their labels; the last 20 rows are kept as new ones."""
    X, labels = make_blobs(N + 20, 60, centers=4, cluster_std=3.0, random_state=0)
    return nf.datasets.hide(X, random_state=0), labels


def make(name: str, **settings):
    quick = {
        "TSNE": {"n_iter": 150, "early_exaggeration_iter": 100},
        "UMAP": {"n_epochs": 100},
        "GPLVM": {"max_iter": 40},
    }
    return getattr(nf, name)(random_state=0, **{**quick[name], **settings})


@pytest.fixture(scope="module", params=["TSNE", "UMAP", "GPLVM"])
def fitted(request, data):
    return _fit(make(request.param), data[0][:N])


def _fit(estimator, X, **options):
    # A GPLVM that is stopped early says so.
    if isinstance(estimator, nf.GPLVM):
        with pytest.warns(match="GPLVM did not converge"):
            return estimator.fit(X, **options)
    return estimator.fit(X, **options)


def ari(embedding, labels) -> float:
    return adjusted_rand_score(labels, KMeans(4, n_init=10, random_state=0).fit_predict(embedding))


class TestAll:
    def test_clusters_are_found(self, fitted, data):
        assert fitted.embedding_.shape == (N, 2)
        assert np.isfinite(fitted.embedding_).all()
        assert ari(fitted.embedding_, data[1][:N]) > 0.95

    def test_new_rows_land_in_their_clusters(self, fitted, data):
        H, labels = data
        placed = fitted.transform(H[N:])
        assert placed.shape == (20, 2)
        distance = np.linalg.norm(placed[:, None] - fitted.embedding_[None], axis=2)
        nearest = labels[:N][np.argsort(distance, axis=1)[:, :5]]
        assert np.mean((nearest == labels[N:, None]).mean(axis=1) > 0.5) >= 0.9

    def test_placing_new_rows_moves_nothing(self, fitted, data):
        before = fitted.embedding_.copy()
        fitted.transform(data[0][N:])
        assert_array_equal(fitted.embedding_, before)

    def test_the_same_again(self, fitted, data):
        again = _fit(clone(fitted), data[0][:N])
        assert_array_equal(again.embedding_, fitted.embedding_)

    def test_names_and_features(self, fitted, data):
        prefix = type(fitted).__name__.lower()
        assert list(fitted.get_feature_names_out()) == [f"{prefix}0", f"{prefix}1"]
        assert fitted.n_features_in_ == 60
        with pytest.raises(ValueError, match="features"):
            fitted.transform(data[0][N:, :50])

    def test_pickles(self, fitted, data):
        copied = pickle.loads(pickle.dumps(fitted))
        assert_allclose(copied.transform(data[0][N:]), fitted.transform(data[0][N:]), atol=1e-6)

    def test_deep_copies(self, fitted, data):
        new, place = data[0][N:], fitted.embedding_.copy()
        other = copy.deepcopy(fitted)
        assert_array_equal(other.transform(new), fitted.transform(new))
        other.embedding_[:] = 0.0
        assert_array_equal(fitted.embedding_, place)

    def test_unstored_entries_are_holes_too(self, fitted, data):
        H = data[0][:N]
        stored = sparse.csr_array(np.nan_to_num(H, nan=0.0))
        other = _fit(clone(fitted).set_params(missing="unstored"), stored)
        assert ari(other.embedding_, data[1][:N]) > 0.95

    def test_not_fitted(self, fitted, data):
        with pytest.raises(Exception, match="not fitted"):
            clone(fitted).transform(data[0])

    def test_table_with_names(self, fitted, data):
        pd = pytest.importorskip("pandas")
        frame = pd.DataFrame(data[0][:N], columns=[f"f{s}" for s in range(60)])
        other = _fit(clone(fitted).set_output(transform="pandas"), frame)
        assert list(other.feature_names_in_)[:2] == ["f0", "f1"]
        assert list(other.transform(frame[:5]).columns) == list(other.get_feature_names_out())


@pytest.mark.parametrize("name", ["TSNE", "UMAP", "GPLVM"])
def test_a_sample_that_shares_nothing(data, name):
    H = np.hstack([data[0][:N], np.full((N, 1), np.nan)])
    H[7] = np.nan
    H[7, 60] = 1.0
    with pytest.raises(ValueError, match=r"[Rr]ow 7 "):
        make(name).fit(H)


@pytest.mark.parametrize(("name", "parameter"), [("TSNE", "initialization"), ("UMAP", "init")])
class TestStarts:
    @pytest.mark.parametrize(
        ("start", "given"),
        [
            ("best", "'best'"),
            (None, "None"),
            (np.zeros((N, 3)), r"of shape \(120, 3\)"),
            (np.zeros((3, 2)), r"of shape \(3, 2\)"),
            (np.full((N, 2), np.nan), r"of shape \(120, 2\)"),
        ],
        ids=["word", "none", "too wide", "too few rows", "NaN"],
    )
    def test_refusals(self, data, name, parameter, start, given):
        message = (
            rf"{parameter} must be 'pca', 'random', 'spectral' or a finite array of shape \(120, 2\); it is {given}"
        )
        with pytest.raises(ValueError, match=message):
            make(name, **{parameter: start}).fit(data[0][:N])

    def test_too_few_components_to_start_from(self, data, name, parameter):
        with pytest.raises(ValueError, match="has 1 components, too few to start 2 dimensions"):
            make(name, **{parameter: "pca"}, representation=1).fit(data[0][:N])

    def test_given_positions(self, data, name, parameter):
        positions = np.random.default_rng(0).normal(size=(N, 2))
        one, other = (make(name, **{parameter: p}).fit(data[0][:N]).embedding_ for p in (positions, positions + 1e-3))
        assert np.isfinite(one).all()
        assert not np.array_equal(one, other)

    def test_positions_that_do_not_vary_in_a_dimension(self, data, name, parameter):
        positions = np.column_stack([np.arange(N), np.ones(N)])
        with pytest.raises(ValueError, match=f"{parameter} holds one value alone in dimension 1; start from positions"):
            make(name, **{parameter: positions}).fit(data[0][:N])


@pytest.mark.parametrize("name", ["TSNE", "UMAP", "GPLVM"])
class TestSettingsThatCannotBe:
    @pytest.mark.parametrize("n_components", [0, -1, 1.5, "2", None, True])
    def test_dimensions_out_of_range(self, data, name, n_components):
        with pytest.raises(ValueError, match="n_components must be a whole number of at least 1; it is"):
            make(name, n_components=n_components).fit(data[0][:N])

    @pytest.mark.parametrize("representation", [0, 61, 1.5, "most", True])
    def test_representation_is_called_by_its_name(self, data, name, representation):
        with pytest.raises(ValueError, match=r"^representation(=| must be)"):
            make(name, representation=representation).fit(data[0][:N])

    def test_they_are_refused_before_anything_is_estimated(self, data, name, monkeypatch):
        monkeypatch.setattr("nanfold.pca.corrected_gram", lambda *given, **options: pytest.fail("estimated"))
        for wrong in [{"n_components": 0}, {"representation": 61}, *WRONG.get(name, [])]:
            with pytest.raises(ValueError, match=r"out of range|must (lie|be)|too many"):
                make(name, **wrong).fit(data[0][:N])

    def test_data_on_a_line_have_one_component_to_start_from(self, name):
        line = np.outer(np.arange(30.0), np.arange(1.0, 9.0))
        with pytest.raises(ValueError, match=r"[Tt]he corrected PCA has 1 components"):
            make(name).fit(line)

    def test_what_is_no_table(self, name):
        with pytest.raises(ValueError, match="The rows of X have different lengths; write NaN where"):
            make(name).fit([[1, 2, 3], [4, 5]])

    def test_lists(self, data, name):
        rows = data[0][:N].tolist()
        assert_array_equal(_fit(make(name), rows).embedding_, _fit(make(name), data[0][:N]).embedding_)


@pytest.mark.parametrize("name", ["TSNE", "UMAP", "GPLVM"])
def test_every_eigenvalue_is_negative(data, name, monkeypatch):
    """A corrected Gram matrix with nothing to embed is refused, and none of it is clipped to something."""
    negative = np.full(N, -1e6)
    monkeypatch.setattr("nanfold.pca.corrected_gram", lambda plain, *given, **options: ShiftedGram(plain, negative))
    with pytest.raises(ValueError, match="every eigenvalue of the corrected Gram matrix is negative; more of X"):
        make(name).fit(data[0][:N])


@pytest.mark.parametrize(
    ("name", "library", "ours"),
    [
        # What finds neighbours is nanfold's own.
        ("TSNE", "openTSNE", {"initialization", "neighbors", "perplexity", "metric", "metric_params", "knn_kwargs"}),
        # So are distances; and y, the densities and other geometries to embed in are not handed on.
        (
            "UMAP",
            "umap",
            {"init", "metric", "metric_kwds", "angular_rp_forest", "force_approximation_algorithm", "unique"}
            | {"precomputed_knn", "output_metric", "output_metric_kwds", "output_dens", "transform_mode"}
            | {"target_n_neighbors", "target_metric", "target_metric_kwds", "target_weight"},
        ),
    ],
)
class TestParametersOfTheLibrary:
    def test_are_there_by_name_and_default(self, name, library, ours):
        theirs = inspect.signature(getattr(pytest.importorskip(library), name)).parameters
        mine = inspect.signature(getattr(nf, name)).parameters
        for parameter in set(theirs) - ours:
            assert mine[parameter].default == theirs[parameter].default, parameter

    def test_arrive(self, name, library, ours, data, monkeypatch):
        module = pytest.importorskip(library)
        theirs = getattr(module, name)
        given = {}
        monkeypatch.setattr(module, name, lambda *n, **settings: given.update(settings) or theirs(*n, **settings))
        make(name).fit(data[0][:N])
        # The first dimension is given by place, and a seed makes UMAP take one thread.
        assert set(inspect.signature(theirs).parameters) - ours <= set(given) | {"n_components", "n_jobs"}


class TestTSNE:
    def test_new_rows_are_placed_in_the_embedding_as_it_is(self):
        """openTSNE centres its embedding before it places new rows, which would go along with it."""
        rng = np.random.default_rng(0)
        X = rng.standard_normal((150, 20)) + 8.0 * (rng.random(150) < 0.3)[:, None]
        X[:5] += 40.0
        fitted = make("TSNE").fit(X)
        low, high = fitted.embedding_.min(axis=0), fitted.embedding_.max(axis=0)
        assert np.abs(low + high).max() > 0.1 * np.max(high - low)
        for _ in range(2):
            away = np.median(fitted.transform(X) - fitted.embedding_, axis=0)
            assert np.abs(away).max() < 0.01 * np.max(high - low)

    @pytest.mark.parametrize(
        ("settings", "count"), [({"representation": 10}, 0), ({"representation": "all", "neighbors": "corrected"}, 1)]
    )
    def test_new_rows_one_at_a_time_search_one_index(self, data, settings, count, monkeypatch):
        """Whether it is that of the fit, or one on the leading components alone."""
        import openTSNE

        fitted, made = make("TSNE", **settings).fit(data[0][:N]), []
        theirs = openTSNE.affinity.PerplexityBasedNN
        monkeypatch.setattr(
            openTSNE.affinity, "PerplexityBasedNN", lambda *given, **named: made.append(1) or theirs(*given, **named)
        )
        together = fitted.transform(data[0][N:])
        alone = np.vstack([fitted.transform(row) for row in data[0][N:, None]])
        assert_allclose(alone, together, atol=0.5)
        assert len(made) == count

    def test_starts_from_the_corrected_pca(self, data):
        H = data[0][:N]
        still = make("TSNE", n_iter=0, early_exaggeration_iter=0).fit(H)
        scores = nf.PCA("all", random_state=0).fit_transform(H)[:, :2]
        for a in range(2):
            assert abs(np.corrcoef(still.embedding_[:, a], scores[:, a])[0, 1]) > 0.999

    def test_default_perplexity_fits_small_tables(self, data):
        assert make("TSNE").fit(data[0][:40]).perplexity_ == 13.0
        assert make("TSNE").fit(data[0][:N]).perplexity_ == 30.0

    @pytest.mark.parametrize("perplexity", [40, 0.9, 0, -3, "many", None, np.nan, True])
    def test_perplexity_out_of_range(self, data, perplexity):
        with pytest.raises(ValueError, match=r"perplexity=.* is out of range: with 120 samples .* 1 and 39.67"):
            make("TSNE", perplexity=perplexity).fit(data[0][:N])

    @pytest.mark.parametrize(("method", "most"), [("auto", 3), ("bh", 3), ("fft", 2), ("interpolation", 2)])
    def test_more_dimensions_than_the_gradient_knows(self, data, method, most):
        message = f"negative_gradient_method='{method}' computes its gradient in up to {most} dimensions"
        with pytest.raises(ValueError, match=message):
            make("TSNE", n_components=most + 1, negative_gradient_method=method).fit(data[0][:N])

    def test_three_dimensions_of_however_many_samples(self, data, monkeypatch):
        """Left to itself, openTSNE takes a method that knows two dimensions for 10,000 samples and more."""
        import openTSNE

        given = {}
        library = openTSNE.TSNE
        monkeypatch.setattr(openTSNE, "TSNE", lambda *n, **settings: given.update(settings) or library(*n, **settings))
        fitted = make("TSNE", n_components=3).fit(data[0][:N])
        assert given["negative_gradient_method"] == "bh"
        assert fitted.transform(data[0][N:]).shape == (20, 3)

    @pytest.mark.parametrize("start", ["random", "spectral"])
    def test_other_starts(self, data, start):
        assert ari(make("TSNE", initialization=start).fit(data[0][:N]).embedding_, data[1][:N]) > 0.9

    def test_corrected_neighbours(self, data):
        fitted = make("TSNE", neighbors="corrected").fit(data[0][:N])
        assert ari(fitted.embedding_, data[1][:N]) > 0.95
        assert fitted.transform(data[0][N:]).shape == (20, 2)


class TestUMAP:
    @pytest.mark.parametrize("n_neighbors", [1, 120, 500, 3.5, "many", None])
    def test_neighbours_out_of_range(self, data, n_neighbors):
        with pytest.raises(ValueError, match=r"n_neighbors=.* is out of range: with 120 samples .* 2 and 119"):
            make("UMAP", n_neighbors=n_neighbors).fit(data[0][:N])

    def test_corrected_neighbours(self, data):
        fitted = make("UMAP", neighbors="corrected").fit(data[0][:N])
        assert ari(fitted.embedding_, data[1][:N]) > 0.95
        assert fitted.transform(data[0][N:]).shape == (20, 2)

    def test_unknown_source_of_neighbours(self, data):
        with pytest.raises(ValueError, match="neighbors must be 'scores' or 'corrected'; it is 'best'"):
            make("UMAP", neighbors="best").fit(data[0][:N])

    @pytest.mark.slow
    @pytest.mark.parametrize("neighbors", ["scores", "corrected"])
    def test_beyond_the_small_sizes(self, data, neighbors, monkeypatch):
        """The way of large tables: an index in place of all distances."""
        monkeypatch.setattr("nanfold.umap.SMALL_SAMPLES", 50)
        fitted = make("UMAP", neighbors=neighbors, representation=10).fit(data[0][:N])
        assert ari(fitted.embedding_, data[1][:N]) > 0.95
        placed = fitted.transform(data[0][N:])
        distance = np.linalg.norm(placed[:, None] - fitted.embedding_[None], axis=2)
        assert np.mean(data[1][:N][distance.argmin(axis=1)] == data[1][N:]) >= 0.85


class TestGPLVM:
    def test_attributes(self, data):
        fitted = _fit(make("GPLVM"), data[0][:N])
        assert fitted.noise_variance_ > 0
        assert np.isfinite(fitted.log_likelihood_)
        assert fitted.n_iter_ == 40
        assert fitted.converged_ is False
        assert fitted.kernel_.lengthscale > 0

    def test_sparse_is_near_exact(self, data):
        H = data[0][:N]
        exact, approximate = (_fit(make("GPLVM", inducing=inducing), H) for inducing in (None, 60))
        assert approximate.log_likelihood_ == pytest.approx(exact.log_likelihood_, rel=0.02)

    @pytest.mark.parametrize(
        ("limit", "error", "count"),
        [
            (6.95, 0.0, 1),
            # a mean of 2 in all 10; of 13 / 9 without the first, of 8 / 8 without the second
            (1.95, 0.0, 3),
            (1.95, 0.99, 2),
            (0.9, 0.0, 6),
            (20.0, 0.0, 0),
        ],
    )
    def test_components_stand_out_of_what_those_before_leave(self, limit, error, count):
        values = np.array([7.0, 5.0, 0.98, 0.75, 0.7, 0.65])
        assert standing_out(values, 20.0, 10, limit, error) == count

    def test_clusters_are_not_torn_apart_for_noise(self):
        X, labels = nf.datasets.make_clusters(200, 1500, random_state=0)
        H = nf.datasets.hide(X, random_state=0)
        quick = {"assist": 0, "tol": 1e-6, "max_iter": 1000}
        kept, torn = (make("GPLVM", representation=name, **quick).fit(H) for name in ("auto", "all"))
        index = [
            adjusted_rand_score(labels, KMeans(3, n_init=10, random_state=0).fit_predict(model.embedding_))
            for model in (kept, torn)
        ]
        assert index[0] > 0.9
        assert index[1] < 0.75
        seen, everything = kept._fit.factor, torn._fit.factor
        assert seen.Z.shape[1] < 10 < everything.Z.shape[1] == torn.pca_.n_components_
        # what is left out counts as noise
        gram = nf.unbiased_gram(H)
        assert seen.trace == pytest.approx(gram.diagonal().sum(), rel=1e-6)
        assert everything.residual < 1e-9 * seen.trace < seen.residual
        assert kept.transform(H[:5]).shape == (5, 2)

    def test_no_fewer_components_than_it_makes(self):
        X, _ = nf.datasets.make_clusters(60, 300, random_state=0)
        model = _fit(make("GPLVM", n_components=7, max_iter=3), X)
        assert model._fit.factor.Z.shape[1] == 7

    def test_errors_that_negative_eigenvalues_show_are_left_out(self, data):
        gram = nf.unbiased_gram(data[0][:N], assist="auto", random_state=0)
        error = -np.linalg.eigvalsh(gram.toarray())[0]
        model = _fit(make("GPLVM", max_iter=3), data[0][:N])
        assert error > 0
        assert np.linalg.norm(model._fit.factor.Z, axis=0).min() ** 2 > error

    def test_its_start_can_be_chosen(self, data):
        H = data[0][:N]
        tried = {init: _fit(make("GPLVM", init=init), H)._fit.report for init in ("auto", "pca", "geodesic")}
        assert {init: report.n_starts for init, report in tried.items()} == {"auto": 4, "pca": 2, "geodesic": 2}
        positions = np.random.default_rng(0).normal(size=(N, 2))
        given = _fit(make("GPLVM", init=positions, kernel=RBF(2.0, 1.0)), H)._fit.report
        assert given.start == "given, RBF(variance=2, lengthscale=1)"
        with pytest.raises(ValueError, match="init must be one of auto, pca, geodesic, or positions; it is 'spectral'"):
            make("GPLVM", init="spectral").fit(H)

    def test_bounded_where_the_raw_gram_matrix_is_not(self, data):
        """With negative eigenvalues left in, the objective grows without end as the noise falls; with ours it falls."""
        gram = nf.unbiased_gram(data[0][:N])
        values, vectors = np.linalg.eigh(gram.toarray())
        assert values[0] < -0.01 * values[-1]
        negative = vectors[:, :1]
        beside = np.eye(N) - negative @ negative.T
        latent = vectors[:, -2:] * np.sqrt(N)
        kernel = np.exp(-0.5 * ((latent[:, None] - latent[None]) ** 2).sum(axis=2))
        # A kernel that leaves the direction of negative variance to the noise, as flexible ones learn to do.
        kernel = beside @ kernel @ beside

        def objective(matrix: np.ndarray, noise: float) -> float:
            K = kernel + noise * np.eye(N)
            return -0.5 * gram.n_features * (np.linalg.slogdet(K)[1] + np.trace(np.linalg.solve(K, matrix)))

        noises = 10.0 ** -np.arange(1, 9)
        raw = values[0] * negative @ negative.T
        assert np.all(np.diff([objective(raw, noise) for noise in noises]) > 0)
        kept = vectors[:, values > 0]
        projected = (kept * values[values > 0]) @ kept.T
        assert objective(projected, 1e-8) < objective(projected, 1e-2)
        assert _fit(make("GPLVM"), data[0][:N]).noise_variance_ > 1e-3 * gram.diagonal().mean()

    @pytest.mark.parametrize("inducing", [N + 1, 0])
    def test_inducing_inputs_out_of_range(self, data, inducing):
        with pytest.raises(ValueError, match="must be between 1 and the number of samples, 120"):
            make("GPLVM", inducing=inducing).fit(data[0][:N])

    @pytest.mark.parametrize("kernel", ["rbf-ard", "matern32", "matern52", "linear", "rbf+linear"])
    def test_other_kernels(self, data, kernel):
        fitted = _fit(make("GPLVM", kernel=kernel, max_iter=5), data[0][:N])
        assert "+".join(type(part).__name__ for part in getattr(fitted.kernel_, "parts", [fitted.kernel_])).lower() == (
            kernel.removesuffix("-ard")
        )
        assert np.size(getattr(fitted.kernel_, "lengthscale", 1.0)) == (2 if kernel.endswith("-ard") else 1)
        assert ari(fitted.embedding_, data[1][:N]) > 0.95

    def test_unknown_kernel(self, data):
        with pytest.raises(ValueError, match=r"kernel='cubic' is not known; take one of rbf, .* joined by"):
            make("GPLVM", kernel="cubic").fit(data[0][:N])
