"""scImpute: the answers of the original program, and each step against a definition or a case worked by hand."""

import pickle
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import brentq, nnls
from scipy.special import digamma
from scipy.stats import gamma, norm
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score

from nanfold.baselines import _cell_distances, _kernel_spectral, _mixture, sc_impute
from nanfold.baselines._cell_distances import component_scores, distances, far_cells, variable_genes
from nanfold.baselines._impute_cells import (
    impute_cell,
    impute_group,
    neighbours,
    nonnegative_weights,
    usable_genes,
)
from nanfold.baselines._kernel_spectral import _embedding, kernel_widths, spectral_clusters
from nanfold.baselines._mixture import ZERO, dropout_probability, fit_mixtures, gamma_shape
from nanfold.baselines.sc_impute import ScImpute

SETS = [
    "synth60_scimpute",
    "synth60_scimpute_k1",
    "synth60_scimpute_labeled",
    "synth_fewgenes80_scimpute",
    "synth_fewgenes80_scimpute_k1",
    "synth_fewgenes80_scimpute_labeled",
    "yan90_scimpute_labeled",
]


def log_counts(X: np.ndarray) -> np.ndarray:
    return np.log10(X * 1e6 / X.sum(axis=1, keepdims=True) + 1.01)


@pytest.fixture(scope="module", params=SETS)
def oracle(request: pytest.FixtureRequest, oracles: Path) -> dict[str, np.ndarray]:
    answer = dict(np.load(oracles / f"{request.param}.npz"))
    # To cells x genes, and clusters from 0.
    for name in ("X", "dropout_prob", "imputed_log10", "imputed_counts"):
        if name in answer:
            answer[name] = answer[name].T
    answer["clusters"] = np.where(answer["clusters"] > 0, answer["clusters"] - 1, -1)
    answer["given"] = {"labels" if "labeled" in request.param else "clusters": answer["clusters"]}
    return answer


class TestOriginal:
    def test_distances(self, oracle):
        y, clusters = log_counts(oracle["X"]), oracle["clusters"]
        genes = variable_genes(y)
        np.testing.assert_array_equal(genes, oracle["hv_genes"])
        rng = np.random.RandomState(0)
        if "dist_cells" in oracle:
            D = distances(component_scores(y[:, genes], clusters.max() + 1, 5000, rng))
            np.testing.assert_allclose(D, oracle["dist_cells"], rtol=0, atol=1e-9)
            if clusters.max() > 0:
                np.testing.assert_array_equal(far_cells(D), oracle["outliers"])
            return
        for k in range(clusters.max() + 1):
            cells = np.flatnonzero(clusters == k)
            D = distances(component_scores(y[np.ix_(cells, genes)], 0, 1000, rng))
            np.testing.assert_allclose(D, oracle["dist_within_cluster"][np.ix_(cells, cells)], rtol=0, atol=1e-9)

    def test_given_clusters(self, oracle):
        X, probability = oracle["X"], oracle["dropout_prob"]
        model = ScImpute().fit(X, **oracle["given"])
        np.testing.assert_array_equal(model.labels_, oracle["clusters"])
        np.testing.assert_array_equal(model.outliers_, oracle["outliers"])
        np.testing.assert_array_equal(np.isnan(model.mixture_), np.isnan(oracle["mix_params"]))
        np.testing.assert_array_equal(model.valid_genes_, oracle["valid_genes"])
        # Relative to the root-finder of the original, which stops at 1.2e-4.
        np.testing.assert_allclose(model.mixture_, oracle["mix_params"], rtol=1e-3)
        np.testing.assert_allclose(model.dropout_probability_, probability, rtol=0, atol=5e-3)
        flipped = (model.dropout_probability_ > 0.5) != (probability > 0.5)
        # Of all these decisions one, at .50002 in the original, falls to the other side.
        assert flipped.sum() <= 1
        np.testing.assert_allclose(probability[flipped], 0.5, rtol=0, atol=1e-3)
        settled = ~(oracle["nnls_iterations"] >= 3000) & ~flipped.any(axis=1)
        difference = np.abs(model.imputed_log10_ - oracle["imputed_log10"])
        assert difference[settled].max() < 1e-3
        # One gene more or less to fit the weights on moves them a little.
        assert difference[~flipped].max() < 1e-2
        if "imputed_counts" in oracle:
            np.testing.assert_allclose(
                model.imputed_[settled], oracle["imputed_counts"][settled], rtol=2.5e-3, atol=0.011
            )

    def test_given_the_decisions(self, oracle):
        y, clusters = log_counts(oracle["X"]), oracle["clusters"]
        for cell in np.flatnonzero(clusters >= 0):
            members = np.flatnonzero(clusters == clusters[cell])
            usable = oracle["valid_genes"][:, clusters[cell]]
            S = y[np.ix_(members, usable)]
            row = impute_cell(
                S,
                int(np.flatnonzero(members == cell)[0]),
                oracle["dropout_prob"][cell, usable] > 0.5,
                oracle["dist_within_cluster"][cell, members],
            )
            bound = 2e-3 if oracle["nnls_iterations"][cell] >= 3000 else 1e-3
            row = np.clip(row, ZERO, S.max(axis=0))
            np.testing.assert_allclose(row, oracle["imputed_log10"][cell, usable], rtol=0, atol=bound)


