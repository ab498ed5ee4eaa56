"""The model-assisted Gram matrix: its contract, exact expectations over all masks, its rank and what it brings."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits

import nanfold as nf
from nanfold.assist import AssistedGram, InverseProbabilityGram, Leading, enough_rows, fit_baseline
from nanfold.correction import choose_guess, corrected_gram
from nanfold.gram import UnbiasedGram
from nanfold.observation import Known, KnownFactors, observation_model
from nanfold.observed import DenseObserved, Observed, observe
from nanfold.spectrum import eigenpairs
from storages import STORAGES, build


def assisted_formula(Y: np.ndarray, M: np.ndarray, L: np.ndarray, pairs: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The formula entry by entry, with the denominators of the observation model."""
    d = Y.shape[1]
    R = Y - M * L
    G = L @ L.T + d * (L @ R.T) / rows[None, :] + d * (R @ L.T) / rows[:, None] + d * (R @ R.T) / pairs
    own = (L**2).sum(1) + 2 * d / rows * (L * R).sum(1) + d / rows * (R**2).sum(1)
    G[np.diag_indices_from(G)] = own
    return G / d


@pytest.fixture(params=STORAGES)
def case(request):
    return build(request.param, np.float64)


class TestContract:
    @pytest.mark.parametrize("model", ["rank-one", "homogeneous", "pairwise"])
    def test_all_of_it(self, case, model):
        n, d = case.Y.shape
        rng = np.random.default_rng(3)
        U, V = rng.standard_normal((n, 2)), rng.standard_normal((d, 2))
        fitted = observation_model(model).fit(case.observed)
        gram = AssistedGram(case.observed, fitted, U, V)
        expected = assisted_formula(case.Y, case.M, U @ V.T, fitted.pair_sums(), fitted.row_sums())
        scale = np.abs(expected).max()
        assert_allclose(gram.toarray(), expected, rtol=0, atol=1e-11 * scale)
        assert_allclose(gram.diagonal(), np.diag(expected), rtol=0, atol=1e-11 * scale)
        assert_allclose(gram.rows(3, 7), expected[3:7], rtol=0, atol=1e-11 * scale)
        W = rng.standard_normal((n, 3))
        assert_allclose(gram @ W, expected @ W, rtol=0, atol=1e-10 * scale)
        assert_allclose(gram @ W[:, 0], expected @ W[:, 0], rtol=0, atol=1e-10 * scale)
        shift = rng.standard_normal(n)
        shifted = expected @ W + shift[:, None] * W
        out, image = gram.step(W, gram.image(W), shift)
        assert_allclose(out, shifted, rtol=0, atol=1e-10 * scale)
        assert_allclose(image, gram.image(shifted), rtol=0, atol=1e-9 * scale * np.abs(case.Y).max())

    def test_a_baseline_of_zero_is_the_papers_estimator(self, case):
        n, d = case.Y.shape
        model = observation_model("rank-one").fit(case.observed)
        plain = UnbiasedGram(case.observed, model).toarray()
        nothing = AssistedGram(case.observed, model, np.zeros((n, 1)), np.zeros((d, 1)))
        assert_allclose(nothing.toarray(), plain, rtol=0, atol=1e-12 * np.abs(plain).max())


