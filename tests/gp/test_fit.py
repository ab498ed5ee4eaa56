"""The fit: optima that are known, starting values, the report and its warnings, and what it refuses."""

import numpy as np
import pytest
from scipy.spatial import procrustes
from sklearn.exceptions import ConvergenceWarning

from nanfold.gp import exact, sparse
from nanfold.gp.fit import fit
from nanfold.gp.kernels import NAMES, RBF, Matern52
from nanfold.gp.problem import Factor, Point, SingularCovarianceError
from nanfold.gp.start import initial_inducing, initial_positions, starting_points


@pytest.fixture(scope="module")
def data(curve) -> Factor:
    Y = curve[0][:80]
    return Factor(Y / np.sqrt(400), 400)


def factor_of(eigenvalues, n=20, d=50) -> Factor:
    U = np.linalg.qr(np.random.default_rng(0).normal(size=(n, len(eigenvalues))))[0]
    return Factor(U * np.sqrt(eigenvalues), d)


@pytest.mark.parametrize("inducing", [None, 20])
def test_a_linear_kernel_ends_at_the_optimum_of_probabilistic_pca(inducing):
    eigenvalues = np.array([9.0, 5, 2, *np.linspace(1.0, 0.1, 17)])
    factor = factor_of(eigenvalues)
    fitted = fit(factor, 3, kernel="linear", inducing=inducing, tol=1e-14, max_iter=5000)
    noise = eigenvalues[3:].mean()
    optimum = -0.5 * 50 * (np.log(eigenvalues[:3]).sum() + 17 * np.log(noise) + 20 * (1 + np.log(2 * np.pi)))
    assert fitted.report.objective == pytest.approx(optimum, rel=1e-7)
    assert fitted.noise == pytest.approx(noise, rel=1e-3)
    # K's leading components are those of the data
    model = np.linalg.eigvalsh(fitted.kernel(fitted.X))[::-1][:3] + fitted.noise
    np.testing.assert_allclose(model, eigenvalues[:3], rtol=2e-3)


@pytest.mark.parametrize("inducing", [None, 25])
def test_a_smooth_surface_is_found(curve, data, inducing):
    fitted = fit(data, 2, inducing=inducing, random_state=0, tol=1e-7)
    assert fitted.report.converged
    assert procrustes(curve[1][:80], fitted.X)[2] < 0.05
    assert fitted.noise == pytest.approx(0.4**2, rel=0.1)


@pytest.mark.parametrize("kernel", [*NAMES, "rbf+linear"])
@pytest.mark.parametrize("inducing", [None, 15])
def test_every_kernel_climbs(data, kernel, inducing):
    with pytest.warns(ConvergenceWarning, match="did not converge: 8 iterations were not enough"):
        fitted = fit(data, 2, kernel=kernel, inducing=inducing, random_state=0, max_iter=8, noise=1.0)
    report = fitted.report
    assert not report.converged
    assert report.n_iter == 8
    assert report.history.shape == (9,)
    assert np.all(np.diff(report.history) >= 0)
    assert report.history[-1] > report.history[0] + 1000


def test_the_report_says_what_the_model_says(data):
    start = start_of(data)
    fitted = fit(data, 2, init="pca", kernel=start.kernel, tol=1e-6)
    at_end = exact.evaluate(data, fitted.X, fitted.kernel, fitted.noise)
    report = fitted.report
    assert report.objective == pytest.approx(at_end.value, rel=1e-12)
    assert report.history[-1] == pytest.approx(report.objective, rel=1e-12)
    assert report.converged
    assert report.message == "the tolerance was met"
    assert report.at_bounds == ()
    assert report.n_evaluations > report.n_iter
    assert (report.start, report.n_starts) == (f"pca, {start.kernel!r}", 1)
    assert report.history[0] == pytest.approx(exact.evaluate(data, start.X, start.kernel, start.noise).value, rel=1e-12)
    assert 0 < report.gradient_norm < 1e-3


def start_of(factor: Factor, **options: object) -> Point:
    """Where a fit may begin, at the PCA if nothing else is said."""
    return starting_points(factor, 2, **{"kernel": "rbf", "init": "pca", "noise": None, **options})[0].point


def test_the_start_is_the_pca():
    eigenvalues = np.array([9.0, 4, 2, 1])
    factor = factor_of(eigenvalues)
    start = start_of(factor)
    np.testing.assert_allclose(np.abs(start.X), np.abs(factor.Z[:, :2] / np.sqrt(eigenvalues[:2]) * np.sqrt(20)))
    np.testing.assert_allclose((start.X**2).mean(axis=0), 1)
    assert start.X[np.abs(start.X).argmax(axis=0), [0, 1]].min() > 0
    assert start.kernel.variance == pytest.approx(16 / 20)
    assert start.kernel.lengthscale == pytest.approx(2 * np.sqrt(2))
    assert start.noise == pytest.approx(3 / 20)