@pytest.mark.parametrize("name", [name for name in SETS if "labeled" not in name])
def test_outliers_of_the_original(oracles, name):
    answer = np.load(oracles / f"{name}.npz")
    model = ScImpute(n_clusters=int(answer["clusters"].max()), random_state=0).fit(answer["X"].T)
    np.testing.assert_array_equal(model.outliers_, answer["outliers"])
    np.testing.assert_array_equal(model.labels_ == -1, answer["clusters"] == -1)


def test_clusters_of_the_original(oracles):
    # Its spectral clustering is random, so this needs a set where the groups are plain: synth_fewgenes80 has none.
    answer = np.load(oracles / "synth60_scimpute.npz")
    model = ScImpute(n_clusters=3, random_state=0).fit(answer["X"].T)
    inside = model.labels_ >= 0
    assert adjusted_rand_score(model.labels_[inside], answer["clusters"][inside]) > 0.9


class TestVariableGenes:
    def test_repeated_values_count_once(self):
        # The set of values is {1, 3} in both genes: mean 2 and deviation sqrt(2), however often 1 occurs.
        y = np.array([[1, 1], [1, 3], [1, 3], [3, ZERO]])
        mean, deviation = _cell_distances._of_distinct(y)
        np.testing.assert_allclose(mean, 2)
        np.testing.assert_allclose(deviation, np.sqrt(2))

    def test_undefined_is_zero(self):
        y = np.array([[ZERO, ZERO], [ZERO, 2], [ZERO, 2]])
        np.testing.assert_array_equal(_cell_distances._of_distinct(y), [[0, 2], [0, 0]])

    def test_choice(self, monkeypatch):
        monkeypatch.setattr(_cell_distances, "FEWEST_GENES", 2)
        # Variation 0 to .4 of the mean: the quarter is that of gene 1, which still passes. Gene 3 has a low mean.
        spread = np.array([0, 0.1, 0.2, 0.3, 0.4]) / np.sqrt(2)
        level = np.array([2, 2, 2, 0.9, 2])
        y = level * np.array([1 - spread, 1 + spread])
        np.testing.assert_array_equal(variable_genes(y), [1, 2, 4])

    def test_all_if_few_pass(self):
        np.testing.assert_array_equal(variable_genes(np.random.default_rng(0).uniform(2, 3, (5, 499))), np.arange(499))


