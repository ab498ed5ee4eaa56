"""Under the paper's model, simulated: intervals cover, variances are what the formula says, its bounds hold."""

import functools
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.special import ndtri

import nanfold as nf

N, D, REPETITIONS = 60, 400, 350
OFF = np.triu_indices(N, 1)


@dataclass
class Study:
    """What came out of many draws of columns from N(0, K) under masks of P = c g'."""

    K: np.ndarray
    P: np.ndarray
    estimates: np.ndarray
    variances: np.ndarray

    @property
    def spread(self) -> np.ndarray:
        """The empirical variance of every entry."""
        return self.estimates.var(axis=0, ddof=1)

    @property
    def covered(self) -> np.ndarray:
        return np.abs(self.estimates - self.K) <= ndtri(0.975) * np.sqrt(self.variances)

    def proposition_2(self) -> np.ndarray:
        """The variance with p known, from the truth."""
        S1, S2 = self.P @ self.P.T, self.P**2 @ (self.P**2).T
        k = np.diag(self.K)
        out = (np.outer(k, k) * S1 + self.K**2 * (2 * S1 - S2)) / S1**2
        np.fill_diagonal(out, k**2 * (self.P * (3 - self.P)).sum(axis=1) / self.P.sum(axis=1) ** 2)
        return out


@functools.cache
def simulate(share: float, *, known: bool, seed: int) -> Study:
    rng = np.random.default_rng(seed)
    B = rng.standard_normal((N, 3))
    K = B @ B.T / 3 + np.diag(rng.uniform(0.3, 0.7, N))
    L = np.linalg.cholesky(K)
    c, g = rng.uniform(0.8, 1.2, N), rng.uniform(0.7, 1.3, D)
    c *= share / (c.mean() * g.mean())
    P = np.outer(c, g)
    if P.max() > 1:
        c *= 0.999 / P.max()
        P = np.outer(c, g)
    estimates, variances = np.empty((2, REPETITIONS, N, N))
    for t in range(REPETITIONS):
        X = L @ rng.standard_normal((N, D))
        X[rng.random((N, D)) >= P] = np.nan
        gram = nf.unbiased_gram(X, observation=(c, g) if known else "rank-one", center=False)
        estimates[t], variances[t] = gram.toarray(), gram.variance()
    return Study(K, P, estimates, variances)


@pytest.fixture(params=[0.3, 0.5, 0.7], ids="{:.0%} observed".format)
def share(request):
    return request.param


@pytest.fixture
def study(share):
    """Shares that are estimated, as they are by default."""
    return simulate(share, known=False, seed=0)


@pytest.fixture
def known(share):
    return simulate(share, known=True, seed=1)


def test_intervals_cover(study):
    off = study.covered[:, OFF[0], OFF[1]]
    own = np.diagonal(study.covered, axis1=1, axis2=2)
    assert off.size >= 20_000
    assert own.size >= 20_000
    assert 0.93 <= off.mean() <= 0.97
    assert 0.93 <= own.mean() <= 0.97


def test_variances_are_what_the_formula_says(study):
    formula = study.variances.mean(axis=0)
    assert study.spread[OFF].sum() / formula[OFF].sum() == pytest.approx(1, abs=0.05)
    assert np.trace(study.spread) / np.trace(formula) == pytest.approx(1, abs=0.05)


def test_estimates_are_unbiased(study):
    """The mean over all repetitions is K, with what bias there is far below the standard error of one."""
    mean = study.estimates.mean(axis=0)
    error = (mean - study.K) / np.sqrt(study.spread)
    assert np.abs(error).mean() < 1.5 / np.sqrt(REPETITIONS)
    assert np.sum((mean - study.K) * study.K) / np.sum(study.K**2) == pytest.approx(0, abs=0.01)


def test_known_probabilities(known):
    """Proposition 2 itself: the variance that is seen, and that which is estimated, are its formula's."""
    expected = known.proposition_2()
    for variance in (known.spread, known.variances.mean(axis=0)):
        assert variance[OFF].sum() / expected[OFF].sum() == pytest.approx(1, abs=0.05)
        assert np.trace(variance) / np.trace(expected) == pytest.approx(1, abs=0.05)
    assert 0.93 <= known.covered[:, OFF[0], OFF[1]].mean() <= 0.97
    assert 0.93 <= np.diagonal(known.covered, axis1=1, axis2=2).mean() <= 0.97


def test_bounds(study, known):
    """The variance lies between both bounds of Proposition 2; with estimated shares it may come down to the lower."""
    for drawn in (study, known):
        k = np.diag(drawn.K)
        i, j = OFF
        share = (drawn.P @ drawn.P.T)[OFF] / D
        low, high = nf.variance_bounds(drawn.K[OFF] / np.sqrt(k[i] * k[j]), D, share)
        scale = k[i] * k[j]
        assert np.mean(drawn.spread[OFF] / scale / low) >= 0.98
        assert np.mean(drawn.spread[OFF] / scale / high) <= 1.02
        low, high = nf.variance_bounds(1.0, D, drawn.P.mean(axis=1), diagonal=True)
        assert np.mean(np.diag(drawn.spread) / k**2 / low) >= 0.95
        assert np.mean(np.diag(drawn.spread) / k**2 / high) <= 1.05


def test_the_zero_filled_gram_covers_nothing(study):
    """The control: the same intervals around the Gram matrix of the zero-filled data, off by P P' / d."""
    zero_filled = study.estimates * (study.P @ study.P.T) / D
    far = np.abs(study.K) > 0.5
    missed = np.abs(zero_filled - study.K) > ndtri(0.975) * np.sqrt(study.variances)
    assert missed[:, far & ~np.eye(N, dtype=bool)].mean() > 0.5


def test_features_needed_is_enough():
    """As many features as the answer says give the accuracy that was asked for."""
    rng = np.random.default_rng(2)
    share, rho = 0.5, 0.6
    d = nf.features_needed(0.1, share**2, correlation=rho)
    L = np.linalg.cholesky([[1.0, rho], [rho, 1.0]])
    estimates = []
    for _ in range(1500):
        X = L @ rng.standard_normal((2, d))
        X[rng.random((2, d)) >= share] = np.nan
        # A third row, complete, keeps every column from being empty.
        gram = nf.unbiased_gram(np.vstack([X, np.ones(d)]), observation=([share, share, 1.0], np.ones(d)), center=False)
        estimates.append(gram.toarray()[0, 1])
    assert np.std(estimates) == pytest.approx(0.1, rel=0.06)
