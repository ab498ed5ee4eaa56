"""Many small minimisations at once."""

import numpy as np
import pytest

from nanfold.gp.descend import descend


def rosenbrock(X, index):
    x, y = X.T
    values = (1 - x) ** 2 + 100 * (y - x**2) ** 2
    return values, np.stack([-2 * (1 - x) - 400 * x * (y - x**2), 200 * (y - x**2)], axis=1)


STARTS = np.random.default_rng(0).uniform(-2, 2, size=(50, 2))


def test_curved_valleys_are_followed_to_their_ends():
    minima = descend(rosenbrock, STARTS, max_step=1.0, max_iter=500, tol=1e-8)
    assert minima.converged.all()
    np.testing.assert_allclose(minima.X, 1, atol=1e-6)
    np.testing.assert_allclose(minima.values, 0, atol=1e-12)


def test_each_problem_has_its_own_function():
    centres = np.random.default_rng(1).normal(size=(50, 2))
    scales = np.geomspace(1e-3, 1e3, 50)

    def function(X, index):
        error = X - centres[index]
        return scales[index] * (error**2).sum(axis=1), 2 * scales[index, None] * error

    minima = descend(function, STARTS, max_step=1.0, tol=1e-9)
    np.testing.assert_allclose(minima.X, centres, atol=1e-5)


def test_problems_do_not_mix():
    together = descend(rosenbrock, STARTS, max_step=1.0)
    for i in (0, 7, 31):
        alone = descend(rosenbrock, STARTS[i : i + 1], max_step=1.0)
        np.testing.assert_allclose(alone.X[0], together.X[i], rtol=1e-9)


def test_no_value_rises_and_starts_stay_as_they_were():
    before = STARTS.copy()
    for n_iter in (1, 3, 10):
        minima = descend(rosenbrock, STARTS, max_step=1.0, max_iter=n_iter)
        assert np.all(minima.values <= rosenbrock(STARTS, None)[0])
        assert not minima.converged.all()
    assert np.array_equal(STARTS, before)


def test_steps_are_no_longer_than_asked():
    seen = []

    def steep(X, index):
        seen.append(X.copy())
        return 1e6 * X[:, 0] ** 2, np.stack([2e6 * X[:, 0], np.zeros(len(X))], axis=1)

    descend(steep, np.array([[5.0, 0.0]]), max_step=0.25)
    assert abs(seen[1][0, 0] - 4.75) < 1e-12
    assert np.abs(np.diff(np.concatenate(seen), axis=0)).max() <= 0.25 + 1e-12


def test_a_saddle_in_between_is_left():
    def double_well(X, index):
        x = X[:, 0]
        return x**4 - x**2, (4 * x**3 - 2 * x)[:, None]

    minima = descend(double_well, np.array([[1e-3], [-1e-3]]), max_step=1.0, tol=1e-9)
    np.testing.assert_allclose(minima.X[:, 0], [np.sqrt(0.5), -np.sqrt(0.5)], rtol=1e-6)


def test_starting_at_a_minimum_is_the_end():
    minima = descend(rosenbrock, np.ones((2, 2)), max_step=1.0)
    assert minima.converged.all()
    assert np.all(minima.X == 1)


@pytest.mark.parametrize("shape", [(0, 2), (1, 1)])
def test_small_batches(shape):
    minima = descend(lambda X, _: ((X**2).sum(axis=1), 2 * X), np.ones(shape), max_step=1.0)
    assert minima.X.shape == shape
    np.testing.assert_allclose(minima.X, 0, atol=1e-6)
