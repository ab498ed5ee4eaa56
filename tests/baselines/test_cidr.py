"""CIDR: the answers of the original program, and each of its rules on cases small enough to work out by hand."""

import pickle
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.cluster.hierarchy import cut_tree, ward
from scipy.spatial.distance import pdist, squareform
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score, calinski_harabasz_score

from nanfold.baselines import _cidr_dropouts, cidr
from nanfold.baselines._cidr_clusters import calinski_harabasz, choose_n_clusters, choose_n_components
from nanfold.baselines._cidr_dissimilarity import fit_dropout_curve, smooth_dissimilarity, step_dissimilarity
from nanfold.baselines._cidr_dropouts import cell_thresholds, clipped_thresholds, log_cpm
from nanfold.baselines._principal_coordinates import cailliez_constant, double_centred, principal_coordinates
from nanfold.baselines._r_density import GRID, _linear_bins, bandwidth_nrd0, binned_density
from nanfold.baselines.cidr import CIDR

# Cells whose density is 0 on an interval: the place of its minimum there is the rounding noise of the FFT.
NOISE = {"synth60": [], "synth_fewgenes80": [36, 63], "yan90": []}


@pytest.fixture(scope="module", params=NOISE)
def oracle(request: pytest.FixtureRequest, oracles: Path) -> tuple[str, dict[str, np.ndarray]]:
    return request.param, dict(np.load(oracles / f"{request.param}_cidr.npz"))


def same_partition(a: np.ndarray, b: np.ndarray) -> bool:
    return adjusted_rand_score(a, b) == 1


def expressed(X: np.ndarray) -> np.ndarray:
    return X[:, X.any(axis=0)]


class TestOriginal:
    def test_thresholds(self, oracle):
        name, answer = oracle
        X = expressed(answer["X"].T)
        sizes = X.sum(axis=1)
        np.testing.assert_allclose(sizes, answer["librarySizes"], rtol=1e-15)
        z = log_cpm(X, sizes)
        if "nData" in answer:
            np.testing.assert_allclose(z, answer["nData"].T, rtol=1e-14)
        np.testing.assert_allclose([bandwidth_nrd0(cell) for cell in z], answer["bandwidth"], rtol=1e-12)
        clear = np.setdiff1d(np.arange(len(z)), NOISE[name])
        tau = cell_thresholds(z, sizes)
        np.testing.assert_allclose(tau[clear], answer["dThreshold_unclipped"][clear], rtol=1e-12)
        # The clipping goes by quantiles over all cells, which the noise of two may move.
        if not NOISE[name]:
            np.testing.assert_allclose(clipped_thresholds(z, sizes), answer["dThreshold"], rtol=1e-12)

    def test_default(self, oracle):
        _, answer = oracle
        X = answer["X"].T
        model = CIDR().fit(X)
        present = X.any(axis=0)
        np.testing.assert_array_equal(model.dropout_candidates_[:, present], answer["dropoutCandidates"].T)
        assert model.a_ == pytest.approx(answer["coef_a"][0], rel=2e-5)
        assert model.b_ == pytest.approx(answer["coef_b"][0], rel=2e-5)
        assert model.weight_threshold_ == pytest.approx(answer["wThreshold"][0], rel=2e-5)
        np.testing.assert_allclose(model.dissimilarity_, answer["dissim"], rtol=0, atol=1e-10)
        np.testing.assert_allclose(model.eigenvalues_, answer["eigenvalues"], rtol=0, atol=1e-7)
        np.testing.assert_allclose(model.variation_, answer["variation"], rtol=0, atol=1e-12)
        assert model.n_components_ == answer["nPC"][0]
        coordinates = answer["PC"][:, : model.n_components_]
        np.testing.assert_allclose(np.abs(model.embedding_), np.abs(coordinates), rtol=0, atol=1e-9)
        np.testing.assert_array_equal(model.calinski_harabasz_, answer["CH_index"])
        assert model.n_clusters_ == answer["nCluster"][0]
        assert same_partition(model.labels_, answer["clusters"])

    def test_given_number_of_clusters(self, oracle):
        _, answer = oracle
        model = CIDR(n_clusters=len(np.unique(answer["labels"]))).fit(answer["X"].T)
        assert same_partition(model.labels_, answer["clusters_trueK"])

    def test_smooth_weights(self, oracle):
        _, answer = oracle
        X = answer["X"].T
        model = CIDR(step_function=False).fit(X)
        # The fit is compared to 2e-5 above; with the same a and b, the dissimilarities agree.
        X = expressed(X)
        D = smooth_dissimilarity(log_cpm(X, X.sum(axis=1)), model.thresholds_, answer["coef_a"][0], answer["coef_b"][0])
        np.testing.assert_allclose(D, answer["dissim_logistic"], rtol=0, atol=1e-10)
        np.testing.assert_allclose(model.dissimilarity_, answer["dissim_logistic"], rtol=2e-5)
        np.testing.assert_allclose(model.eigenvalues_, answer["eigenvalues_logistic"], rtol=2e-5, atol=1e-4)
        assert model.n_components_ == answer["nPC_logistic"][0]
        assert same_partition(model.labels_, answer["clusters_logistic"])

    def test_zeros_only(self, oracle):
        _, answer = oracle
        model = CIDR(zeros_only=True).fit(answer["X"].T)
        fitted = [model.weight_threshold_, model.a_, model.b_]
        np.testing.assert_allclose(fitted, answer["wThreshold_a_b_zerosOnly"], rtol=2e-5)
        np.testing.assert_allclose(model.dissimilarity_, answer["dissim_zerosOnly"], rtol=0, atol=1e-10)