class TestExactlyUnbiased:
    """The mean over every mask, weighted by its probability, for a fixed baseline and known p."""

    X = np.array([[1.0, 2.0, -1.0], [1.5, -1.0, 2.0], [0.5, 3.0, 1.0]])
    U = np.array([[1.0, -0.5], [0.3, 2.0], [-1.0, 0.7]])
    V = np.array([[0.8, 0.1], [-0.6, 1.2], [0.5, 0.4]])

    def mean_over_masks(self, gram, model, P, X, V):
        n, d = P.shape
        total, zero_filled = np.zeros((n, n)), np.zeros((n, n))
        for bits in itertools.product((True, False), repeat=n * d):
            mask = np.reshape(bits, (n, d))
            chance = np.prod(np.where(mask, P, 1 - P))
            observed = DenseObserved(np.where(mask, X, np.nan), np.zeros(d))
            total += chance * gram(observed, model.fit(observed), self.U, V).toarray()
            zero_filled += chance * observed.gram() / d
        return total, zero_filled

    @pytest.fixture(autouse=True)
    def _one_thread(self, monkeypatch):
        monkeypatch.setenv("NANFOLD_THREADS", "1")

    def test_divided_by_each_probability(self):
        """Whatever the data and the baseline are."""
        P = np.array([[0.9, 0.3], [0.2, 0.8], [0.7, 0.4]])
        X, V = self.X[:, :2], self.V[:2]
        mean, zero_filled = self.mean_over_masks(InverseProbabilityGram, Known(P), P, X, V)
        assert_allclose(mean, X @ X.T / 2, rtol=0, atol=1e-12)
        assert np.abs(zero_filled - X @ X.T / 2).max() > 0.1

    def test_divided_by_factors(self):
        c, g = np.array([0.9, 0.5, 0.7]), np.array([0.4, 0.8])
        X, V = self.X[:, :2], self.V[:2]
        mean, _ = self.mean_over_masks(InverseProbabilityGram, KnownFactors(c, g), np.outer(c, g), X, V)
        assert_allclose(mean, X @ X.T / 2, rtol=0, atol=1e-12)

    def test_ratio_over_columns_in_any_order(self):
        """The ratio form is unbiased under the paper's column model: here, columns in every order."""
        c, g = np.array([0.9, 0.5, 0.7]), np.array([0.4, 0.8])
        orders = list(itertools.permutations(range(2)))
        mean = sum(
            self.mean_over_masks(
                AssistedGram, KnownFactors(c, g), np.outer(c, g), self.X[:, list(order)], self.V[list(order)]
            )[0]
            for order in orders
        ) / len(orders)
        X = self.X[:, :2]
        assert_allclose(mean, X @ X.T / 2, rtol=0, atol=1e-12)

    def test_wrong_probabilities_are_found_out(self):
        P = np.array([[0.9, 0.3], [0.2, 0.8], [0.7, 0.4]])
        X = self.X[:, :2]
        mean, _ = self.mean_over_masks(InverseProbabilityGram, Known(P[::-1]), P, X, self.V[:2])
        assert np.abs(mean - X @ X.T / 2).max() > 0.1

    def test_no_probabilities_no_exact_form(self):
        observed = observe(np.array([[1.0, 2.0, 0.0], [2.0, np.nan, 1.0]]))
        pairwise = observation_model("pairwise").fit(observed)
        with pytest.raises(ValueError, match="has no probability of each entry"):
            InverseProbabilityGram(observed, pairwise, np.zeros((2, 1)), np.zeros((3, 1)))


def low_rank(rank: int, noise: float, n: int = 150, d: int = 120, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, rank)) @ rng.standard_normal((rank, d)) + noise * rng.standard_normal((n, d))
    return nf.datasets.hide(X, random_state=seed)


def choose_rank(observed: Observed, seed: int = 0) -> int:
    return choose_guess(observed, np.random.default_rng(seed), smooth=False).rank