def test_an_unseen_trace_starts_in_the_noise():
    factor = factor_of([9.0, 4])
    assert start_of(factor).noise == pytest.approx(0.01 * 13 / 20)
    assert start_of(Factor(factor.Z, 50, trace=20)).noise == pytest.approx(7 / 20)


def test_a_start_that_is_given_is_taken(data):
    X = np.random.default_rng(0).normal(size=(80, 2))
    start = start_of(data, init=X, kernel=Matern52(0.5, [1.0, 2.0]), noise=0.7)
    np.testing.assert_allclose(start.X, X, rtol=1e-14)
    assert repr(start.kernel) == "Matern52(variance=0.5, lengthscale=[1, 2])"
    assert start.noise == pytest.approx(0.7)


def test_wide_data_are_folded_and_the_fit_keeps_its_own_columns(data):
    folded = fit(data.compact(), 2, tol=1e-5)
    fitted = fit(data, 2, tol=1e-5)
    assert fitted.factor is data
    assert np.array_equal(fitted.X, folded.X)


def test_the_same_seed_gives_the_same_fit(data):
    first, second = (fit(data, 2, inducing=10, random_state=3, tol=1e-5) for _ in range(2))
    assert np.array_equal(first.X, second.X)
    assert first.inducing.shape == (10, 2)
    other = fit(data, 2, inducing=10, random_state=4, tol=1e-5)
    assert not np.array_equal(first.X, other.X)


def test_inducing_inputs_can_be_given(data):
    U = initial_positions(data.compact(), 2)[:9]
    fitted = fit(data, 2, inducing=U, tol=1e-5)
    assert fitted.inducing.shape == (9, 2)
    bound = sparse.evaluate(data, fitted.X, fitted.kernel, fitted.noise, fitted.inducing).value
    assert fitted.report.objective == pytest.approx(bound, rel=1e-9)


def test_the_noise_stops_at_its_floor_and_says_so():
    # two components that two latent dimensions hold exactly: log|K| falls without end
    factor = factor_of([9.0, 4])
    with pytest.warns(ConvergenceWarning, match="ended with noise at a bound.*noise_floor=0.0001"):
        fitted = fit(factor, 2, kernel="linear", noise_floor=1e-4)
    assert fitted.report.at_bounds == ("noise",)
    assert fitted.noise == pytest.approx(1e-4 * 13 / 20, rel=1e-12)
    # the components that were left out keep it up
    whole = fit(Factor(factor.Z, 50, trace=16.6), 2, kernel="linear", tol=1e-10)
    assert whole.report.at_bounds == ()
    assert whole.noise == pytest.approx(3.6 / 18, rel=0.15)


def test_the_positive_part_of_an_indefinite_gram_has_an_optimum():
    rng = np.random.default_rng(0)
    Y = np.sin(rng.normal(size=(40, 2)) @ rng.normal(size=(2, 60))) + 0.3 * rng.normal(size=(40, 60))
    mask = rng.random(Y.shape) < 0.5
    G = (Y * mask) @ (Y * mask).T / (60 * (0.25 + 0.25 * np.eye(40)))
    eigenvalues, U = np.linalg.eigh(G)
    assert eigenvalues[0] < 0
    kept = eigenvalues > 0
    fitted = fit(Factor(U[:, kept] * np.sqrt(eigenvalues[kept]), 60), 2, tol=1e-6)
    assert fitted.report.at_bounds == ()
    assert fitted.noise > 0.01 * fitted.factor.scale


def test_a_step_to_a_singular_covariance_is_taken_back(data, monkeypatch):
    plain, values = exact.evaluate, []

    def fragile(*arguments):
        values.append(plain(*arguments).value)
        if len(values) in (5, 6, 20):
            raise SingularCovarianceError("went too far")
        return plain(*arguments)

    monkeypatch.setattr(exact, "evaluate", fragile)
    fitted = fit(data, 2, tol=1e-7)
    assert fitted.report.converged
    assert fitted.noise == pytest.approx(0.4**2, rel=0.1)
    # a search that begins there cannot be taken back
    values[:] = [0.0] * 4
    with pytest.raises(SingularCovarianceError, match="went too far"):
        fit(data, 2, init="pca", kernel=RBF(0.5, 3.0))
    # where there are others, one of these is taken
    values[:] = [0.0] * 4
    assert fit(data, 2, tol=1e-5).report.objective == pytest.approx(fitted.report.objective, rel=1e-3)