class TestDensity:
    def test_bandwidth(self):
        x = np.arange(1.0, 33)
        # sd = 9.38 > IQR / 1.34 = 15.5 / 1.34, and 32^(-1/5) = 1/2
        assert bandwidth_nrd0(x) == pytest.approx(0.9 * np.std(x, ddof=1) / 2)
        x[-1] = 1000
        assert bandwidth_nrd0(x) == pytest.approx(0.9 * 15.5 / 1.34 / 2)

    def test_bandwidth_where_the_spread_is_zero(self):
        half = 0.5 * 0.9
        mostly = np.zeros(32)
        mostly[0] = 1
        assert bandwidth_nrd0(mostly) == pytest.approx(half * np.std(mostly, ddof=1))
        assert bandwidth_nrd0(np.full(32, -3.0)) == pytest.approx(half * 3)
        assert bandwidth_nrd0(np.zeros(32)) == pytest.approx(half)

    def test_linear_bins(self):
        step = 1 / (GRID - 1)
        mass = _linear_bins(np.array([0.25 * step, 2 * step, -0.75 * step, 1 + 0.25 * step, -2 * step]), 0, 1)
        expected = np.zeros(2 * GRID)
        expected[[0, 1, 2, GRID - 1]] = [(0.75 + 0.25) / 5, 0.25 / 5, 1 / 5, 0.75 / 5]
        np.testing.assert_allclose(mass, expected, atol=1e-12)

    def test_one_point(self):
        # The point lies on bin 500, and the kernel's step is 2 (GRID - 1) / (2 GRID - 1) times that of the bins.
        start, stop, h = -2.0, 3.0, 0.25
        bins = np.linspace(start - 4 * h, stop + 4 * h, GRID)
        points, density = binned_density(bins[[500]], h, start, stop)
        distance = np.abs(np.arange(GRID) - 500) * 2 * (bins[-1] - bins[0]) / (2 * GRID - 1)
        kernel = np.maximum(1 - distance**2 / (5 * h**2), 0) * 0.75 / (h * np.sqrt(5))
        np.testing.assert_allclose(density, np.interp(points, bins, kernel), atol=1e-12)
        # Beyond the kernel's reach the FFT leaves noise of both signs.
        assert density.min() == 0

    def test_close_to_the_exact_sum(self):
        x = np.random.default_rng(0).gamma(3, size=400)
        h = bandwidth_nrd0(x)
        points, density = binned_density(x, h, -1, 10)
        u = (points[:, None] - x) / (h * np.sqrt(5))
        exact = np.sum(np.maximum(1 - u**2, 0) * 0.75, axis=1) / (len(x) * h * np.sqrt(5))
        np.testing.assert_allclose(density, exact, atol=0.005 * exact.max())