class TestDistances:
    def test_scores_are_those_of_scikit_learn(self):
        y = np.random.default_rng(0).normal(size=(20, 50)) * np.linspace(1, 8, 50)
        reference = PCA().fit(y)
        n_components = np.flatnonzero(np.cumsum(reference.explained_variance_ratio_) > 0.4)[0] + 1
        assert n_components > 3
        scores = component_scores(y, 0, 5000, np.random.RandomState(0))
        assert scores.shape[1] == n_components
        np.testing.assert_allclose(distances(scores), distances(reference.transform(y)[:, :n_components]), atol=1e-9)

    @pytest.mark.parametrize(("fewest", "expected"), [(0, 3), (2, 3), (7, 7)])
    def test_at_least(self, fewest, expected):
        y = np.random.default_rng(0).normal(size=(20, 10)) * np.array([100, *[1] * 9])
        assert component_scores(y, fewest, 5000, np.random.RandomState(0)).shape[1] == expected

    def test_share_must_be_exceeded(self, monkeypatch):
        # Of ten equal variances four carry 40 % and no more.
        monkeypatch.setattr(_cell_distances, "_exact_components", lambda y: (y, np.ones(10)))
        assert component_scores(np.eye(10), 0, 5000, np.random.RandomState(0)).shape[1] == 5

    def test_randomised(self):
        y = np.random.default_rng(0).normal(size=(40, 30)) * np.linspace(1, 8, 30) ** 2
        reference = PCA().fit(y)
        n_components = np.flatnonzero(np.cumsum(reference.explained_variance_ratio_) > 0.6)[0] + 1
        scores = component_scores(y, 0, 40, np.random.RandomState(0))
        assert scores.shape[1] == n_components
        np.testing.assert_allclose(distances(scores), distances(reference.transform(y)[:, :n_components]), rtol=1e-6)

    def test_equal_cells(self):
        assert distances(component_scores(np.ones((4, 6)), 0, 5000, np.random.RandomState(0))).max() == 0

    def test_far_cells(self):
        # Nearest distances 1, 1, 1, 1, 2, 2, 5: quartiles 1 and 2, so that more than 3.5 is far.
        points = np.array([0, 1, 10, 11, 13, 15, 20.0])[:, None]
        np.testing.assert_array_equal(far_cells(distances(points)), [6])
        points[6] = 18.5
        assert len(far_cells(distances(points))) == 0


class TestSpectral:
    def test_widths_by_hand(self):
        # Mean 4, smallest 0.5, largest 16: half-steps of powers of 2 around steps of 0.2 from 2 and of 0.32 from 4.
        D = np.full((10, 10), 0.0)
        upper = np.triu_indices(10, 1)
        D[upper] = 0.5 + np.linspace(0, 1, 45)
        D[upper[0][0], upper[1][0]], D[upper[0][1], upper[1][1]] = 0.5, 16
        rest = (400 / 2 - 16.5) / 43
        D[upper[0][2:], upper[1][2:]] = rest
        D += D.T
        assert D.mean() == pytest.approx(4)
        expected = np.concatenate(
            [
                2.0 ** np.array([-1, -0.5, 0, 0.5]),
                2 + 0.2 * np.arange(9),
                4 + 0.32 * np.arange(13),
                2.0 ** np.array([3.5, 4]),
            ]
        )
        np.testing.assert_allclose(kernel_widths(D), expected)

    def test_equal_cells_have_no_width(self):
        with pytest.raises(ValueError, match="All cells are equal"):
            kernel_widths(np.zeros((5, 5)))

    def test_finds_what_k_means_cannot(self):
        rng = np.random.default_rng(0)
        angle = rng.uniform(0, 2 * np.pi, 200)
        ring = np.repeat([0, 1], 100)
        points = np.column_stack([np.cos(angle), np.sin(angle)]) * np.array([1, 6])[ring][:, None]
        points += rng.normal(0, 0.1, points.shape)
        labels = spectral_clusters(points, 2, np.random.RandomState(0))
        assert adjusted_rand_score(labels, ring) == 1

    def test_embedding(self):
        squared = distances(np.random.default_rng(0).normal(size=(12, 3))) ** 2
        K = np.exp(-squared / (2 * 1.3**2)) - np.eye(12)
        degree = np.diag(K.sum(axis=1) ** -0.5)
        vectors = np.linalg.eigh(degree @ K @ degree)[1][:, -2:]
        embedding = _embedding(squared, 1.3, 2)
        expected = vectors / np.sqrt(np.sum(vectors**2, axis=1, keepdims=True))
        np.testing.assert_allclose(np.abs(embedding), np.abs(expected), rtol=1e-9)

    @pytest.mark.parametrize(("far", "possible"), [(4, True), (6.5, False), (100, False)])
    def test_widths_that_leave_a_cell_alone_are_passed_over(self, far, possible):
        # Its degree is exp(-far^2 / 2) and thereabouts: small, smaller than the squared inverse of 1e4, and 0.
        squared = distances(np.array([[0.0], [0], [0.1], [far]])) ** 2
        assert (_embedding(squared, 1.0, 2) is not None) == possible

    def test_no_width_will_do(self, monkeypatch):
        monkeypatch.setattr(_kernel_spectral, "kernel_widths", lambda D: np.array([1e-3]))
        with pytest.raises(ValueError, match="no kernel width at which every cell has a neighbour"):
            spectral_clusters(np.arange(8.0)[:, None], 2, np.random.RandomState(0))

    def test_random_state(self):
        points = np.random.default_rng(0).normal(size=(40, 3))
        once, again = (spectral_clusters(points, 4, np.random.RandomState(3)) for _ in range(2))
        np.testing.assert_array_equal(once, again)
        np.testing.assert_array_equal(np.unique(once), [0, 1, 2, 3])

    def test_too_few_cells(self):
        with pytest.raises(ValueError, match="4 cells, outliers left out, are too few for 4 clusters"):
            spectral_clusters(np.eye(4), 4, np.random.RandomState(0))


