"""Averages over neighbours as the guess that assists: formulas, unbiasedness, when they are chosen, what they bring."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.datasets import load_digits

import nanfold as nf
from nanfold.assist import AssistedGram, fit_baseline
from nanfold.correction import Guess, choose_guess, corrected_gram
from nanfold.gram import UnbiasedGram
from nanfold.observation import KnownFactors, observation_model
from nanfold.observed import observe
from nanfold.smoothing import (
    MOST_VALUES,
    NEIGHBORS,
    SHRINKAGE,
    SmoothedGram,
    assisted_dense,
    neighbor_weights,
    no_rank,
    smoothable,
    smoothed,
)
from storages import STORAGES, build
from test_assist import assisted_formula, low_rank


def curve(n: int = 200, d: int = 40, noise: float = 0.1, seed: int = 0) -> np.ndarray:
    """Samples along a curve that no plane of few dimensions holds, 40 % hidden."""
    rng = np.random.default_rng(seed)
    t = rng.uniform(0, 1, (n, 1))
    X = np.sin(2 * np.pi * (t * rng.uniform(2, 6, d) + rng.uniform(0, 1, d))) + noise * rng.standard_normal((n, d))
    return nf.datasets.hide(X, random_state=seed)


@pytest.fixture(params=STORAGES)
def case(request):
    return build(request.param, np.float64)


@pytest.mark.parametrize("name", ["rank-one", "homogeneous", "pairwise"])
def test_formula(case, name):
    model = observation_model(name).fit(case.observed)
    L = np.random.default_rng(0).standard_normal(case.Y.shape)
    expected = assisted_formula(case.Y, case.M, L, model.pair_sums(), model.row_sums())
    found = assisted_dense(model, L, case.Y - case.M * L)
    assert_allclose(found, expected, rtol=0, atol=1e-11 * np.abs(expected).max())


def test_a_low_rank_baseline_gives_the_low_rank_gram():
    observed = observe(low_rank(3, 0.4))
    plain = UnbiasedGram(observed, observation_model("rank-one").fit(observed))
    U, V = fit_baseline(observed, plain, 3, np.random.default_rng(0))
    Y, M = observed.rows(0, observed.shape[0])
    assert_allclose(
        assisted_dense(plain.model, U @ V.T, Y - M * (U @ V.T)),
        AssistedGram(observed, plain.model, U, V).toarray(),
        rtol=0,
        atol=1e-11,
    )


def test_exactly_unbiased_for_any_fixed_guess():
    """The mean over every mask and every order of the columns, for known p; the zero-filled Gram matrix fails."""
    rng = np.random.default_rng(0)
    X, L = rng.standard_normal((2, 3)), rng.standard_normal((2, 3))
    c, g = np.array([0.9, 0.6]), np.array([0.8, 0.5, 0.7])
    P = np.outer(c, g)
    orders = list(itertools.permutations(range(3)))
    mean, zero_filled = np.zeros((2, 2, 2))
    for order in orders:
        values, guess = X[:, list(order)], L[:, list(order)]
        for bits in itertools.product([0, 1], repeat=6):
            M = np.reshape(bits, (2, 3))
            weight = np.where(M, P, 1 - P).prod() / len(orders)
            model = KnownFactors(c, g)
            model.c_, model.g_, model.g_square_sum_ = c, g, g @ g
            mean += weight * assisted_dense(model, guess, M * (values - guess))
            zero_filled += weight * (M * values) @ (M * values).T / 3
    truth = X @ X.T / 3
    assert_allclose(mean, truth, rtol=0, atol=1e-13)
    assert np.abs(zero_filled - truth).max() > 0.05


def test_weights():
    rng = np.random.default_rng(1)
    squared = rng.uniform(0.5, 2, (9, 9))
    squared = squared + squared.T
    squared[0, 3] = -1.0
    weights = neighbor_weights(squared, 4).toarray()
    for i in range(9):
        others = np.delete(np.arange(9), i)
        near = others[np.argsort(np.maximum(squared[i, others], 0))[:4]]
        width = np.median(np.maximum(squared[i, near], 0))
        assert set(np.flatnonzero(weights[i])) == set(near)
        assert_allclose(weights[i, near], np.exp(-np.maximum(squared[i, near], 0) / width))
    assert weights[0, 3] == 1.0


def test_weights_of_samples_that_are_all_the_same():
    assert_array_equal(neighbor_weights(np.zeros((5, 5)), 2).data, 1.0)


def test_samples_that_are_mostly_equal_weigh_those_alone():
    """A median distance of zero leaves nothing for samples at any distance, and nothing is said about overflow."""
    squared = np.where(np.arange(5)[:, None] == np.arange(5), 0.0, 1e300)
    squared[:3, :3] = 0.0
    weights = neighbor_weights(squared, 3).toarray()
    assert_array_equal(weights[:2], [[0, 1, 1, 0, 0], [1, 0, 1, 0, 0]])


def test_averages():
    observed = observe(curve(30, 8))
    Y, M = observed.rows(0, 30)
    squared = np.random.default_rng(2).uniform(1, 2, (30, 30))
    L, R = smoothed(observed, no_rank(observed), squared)
    W = neighbor_weights(squared, NEIGHBORS).toarray()
    i, s = 4, 3
    assert L[i, s] == pytest.approx(np.sum(W[i] * Y[:, s]) / (np.sum(W[i] * M[:, s]) + SHRINKAGE))
    assert_allclose(R, M * (Y - L))


class TestChoice:
    def test_curved_data_are_smoothed(self):
        gram = nf.unbiased_gram(curve(), assist="auto", random_state=0)
        assert isinstance(gram, SmoothedGram)
        assert gram.neighbors == NEIGHBORS

    def test_flat_data_are_not(self):
        gram = nf.unbiased_gram(low_rank(2, 0.5, n=200, d=50), assist="auto", random_state=0)
        assert isinstance(gram, AssistedGram)
        assert (gram.rank, gram.neighbors) == (2, 0)

    def test_neither_is_noise(self):
        X = nf.datasets.hide(np.random.default_rng(0).standard_normal((80, 60)), random_state=0)
        assert choose_guess(observe(X), np.random.default_rng(0), smooth=True) == Guess(0)

    def test_low_rank_on_request(self):
        assert isinstance(nf.unbiased_gram(curve(), assist="low-rank", random_state=0), AssistedGram)

    def test_large_data_are_not_made_dense(self, monkeypatch):
        monkeypatch.setattr("nanfold.smoothing.MOST_VALUES", 200 * 200 - 1)
        assert isinstance(nf.unbiased_gram(curve(), assist="auto", random_state=0), AssistedGram)

    def test_the_limit_counts_both_arrays(self):
        class Shape:
            def __init__(self, *shape):
                self.shape = shape

        side = int(MOST_VALUES**0.5)
        assert smoothable(Shape(side, side))
        assert not smoothable(Shape(side + 1, 2))
        assert not smoothable(Shape(100, MOST_VALUES // 100 + 1))

    def test_storages_agree(self):
        H = curve()
        stored = sparse.csr_array(np.nan_to_num(H, nan=0.0))
        assert stored.nnz == np.isfinite(H).sum()
        dense = nf.unbiased_gram(H, assist="auto", random_state=0)
        other = nf.unbiased_gram(stored, missing="unstored", assist="auto", random_state=0)
        assert (dense.rank, dense.neighbors) == (other.rank, other.neighbors)
        # What is held out is drawn alike, but the eigenvectors behind the guess agree only to the solver's tolerance.
        assert np.abs(dense.toarray() - other.toarray()).max() < 0.01 * np.abs(dense.toarray()).max()

    def test_the_same_again(self):
        first, second = (nf.unbiased_gram(curve(), assist="auto", random_state=7).toarray() for _ in range(2))
        assert_array_equal(first, second)

    @pytest.mark.parametrize("n", [3, 4, 6])
    def test_few_samples(self, n):
        H = curve(200)[:n]
        H = H[:, np.isfinite(H).sum(axis=0) > 1]
        observed = observe(H)
        plain = UnbiasedGram(observed, observation_model("rank-one").fit(observed))
        assert np.isfinite(corrected_gram(plain, "auto", rng=np.random.default_rng(0)).toarray()).all()


def test_more_neighbours_of_digits_than_by_any_rank():
    X = load_digits().data[:500]
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

    assert recall("auto") > recall("low-rank") + 0.03


def test_pca_says_what_assisted():
    pca = nf.PCA(2, random_state=0).fit(curve())
    assert pca.assist_neighbors_ == NEIGHBORS
    assert nf.PCA(2, random_state=0).fit(low_rank(2, 0.5, n=200, d=50)).assist_neighbors_ == 0