class TestThresholds:
    def test_trough_between_two_heaps(self):
        rng = np.random.default_rng(0)
        z = np.concatenate([rng.normal(1, 0.3, 500), rng.normal(9, 0.8, 500)])[None]
        tau = cell_thresholds(z, np.array([1e6]))[0]
        assert 2 < tau < 7

    def test_clipped_to_the_quantiles(self, counts):
        sizes = counts.X.sum(axis=1)
        z = log_cpm(counts.X, sizes)
        tau = cell_thresholds(z, sizes)
        low, high = np.quantile(tau, (0.1, 0.9))
        clipped = clipped_thresholds(z, sizes)
        assert low < high
        assert clipped.min() == low
        assert clipped.max() == high
        inside = (tau > low) & (tau < high)
        np.testing.assert_array_equal(clipped[inside], tau[inside])

    @pytest.mark.parametrize(
        ("options", "common"), [({}, True), ({"fast": False}, False), ({"tag_type": "cpm"}, False)]
    )
    def test_many_cells_share_a_threshold(self, counts, monkeypatch, options, common):
        monkeypatch.setattr(_cidr_dropouts, "FAST_ABOVE", 40)
        monkeypatch.setattr(cidr, "FAST_ABOVE", 40)
        model = CIDR(**options).fit(counts.X)
        assert (np.ptp(model.thresholds_) == 0) == common
        if common:
            sizes = counts.X.sum(axis=1)
            largest = np.argsort(sizes)[-40:]
            tau = cell_thresholds(log_cpm(counts.X[largest], sizes[largest]), sizes[largest])
            assert model.thresholds_[0] == np.median(tau)


class TestDissimilarity:
    def test_step_by_hand(self):
        # The limit is 1 and the threshold 4. By gene: two candidates; a candidate beside 3, and beside 5; both seen.
        z = np.array([[0.0, 0.5, 0.5, 2.0], [0.9, 3.0, 5.0, 6.0]])
        D = step_dissimilarity(z, np.ones(2), 4.0)
        assert D[0, 1] == pytest.approx(np.sqrt(4.5**2 + 4**2))
        np.testing.assert_array_equal(D, D.T)
        np.testing.assert_array_equal(D.diagonal(), 0)

    def test_candidates_above_the_threshold_count(self):
        assert step_dissimilarity(np.array([[0.5], [2.0]]), np.full(2, 3.0), 1.0)[0, 1] == pytest.approx(1.5)

    @pytest.mark.parametrize("smooth", [False, True])
    def test_against_the_definition(self, smooth):
        rng = np.random.default_rng(0)
        # More than one block of rows, with a limit of its own for each cell.
        z, limits, a, b = rng.gamma(2, 2, (37, 11)), rng.uniform(1, 5, 37), 0.8, 4.0
        candidate = z < limits[:, None]
        P = 1 / (1 + np.exp(a * (z - b)))
        expected = np.zeros((37, 37))
        for i in range(37):
            for j in range(37):
                for s in range(11):
                    x, y = z[i, s], z[j, s]
                    if smooth:
                        if candidate[i, s] and candidate[j, s]:
                            continue
                        if candidate[i, s]:
                            x = P[j, s] * y + (1 - P[j, s]) * x
                        elif candidate[j, s]:
                            y = P[i, s] * x + (1 - P[i, s]) * y
                    elif (candidate[i, s] or candidate[j, s]) and max(x, y) <= b:
                        continue
                    expected[i, j] += (x - y) ** 2
        D = smooth_dissimilarity(z, limits, a, b) if smooth else step_dissimilarity(z, limits, b)
        np.testing.assert_allclose(D, np.sqrt(expected), rtol=1e-13)

    def test_curve_found_again(self):
        # Every gene has one value where it is seen, and the share of candidates that the curve gives it.
        level = np.linspace(2, 10, 9)
        share = 1 / (1 + np.exp(0.7 * (level - 5)))
        n = 100_000
        candidates = np.arange(n)[:, None] < np.round(n * share)
        a, b = fit_dropout_curve(np.where(candidates, 0.1, level), candidates)
        assert (a, b) == (pytest.approx(0.7, rel=1e-4), pytest.approx(5, rel=1e-4))

    def test_genes_that_are_never_seen_have_no_part_in_the_curve(self):
        rng = np.random.default_rng(0)
        z = rng.uniform(0, 8, (50, 20))
        candidates = z < rng.uniform(0, 6, 20)
        never = np.column_stack([z, np.zeros(50)]), np.column_stack([candidates, np.ones(50, dtype=bool)])
        assert fit_dropout_curve(*never) == fit_dropout_curve(z, candidates)

    def test_zeros_have_no_part_in_a_level(self):
        z = np.array([[0, 4.0, 2, 7], [3, 4, 0, 7], [0, 0, 0, 7], [5, 0, 0, 0]])
        candidates = z < np.array([[0], [1], [1], [1]])
        levels = np.array([4, 4, 2, 7])
        again = np.where(candidates, 0, levels)
        assert fit_dropout_curve(z, candidates) == pytest.approx(fit_dropout_curve(again, candidates))

    def test_too_few_genes_for_the_curve(self):
        with pytest.raises(ValueError, match=r"Only 1 of 2 genes .* give more genes or deeper cells"):
            fit_dropout_curve(np.ones((3, 2)), np.array([[True, False]] * 3))