def fit_one_gene(y: np.ndarray, settled: float = 0.5, most: int = 101) -> np.ndarray:
    """Fit the mixture of one gene slowly, from the formulas, with a bracketing root-finder."""
    positive = y[y > ZERO]
    parameters = np.mean(y == ZERO) or 0.01, 0.5, 1.0, positive.mean(), positive.std(ddof=1)
    likelihood = 0.0
    for _ in range(most):
        w = posterior(y, parameters)
        S, t, u = w.sum(), w @ y, w @ np.log(y)
        mu = (1 - w) @ y / np.sum(1 - w)
        sigma = np.sqrt((1 - w) @ (y - mu) ** 2 / np.sum(1 - w))
        v = np.log(t / S) - u / S
        a = 20.0
        if v > 0:
            a0 = (3 - v + np.sqrt((v - 3) ** 2 + 24 * v)) / (12 * v)
            if a0 < 20:
                a = brentq(lambda a, v=v: np.log(a) - digamma(a) - v, a0 / 2, a0 * 2, xtol=1e-14)
        parameters = S / len(y), a, a * S / t, mu, sigma
        previous, likelihood = likelihood, np.sum(np.log10(density(y, parameters)))
        if (likelihood - previous) ** 2 <= settled:
            break
    return np.array(parameters)


def density(y: np.ndarray, parameters: tuple[float, ...]) -> np.ndarray:
    rate, a, b, mu, sigma = parameters
    return rate * gamma.pdf(y, a, scale=1 / b) + (1 - rate) * norm.pdf(y, mu, sigma)


def posterior(y: np.ndarray, parameters: tuple[float, ...]) -> np.ndarray:
    rate, a, b, *_ = parameters
    return rate * gamma.pdf(y, a, scale=1 / b) / density(y, parameters)


