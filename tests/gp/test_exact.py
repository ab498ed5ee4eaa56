"""The exact objective: against normal densities of the data, its gradient, and what keeps it bounded."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from nanfold.gp import exact
from nanfold.gp.kernels import Linear
from nanfold.gp.problem import Factor, SingularCovarianceError


def raw_objective(G, d, K):
    """The objective written out, for any symmetric G at all."""
    log_det = np.linalg.slogdet(K)[1]
    return -0.5 * d * (log_det + np.trace(np.linalg.solve(K, G)) + len(K) * np.log(2 * np.pi))


def test_value_is_the_log_density_of_the_data(problem, kernel):
    K = kernel(problem.X) + problem.noise * np.eye(30)
    expected = multivariate_normal(np.zeros(30), K).logpdf(problem.Y.T).sum()
    value = exact.evaluate(problem.factor, problem.X, kernel, problem.noise).value
    assert value == pytest.approx(expected, rel=1e-12)


def test_only_the_product_of_the_factor_and_d_matter(problem, kernel):
    rotation = np.linalg.qr(np.random.default_rng(0).normal(size=(40, 40)))[0]
    same = Factor(np.hstack([problem.factor.Z @ rotation, np.zeros((30, 3))]), problem.d)
    ours, theirs = (exact.evaluate(f, problem.X, kernel, problem.noise) for f in (problem.factor, same))
    assert ours.value == pytest.approx(theirs.value, rel=1e-12)
    np.testing.assert_allclose(ours.X, theirs.X, rtol=1e-9, atol=1e-9)
    doubled = exact.evaluate(Factor(problem.factor.Z, 2 * problem.d), problem.X, kernel, problem.noise)
    assert doubled.value == pytest.approx(2 * ours.value, rel=1e-12)


@pytest.mark.parametrize("whole", [True, False])
def test_gradient(problem, kernel, assert_gradient, whole):
    factor = problem.factor if whole else problem.with_unseen_trace()
    at = exact.evaluate(factor, problem.X, kernel, problem.noise)
    assert_gradient(at.X, lambda X: exact.evaluate(factor, X, kernel, problem.noise).value, problem.X)
    assert_gradient(
        at.theta,
        lambda t: exact.evaluate(factor, problem.X, kernel.with_theta(t), problem.noise).value,
        kernel.theta,
    )
    assert_gradient(
        np.array([at.log_noise]),
        lambda t: exact.evaluate(factor, problem.X, kernel, float(np.exp(t[0]))).value,
        np.log([problem.noise]),
    )


def test_an_unseen_part_of_the_trace_gives_a_lower_bound(problem, kernel):
    whole = exact.evaluate(problem.factor, problem.X, kernel, problem.noise).value
    bound = exact.evaluate(problem.with_unseen_trace(), problem.X, kernel, problem.noise).value
    ignored = exact.evaluate(Factor(problem.with_unseen_trace().Z, problem.d), problem.X, kernel, problem.noise).value
    assert bound < whole < ignored


def test_the_raw_gram_runs_off_and_its_positive_part_does_not():
    # an unbiased Gram: the truth, and noise off the diagonal that makes it indefinite
    rng = np.random.default_rng(0)
    truth, noise = rng.normal(size=(12, 2)), np.triu(rng.normal(size=(12, 12)), 1)
    G = truth @ truth.T + 1.5 * (noise + noise.T)
    eigenvalues, U = np.linalg.eigh(G)
    positive = eigenvalues > 0
    assert not positive.all()
    factor = Factor(U[:, positive] * np.sqrt(eigenvalues[positive]), 100)
    # a kernel that holds the two leading components leaves the others, negative in sum, to the noise
    X = U[:, -2:] * np.sqrt(eigenvalues[-2:])
    falling = (1e-1, 1e-3, 1e-5, 1e-7)
    raw = [raw_objective(G, 100, Linear()(X) + s * np.eye(12)) for s in falling]
    ours = [exact.evaluate(factor, X, Linear(), s).value for s in falling]
    assert np.all(np.diff(raw) > 0)
    assert raw[-1] > 1e6
    assert np.all(np.diff(ours) < 0)


def test_a_covariance_that_is_singular_to_rounding_is_refused(problem):
    with pytest.raises(
        SingularCovarianceError, match=r"singular to rounding with Linear\(variance=1\) and noise=1e-20"
    ):
        exact.evaluate(problem.factor, problem.X, Linear(), 1e-20)


@pytest.mark.parametrize(
    ("Z", "d", "trace", "message"),
    [
        ([[1.0, 0.0], [0.0, 1j]], 5, None, "Z is complex.*keep the components with positive eigenvalues only"),
        ([[1.0, 0.0], [np.nan, 1.0]], 5, None, r"Z\[1, 0\] is nan: Z must be finite"),
        ([[1.0, -np.inf], [0.0, 1.0]], 5, None, r"Z\[0, 1\] is -inf: Z must be finite"),
        ([[1.0, 2.0]], 5, None, "Z has 1 rows; .* at least 2 samples"),
        ([1.0, 2.0], 5, None, r"must be a matrix of \(samples, components\), not an array of shape \(2,\)"),
        (np.empty((3, 0)), 5, None, r"not an array of shape \(3, 0\)"),
        (np.zeros((3, 2)), 5, None, "Z is zero everywhere"),
        (np.eye(3), 0, None, "d must be a positive number of features, not 0"),
        (np.eye(3), np.nan, None, "d must be a positive number of features, not nan"),
        (np.eye(3), "many", None, "d must be a positive number of features, not 'many'"),
        (np.eye(3), 5, 2.9, "trace=2.9 must be finite and no less than the sum of squares of Z, 3"),
        (np.eye(3), 5, np.nan, "trace=nan must be finite"),
    ],
)
def test_data_that_cannot_be_a_factor_are_refused(Z, d, trace, message):
    with pytest.raises(ValueError, match=message):
        Factor(Z, d, trace)


def test_more_columns_than_samples_are_folded(problem):
    compact = problem.factor.compact()
    assert compact.Z.shape == (30, 30)
    np.testing.assert_allclose(compact.Z @ compact.Z.T, problem.factor.Z @ problem.factor.Z.T, atol=1e-13)
    assert compact.trace == pytest.approx(problem.factor.trace)
    assert compact.compact() is compact