class TestCoordinates:
    def test_distances_of_points_are_kept(self):
        D = squareform(pdist(np.random.default_rng(0).normal(size=(12, 4))))
        coordinates, eigenvalues = principal_coordinates(D)
        assert coordinates.shape == (12, 4)
        assert (np.diff(eigenvalues) <= 0).all()
        assert (eigenvalues[4:] == 0).all()
        np.testing.assert_allclose(squareform(pdist(coordinates)), D, atol=1e-12)

    def test_cailliez_is_the_smallest_constant_that_makes_euclidean(self):
        D = np.random.default_rng(0).uniform(0.1, 1, (9, 9))
        D = np.triu(D, 1) + np.triu(D, 1).T
        apart = 1 - np.eye(9)

        def lowest(c: float) -> float:
            return float(np.linalg.eigvalsh(double_centred(-0.5 * (D + c * apart) ** 2))[0])

        c = cailliez_constant(D)
        assert lowest(0) < -0.01
        assert lowest(c) > -1e-10
        assert lowest(0.999 * c) < -1e-5
        assert cailliez_constant(squareform(pdist(np.random.default_rng(1).normal(size=(6, 3))))) < 1e-6

    def test_correction(self, counts):
        plain = CIDR(n_components=3).fit(counts.X)
        corrected = CIDR(n_components=3, correction=True).fit(counts.X)
        added = corrected.dissimilarity_ - plain.dissimilarity_
        apart = ~np.eye(len(added), dtype=bool)
        assert plain.eigenvalues_[-1] < -1
        assert corrected.eigenvalues_[-1] > -1e-5
        assert added[apart].min() > 0
        np.testing.assert_allclose(added[apart], added[0, 1])
        np.testing.assert_array_equal(corrected.dissimilarity_.diagonal(), 0)


def shares(drops: list[float]) -> np.ndarray:
    """Shares that fall by these drops, and behind them the tenth that the rule leaves out."""
    kept = np.cumsum([0, *drops[::-1]])[::-1]
    return np.concatenate([kept, np.zeros(int(np.ceil(len(kept) / 0.9)) - len(kept))])