class TestRank:
    def test_found_where_it_is_planted(self):
        assert choose_rank(observe(low_rank(4, 0.5))) == 4

    def test_none_in_noise(self):
        X = nf.datasets.hide(np.random.default_rng(0).standard_normal((80, 60)), random_state=0)
        assert choose_rank(observe(X)) == 0

    def test_unstored_and_dense_agree(self):
        from scipy import sparse

        H = low_rank(3, 0.3)
        stored = sparse.csr_array(np.nan_to_num(H, nan=0.0))
        assert stored.nnz == np.isfinite(H).sum()
        ranks = {
            choose_rank(observe(H), 1),
            choose_rank(observe(stored, missing="unstored"), 1),
        }
        assert ranks == {8}  # twice 4, the nearest that is tried, and shrunk

    def test_hold_out_hides_what_it_returns(self, case):
        if not case.observed.can_hold_out:
            with pytest.raises(NotImplementedError, match="held out"):
                case.observed.hold_out(0.2, np.random.default_rng(0))
            return
        training, rows, columns, values = case.observed.hold_out(0.2, np.random.default_rng(0))
        M = np.concatenate([training.rows(i, i + 1)[1] for i in range(training.shape[0])])
        expected = case.M.copy()
        expected[rows, columns] = 0
        assert_array_equal(M, expected)
        assert M.sum(0).min() >= 1
        assert M.sum(1).min() >= 1
        assert_allclose(values, case.X[rows, columns] - training.mean[columns], atol=1e-10)


class TestCorrectedGram:
    def test_weights_are_not_held_out(self):
        rng = np.random.default_rng(0)
        X, weights = rng.standard_normal((20, 30)), rng.uniform(0.2, 1.0, (20, 30))
        assert nf.PCA(2).fit(X, mask=weights).assist_ == 0

    def test_complete_data_need_no_help(self):
        X = np.random.default_rng(0).standard_normal((20, 10))
        assert isinstance(nf.unbiased_gram(X, assist="auto"), UnbiasedGram)
        assert isinstance(nf.unbiased_gram(X, assist=3), UnbiasedGram)

    def test_nearer_to_the_truth_than_the_plain_estimator(self):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((150, 4)) @ rng.standard_normal((4, 120)) + 0.5 * rng.standard_normal((150, 120))
        H = nf.datasets.hide(X, random_state=0)
        K = (X - X.mean(0)) @ (X - X.mean(0)).T / 120
        plain, assisted = (nf.unbiased_gram(H, assist=assist, random_state=0).toarray() for assist in (0, "auto"))
        off = ~np.eye(150, dtype=bool)
        assert np.abs(assisted - K)[off].mean() < 0.4 * np.abs(plain - K)[off].mean()

    def test_neighbours_of_digits(self):
        """A quarter of the neighbours lost by the plain estimator come back."""
        X = load_digits().data[:400]
        H = nf.datasets.hide(X, random_state=0)
        H = H[:, np.isfinite(H).any(axis=0)]

        def nearest(squared: np.ndarray) -> np.ndarray:
            np.fill_diagonal(squared, np.inf)
            return np.argsort(squared, axis=1)[:, :15]

        squares = (X**2).sum(1)
        true = nearest(squares[:, None] + squares - 2 * X @ X.T)

        def recall(assist):
            found = nearest(nf.unbiased_gram(H, assist=assist, random_state=0).squared_distances())
            return np.mean([len(set(a) & set(b)) for a, b in zip(true, found, strict=True)]) / 15

        lost, still_lost = 1 - recall(0), 1 - recall("auto")
        assert still_lost < 0.75 * lost

    def test_the_same_again(self):
        H = low_rank(3, 0.4)
        first, second = (nf.unbiased_gram(H, assist="auto", random_state=7).toarray() for _ in range(2))
        assert_array_equal(first, second)

    @pytest.mark.parametrize(
        ("assist", "message"),
        [
            (-1, r"assist=-1 must lie between 0 and min\(n_samples, n_features\) - 1 = 119"),
            (120, "assist=120 must lie between 0"),
            ("much", "assist must be a rank"),
            (2.5, "assist must be a rank"),
            (True, "assist must be a rank"),
        ],
    )
    def test_refusals(self, assist, message):
        with pytest.raises(ValueError, match=message):
            nf.unbiased_gram(low_rank(3, 0.4), assist=assist)

    def test_a_fixed_rank_is_kept(self):
        gram = corrected_gram(_plain(low_rank(3, 0.4)), 5, rng=np.random.default_rng(0))
        assert isinstance(gram, AssistedGram)
        assert gram.rank == 5