class TestMixture:
    def test_against_the_formulas(self):
        rng = np.random.default_rng(0)
        y = rng.normal(rng.uniform(1, 4, 40), rng.uniform(0.2, 1, 40), (50, 40))
        dropped = rng.random((50, 40)) < rng.uniform(0, 0.8, 40)
        y = np.maximum(np.where(dropped, rng.gamma(0.5, 0.3, (50, 40)), y), ZERO)
        fitted = fit_mixtures(y)
        expected = np.array([fit_one_gene(column) for column in y.T])
        assert (expected[:, 1] < 20).sum() > 10
        assert (expected[:, 1] == 20).any()
        np.testing.assert_allclose(fitted, expected, rtol=1e-7)
        w = np.column_stack([posterior(column, gene) for column, gene in zip(y.T, expected, strict=True)])
        np.testing.assert_allclose(dropout_probability(y, fitted), w, rtol=1e-6, atol=1e-12)

    def test_recovers_the_parameters(self):
        rng = np.random.default_rng(0)
        n = 20_000
        y = np.where(rng.random(n) < 0.3, rng.gamma(2, 0.2, n), rng.normal(4, 0.5, n))[:, None]
        np.testing.assert_allclose(fit_mixtures(np.maximum(y, ZERO))[0], [0.3, 2, 5, 4, 0.5], rtol=0.05)

    def test_blocks_of_genes(self):
        y = log_counts(np.random.default_rng(0).poisson(3, (8, 2050)).astype(float))
        np.testing.assert_array_equal(fit_mixtures(y)[2040:], fit_mixtures(y[:, 2040:]))

    def test_genes_without_a_fit(self):
        # No counts, one, and three equal ones, of which the mean differs from them by rounding.
        equal = np.linspace(0.1, 4, 400)[14]
        assert np.mean([equal] * 3) != equal
        y = np.full((20, 5), ZERO)
        y[0, 1] = 2
        y[:3, 2] = equal
        y[:3, 3:] = [[2, 1], [2.5, 1.5], [3, 1.2]]
        np.testing.assert_array_equal(np.isnan(fit_mixtures(y)).all(axis=1), [True, True, True, False, False])

    def test_no_more_than_101_iterations(self, monkeypatch):
        # Never settled, and slow: each further step still shows.
        monkeypatch.setattr(_mixture, "SETTLED", 0)
        rng = np.random.default_rng(0)
        n = 2000
        y = np.maximum(np.where(rng.random(n) < 0.4, rng.gamma(3, 1 / 3, n), rng.normal(1.2, 0.5, n)), ZERO)
        fitted = fit_mixtures(y[:, None])[0]
        np.testing.assert_allclose(fitted, fit_one_gene(y, settled=0), rtol=1e-9)
        assert np.abs(fit_one_gene(y, settled=0, most=100) / fitted - 1).max() > 1e-5

    def test_no_dropout_where_both_densities_vanish(self):
        parameters = np.array([[0.5, 20, 460, 4, 0.01]])
        np.testing.assert_array_equal(dropout_probability(np.array([[ZERO], [2.5], [4]]), parameters), [[1], [0], [0]])

    def test_gamma_shape(self):
        v = np.geomspace(0.03, 100, 500)
        a = gamma_shape(v)
        assert (a < 20).all()
        np.testing.assert_allclose(np.log(a) - digamma(a), v, rtol=1e-12)
        np.testing.assert_array_equal(gamma_shape(np.array([-1, 0, 1e-9, 0.02])), 20)
        assert np.isnan(gamma_shape(np.array([np.nan, 1.0]))).tolist() == [True, False]

    def test_shape_is_capped_by_its_approximation_alone(self):
        # The root may exceed 20 where the approximation just does not.
        v = np.linspace(0.0248, 0.0256, 400)
        a = gamma_shape(v)
        a0 = (3 - v + np.sqrt((v - 3) ** 2 + 24 * v)) / (12 * v)
        np.testing.assert_array_equal(a == 20, a0 >= 20)
        assert a.max() > 20


class TestUsableGenes:
    def test_by_hand(self):
        low = np.log10(2.01)
        fits = np.array(
            [
                [0.3, 1, 4, 3, 0.5],
                [0.3, 1, 4, low, 0.9],
                [0.3, 1, 4, low + 0.01, 0.9],
                # At mean + 1 the Normal has vanished and the Gamma has not.
                [0.3, 1, 4, 0.9, 0.1],
                [0.3, 1, 4, 1.1, 0.1],
                [np.nan] * 5,
            ]
        )
        np.testing.assert_array_equal(usable_genes(fits), [True, False, True, False, True, False])

    @pytest.mark.parametrize(("n_genes", "used"), [(10, False), (11, True)])
    def test_more_than_ten(self, n_genes, used):
        y = np.random.default_rng(0).normal(3, 0.3, (12, n_genes))
        y[0] = ZERO
        group = impute_group(y, np.ones((12, 12)), 0.5)
        assert not np.isnan(group.parameters).any()
        assert len(group.usable) == (n_genes if used else 0)
        assert group.imputed.shape == (12, len(group.usable))

    def test_no_dropout_above_the_mean(self):
        # A wide Gamma reaches beyond a narrow Normal.
        rng = np.random.default_rng(0)
        y = rng.normal(2, 0.05, (60, 30))
        y[:25] = rng.gamma(0.5, 3, (25, 30))
        y[:8] = ZERO
        group = impute_group(np.maximum(y, ZERO), np.ones((60, 60)), 0.5)
        y, mu = y[:, group.usable], group.parameters[group.usable, 3]
        plain = dropout_probability(np.maximum(y, ZERO), group.parameters[group.usable])
        above = (y > mu) & (plain > 0.5)
        assert above.sum() > 20
        assert (group.probability[above] == 0).all()
        np.testing.assert_array_equal(group.probability[~above], plain[~above])


