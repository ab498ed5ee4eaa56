"""What the tests of the GPLVM share: a small problem, a kernel of every kind, and central differences."""

from collections.abc import Callable

import numpy as np
import pytest

from nanfold.gp.kernels import RBF, Kernel, Linear, Matern32, Matern52
from nanfold.gp.problem import Factor

KERNELS = [
    RBF(0.8, 1.2),
    RBF(0.8, [1.2, 0.6]),
    Matern32(0.7, 1.1),
    Matern32(0.7, [1.1, 0.5]),
    Matern52(1.3, 0.9),
    Matern52(1.3, [0.9, 1.4]),
    Linear(0.7),
    Linear([0.7, 0.3]),
    RBF(0.5, 0.9) + Linear(0.3),
    RBF(0.5) + Matern32(0.2, [0.4, 2.0]) + RBF(0.1, 0.3),
]


@pytest.fixture(params=KERNELS, ids=repr)
def kernel(request: pytest.FixtureRequest) -> Kernel:
    """A kernel of every kind, for positions with two components."""
    return request.param


def differences(function: Callable[[np.ndarray], float], x: np.ndarray, h: float = 1e-5) -> np.ndarray:
    gradient = np.empty_like(x)
    for i in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[i] = h
        gradient[i] = (function(x + step) - function(x - step)) / (2 * h)
    return gradient


@pytest.fixture
def assert_gradient() -> Callable[..., None]:
    """Compare a gradient with central differences of a function, to 1e-6 of its largest entry (or of one)."""

    def check(gradient: np.ndarray, function: Callable[[np.ndarray], float], x: np.ndarray) -> None:
        x = np.asarray(x, dtype=float)
        expected = differences(function, x)
        assert gradient.shape == x.shape
        assert np.abs(gradient - expected).max() <= 1e-6 * max(1, np.abs(expected).max())

    return check


class Problem:
    """Thirty samples of forty features with all of Y, so that plain normal densities can be computed."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self.d = 40
        self.X = rng.normal(size=(30, 2))
        self.Y = np.sin(self.X @ rng.normal(size=(2, self.d))) + 0.5 * rng.normal(size=(30, self.d))
        self.factor = Factor(self.Y / np.sqrt(self.d), self.d)
        self.inducing = self.X[:7] + 0.1 * rng.normal(size=(7, 2))
        self.noise = 0.3

    def with_unseen_trace(self) -> Factor:
        """Only six of the components, but the trace of all."""
        U, s, _ = np.linalg.svd(self.factor.Z, full_matrices=False)
        return Factor(U[:, :6] * s[:6], self.d, self.factor.trace)


@pytest.fixture
def problem() -> Problem:
    return Problem()


@pytest.fixture(scope="session")
def curve() -> tuple[np.ndarray, np.ndarray]:
    """Samples on a smooth two-dimensional surface in 400 features, with noise; and where they lie on it."""
    rng = np.random.default_rng(1)
    positions = rng.normal(size=(160, 2))
    Y = np.sin(positions @ rng.normal(size=(2, 400)) + rng.uniform(0, 6, 400)) + 0.4 * rng.normal(size=(160, 400))
    return Y - Y[:120].mean(axis=0), positions