class TestNumberOfComponents:
    # A spread of at most 10 makes the cut the largest drop over 10, one between 10 and 15 over 5.
    @pytest.mark.parametrize(
        ("drops", "answer"),
        [
            pytest.param([100, 90, 80] + [1] * 30, 3, id="eight small drops after three large ones"),
            pytest.param([100, 1, 90, 80] + [1] * 40, 4, id="a short group in between"),
            pytest.param([100] + [1] * 30, 4, id="one coordinate alone is not kept"),
            pytest.param([1] * 30, 4, id="all drops alike"),
            pytest.param([1] * 7 + [100, 90, 80] + [0.5] * 40, 4, id="a long group at once, nothing before it"),
            pytest.param([100] + [1] * 6 + [90, 80] + [1] * 40, 9, id="seven members are not too many"),
            pytest.param(([100] + [1] * 2) * 2 + [100] * 3 + [1] * 120, 9, id="after the tenth four members are"),
        ],
    )
    def test_by_hand(self, drops, answer):
        assert choose_n_components(shares(drops)) == answer

    def test_no_end(self):
        # One large drop in three all the way.
        drops = [1000] * 3 + [110, 1, 1] * 15
        assert 100 * np.mean(drops) / 1000 < 10
        assert choose_n_components(shares(drops)) == 4

    def test_four_members_end_the_walk_from_the_eleventh_on(self):
        # A group that has its fourth member at 10 goes by (and 11 opens another: a drop of just the cut is not small);
        # one that has it at 11 ends the walk.
        start, end = [100] * 6, [1] * 90
        fourth_at_10 = start + [1] * 3 + [10] + end
        fourth_at_11 = start + [100] + [1] * 3 + [100] + end
        for drops in (fourth_at_10, fourth_at_11):
            assert drops[0] == np.mean(np.sort(drops)[-3:])
            assert np.mean(drops) < 10
        assert choose_n_components(shares(fourth_at_10)) == 10
        assert choose_n_components(shares(fourth_at_11)) == 7

    def test_divisor(self):
        # A drop of 15 % of the largest opens a group if the spread is below 10, and joins one if it is above.
        start = [100, 90, 80, 1, 1, 1, 1, 15]
        wide, narrow = start + [5] * 22, start + [1] * 60
        assert 10 < 100 * np.mean(wide) / 90 < 15
        assert 100 * np.mean(narrow) / 90 < 10
        assert choose_n_components(shares(wide)) == 3
        assert choose_n_components(shares(narrow)) == 8

    def test_too_few(self):
        with pytest.raises(ValueError, match=r"3 positive eigenvalues are too few .* give n_components"):
            choose_n_components(np.array([0.5, 0.3, 0.2]))


class TestNumberOfClusters:
    def test_index_is_that_of_scikit_learn(self):
        points = np.random.default_rng(0).normal(size=(30, 3))
        tree = ward(points)
        expected = [calinski_harabasz_score(points, cut_tree(tree, k)[:, 0]) for k in range(2, 9)]
        index = calinski_harabasz(points, tree, 8)
        assert np.isnan(index[0])
        np.testing.assert_allclose(index[1:], expected, rtol=0, atol=5.1e-5)
        np.testing.assert_array_equal(index[1:], np.round(index[1:], 4))

    def test_by_hand(self):
        # CH(2), CH(3), ...: the peak at 4 bends by -11; a later peak at 7 bends by -3, or by -5 > 11 / 3.
        index = np.array([np.nan, 1, 3, 10, 6, 7, 10, 10, 11])
        assert choose_n_clusters(index) == 4
        index = np.array([np.nan, 1, 3, 10, 6, 7, 10, 8, 8])
        assert choose_n_clusters(index) == 7

    def test_largest_bend_last(self):
        with pytest.raises(ValueError, match="no answer: give n_clusters"):
            choose_n_clusters(np.array([np.nan, 1, 2, 3, 4, 9, 1]))