class TestWeights:
    @pytest.mark.parametrize("shape", [(5, 40), (30, 60), (1, 9)])
    def test_certificate(self, shape):
        rng = np.random.default_rng(0)
        A, b = rng.gamma(1, 1, shape), rng.gamma(1, 1, shape[1])
        w = nonnegative_weights(A, b)
        slope = A @ (A.T @ w - b)
        scale = np.linalg.norm(A @ b)
        assert (w >= 0).all()
        assert slope.min() > -1e-10 * scale
        assert np.abs(slope[w > 0]).max() < 1e-10 * scale
        np.testing.assert_allclose(w, nnls(A.T, b)[0], atol=1e-9)

    def test_equal_neighbours(self):
        A = np.random.default_rng(0).gamma(1, 1, (4, 20))
        b = A.T @ np.array([0.2, 0.0, 0.5, 0.1])
        w = nonnegative_weights(np.vstack([A, A[:2]]), b)
        np.testing.assert_allclose(np.vstack([A, A[:2]]).T @ w, b, rtol=1e-6)


class TestImputeCell:
    def test_neighbours(self):
        D = np.array([0, 3, 1, 2, 2, 9.0])
        np.testing.assert_array_equal(neighbours(D, 0, 6), [1, 2, 3, 4, 5])
        # 5 others and 5 genes: the nearest round(10 / 3) of them, in order of distance, ties as they come.
        np.testing.assert_array_equal(neighbours(D, 0, 5), [2, 3, 4])
        np.testing.assert_array_equal(neighbours(D, 3, 4), [0, 2, 4])

    def test_at_most_500_neighbours(self):
        D = np.arange(502.0)[::-1]
        assert len(neighbours(D[2:], 0, 600)) == 499
        np.testing.assert_array_equal(neighbours(D, 0, 600), np.arange(501, 1, -1))
        assert len(neighbours(D, 0, 300)) == 200

    def test_by_hand(self):
        # On the four kept genes, cell 0 is half of cell 1 and a quarter of cell 2.
        S = np.array(
            [[0, 0, 2.0, 1, 3, 1], [4, 3, 4.0, 0, 4, 2], [4, 8, 0.0, 4, 4, 0], [2, 2, 1.0, 1, 0, 9], [9, 5, 1, 0, 2, 7]]
        )
        dropouts = np.array([True, True, False, False, False, False])
        row = impute_cell(S, 0, dropouts, np.array([0, 1, 1, 1, 1.0]))
        # Five cells and four genes leave the nearest three neighbours.
        np.testing.assert_allclose(row, [0.5 * 4 + 0.25 * 4, 0.5 * 3 + 0.25 * 8, 2, 1, 3, 1])

    @pytest.mark.parametrize(
        ("n_cells", "n_dropouts"), [pytest.param(5, n, id=f"{n} of 6 genes") for n in (0, 1, 5, 6)] + [(2, 3)]
    )
    def test_left_as_it_is(self, n_cells, n_dropouts):
        S = np.random.default_rng(0).gamma(2, 1, (n_cells, 6))
        np.testing.assert_array_equal(impute_cell(S, 0, np.arange(6) < n_dropouts, np.ones(n_cells)), S[0])