def test_progress_is_one_line_on_standard_error(data, capsys):
    fit(data, 2, tol=1e-3, progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("\riteration 0/1000: objective -")
    assert err.endswith("\n")
    assert err.count("\n") == 1
    fit(data, 2, tol=1e-3)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"n_components": 6}, ValueError, "n_components=6 is more than there can be: Z has 20 samples and 5 columns"),
        ({"n_components": 5}, ValueError, "n_components=5, but only 4 columns of Z are independent"),
        ({"n_components": 0}, ValueError, "n_components must be a positive integer, not 0"),
        ({"n_components": 2.0}, ValueError, "n_components must be a positive integer, not 2.0"),
        ({"kernel": "rbg"}, ValueError, "kernel='rbg' is not known; take one of rbf"),
        ({"kernel": np.exp}, TypeError, "kernel must be a name or a Kernel, not ufunc"),
        ({"kernel": RBF(1, [1, 2, 3])}, ValueError, "lengthscale has 3 entries for 2 components"),
        ({"inducing": 21}, ValueError, "inducing=21 must be between 1 and the number of samples, 20"),
        ({"inducing": 0}, ValueError, "inducing=0 must be between 1 and the number of samples, 20"),
        ({"inducing": 2.5}, ValueError, "inducing must be None, a whole number or a matrix of positions; it is 2.5"),
        ({"inducing": True}, ValueError, "inducing must be None, a whole number .*; it is True"),
        ({"inducing": np.zeros((21, 2))}, ValueError, "inducing has 21 rows, more than the 20 samples"),
        ({"inducing": np.zeros((3, 4))}, ValueError, r"inducing must be a finite matrix with 2 columns.*\(3, 4\)"),
        (
            {"init": np.zeros((20, 3))},
            ValueError,
            r"init must be finite and of shape \(20, 2\); it is of shape \(20, 3\)",
        ),
        ({"init": np.full((20, 2), np.nan)}, ValueError, r"init must be finite and of shape \(20, 2\)"),
        ({"init": "pcs"}, ValueError, "init must be one of auto, pca, geodesic, or positions; it is 'pcs'"),
        ({"noise": 1e-12}, ValueError, "noise starts at 1e-12, which must not be below its floor"),
        ({"noise": np.nan}, ValueError, "noise starts at nan"),
        ({"noise_floor": 0}, ValueError, "noise_floor must lie between 0 and 1, not 0"),
        ({"max_iter": 0}, ValueError, "max_iter must be a positive integer, not 0"),
        ({"noise_floor": "low"}, ValueError, "noise_floor must lie between 0 and 1, not 'low'"),
        ({"tol": -1}, ValueError, "tol must lie between 0 and 1, not -1"),
        ({"tol": None}, ValueError, "tol must lie between 0 and 1, not None"),
    ],
)
def test_bad_input_is_refused(options, error, message):
    factor = factor_of([9.0, 4, 2, 1])
    factor = Factor(np.hstack([factor.Z, factor.Z[:, :1]]), 50)
    with pytest.raises(error, match=message):
        fit(factor, **{"n_components": 2, **options})


def test_inducing_inputs_start_at_the_centres_of_the_data():
    rng = np.random.RandomState(0)
    corners = np.array([[0.0, 0], [0, 10], [10, 0], [10, 10]])
    X = np.repeat(corners, 50, axis=0) + 0.1 * rng.normal(size=(200, 2))
    U = initial_inducing(40, X, rng)
    nearest = np.argmin(((U[:, None] - corners) ** 2).sum(axis=2), axis=1)
    assert np.all(np.bincount(nearest, minlength=4) >= 4)
    assert np.linalg.norm(U - corners[nearest], axis=1).max() < 1
    # duplicates empty some clusters, which keep their centres
    kept = initial_inducing(40, np.repeat(corners + 1, 50, axis=0), rng)
    assert (kept[:, None] == corners + 1).all(axis=2).any(axis=1).all()


@pytest.mark.slow
def test_a_hundred_inducing_inputs_come_within_two_percent():
    rng = np.random.default_rng(0)
    positions = rng.normal(size=(1000, 2))
    Y = np.sin(1.5 * positions @ rng.normal(size=(2, 300)) + rng.uniform(0, 6, 300)) + 0.5 * rng.normal(
        size=(1000, 300)
    )
    Y -= Y.mean(axis=0)
    factor = Factor(Y / np.sqrt(300), 300)
    whole = fit(factor, 2, tol=1e-5).report.objective
    bound = fit(factor, 2, inducing=100, random_state=0, tol=1e-5)
    assert bound.report.objective > whole - 0.02 * abs(whole)
    assert exact.evaluate(factor, bound.X, bound.kernel, bound.noise).value > bound.report.objective