class TestEstimator:
    def test_finds_the_kinds(self, counts):
        model = CIDR(n_clusters=3).fit(counts.X)
        assert adjusted_rand_score(model.labels_, counts.labels) > 0.9
        assert model.embedding_.shape == (60, model.n_components_)
        np.testing.assert_allclose(model.variation_.sum(), 1)
        np.testing.assert_array_equal(np.unique(model.labels_), [0, 1, 2])

    def test_sparse_and_dense_agree(self, counts):
        dense = CIDR().fit(counts.X)
        for make in (sp.csr_array, sp.csc_matrix):
            np.testing.assert_array_equal(CIDR().fit(make(counts.X)).dissimilarity_, dense.dissimilarity_)

    def test_input_stays_as_it_was(self, counts):
        X = counts.X.copy()
        CIDR(tag_type="cpm").fit(X)
        np.testing.assert_array_equal(X, counts.X)

    def test_genes_without_counts_change_nothing(self, counts):
        more = CIDR().fit(np.hstack([np.zeros((60, 5)), counts.X]))
        np.testing.assert_array_equal(more.dissimilarity_, CIDR().fit(counts.X).dissimilarity_)
        assert more.dropout_candidates_.shape == (60, 305)
        assert more.dropout_candidates_[:, :5].all()

    def test_counts_per_million(self, counts):
        million = counts.X / counts.X.sum(axis=1, keepdims=True) * 1e6
        raw, cpm = CIDR(zeros_only=True).fit(counts.X), CIDR(zeros_only=True, tag_type="cpm").fit(million)
        np.testing.assert_allclose(cpm.dissimilarity_, raw.dissimilarity_, rtol=1e-9)
        np.testing.assert_allclose(cpm.thresholds_, 1)
        np.testing.assert_allclose(raw.thresholds_, np.log2(1e6 / counts.X.sum(axis=1) + 1))

    def test_cutoff_moves_the_threshold(self, counts):
        model = CIDR(cutoff=0.2).fit(counts.X)
        at_threshold = 1 / (1 + np.exp(model.a_ * (model.weight_threshold_ - model.b_)))
        assert at_threshold == pytest.approx(0.2)

    def test_given_components(self, counts):
        assert CIDR(n_components=7).fit(counts.X).embedding_.shape == (60, 7)

    def test_scikit_learn(self, counts):
        model = CIDR(n_clusters=3, cutoff=0.4)
        assert clone(model).get_params() == model.get_params()
        labels = model.fit_predict(counts.X)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).labels_, labels)
        assert model.n_features_in_ == 300


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
            (lambda X: sp.csr_array(changed(X, 3, 5, np.inf)), r"NaN or inf in data: cell 3, gene 5 is inf"),
            (lambda X: np.ma.masked_equal(X, 0), "masked array with masked entries"),
            (lambda X: np.vstack([X, np.zeros(300)]), "Cells 60 have no counts at all: leave them out"),
            (lambda X: np.vstack([X, np.eye(1, 300)]), r"counts of cells 60 are too small .* zeros_only"),
            (lambda X: X[:1], "1 sample"),
            (lambda X: X[0], "Expected 2D array"),
            (lambda X: X[:10], r"10 cells are too few to choose .* give n_clusters"),
        ],
    )
    def test_counts(self, counts, change, message):
        with pytest.raises(ValueError, match=message):
            CIDR(n_components=4).fit(change(counts.X))

    def test_no_dropouts(self, counts):
        with pytest.raises(ValueError, match=r"dropout curve did not converge .* no dropouts"):
            CIDR(zeros_only=True).fit(counts.X + 1)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"tag_type": "tpm"}, "tag_type must be 'raw' or 'cpm'; it is 'tpm'"),
            ({"cutoff": "half"}, "cutoff must lie between 0 and 1; it is 'half'"),
            ({"cutoff": 1.0}, "cutoff must lie between 0 and 1; it is 1.0"),
            ({"n_clusters": 61}, "n_clusters must be None or an int from 1 to the 60 cells; it is 61"),
            ({"n_clusters": 0}, "n_clusters must be"),
            ({"n_components": 2.5}, "n_components must be"),
            ({"n_components": 60}, r"coordinates with a positive eigenvalue and 60 are asked for: give a smaller"),
        ],
    )
    def test_options(self, counts, options, message):
        with pytest.raises(ValueError, match=message):
            CIDR(**options).fit(counts.X)
