"""A low-rank guess refined: the factors' balance, the penalised fit, how far it goes, and what it brings."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import nanfold as nf
from nanfold import refinement
from nanfold.assist import fit_baseline
from nanfold.correction import Guess, choose_guess
from nanfold.gram import UnbiasedGram
from nanfold.observation import observation_model
from nanfold.observed import observe
from nanfold.refinement import balanced, refined, refined_rank


def many_components(n: int = 300, d: int = 200) -> tuple[np.ndarray, np.ndarray]:
    """Components whose strength falls slowly, with noise; complete, and with 40 % hidden."""
    rng = np.random.default_rng(0)
    strengths = np.arange(1, 61) ** -0.7
    X = rng.standard_normal((n, 60)) * strengths @ rng.standard_normal((60, d)) + 0.2 * rng.standard_normal((n, d))
    return X, nf.datasets.hide(X, random_state=0)


def guess_of(H: np.ndarray, rank: int):
    observed = observe(H)
    plain = UnbiasedGram(observed, observation_model("rank-one").fit(observed))
    return observed, *fit_baseline(observed, plain, rank, np.random.default_rng(0))


def test_balanced_factors():
    rng = np.random.default_rng(1)
    U, V = rng.standard_normal((9, 4)), 100 * rng.standard_normal((6, 4))
    A = balanced(U, V)
    B = np.linalg.lstsq(A, U @ V.T)[0].T
    assert_allclose(A @ B.T, U @ V.T, atol=1e-11 * np.abs(U @ V.T).max())
    assert_allclose(A.T @ A, B.T @ B, atol=1e-10 * np.abs(A.T @ A).max())
    assert_allclose(np.diag(A.T @ A), np.linalg.svd(U @ V.T)[1][:4])


@pytest.mark.parametrize("sweeps", [1, 2, 5])
def test_every_sweep_lowers_the_penalised_error(monkeypatch, sweeps):
    """|M (Y - U V')|^2 + penalty (|A|^2 + |B|^2) for balanced A and B, which is twice the nuclear norm."""
    observed, U, V = guess_of(many_components()[1], 16)
    Y, M = observed.rows(0, observed.shape[0])
    left = np.sum((M * (Y - U @ V.T)) ** 2)
    variance = left / max(M.sum() - 16 * sum(Y.shape), M.sum() / 2)
    penalty = 0.25 * np.sqrt(variance * M.mean()) * np.sum(np.sqrt(Y.shape))

    def objective(U, V):
        return np.sum((M * (Y - U @ V.T)) ** 2) + 2 * penalty * np.linalg.norm(U @ V.T, "nuc")

    monkeypatch.setattr(refinement, "SWEEPS", sweeps)
    after = objective(*refined(observed, U, V))
    monkeypatch.setattr(refinement, "SWEEPS", sweeps - 1)
    before = objective(*refined(observed, U, V))
    assert after < before


def test_a_fixed_point_is_the_least_nuclear_norm(monkeypatch):
    """After many sweeps the residual's leading singular value is the penalty, as it is at the minimum."""
    monkeypatch.setattr(refinement, "SWEEPS", 300)
    observed, U, V = guess_of(many_components(60, 40)[1], 32)
    left = observed.residual(U, V).row_squares.sum()
    seen = observed.row_counts.sum()
    variance = left / max(seen - 32 * 100, seen / 2)
    penalty = 0.25 * np.sqrt(variance * observed.share_observed) * (np.sqrt(60) + np.sqrt(40))
    U, V = refined(observed, U, V)
    residual = observed.residual(U, V).rows(0, 60)[0]
    assert np.linalg.norm(residual, 2) == pytest.approx(penalty, rel=1e-3)


@pytest.mark.parametrize(
    ("shape", "rank", "expected"),
    [
        ((1000, 784), 64, 128),
        ((1000, 64), 16, 32),
        ((1000, 20), 16, 16),
        ((4000, 5000), 16, 16),
        ((4000, 5000), 32, 0),
        ((1000, 784), 0, 0),
    ],
)
def test_how_many_components(shape, rank, expected):
    assert refined_rank(shape, rank) == expected


def test_holes_are_predicted_better():
    X, H = many_components()
    observed, U, V = guess_of(H, 8)
    _, more_U, more_V = guess_of(H, 16)
    holes = np.isnan(H)

    def error(U, V):
        return np.mean((X - observed.mean - U @ V.T)[holes] ** 2)

    better = error(*refined(observed, more_U, more_V))
    assert better < 0.93 * min(error(U, V), error(more_U, more_V))


def test_it_is_chosen_where_it_helps_and_not_for_noise():
    rng = np.random.default_rng(0)
    chosen = choose_guess(observe(many_components()[1]), rng, smooth=False)
    assert chosen.refined
    assert chosen.rank >= 8
    noise = nf.datasets.hide(np.random.default_rng(0).standard_normal((80, 60)), random_state=0)
    assert choose_guess(observe(noise), rng, smooth=False) == Guess(0)


def test_data_without_noise():
    rng = np.random.default_rng(2)
    H = nf.datasets.hide(rng.standard_normal((50, 3)) @ rng.standard_normal((3, 40)), random_state=0)
    U, V = refined(*guess_of(H, 8))
    assert np.isfinite(U @ V.T).all()
