"""Which of several starts a fit goes on from."""

import numpy as np
import pytest
from scipy.spatial import procrustes

from nanfold.gp import exact, trials
from nanfold.gp.fit import fit
from nanfold.gp.kernels import RBF
from nanfold.gp.problem import Factor, Point, SingularCovarianceError
from nanfold.gp.start import Start, starting_points
from nanfold.gp.trials import choose


@pytest.fixture(scope="module")
def bent() -> tuple[Factor, np.ndarray]:
    """A sheet that bends in so many directions that its principal components fold it, and positions on it."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 2))
    waves = np.sin(1.2 * X @ rng.normal(size=(2, 200)) + rng.uniform(0, 6, 200))
    Y = waves @ rng.normal(size=(200, 2000)) / 10 + 0.4 * rng.normal(size=(150, 2000))
    return Factor((Y - Y.mean(axis=0)) / np.sqrt(2000), 2000).compact(), X


def test_a_bent_sheet_is_found_where_the_pca_folds_it(bent):
    factor, X = bent
    fitted = fit(factor, tol=1e-6)
    folded = fit(factor, init="pca", tol=1e-6)
    assert (fitted.report.n_starts, folded.report.n_starts) == (4, 2)
    assert fitted.report.start.startswith("geodesic, RBF(")
    assert procrustes(X, fitted.X)[2] < 0.1
    assert procrustes(X, folded.X)[2] > 0.3
    # most of the way up to where a climb ends that begins at the truth
    best = fit(factor, init=X, kernel=RBF(), tol=1e-6).report.objective
    assert best - fitted.report.objective < 0.1 * (best - folded.report.objective)


def pca_starts(factor: Factor) -> list[Start]:
    return starting_points(factor, 2, "rbf", "pca", None)


def test_each_choice_of_positions_meets_each_lengthscale(bent):
    factor = bent[0]
    names = [start.name.split(",")[0] for start in starting_points(factor, 2, "rbf", "auto", None)]
    assert names == ["pca", "pca", "geodesic", "geodesic"]
    lengthscales = [start.point.kernel.lengthscale for start in starting_points(factor, 2, "rbf", "geodesic", None)]
    np.testing.assert_allclose(lengthscales, [2 * np.sqrt(2), 1])
    assert len(starting_points(factor, 2, "linear", "pca", None)) == 1
    assert len(starting_points(factor, 2, RBF(), "auto", None)) == 2
    given = starting_points(factor, 2, RBF(0.5), bent[1], 0.3)
    assert [start.name for start in given] == ["given, RBF(variance=0.5, lengthscale=1)"]
    assert given[0].point.noise == 0.3


def test_trials_see_a_few_hundred_samples(bent, monkeypatch):
    factor = Factor(bent[0].Z, 2000, 1.1 * bent[0].trace)
    seen, climb = [], trials.climb

    def watched(sample, point, *options):
        seen.append((sample.n, sample.scale, len(point.X)))
        return climb(sample, point, *options)

    monkeypatch.setattr(trials, "TRIAL_SAMPLES", 60)
    monkeypatch.setattr(trials, "climb", watched)
    choose(factor, starting_points(factor, 2, "rbf", "pca", None), 1e-6)
    assert [(n, rows) for n, _, rows in seen] == [(60, 60)] * 2
    # what the columns of Z leave out is kept in proportion
    assert seen[0][1] == pytest.approx(factor.scale, rel=0.05)


def test_a_start_that_is_singular_is_passed_over(bent, monkeypatch):
    factor = bent[0]
    good = pca_starts(factor)[0]
    bad = Start("bad", Point(good.point.X, RBF(2.0), good.point.noise))
    plain = exact.evaluate

    def fragile(factor, X, kernel, noise):
        if kernel.variance == 2.0:
            raise SingularCovarianceError("singular")
        return plain(factor, X, kernel, noise)

    monkeypatch.setattr(exact, "evaluate", fragile)
    assert choose(factor, [bad, good], 1e-6) is good
    # if there is nothing else, the climb says so
    assert choose(factor, [bad, bad], 1e-6) is bad


def test_a_graph_of_too_few_dimensions_is_left_out_or_refused(bent, monkeypatch):
    monkeypatch.setattr("nanfold.gp.start.geodesic_positions", lambda factor, n_components: None)
    factor = bent[0]
    assert len(starting_points(factor, 2, "rbf", "auto", None)) == 2
    with pytest.raises(ValueError, match="init='geodesic' finds fewer than n_components=2 dimensions"):
        starting_points(factor, 2, "rbf", "geodesic", None)
