"""The unbiased Gram matrix: its contract over storages and models, and exact expectations over all masks."""

import itertools
import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.special import ndtri

import nanfold as nf
from nanfold.gram import UnbiasedGram
from nanfold.observation import Known, KnownFactors, ObservationModel, observation_model
from nanfold.observed import CountsObserved, DenseObserved, StructuredMask, UnstoredObserved
from storages import STORAGES, Case, build

MODELS = ("rank-one", "rank-one-bounded", "homogeneous", "pairwise", "known", "known factors")


def factors(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(9)
    return rng.uniform(0.4, 1.0, n), rng.uniform(0.3, 1.0, d)


def probabilities(n: int, d: int) -> np.ndarray:
    return np.random.default_rng(8).uniform(0.3, 1.0, (n, d))


def model_of(name: str, n: int, d: int) -> ObservationModel:
    if name == "known":
        return observation_model(probabilities(n, d))
    return observation_model(factors(n, d) if name == "known factors" else name)


def denominators(name: str, M: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What the dense formula divides by: off the diagonal, and on it."""
    n, d = M.shape
    r, f = M.mean(axis=1), M.mean(axis=0)
    if name == "pairwise":
        return M @ M.T, M.sum(axis=1)
    if name == "rank-one":
        different = (n**2 * f**2 - (M**2).sum(axis=0)) / (n * (n - 1))
        return np.outer(r, r) * different.sum() / M.mean() ** 2, M.sum(axis=1)
    P = {
        "homogeneous": np.full((n, d), M.mean()),
        "rank-one-bounded": np.outer(r, f) / max(M.mean(), r.max() * f.max()),
        "known": probabilities(n, d),
        "known factors": np.outer(*factors(n, d)),
    }[name]
    return P @ P.T, P.sum(axis=1)


def dense_formula(name: str, case: Case) -> np.ndarray:
    pairs, rows = denominators(name, case.M)
    G = case.Y @ case.Y.T / pairs
    G[np.diag_indices_from(G)] = (case.Y**2).sum(axis=1) / rows
    return G


@pytest.fixture(params=STORAGES)
def storage(request):
    return request.param


@pytest.fixture(params=MODELS)
def model(request):
    return request.param


@pytest.fixture(params=[np.float64, np.float32], ids=["float64", "float32"])
def case(request, storage):
    return build(storage, request.param)


@pytest.fixture
def gram(case, model):
    return UnbiasedGram(case.observed, model_of(model, *case.Y.shape).fit(case.observed))


class TestContract:
    def test_all_of_it(self, case, model, gram):
        """Products, rows, diagonal, dense matrix and distances are those of the dense formula."""
        expected = dense_formula(model, case)
        n, d = case.Y.shape
        scale = np.abs(expected).max()

        def close(actual: np.ndarray, wanted: np.ndarray, factor: float = 1.0) -> None:
            assert actual.dtype == np.float64
            assert_allclose(actual, wanted, rtol=0, atol=5 * factor * case.rtol * scale)

        assert gram.shape == (n, n)
        assert gram.n_features == d
        close(gram.toarray(), expected)
        close(gram.diagonal(), np.diag(expected))
        for start, stop in ((0, n), (4, 9), (n - 1, n)):
            close(gram.rows(start, stop), expected[start:stop])
        rows, candidates = np.array([7, 0, n - 1]), np.array([[7, 3, 11, 2], [n - 1, 0, 1, 9], [2, 2, n - 1, 4]])
        close(gram.pairs(rows, candidates), expected[rows[:, None], candidates])
        V = np.random.default_rng(1).standard_normal((n, 3))
        close(gram @ V, expected @ V, n)
        close(gram @ V[:, 0], expected @ V[:, 0], n)
        squared = np.diag(expected)[:, None] + np.diag(expected)[None, :] - 2 * expected
        close(gram.squared_distances(), squared, 4)
        assert_array_equal(np.diag(gram.squared_distances()), 0.0)

    def test_symmetry(self, gram):
        n = gram.shape[0]
        U, V = np.random.default_rng(2).standard_normal((2, n, 2))
        assert np.sum((gram @ U) * V) == pytest.approx(np.sum(U * (gram @ V)), rel=1e-9)
        dense = gram.toarray()
        assert_allclose(dense, dense.T, rtol=1e-12, atol=1e-12)
        if isinstance(gram.observed, DenseObserved):
            assert_array_equal(dense, dense.T)

    def test_what_is_handed_out_is_the_callers(self, gram):
        before = gram.toarray()
        gram.toarray()[:] = 0.0
        gram.diagonal()[:] = 0.0
        gram.rows(0, 4)[:] = 0.0
        assert_array_equal(gram.toarray(), before)

    def test_variance(self, case, model, gram):
        """Proposition 2 with the estimates in place of K, freed of their own variance; the noise is the model's."""
        G = dense_formula(model, case)
        pairs, rows = denominators(model, case.M)
        k = np.diag(G)
        weight = 1 / pairs + gram.model.pair_noise()
        expected = (np.outer(k, k) / pairs + weight * G**2) / (1 + weight)
        own = 2 / rows + gram.model.row_noise()
        expected[np.diag_indices_from(G)] = own * k**2 / (1 + own)
        assert_allclose(gram.variance(), expected, rtol=1e3 * case.rtol)
        assert_allclose(gram.standard_error(), np.sqrt(expected), rtol=1e3 * case.rtol)


def test_interval():
    gram = nf.unbiased_gram(np.where(build("dense NaN", np.float64).M > 0, build("dense NaN", np.float64).X, np.nan))
    low, high = gram.interval(0.9)
    assert_allclose((low + high) / 2, gram.toarray(), atol=1e-12)
    assert_allclose(high - low, 2 * ndtri(0.95) * gram.standard_error())
    for level in (0, 1, 95, -0.5, np.nan):
        with pytest.raises(ValueError, match="level must lie between 0 and 1"):
            gram.interval(level)


@pytest.mark.parametrize("scale", [1e-100, 1e100])
def test_standard_errors_know_no_units(scale):
    """Even where the variance, the fourth power of the data, is beyond what a float can hold."""
    X = np.where(build("dense NaN", np.float64).M > 0, build("dense NaN", np.float64).X, np.nan)
    expected = nf.unbiased_gram(X).standard_error() * scale**2
    assert_allclose(nf.unbiased_gram(X * scale).standard_error(), expected, rtol=1e-9)


def test_complete_data_give_the_gram_matrix_itself():
    X = np.random.default_rng(0).standard_normal((12, 30))
    centred = X - X.mean(axis=0)
    for name in ("rank-one", "rank-one-bounded", "homogeneous", "pairwise"):
        gram = nf.unbiased_gram(X, observation=name)
        assert_allclose(gram.toarray(), centred @ centred.T / 30, atol=1e-13)
    assert gram.shape == (12, 12)
    assert "12 x 12 UnbiasedGram over 30 features" in repr(gram)


@pytest.fixture(scope="module")
def forms():
    """The same data, dense with NaN, as a sparse array of what is known, and as counts under a structured mask."""
    case = build("dense NaN", np.float64, seed=3, n=40, d=60)
    X, M = case.X, case.M > 0
    rows, columns = np.nonzero(M)
    # One group a row says everything that a mask can say.
    structured = StructuredMask(np.arange(40), M.astype(float))
    return {
        "dense": (np.where(M, X, np.nan), {}),
        "unstored": (sparse.csr_array((X[M], (rows, columns)), shape=X.shape), {"missing": "unstored"}),
        "counts": (sparse.csr_array(np.where(M, X, 0.0)), {"mask": structured}),
        "dense counts": (np.where(M, X, 0.0), {"mask": structured}),
        "masked array": (np.ma.MaskedArray(np.where(M, X, 777.0), ~M), {}),
        "mask": (np.where(M, X, 777.0), {"mask": M}),
    }


@pytest.mark.parametrize("center", [True, False])
def test_storages_agree(forms, model, center):
    observation = {"known": probabilities(40, 60), "known factors": factors(40, 60)}.get(model, model)
    grams = {
        name: nf.unbiased_gram(X, observation=observation, center=center, **options)
        for name, (X, options) in forms.items()
    }
    V = np.random.default_rng(4).standard_normal((40, 5))
    one = grams.pop("dense")
    for other in grams.values():
        assert type(other.observed) in (DenseObserved, UnstoredObserved, CountsObserved)
        assert_allclose(other.toarray(), one.toarray(), rtol=0, atol=1e-10)
        assert_allclose(other.diagonal(), one.diagonal(), rtol=0, atol=1e-10)
        assert_allclose(other @ V, one @ V, rtol=0, atol=1e-10)
        assert_allclose(other.standard_error(), one.standard_error(), rtol=0, atol=1e-10)
        assert_allclose(other.squared_distances(), one.squared_distances(), rtol=0, atol=1e-10)
    assert len({type(gram.observed) for gram in grams.values()}) == 3


def masks(n: int, d: int):
    for bits in itertools.product((True, False), repeat=n * d):
        yield np.reshape(bits, (n, d))


def seen(X: np.ndarray, mask: np.ndarray) -> DenseObserved:
    """Uncentred data under a mask, empty rows and columns and all."""
    return DenseObserved(np.where(mask, X, np.nan), np.zeros(X.shape[1]))


class TestExactlyUnbiased:
    """The mean over every mask and every table of a finite column model, each weighted by its probability.

    Columns are independent draws from a few vectors, K the mean of their x x'. Nothing is sampled, so that the truth
    has to come out to rounding.
    """

    COLUMNS = np.array([[1.0, 2.0, -1.0], [1.5, -1.0, 2.0]])
    K = COLUMNS.T @ COLUMNS / 2

    @staticmethod
    def means(model: ObservationModel, P: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The exact means of G~ and of the Gram matrix of the zero-filled data."""
        n, d = P.shape
        estimate, zero_filled = np.zeros((n, n)), np.zeros((n, n))
        for mask in masks(n, d):
            chance = np.prod(np.where(mask, P, 1 - P)) / len(columns) ** d
            for choice in itertools.product(range(len(columns)), repeat=d):
                observed = seen(columns[list(choice)].T, mask)
                estimate += chance * UnbiasedGram(observed, model.fit(observed)).toarray()
                zero_filled += chance * observed.gram() / d
        return estimate, zero_filled

    @pytest.fixture(autouse=True)
    def _one_thread(self, monkeypatch):
        monkeypatch.setenv("NANFOLD_THREADS", "1")

    @pytest.mark.parametrize("d", [2, 3])
    def test_known_factors(self, d):
        c, g = np.array([0.9, 0.5, 0.7]), np.array([0.4, 1.0, 0.8])[:d]
        estimate, zero_filled = self.means(KnownFactors(c, g), np.outer(c, g), self.COLUMNS)
        assert_allclose(estimate, self.K, rtol=0, atol=1e-12)
        assert np.abs(zero_filled - self.K).min() > 0.05

    @pytest.mark.parametrize("d", [2, 3])
    def test_known_array(self, d):
        P = np.array([[0.9, 0.3, 0.6], [0.2, 0.8, 0.5], [0.7, 0.4, 1.0]])[:, :d]
        estimate, zero_filled = self.means(Known(P), P, self.COLUMNS)
        assert_allclose(estimate, self.K, rtol=0, atol=1e-12)
        assert np.abs(zero_filled - self.K).min() > 0.05

    def test_wrong_probabilities_are_found_out(self):
        """The test has teeth: the estimator with other probabilities than those of the holes fails it."""
        P = np.array([[0.9, 0.3], [0.2, 0.8], [0.7, 0.4]])
        estimate, _ = self.means(Known(P[::-1]), P, self.COLUMNS)
        assert np.abs(estimate - self.K).max() > 0.1

    def test_pairwise_given_the_mask(self):
        """For every mask in which all rows meet, the mean over the columns alone is already K."""
        used = 0
        for mask in masks(3, 3):
            if ((mask.astype(int) @ mask.T) == 0).any():
                continue
            used += 1
            total = np.zeros((3, 3))
            for choice in itertools.product(range(2), repeat=3):
                observed = seen(self.COLUMNS[list(choice)].T, mask)
                total += UnbiasedGram(observed, observation_model("pairwise").fit(observed)).toarray() / 8
            assert_allclose(total, self.K, rtol=0, atol=1e-12)
        assert used > 50


class TestProposition2:
    """Its variance is that of Gaussian columns; a quadrature rule has their moments, and is finite."""

    @pytest.mark.parametrize("factorised", [True, False])
    def test_exact(self, factorised, monkeypatch):
        """Three Gauss-Hermite nodes an axis have the normal's moments up to the fifth; four are needed."""
        monkeypatch.setenv("NANFOLD_THREADS", "1")
        nodes, weights = np.polynomial.hermite_e.hermegauss(3)
        weights = weights / weights.sum()
        L = np.array([[1.0, 0.0], [0.7, 0.6]])
        K = L @ L.T
        columns = [(L @ [nodes[a], nodes[b]], weights[a] * weights[b]) for a in range(3) for b in range(3)]
        c, g = np.array([0.9, 0.6]), np.array([0.8, 0.5])
        P = np.outer(c, g) if factorised else np.array([[0.9, 0.3], [0.4, 0.8]])
        model = KnownFactors(c, g) if factorised else Known(P)
        first, second = np.zeros((2, 2)), np.zeros((2, 2))
        for mask in masks(2, 2):
            for one, other in itertools.product(columns, repeat=2):
                observed = seen(np.column_stack([one[0], other[0]]), mask)
                G = UnbiasedGram(observed, model.fit(observed)).toarray()
                chance = np.prod(np.where(mask, P, 1 - P)) * one[1] * other[1]
                first += chance * G
                second += chance * G**2
        assert_allclose(first, K, atol=1e-12)
        spread = second - first**2
        S1, S2 = np.sum(P[0] * P[1]), np.sum((P[0] * P[1]) ** 2)
        expected = (K[0, 0] * K[1, 1] * S1 + K[0, 1] ** 2 * (2 * S1 - S2)) / S1**2
        assert spread[0, 1] == pytest.approx(expected, rel=1e-11)
        assert_allclose(np.diag(spread), np.diag(K) ** 2 * (P * (3 - P)).sum(axis=1) / P.sum(axis=1) ** 2, rtol=1e-11)
        # The same in the words of the models: values, and holes.
        fitted = model.fit(observed)
        by_model = K[0, 0] * K[1, 1] / S1 + K[0, 1] ** 2 * (1 / S1 + fitted.pair_noise()[0, 1])
        assert spread[0, 1] == pytest.approx(by_model, rel=1e-11)
        assert_allclose(np.diag(spread), np.diag(K) ** 2 * (2 / P.sum(axis=1) + fitted.row_noise()), rtol=1e-11)

    def test_bounds_hold_and_are_reached(self):
        rng = np.random.default_rng(0)
        for _ in range(200):
            d, rho = int(rng.integers(2, 50)), rng.uniform(-1, 1)
            P = rng.uniform(0, 1, (2, d)) ** rng.uniform(0.1, 5)
            S1, S2 = np.sum(P[0] * P[1]), np.sum((P[0] * P[1]) ** 2)
            low, high = nf.variance_bounds(rho, d, S1 / d)
            assert low <= ((S1 + rho**2 * (2 * S1 - S2)) / S1**2) * (1 + 1e-12)
            assert high >= ((S1 + rho**2 * (2 * S1 - S2)) / S1**2) * (1 - 1e-12)
            low, high = nf.variance_bounds(1.0, d, P[0].mean(), diagonal=True)
            assert low * (1 - 1e-12) <= (P[0] * (3 - P[0])).sum() / P[0].sum() ** 2 <= high * (1 + 1e-12)
        # All probabilities equal: the upper bound. Everything seen: both, the variance of a Wishart matrix.
        p, d, rho = 0.4, 20, 0.5
        assert nf.variance_bounds(rho, d, p)[1] == pytest.approx(
            (d * p + rho**2 * (2 * d * p - d * p**2)) / (d * p) ** 2
        )
        assert nf.variance_bounds(rho, d, 1.0) == pytest.approx(((1 + rho**2) / d,) * 2)
        assert nf.variance_bounds(rho, d, 1.0, diagonal=True) == pytest.approx((2 / d, 2 / d))


class TestFeaturesNeeded:
    @pytest.mark.parametrize("diagonal", [True, False])
    @pytest.mark.parametrize("share", [0.09, 0.5, 1.0])
    def test_it_is_the_least_number(self, diagonal, share):
        d = nf.features_needed(0.05, share, correlation=0.8, diagonal=diagonal)
        assert nf.variance_bounds(0.8, d, share, diagonal=diagonal)[1] <= 0.05**2
        assert nf.variance_bounds(0.8, d - 1, share, diagonal=diagonal)[1] > 0.05**2

    def test_level(self):
        """A half-width is so many standard errors."""
        assert nf.features_needed(0.1, 0.3, level=0.95) == nf.features_needed(0.1 / ndtri(0.975), 0.3)
        assert nf.features_needed(0.1) == 200

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"accuracy": 0}, r"accuracy must lie in \(0, inf\]"),
            ({"accuracy": -1}, r"accuracy must lie in \(0, inf\]"),
            ({"accuracy": np.nan}, r"accuracy must lie in \(0, inf\]"),
            ({"accuracy": 0.1, "share": 0}, r"share must lie in \(0, 1\]"),
            ({"accuracy": 0.1, "share": 1.2}, r"share must lie in \(0, 1\]"),
            ({"accuracy": 0.1, "correlation": 2}, r"correlation must lie in \[-1, 1\]"),
            ({"accuracy": 0.1, "level": 1}, r"level must lie between 0 and 1"),
        ],
    )
    def test_refusals(self, options, message):
        with pytest.raises(ValueError, match=message):
            nf.features_needed(**options)


def test_products_need_neither_n_by_n_nor_n_by_d():
    """20,000 x 5000 at 0.2 %: a product stays far below the 3.2 GB of n x n and the 0.8 GB of n x d."""
    rng = np.random.default_rng(0)
    n, d, stored = 20_000, 5000, 200_000
    where = np.unique(rng.integers(0, n * d, stored) // d * d + rng.integers(0, d, stored))
    where = np.union1d(where, np.arange(n) * d)
    where = np.union1d(where, np.arange(d))
    X = sparse.csr_array((rng.standard_normal(len(where)), (where // d, where % d)), shape=(n, d))
    V = rng.standard_normal((n, 4))
    half = StructuredMask(np.zeros(n, dtype=int), np.full((1, d), 0.5, dtype=np.float32))
    for options in ({"missing": "unstored"}, {"mask": half}):
        tracemalloc.start()
        gram = nf.unbiased_gram(X, **options)
        assert np.isfinite(gram @ V).all()
        assert len(gram.diagonal()) == n
        assert gram.rows(7, 9).shape == (2, n)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 40e6
