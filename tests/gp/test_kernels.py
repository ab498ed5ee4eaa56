"""The kernels: values against scikit-learn's, contractions against differences, parameters, and what they refuse."""

import copy
import pickle

import numpy as np
import pytest
from sklearn.gaussian_process import kernels as sk

from nanfold.gp.kernels import NAMES, RBF, Linear, Matern32, Matern52, Sum, make_kernel

rng = np.random.default_rng(0)
X, X2 = rng.normal(size=(9, 2)), rng.normal(size=(5, 2))


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (RBF(0.8, 1.2), 0.8 * sk.RBF(1.2)),
        (RBF(0.8, [1.2, 0.6]), 0.8 * sk.RBF([1.2, 0.6])),
        (Matern32(0.7, [1.1, 0.5]), 0.7 * sk.Matern([1.1, 0.5], nu=1.5)),
        (Matern52(1.3, 0.9), 1.3 * sk.Matern(0.9, nu=2.5)),
        (Linear(0.7), 0.7 * sk.DotProduct(0)),
        (RBF(0.5) + Linear(0.3), 0.5 * sk.RBF(1) + 0.3 * sk.DotProduct(0)),
    ],
    ids=repr,
)
def test_values_are_scikit_learns(ours, theirs):
    np.testing.assert_allclose(ours(X, X2), theirs(X, X2), rtol=1e-12)
    np.testing.assert_allclose(ours(X), theirs(X), rtol=1e-12)


def test_a_linear_kernel_weighs_each_component():
    np.testing.assert_allclose(Linear([0.7, 0.3])(X, X2), X @ np.diag([0.7, 0.3]) @ X2.T, rtol=1e-13)


def test_diagonal_is_that_of_the_matrix(kernel):
    np.testing.assert_allclose(kernel.diagonal(X), np.diag(kernel(X)), rtol=1e-13)


def test_contractions_are_gradients(kernel, assert_gradient):
    W = np.random.default_rng(1).normal(size=(9, 5))
    gradient = kernel.gradient(W, X, X2)
    assert_gradient(gradient.X, lambda x: np.vdot(W, kernel(x, X2)), X)
    assert_gradient(gradient.X2, lambda x: np.vdot(W, kernel(X, x)), X2)
    assert_gradient(gradient.theta, lambda t: np.vdot(W, kernel.with_theta(t)(X, X2)), kernel.theta)


@pytest.mark.parametrize("kind", [RBF, Matern32, Matern52])
def test_a_stationary_kernel_does_not_mind_where_the_origin_is(kind):
    W = np.random.default_rng(1).normal(size=(9, 5))
    here, far = kind(0.8, [1.2, 0.6]).gradient(W, X, X2), kind(0.8, [1.2, 0.6]).gradient(W, X + 1e5, X2 + 1e5)
    for a, b in zip(here, far, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-9)


def test_contractions_with_one_set_of_positions_count_both_sides(kernel, assert_gradient):
    W = np.random.default_rng(1).normal(size=(9, 9))
    gradient = kernel.gradient(W, X)
    assert gradient.X2.shape == (0, 2)
    assert_gradient(gradient.X, lambda x: np.vdot(W, kernel(x)), X)
    assert_gradient(gradient.theta, lambda t: np.vdot(W, kernel.with_theta(t)(X)), kernel.theta)


def test_contractions_of_the_diagonal_are_gradients(kernel, assert_gradient):
    w = np.random.default_rng(1).normal(size=9)
    gradient = kernel.diagonal_gradient(w, X)
    assert_gradient(gradient.X, lambda x: w @ kernel.diagonal(x), X)
    assert_gradient(gradient.theta, lambda t: w @ kernel.with_theta(t).diagonal(X), kernel.theta)


def test_arguments_are_left_as_they_were(kernel):
    W, before = np.ones((9, 5)), (X.copy(), X2.copy())
    kernel.gradient(W, X, X2)
    assert np.array_equal(X, before[0])
    assert np.array_equal(X2, before[1])
    assert np.all(W == 1)


def test_theta_holds_logarithms_and_makes_copies(kernel):
    moved = kernel.with_theta(kernel.theta + 0.1)
    assert type(moved) is type(kernel)
    np.testing.assert_allclose(moved.theta, kernel.theta + 0.1, rtol=1e-13)
    assert len(kernel.theta_names) == kernel.theta.size
    values = np.concatenate([np.atleast_1d(value) for value in kernel.parameters.values()])
    np.testing.assert_allclose(np.exp(kernel.theta), values, rtol=1e-13)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, copy.copy, lambda k: pickle.loads(pickle.dumps(k))])
def test_copies_and_pickles_are_the_same_kernel(kernel, duplicate):
    other = duplicate(kernel)
    assert repr(other) == repr(kernel)
    assert np.array_equal(other(X, X2), kernel(X, X2))


def test_repr_rebuilds_the_kernel(kernel):
    assert repr(eval(repr(kernel))) == repr(kernel)


def test_parameters_are_attributes_by_name():
    assert RBF(2.0, 3.0).lengthscale == 3.0
    total = RBF(1.0) + Linear(0.5) + RBF(0.25, [1, 2])
    assert isinstance(total, Sum)
    assert total.rbf.variance == 1.0
    assert total.linear.variance == 0.5
    assert total.rbf_2.lengthscale.tolist() == [1, 2]
    assert total.theta_names == [
        "rbf.variance",
        "rbf.lengthscale",
        "linear.variance",
        "rbf_2.variance",
        "rbf_2.lengthscale[0]",
        "rbf_2.lengthscale[1]",
    ]
    with pytest.raises(AttributeError, match="no attribute 'matern32'"):
        _ = total.matern32


@pytest.mark.parametrize("name", NAMES)
def test_every_name_makes_a_kernel_with_the_variance_asked_for(name):
    made = make_kernel(name, 3, variance=2.0, lengthscale=1.5)
    made.check(3)
    np.testing.assert_allclose(made.diagonal(np.ones((1, 3))), 2.0)
    assert ("ard" in name) == (np.ndim(getattr(made, "lengthscale", 0)) == 1)


def test_joined_names_share_the_variance():
    made = make_kernel("rbf-ard + linear", 2, variance=2.0)
    assert repr(made) == "RBF(variance=1, lengthscale=[1, 1]) + Linear(variance=0.5)"


def test_an_unknown_name_is_refused():
    with pytest.raises(ValueError, match="kernel='rbg' is not known; take one of rbf, matern32"):
        make_kernel("linear+rbg", 2)


@pytest.mark.parametrize("value", [0, -1, np.nan, np.inf, [], [[1.0]], [1.0, -2.0]])
def test_a_parameter_that_is_not_positive_is_refused(value):
    with pytest.raises(ValueError, match="RBF: lengthscale must be a positive number"):
        RBF(1.0, value)


def test_a_stationary_kernel_has_one_variance():
    with pytest.raises(ValueError, match="Matern32: variance must be one number"):
        Matern32([1.0, 2.0])


def test_a_lengthscale_for_other_components_is_refused():
    with pytest.raises(ValueError, match="lengthscale has 3 entries for 2 components"):
        (Linear() + RBF(1.0, [1.0, 2.0, 3.0])).check(2)


def test_only_kernels_can_be_added():
    with pytest.raises(TypeError):
        RBF() + 1
