"""The objective and its gradient against GPy's, where the extra `gpy` is installed."""

import numpy as np
import pytest

from nanfold.gp import exact
from nanfold.gp.kernels import RBF, Linear, Matern32, Matern52

pytestmark = pytest.mark.filterwarnings("ignore")

#: GPy adds this to the diagonal for itself.
GPY_JITTER = 1e-8


@pytest.fixture(scope="module")
def gpy():
    return pytest.importorskip("GPy", exc_type=ImportError)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (RBF(0.8, 1.2), lambda kern: kern.RBF(2, 0.8, 1.2)),
        (RBF(0.8, [1.2, 0.6]), lambda kern: kern.RBF(2, 0.8, [1.2, 0.6], ARD=True)),
        (Matern32(0.7, 1.1), lambda kern: kern.Matern32(2, 0.7, 1.1)),
        (Matern52(1.3, [0.9, 1.4]), lambda kern: kern.Matern52(2, 1.3, [0.9, 1.4], ARD=True)),
        (Linear([0.7, 0.3]), lambda kern: kern.Linear(2, [0.7, 0.3], ARD=True)),
        (RBF(0.5) + Linear(0.3), lambda kern: kern.RBF(2, 0.5) + kern.Linear(2, 0.3)),
    ],
    # Names that are the same in every process, which the tests are divided among.
    ids=["RBF", "RBF-ARD", "Matern32", "Matern52-ARD", "Linear-ARD", "RBF+Linear"],
)
def test_objective_and_gradient_are_gpys(gpy, problem, ours, theirs):
    factor = problem.factor.compact()
    padded = np.zeros((30, problem.d))
    padded[:, :30] = factor.Z * np.sqrt(problem.d)
    for Y in (problem.Y, padded):
        model = gpy.models.GPLVM(Y, 2, X=problem.X, kernel=theirs(gpy.kern))
        model.likelihood.variance = problem.noise
        at = exact.evaluate(factor, problem.X, ours, problem.noise + GPY_JITTER)
        assert at.value == pytest.approx(float(model.log_likelihood()), rel=1e-12)
        np.testing.assert_allclose(at.X, model.X.gradient, rtol=1e-8, atol=1e-8)
        natural = np.concatenate([np.atleast_1d(p.gradient) for p in model.kern.flattened_parameters])
        np.testing.assert_allclose(at.theta, natural * np.exp(ours.theta), rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(
            at.log_noise / problem.noise, float(model.likelihood.variance.gradient[0]), rtol=1e-6
        )
