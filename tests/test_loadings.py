"""The loadings given the scores: the step of probabilistic PCA against its formulas, and what it brings."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import nanfold as nf
from nanfold.gram import UnbiasedGram
from nanfold.loadings import Loadings, _probabilistic, fit_loadings
from nanfold.observation import RankOne
from nanfold.observed import Observed, observe
from nanfold.spectrum import Eigenpairs, eigenpairs
from storages import build

K = 3


def leading(observed: Observed, k: int = K) -> Eigenpairs:
    return eigenpairs(UnbiasedGram(observed, RankOne().fit(observed)), k)


def step_by_hand(Y: np.ndarray, M: np.ndarray, V: np.ndarray, variance: np.ndarray, noise: float) -> Loadings:
    """In the coordinates of the given components, a row and a column at a time."""
    n, d = Y.shape
    k = V.shape[1]
    mean_design = (V.T * M.sum(0)) @ V / M.sum()
    # Axes T with T T' = diag(variance) and T' design T diagonal.
    root = np.diag(np.sqrt(variance))
    strength, axes = np.linalg.eigh(root @ mean_design @ root)
    T = root @ axes
    scores, second, spread = np.zeros((n, k)), np.zeros((n, k, k)), np.zeros((n, k, k))
    for i in range(n):
        seen = M[i] > 0
        ridge = noise * (1 - seen.mean())
        A = V[seen].T @ V[seen] + ridge * np.diag(1 / variance)
        scores[i] = np.linalg.solve(A, V[seen].T @ Y[i, seen])
        spread[i] = T @ np.diag(ridge / (seen.sum() * strength + ridge)) @ T.T
        second[i] = np.outer(scores[i], scores[i]) + spread[i]
    W, left = np.zeros((d, k)), 0.0
    # The prior of the loadings is that of the axes.
    precision = T @ np.diag(noise / np.mean((V @ T) ** 2, axis=0)) @ T.T
    for s in range(d):
        seen = M[:, s] > 0
        N = second[seen].sum(0)
        W[s] = np.linalg.solve(N + (1 - seen.mean()) * precision, scores[seen].T @ Y[seen, s])
        left += np.sum((Y[seen, s] - scores[seen] @ W[s]) ** 2) + W[s] @ spread[seen].sum(0) @ W[s]
    left_rows, _, right_rows = np.linalg.svd(W, full_matrices=False)
    components = left_rows @ right_rows
    scale = components.T @ W
    return Loadings(components.T, scale @ second.mean(0) @ scale.T, left / M.sum())


class TestStep:
    @pytest.mark.parametrize("storage", ["dense NaN", "dense and mask", "unstored", "sparse and mask"])
    def test_by_hand(self, storage):
        case = build(storage, np.float64)
        rng = np.random.default_rng(3)
        V, _ = np.linalg.qr(rng.standard_normal((case.Y.shape[1], K)))
        variance, noise = np.array([9.0, 4.0, 2.0]), 0.7
        found = _probabilistic(case.observed, Loadings(V.T, np.diag(variance), noise))
        expected = step_by_hand(case.Y, case.M, V, variance, noise)
        assert_allclose(found.components, expected.components, rtol=0, atol=1e-10)
        assert_allclose(found.score_covariance, expected.score_covariance, rtol=1e-9)
        assert_allclose(found.residual_variance, expected.residual_variance, rtol=1e-9)

    def test_orthonormal(self):
        found = fit(table(3, 0.5))
        assert_allclose(found.components @ found.components.T, np.eye(K), atol=1e-12)

    def test_complete_data_are_left_alone(self):
        X = table(3, 0.5, holes=False)
        observed = observe(X)
        pairs = leading(observed)
        found = fit_loadings(observed, pairs, 0.25)
        _, _, Vt = np.linalg.svd(X - X.mean(0), full_matrices=False)
        assert_allclose(np.abs(np.einsum("as,as->a", found.components, Vt[:K])), 1.0, rtol=1e-10)
        variance = X.shape[1] * pairs.values / (len(X) - 1)
        assert_allclose(found.score_covariance, np.diag(variance), rtol=0, atol=1e-12 * variance[0])

    def test_few_holes_change_little(self):
        """Without a jump where the first hole appears."""
        X = table(3, 0.5, holes=False)
        complete = fit(X)
        X[3, 5] = np.nan
        assert np.abs(np.abs(fit(X).components) - np.abs(complete.components)).max() < 0.02

    def test_weights_take_least_squares(self, monkeypatch):
        rng = np.random.default_rng(0)
        monkeypatch.setattr("nanfold.loadings._probabilistic", lambda *_: pytest.fail("a step was made"))
        nf.PCA(2).fit(rng.standard_normal((20, 30)), mask=rng.uniform(0.2, 1.0, (20, 30)))


def fit(X: np.ndarray) -> Loadings:
    observed = observe(X)
    return fit_loadings(observed, leading(observed), 0.25)


def table(rank: int, noise: float, n: int = 200, d: int = 40, *, holes: bool = True) -> np.ndarray:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, rank)) * np.linspace(2.0, 1.0, rank) @ rng.standard_normal((rank, d))
    X += noise * rng.standard_normal((n, d))
    return nf.datasets.hide(X, 0.5, random_state=0) if holes else X


@pytest.fixture(scope="module")
def ratings():
    rng = np.random.default_rng(0)
    W = rng.standard_normal((150, 10)) * 0.5 * 0.9 ** np.arange(10)
    X = rng.standard_normal((3000, 10)) @ W.T + rng.standard_normal((3000, 150))
    return X, np.where(rng.random(X.shape) < 0.15, X, np.nan), W


class TestGain:
    """Rows with few entries: what the step brings over least squares, which takes uncertain scores for exact."""

    def test_noise_and_covariance(self, ratings):
        """Noise of variance 1, and the scores' own covariance, without what noise adds to the eigenvalues."""
        _, H, W = ratings
        pca = nf.PCA(10, assist=4, random_state=0).fit(H)
        assert abs(pca.residual_variance_ - 1.0) < 0.05
        true = (pca.components_ @ W) @ (pca.components_ @ W).T
        assert np.linalg.norm(pca.score_covariance_ - true) < 0.15 * np.linalg.norm(true)
        assert pca.explained_variance_.sum() > 1.3 * (W**2).sum()

    def test_prediction(self, ratings, monkeypatch):
        X, H, _ = ratings
        holes = np.isnan(H)

        def error() -> float:
            pca = nf.PCA(10, assist=4, random_state=0).fit(H)
            return float(np.mean((pca.inverse_transform(pca.transform(H)) - X)[holes] ** 2)) - 1.0

        with_step = error()
        monkeypatch.setattr("nanfold.loadings._known_holes", lambda observed: False)
        assert with_step < 0.95 * error()


def test_signs_of_components_are_those_of_their_covariance(ratings, monkeypatch):
    """Whichever signs the loadings come with."""
    pca = nf.PCA(10, assist=4, random_state=0).fit(ratings[1])
    flips = np.resize([1.0, -1.0], 10)

    def flipped(*args):
        found = fit_loadings(*args)
        return found._replace(
            components=flips[:, None] * found.components,
            score_covariance=np.outer(flips, flips) * found.score_covariance,
        )

    monkeypatch.setattr("nanfold.pca.fit_loadings", flipped)
    other = nf.PCA(10, assist=4, random_state=0).fit(ratings[1])
    assert_allclose(other.components_, pca.components_, atol=1e-12)
    assert_allclose(other.score_covariance_, pca.score_covariance_, atol=1e-10)