class TestEstimator:
    def test_only_dropouts_change(self, counts):
        model = ScImpute(n_clusters=3, random_state=0).fit(counts.X)
        dropout = model.dropout_probability_ > 0.5
        np.testing.assert_array_equal(model.imputed_[~dropout], counts.X[~dropout])
        assert (model.imputed_[dropout] != counts.X[dropout]).mean() > 0.5
        assert model.imputed_log10_.min() >= ZERO
        np.testing.assert_array_equal(model.imputed_, np.round(model.imputed_, 2))
        np.testing.assert_array_equal(np.isnan(model.dropout_probability_).all(axis=1), model.labels_ == -1)

    def test_not_above_the_highest_of_the_group(self, counts):
        model = ScImpute().fit(counts.X, labels=counts.labels)
        y = log_counts(counts.X)
        for k in range(3):
            cells = counts.labels == k
            assert (model.imputed_log10_[cells] <= y[cells].max(axis=0)).all()

    def test_nearer_to_the_truth(self, counts):
        model = ScImpute().fit(counts.X, labels=counts.labels)
        gone = (counts.X == 0) & (counts.complete > 0) & (model.dropout_probability_ > 0.5)
        assert gone.sum() > 200
        truth = np.log10(counts.complete[gone] + 1)
        error, before = np.log10(model.imputed_[gone] + 1) - truth, truth
        assert np.mean(error**2) < 0.5 * np.mean(before**2)

    def test_finds_the_kinds(self, counts):
        model = ScImpute(n_clusters=3, random_state=0).fit(counts.X)
        inside = model.labels_ >= 0
        assert adjusted_rand_score(model.labels_[inside], counts.labels[inside]) > 0.9
        again = ScImpute(n_clusters=3, random_state=0).fit(counts.X)
        np.testing.assert_array_equal(again.imputed_, model.imputed_)

    def test_one_group_by_default(self, counts):
        model = ScImpute().fit(counts.X)
        np.testing.assert_array_equal(model.labels_, 0)
        assert model.mixture_.shape == (300, 5, 1)
        assert len(model.outliers_) == 0

    def test_labels(self, counts):
        names = np.array(["b", "c", "a"])[counts.labels]
        model = ScImpute().fit(counts.X, names)
        np.testing.assert_array_equal(model.classes_, ["a", "b", "c"])
        np.testing.assert_array_equal(model.classes_[model.labels_], names)
        numbered = ScImpute().fit(counts.X, counts.labels)
        np.testing.assert_array_equal(numbered.imputed_, model.imputed_)
        np.testing.assert_array_equal(numbered.mixture_[:, :, [2, 0, 1]], model.mixture_)

    def test_outliers_are_left_alone_and_not_used(self, counts):
        clusters = counts.labels.copy()
        clusters[7] = -1
        model = ScImpute().fit(counts.X, clusters=clusters)
        np.testing.assert_array_equal(model.outliers_, [7])
        np.testing.assert_array_equal(model.imputed_[7], counts.X[7])
        members = np.flatnonzero(clusters == 0)
        expected = fit_mixtures(log_counts(counts.X)[members])
        np.testing.assert_array_equal(model.mixture_[:, :, 0], expected)

    def test_groups_of_one_and_two(self, counts):
        clusters = counts.labels.copy()
        clusters[0], clusters[1:3] = 3, 4
        model = ScImpute().fit(counts.X, clusters=clusters)
        np.testing.assert_array_equal(model.imputed_[:3], counts.X[:3])
        assert not model.valid_genes_[:, 3].any()

    def test_threshold(self, counts):
        few, many = (
            ScImpute(drop_threshold=t).fit(counts.X, clusters=counts.labels).imputed_ != counts.X for t in (0.9, 0.1)
        )
        assert few.sum() < many.sum()

    def test_sparse_and_dense_agree(self, counts):
        dense = ScImpute().fit(counts.X, clusters=counts.labels)
        for make in (sp.csr_array, sp.csc_matrix):
            np.testing.assert_array_equal(
                ScImpute().fit(make(counts.X), clusters=counts.labels).imputed_, dense.imputed_
            )

    def test_input_stays_as_it_was(self, counts):
        X = counts.X.copy()
        ScImpute().fit(X, gene_lengths=np.full(300, 2.0))
        np.testing.assert_array_equal(X, counts.X)

    def test_gene_lengths(self, counts):
        lengths = np.random.default_rng(0).integers(1, 9, 300)
        plain = ScImpute().fit(counts.X, clusters=counts.labels)
        tpm = ScImpute().fit(counts.X / lengths, clusters=counts.labels, gene_lengths=lengths)
        np.testing.assert_allclose(tpm.imputed_ * lengths, plain.imputed_, rtol=0, atol=0.011)

    def test_cell_without_counts_stays_empty(self, counts):
        X = counts.X.copy()
        X[4] = 0
        assert not ScImpute().fit(X).imputed_[4].any()

    def test_large_sets_take_the_randomised_components(self, counts, monkeypatch):
        exact = ScImpute(n_clusters=3, random_state=0).fit(counts.X)
        monkeypatch.setattr(sc_impute, "RANDOMISE_FROM", 60)
        randomised = ScImpute(n_clusters=3, random_state=0).fit(counts.X)
        inside = (exact.labels_ >= 0) & (randomised.labels_ >= 0)
        assert adjusted_rand_score(exact.labels_[inside], randomised.labels_[inside]) > 0.9

    def test_scikit_learn(self, counts):
        model = ScImpute(n_clusters=2, drop_threshold=0.6, random_state=1)
        assert clone(model).get_params() == model.get_params()
        model.fit(counts.X, clusters=counts.labels)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).imputed_, model.imputed_)


