"""New samples: the density against one of the whole data, its gradient, and where they are placed."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from nanfold.gp.fit import Fit, fit
from nanfold.gp.kernels import RBF
from nanfold.gp.predict import cross_coordinates, locate, log_density
from nanfold.gp.problem import Factor


def unfitted(problem, kernel, inducing=None):
    return Fit(problem.factor, problem.X, kernel, problem.noise, inducing, None)


@pytest.fixture(scope="module")
def old_and_new(curve):
    """The factor of 120 samples, and of 40 others the cross-Gram rows and norms."""
    Y, d = curve[0], 400
    old, new = Y[:120], Y[120:]
    eigenvalues, U = np.linalg.eigh(old @ old.T / d)
    kept = eigenvalues > 1e-9 * eigenvalues[-1]
    factor = Factor((U[:, kept] * np.sqrt(eigenvalues[kept]))[:, ::-1], d)
    return factor, new @ old.T / d, (new**2).sum(axis=1) / d


@pytest.fixture(scope="module", params=[None, 30], ids=["exact", "sparse"])
def fitted(request, old_and_new):
    return fit(old_and_new[0], 2, inducing=request.param, random_state=0, tol=1e-7)


def test_the_density_is_the_conditional_of_all_features(problem, kernel):
    rng = np.random.default_rng(2)
    new_X, new_Y = rng.normal(size=(3, 2)), rng.normal(size=(3, problem.d))
    cross = new_Y @ problem.Y.T / problem.d
    norm = (new_Y**2).sum(axis=1) / problem.d
    z = cross_coordinates(problem.factor.Z, cross)
    ours, _ = log_density(unfitted(problem, kernel), new_X, z, norm)
    old = multivariate_normal(np.zeros(30), kernel(problem.X) + problem.noise * np.eye(30)).logpdf(problem.Y.T).sum()
    for i in range(3):
        X, Y = np.vstack([problem.X, new_X[i]]), np.vstack([problem.Y, new_Y[i]])
        joint = multivariate_normal(np.zeros(31), kernel(X) + problem.noise * np.eye(31)).logpdf(Y.T).sum()
        assert ours[i] == pytest.approx(joint - old, rel=1e-9)


def test_the_sparse_density_is_the_exact_one_with_all_samples_inducing(problem, kernel):
    rng = np.random.default_rng(2)
    new_X, z = rng.normal(size=(4, 2)), 0.3 * rng.normal(size=(4, 40))
    norm = 2 * (z**2).sum(axis=1)
    whole, _ = log_density(unfitted(problem, kernel), new_X, z, norm)
    sparse, _ = log_density(unfitted(problem, kernel, problem.X), new_X, z, norm)
    np.testing.assert_allclose(sparse, whole, rtol=1e-5)


@pytest.mark.parametrize("sparse", [False, True])
def test_gradient(problem, kernel, assert_gradient, sparse):
    rng = np.random.default_rng(3)
    model = unfitted(problem, kernel, problem.inducing if sparse else None)
    X, z = rng.normal(size=(4, 2)), 0.3 * rng.normal(size=(4, 40))
    norm = 1.5 * (z**2).sum(axis=1)
    gradient = log_density(model, X, z, norm)[1]
    assert_gradient(gradient, lambda x: log_density(model, x, z, norm)[0].sum(), X)


def test_coordinates_reproduce_what_is_in_the_range_of_the_factor(old_and_new):
    factor, cross, norm = old_and_new
    z = cross_coordinates(factor.Z, cross)
    np.testing.assert_allclose(z @ factor.Z.T, cross, atol=1e-10)
    assert np.all((z**2).sum(axis=1) <= norm)


def test_a_training_samples_own_row_gives_its_own_coordinates():
    # also where the Gram matrix is indefinite, and Z holds its positive part only
    G = np.random.default_rng(0).normal(size=(15, 15))
    G = G + G.T
    eigenvalues, U = np.linalg.eigh(G)
    Z = U[:, eigenvalues > 0] * np.sqrt(eigenvalues[eigenvalues > 0])
    np.testing.assert_allclose(cross_coordinates(Z, G), Z, atol=1e-12)


def test_training_samples_come_back_to_their_places(fitted):
    Z = fitted.factor.Z
    located = locate(fitted, Z)
    assert located.converged.all()
    error = np.linalg.norm(located.X - fitted.X, axis=1) / fitted.X.std()
    assert np.median(error) < 0.05
    assert np.all(located.log_density >= log_density(fitted, fitted.X, Z, (Z**2).sum(axis=1))[0] - 1e-9)


def test_new_samples_land_among_their_true_neighbours(fitted, old_and_new, curve):
    factor, cross, norm = old_and_new
    located = locate(fitted, cross_coordinates(factor.Z, cross), norm)
    assert located.converged.all()
    true_old, true_new = curve[1][:120], curve[1][120:]

    def nearest(new, old):
        return np.argsort(((new[:, None] - old) ** 2).sum(axis=2), axis=1)[:, :10]

    pairs = zip(nearest(located.X, fitted.X), nearest(true_new, true_old), strict=True)
    assert np.mean([len(set(a) & set(b)) / 10 for a, b in pairs]) > 0.8


def test_ends_are_stationary_and_the_best_of_their_starts(fitted, old_and_new):
    factor, cross, norm = old_and_new
    z = cross_coordinates(factor.Z, cross)
    located = locate(fitted, z, norm, n_starts=3)
    value, gradient = log_density(fitted, located.X, z, norm)
    np.testing.assert_allclose(located.log_density, value, rtol=1e-12)
    assert np.abs(gradient).max() * np.sqrt(fitted.X.var(axis=0).sum()) <= 1e-6 * factor.d
    every = locate(fitted, z, norm, n_starts=120)
    assert np.all(every.log_density >= located.log_density - 1e-6 * np.abs(located.log_density))


def test_more_starts_find_a_mode_that_one_misses():
    # a curve that comes back close to itself: the nearest sample may lie on the wrong pass
    t = np.linspace(0, 1, 60)
    angle = 2 * np.pi * t * 1.6
    curve = np.stack([np.cos(angle), np.sin(angle), 0.15 * t], axis=1)
    rng = np.random.default_rng(0)
    d = 300
    W = rng.normal(size=(3, d))
    Y = curve @ W + 0.3 * rng.normal(size=(60, d))
    model = Fit(Factor(Y / np.sqrt(d), d), t[:, None], RBF(1.0, 0.05), 0.09, None, None)
    new = curve @ W + 0.3 * rng.normal(size=(60, d))
    z, norm = cross_coordinates(model.factor.Z, new @ Y.T / d), (new**2).sum(axis=1) / d
    one, many = (locate(model, z, norm, n_starts=k) for k in (1, 10))
    assert np.all(many.log_density >= one.log_density - 1e-9)
    assert np.any(many.log_density > one.log_density + 1)


def test_blocks_do_not_matter(fitted, old_and_new, monkeypatch):
    factor, cross, norm = old_and_new
    z = cross_coordinates(factor.Z, cross)
    whole = locate(fitted, z, norm)
    monkeypatch.setattr("nanfold.gp.predict.BLOCK_ENTRIES", 3 * 4 * 120)
    np.testing.assert_allclose(locate(fitted, z, norm).X, whole.X, atol=1e-5)
    alone = locate(fitted, z[5:6], norm[5:6])
    np.testing.assert_allclose(alone.X[0], whole.X[5], atol=1e-5)


def test_no_new_samples_have_no_positions(fitted):
    located = locate(fitted, np.empty((0, fitted.factor.Z.shape[1])))
    assert located.X.shape == (0, 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"z": np.zeros((2, 3))}, r"z must be a finite matrix with 40 columns, as Z has; it is of shape \(2, 3\)"),
        ({"z": np.full((2, 40), np.nan)}, "z must be a finite matrix with 40 columns"),
        ({"norm": [1.0]}, r"norm must have one entry for each of the 2 rows of z, not shape \(1,\)"),
        ({"norm": [50.0, 39.0]}, r"norm\[1\]=39 is less than \|z\[1\]\|\^2=40.*give the larger of the two"),
        ({"norm": [50.0, np.nan]}, r"norm\[1\]=nan is"),
        ({"n_starts": 0}, "n_starts=0 must be between 1 and the number of training samples, 30"),
        ({"n_starts": 31}, "n_starts=31 must be between 1"),
    ],
)
def test_bad_input_is_refused(problem, options, message):
    with pytest.raises(ValueError, match=message):
        locate(unfitted(problem, RBF()), **{"z": np.ones((2, 40)), **options})


def test_cross_gram_rows_of_other_training_samples_are_refused(problem):
    with pytest.raises(ValueError, match=r"a column for each of the 30 training samples, not shape \(2, 29\)"):
        cross_coordinates(problem.factor.Z, np.zeros((2, 29)))