def _plain(X: np.ndarray) -> UnbiasedGram:
    observed = observe(X)
    return UnbiasedGram(observed, observation_model("rank-one").fit(observed))


def test_baseline_predicts_the_holes():
    rng = np.random.default_rng(5)
    X = rng.standard_normal((200, 3)) @ rng.standard_normal((3, 150)) + 0.1 * rng.standard_normal((200, 150))
    H = nf.datasets.hide(X, random_state=5)
    gram = _plain(H)
    U, V = fit_baseline(gram.observed, gram, 3, rng)
    holes = np.isnan(H)
    error = (U @ V.T + gram.observed.mean - X)[holes]
    assert error.std() < 0.15 * X[holes].std()


class TestEnoughRows:
    """The rank of a long table is chosen on some of its rows."""

    @pytest.fixture(autouse=True)
    def _short(self, monkeypatch):
        monkeypatch.setattr("nanfold.assist.ENOUGH_ROWS", 50)

    def test_all_where_they_are_not_many(self):
        observed = observe(low_rank(3, 0.4, n=150, d=60))
        some, rows = enough_rows(observed, np.random.default_rng(0))
        assert some is observed
        assert rows is None

    def test_some_where_they_are(self):
        observed = observe(low_rank(3, 0.4, n=400, d=40))
        some, rows = enough_rows(observed, np.random.default_rng(0))
        assert some.shape == (80, 40)
        assert_array_equal(some.rows(0, 80)[1], observed.rows(0, 400)[1][rows])
        few, _ = enough_rows(observe(low_rank(3, 0.4, n=400, d=10)), np.random.default_rng(0))
        assert few.shape == (50, 10)

    def test_they_choose_the_rank_of_all(self):
        H = low_rank(4, 0.5, n=400, d=40)
        observed = observe(H)
        assert enough_rows(observed, np.random.default_rng(0))[1] is not None
        assert choose_rank(observed) == 4

    def test_they_give_the_loadings_of_all(self):
        """A guess from an eighth of the rows predicts the holes as one from all of them."""
        rng = np.random.default_rng(5)
        X = rng.standard_normal((800, 3)) @ rng.standard_normal((3, 50)) + 0.5 * rng.standard_normal((800, 50))
        H = nf.datasets.hide(X, random_state=5)
        gram, holes = _plain(H), np.isnan(H)

        def error(leading: Leading | None) -> float:
            U, V = fit_baseline(gram.observed, gram, 3, np.random.default_rng(0), leading)
            return float(np.std((U @ V.T + gram.observed.mean - X)[holes]))

        of_all = Leading(eigenpairs(gram, 3).vectors)
        assert enough_rows(gram.observed, rng)[1] is not None
        assert error(None) < 1.05 * error(of_all)

    def test_all_are_asked_where_averages_are_tried(self, monkeypatch):
        def no_sample(*_):
            raise AssertionError("rows were left out")

        monkeypatch.setattr("nanfold.correction.enough_rows", no_sample)
        choose_guess(observe(low_rank(3, 0.4, n=200, d=30)), np.random.default_rng(0), smooth=True)

    def test_taken_rows_are_those_of_the_data(self, case):
        rows = np.array([1, 4, 5, 9])
        if not case.observed.can_hold_out:
            with pytest.raises(NotImplementedError, match="take rows"):
                case.observed.take(rows)
            return
        taken = case.observed.take(rows)
        M = case.M[rows]
        seen = M.any(axis=0)
        assert taken.shape == (4, seen.sum())
        Y, found = taken.rows(0, 4)
        assert_array_equal(found, M[:, seen])
        X = np.where(M, case.X[rows], 0.0)[:, seen]
        means = X.sum(0) / M[:, seen].sum(0) if case.observed.mean.any() else np.zeros(seen.sum())
        assert_allclose(taken.mean, means, atol=1e-10)
        assert_allclose(Y, M[:, seen] * (X - means), atol=1e-10)
