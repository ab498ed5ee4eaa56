"""The sparse bound: against its definition with dense matrices, against the exact objective, and its gradient."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from nanfold._threads import even_blocks
from nanfold.gp import exact, sparse
from nanfold.gp.kernels import RBF, Linear
from nanfold.gp.problem import Factor, SingularCovarianceError


def dense_bound(problem, kernel, noise):
    Kfu = kernel(problem.X, problem.inducing)
    Kuu = kernel(problem.inducing)
    Kuu += sparse.JITTER * np.diag(Kuu).mean() * np.eye(len(Kuu))
    Q = Kfu @ np.linalg.solve(Kuu, Kfu.T)
    log_density = multivariate_normal(np.zeros(30), Q + noise * np.eye(30)).logpdf(problem.Y.T).sum()
    return log_density - 0.5 * problem.d * (kernel.diagonal(problem.X).sum() - np.trace(Q)) / noise


def cut(monkeypatch, size):
    monkeypatch.setattr(sparse, "_blocks", lambda n, m: even_blocks(n, size))


@pytest.fixture(params=[30, 8, 1], ids=["one block", "four blocks", "row by row"])
def blocks(request, monkeypatch):
    cut(monkeypatch, request.param)


@pytest.mark.usefixtures("blocks")
def test_value_is_the_definition(problem, kernel):
    value = sparse.evaluate(problem.factor, problem.X, kernel, problem.noise, problem.inducing).value
    assert value == pytest.approx(dense_bound(problem, kernel, problem.noise), rel=1e-9)


def test_value_stays_below_the_exact_objective(problem, kernel):
    whole = exact.evaluate(problem.factor, problem.X, kernel, problem.noise).value
    for m in (1, 7, 15, 30):
        bound = sparse.evaluate(problem.factor, problem.X, kernel, problem.noise, problem.X[:m]).value
        assert bound < whole
    # inducing inputs at all samples: nothing is lost but the jitter
    assert bound == pytest.approx(whole, rel=1e-7)


@pytest.mark.parametrize("m", [7, 30])
def test_an_unseen_part_of_the_trace_counts_in_both_alike(problem, kernel, m):
    part = problem.with_unseen_trace()
    seen = Factor(part.Z, part.d)
    lost = [sparse.evaluate(f, problem.X, kernel, problem.noise, problem.X[:m]).value for f in (seen, part)]
    assert lost[0] - lost[1] == pytest.approx(0.5 * part.d * part.residual / problem.noise, rel=1e-9)


@pytest.mark.parametrize("whole", [True, False])
def test_gradient(problem, kernel, assert_gradient, whole, monkeypatch):
    cut(monkeypatch, 8)
    factor = problem.factor if whole else problem.with_unseen_trace()

    def value(X=problem.X, kernel=kernel, noise=problem.noise, inducing=problem.inducing):
        return sparse.evaluate(factor, X, kernel, noise, inducing).value

    at = sparse.evaluate(factor, problem.X, kernel, problem.noise, problem.inducing)
    assert_gradient(at.X, lambda X: value(X=X), problem.X)
    assert_gradient(at.theta, lambda t: value(kernel=kernel.with_theta(t)), kernel.theta)
    assert_gradient(np.array([at.log_noise]), lambda t: value(noise=float(np.exp(t[0]))), np.log([problem.noise]))
    assert_gradient(at.inducing, lambda U: value(inducing=U), problem.inducing)


def test_the_number_of_threads_does_not_matter(problem, kernel, monkeypatch):
    cut(monkeypatch, 4)
    answers = []
    for threads in ("1", "3"):
        monkeypatch.setenv("NANFOLD_THREADS", threads)
        answers.append(sparse.evaluate(problem.factor, problem.X, kernel, problem.noise, problem.inducing))
    for a, b in zip(*answers, strict=True):
        assert np.array_equal(a, b)


@pytest.mark.usefixtures("blocks")
def test_posterior_is_the_definition(problem, kernel):
    basis, C, E = sparse.posterior(problem.factor, problem.X, kernel, problem.noise, problem.inducing)
    Kuu, Kfu = kernel(basis), kernel(problem.X, basis)
    Kuu += sparse.JITTER * np.diag(Kuu).mean() * np.eye(len(Kuu))
    S = Kuu + Kfu.T @ Kfu / problem.noise
    new = kernel(problem.X[:5] + 0.3, basis)
    mean = new @ np.linalg.solve(S, Kfu.T @ problem.factor.Z) / problem.noise
    reduction = np.einsum("pm,pm->p", new, np.linalg.solve(Kuu, new.T).T - np.linalg.solve(S, new.T).T)
    np.testing.assert_allclose(new @ C, mean, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(((new @ E) ** 2).sum(axis=1), reduction, rtol=1e-6, atol=1e-8)


def test_duplicate_inducing_inputs_add_nothing(problem):
    kernel = RBF()
    once = sparse.evaluate(problem.factor, problem.X, kernel, problem.noise, problem.inducing).value
    doubled = np.vstack([problem.inducing, problem.inducing])
    twice = sparse.evaluate(problem.factor, problem.X, kernel, problem.noise, doubled).value
    assert twice == pytest.approx(once, rel=1e-6)


def test_inducing_inputs_without_any_covariance_are_refused(problem):
    with pytest.raises(SingularCovarianceError, match="inducing inputs is singular to rounding with Linear"):
        sparse.evaluate(problem.factor, problem.X, Linear(), problem.noise, np.zeros((3, 2)))


@pytest.mark.parametrize("m", [1, 100, 1000])
def test_the_sums_of_all_blocks_stay_below_a_quarter_of_all_covariances(m):
    blocks = sparse._blocks(50_000, m)
    assert blocks[0][0] == 0
    assert blocks[-1][1] == 50_000
    assert (len(blocks) - 1) * m * m <= 50_000 * m / 4
