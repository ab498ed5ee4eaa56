"""Fit a GPLVM: choose among starts by short trials, and climb from the best."""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from dataclasses import dataclass, replace
from numbers import Integral, Real

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from threadpoolctl import threadpool_limits

from nanfold.gp import exact, sparse
from nanfold.gp.climb import Report, climb
from nanfold.gp.kernels import Array, Kernel
from nanfold.gp.problem import Factor, Posterior
from nanfold.gp.start import initial_inducing, starting_points
from nanfold.gp.trials import choose

#: Up to this many samples BLAS runs on one thread: more bring little when idle, and wait for each other when not (on a
#: busy machine with two cores, one evaluation at n = 150 took 27 ms on two threads and 1.4 ms on one).
ONE_THREAD_SAMPLES = 1000


@dataclass(frozen=True)
class Fit:
    """A fitted GPLVM: positions `X`, `kernel`, `noise`, the `inducing` inputs (None: exact), and the `report`."""

    factor: Factor
    X: Array
    kernel: Kernel
    noise: float
    inducing: Array | None
    report: Report

    @property
    def basis(self) -> Array:
        """The inputs that predictions are made from."""
        return self.X if self.inducing is None else self.inducing

    def posterior(self) -> Posterior:
        """Return what predicts at new positions."""
        if self.inducing is None:
            return exact.posterior(self.factor, self.X, self.kernel, self.noise)
        return sparse.posterior(self.factor, self.X, self.kernel, self.noise, self.inducing)


def fit(
    factor: Factor,
    n_components: int = 2,
    *,
    kernel: str | Kernel = "rbf",
    inducing: int | ArrayLike | None = None,
    init: str | ArrayLike = "auto",
    noise: float | None = None,
    noise_floor: float = 1e-6,
    max_iter: int = 1000,
    tol: float = 1e-8,
    progress: bool = False,
    random_state: int | np.random.RandomState | None = None,
) -> Fit:
    """Maximise the objective over latent positions, the kernel's parameters, noise, and inducing inputs if any.

    Parameters
    ----------
    factor : Factor
        The data: Z, d and the trace.
    n_components : int
        Latent dimensions.
    kernel : str or Kernel
        A name that `make_kernel` knows, or a kernel whose parameters are then the starting values.
    inducing : int or array of (m, n_components), optional
        None fits the exact objective, O(n^3) an iteration; a number of inducing inputs, or where they start, the
        sparse bound, O(n m^2 + n m r).
    init : {"auto", "pca", "geodesic"} or array of (n, n_components)
        Where the positions start: at the PCA, unfolded along a graph of neighbours, or as given. "auto" tries both.
        A kernel that is named is tried at two lengthscales. `trials` chooses.
    noise : float, optional
        The noise variance to start from.
    noise_floor : float
        The noise is kept above this share of tr(G+) / n. Without a floor the objective has no maximum where a
        kernel of low rank can represent Z (duplicate samples suffice): log|K| falls without end. A fit that ends
        there says so in a warning and in `report.at_bounds`.
    max_iter : int
        The most iterations of L-BFGS.
    tol : float
        Stop when an iteration improves the objective by less than this share, or the gradient is below it.
    progress : bool
        Keep a line about the state of the fit on standard error.
    random_state : int or RandomState, optional
        For where the inducing inputs start.

    Returns
    -------
    Fit
    """
    _check_options(n_components, noise_floor, max_iter, tol)
    working = factor.compact()
    # the sparse path has threads of its own
    alone = inducing is not None or working.n <= ONE_THREAD_SAMPLES
    with threadpool_limits(1, user_api="blas") if alone else nullcontext():
        starts = starting_points(working, n_components, kernel, init, noise)
        start = choose(working, starts, noise_floor)
        point = start.point
        if inducing is not None:
            rng = check_random_state(random_state)
            point = point._replace(inducing=initial_inducing(inducing, point.X, rng))
        point, report = climb(working, point, noise_floor, max_iter, tol, progress)
    report = replace(report, start=start.name, n_starts=len(starts))
    _warn(report, noise_floor)
    return Fit(factor, *point, report)


def _check_options(n_components: int, noise_floor: float, max_iter: int, tol: float) -> None:
    for name, value in (("n_components", n_components), ("max_iter", max_iter)):
        if not isinstance(value, Integral) or value < 1:
            raise ValueError(f"{name} must be a positive integer, not {value!r}.")
    for name, number in (("noise_floor", noise_floor), ("tol", tol)):
        if not isinstance(number, Real) or not 0 < number < 1:
            raise ValueError(f"{name} must lie between 0 and 1, not {number!r}.")


def _warn(report: Report, noise_floor: float) -> None:
    if not report.converged:
        warnings.warn(
            f"GPLVM did not converge: {report.message}, with a gradient of {report.gradient_norm:.2g}; "
            "raise max_iter or tol.",
            ConvergenceWarning,
            stacklevel=3,
        )
    if report.at_bounds:
        warnings.warn(
            f"GPLVM ended with {', '.join(report.at_bounds)} at a bound; where it is the noise, its floor of "
            f"noise_floor={noise_floor:g} times the mean variance of a sample keeps the objective finite.",
            ConvergenceWarning,
            stacklevel=3,
        )