def changed(X: np.ndarray, cell: int, gene: int, value: float) -> np.ndarray:
    X = X.copy()
    X[cell, gene] = value
    return X


class TestBadInput:
    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda X: changed(X, 3, 5, -1), r"Negative values in data: cell 3, gene 5 is -1; give counts"),
            (lambda X: changed(X, 3, 5, np.nan), r"NaN or inf in data: cell 3, gene 5 is nan; .* known"),
            (lambda X: X[:1], "1 sample"),
            (lambda X: X[:2], "2 sample"),
        ],
    )
    def test_counts(self, counts, change, message):
        with pytest.raises(ValueError, match=message):
            ScImpute().fit(change(counts.X))

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ({"labels": [0, 1]}, r"labels must hold one value for each of the 60 cells; its shape is \(2,\)"),
            ({"labels": [None] + [1] * 59}, "labels are missing for cells 0: leave"),
            ({"labels": [np.nan] * 2 + [1.0] * 58}, "labels are missing for cells 0, 1: leave"),
            ({"labels": [np.nan] * 2 + ["a"] * 58}, "labels are missing for cells 0, 1: leave"),
            ({"labels": ["a"] * 2 + ["b"] * 58}, "Class a has 2 cells and scImpute needs at least 3"),
            ({"clusters": [0, 1]}, "clusters must hold one value for each of the 60 cells"),
            ({"clusters": [0.5] * 60}, "clusters must be integers from 0 on"),
            ({"clusters": [-2] + [0] * 59}, "clusters must be integers from 0 on"),
            ({"clusters": [-1] * 60}, "clusters must be integers from 0 on"),
            ({"clusters": [0, 2] * 30}, "clusters are numbered up to 2, but 1 has no cells"),
            ({"clusters": [0] * 60, "labels": [0] * 60}, "Give labels or clusters, not both"),
            ({"gene_lengths": [1.0]}, "gene_lengths must hold one value for each of the 300 genes"),
            ({"gene_lengths": [1.0] * 299 + [0.0]}, "those of genes 299 are not"),
        ],
    )
    def test_given(self, counts, given, message):
        with pytest.raises(ValueError, match=message):
            ScImpute().fit(counts.X, **given)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"n_clusters": 61}, "n_clusters must be None or an int from 1 to the 60 cells; it is 61"),
            ({"n_clusters": 1.5}, "n_clusters must be None or an int"),
            ({"n_clusters": 50}, "are too few for 50 clusters: give a smaller n_clusters"),
            ({"drop_threshold": None}, "drop_threshold must lie between 0 and 1; it is None"),
            ({"drop_threshold": 1}, "drop_threshold must lie between 0 and 1; it is 1"),
        ],
    )
    def test_options(self, counts, options, message):
        with pytest.raises(ValueError, match=message):
            ScImpute(**options).fit(counts.X)

    def test_cells_that_are_all_equal(self, counts):
        with pytest.raises(ValueError, match="All cells are equal, so there are no clusters to find: leave n_clusters"):
            ScImpute(n_clusters=2, random_state=0).fit(np.repeat(counts.X[:1], 20, axis=0))
