"""Points of the search as vectors."""

import numpy as np
import pytest

from nanfold.gp import exact, sparse
from nanfold.gp.problem import Point
from nanfold.gp.variables import Variables


@pytest.fixture(params=[False, True], ids=["exact", "sparse"])
def start(request, problem, kernel):
    return Point(problem.X, kernel, problem.noise, problem.inducing if request.param else None)


def test_a_point_survives_the_journey(start):
    variables = Variables(start, 1e-6)
    back = variables.unpack(variables.pack(start))
    np.testing.assert_allclose(back.X, start.X, rtol=1e-14)
    np.testing.assert_allclose(back.kernel.theta, start.kernel.theta, rtol=1e-12, atol=1e-14)
    assert back.noise == pytest.approx(start.noise, rel=1e-14)
    if start.inducing is None:
        assert back.inducing is None
    else:
        np.testing.assert_allclose(back.inducing, start.inducing, rtol=1e-14)


def test_the_gradient_is_that_of_the_vector(problem, start, assert_gradient):
    variables = Variables(start, 1e-6)

    def evaluate(v):
        X, kernel, noise, inducing = variables.unpack(v)
        if inducing is None:
            return exact.evaluate(problem.factor, X, kernel, noise)
        return sparse.evaluate(problem.factor, X, kernel, noise, inducing)

    v = variables.pack(start)
    assert_gradient(variables.pack_gradient(evaluate(v)), lambda v: evaluate(v).value, v)


def test_bounds_hold_the_parameters_and_are_named(start):
    variables = Variables(start, 0.1)
    v = variables.pack(start)
    assert variables.at_bounds(v) == ()
    assert np.all((variables.lower < v) & (v < variables.upper))
    assert variables.at_bounds(np.maximum(v - 1e6, variables.lower)) == (*start.kernel.theta_names, "noise")
    assert variables.at_bounds(np.minimum(v + 1e6, variables.upper)) == tuple(start.kernel.theta_names)
    lowest = variables.unpack(np.maximum(v - 1e3, variables.lower))
    assert lowest.noise == pytest.approx(0.1)
    np.testing.assert_allclose(np.exp(start.kernel.theta - lowest.kernel.theta), 1e6)


def test_a_gradient_out_of_the_bounds_does_not_count(start):
    variables = Variables(start, 0.1)
    v = np.maximum(variables.pack(start) - 1e3, variables.lower)
    gradient = np.zeros_like(v)
    log_noise = start.X.size + start.kernel.theta.size
    gradient[log_noise] = 5.0
    assert variables.projected_norm(v, gradient) == 0
    gradient[log_noise], gradient[0] = -0.25, 0.1
    assert variables.projected_norm(v, gradient) == pytest.approx(0.25)
