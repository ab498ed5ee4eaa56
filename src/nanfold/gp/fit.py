"""Fit a GPLVM: L-BFGS on positions, kernel, noise and inducing inputs together, and a report of how it ended."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from numbers import Integral, Real

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import OptimizeResult, minimize
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from nanfold.gp import exact, sparse
from nanfold.gp.kernels import Array, Kernel
from nanfold.gp.problem import Evaluation, Factor, Point, Posterior, SingularCovarianceError
from nanfold.gp.start import starting_point
from nanfold.gp.variables import Variables

#: Up to this many samples BLAS runs on one thread: more bring little when idle, and wait for each other when not (on a
#: busy machine with two cores, one evaluation at n = 150 took 27 ms on two threads and 1.4 ms on one).
ONE_THREAD_SAMPLES = 1000


@dataclass(frozen=True)
class Report:
    """How a fit ended.

    Attributes
    ----------
    converged : bool
        Whether the tolerance was met before `max_iter`.
    message : str
        Why it stopped.
    n_iter, n_evaluations : int
        Iterations of L-BFGS, and evaluations of the objective.
    objective : float
        The log likelihood at the end, or on the sparse path its lower bound.
    gradient_norm : float
        The largest entry of the projected gradient of the objective over n d, in the scaled variables.
    at_bounds : tuple of str
        The parameters that ended at a bound: "noise" stands at its floor.
    history : array of n_iter + 1
        The objective at the start and after each iteration.
    seconds : float
        Wall clock.
    """

    converged: bool
    message: str
    n_iter: int
    n_evaluations: int
    objective: float
    gradient_norm: float
    at_bounds: tuple[str, ...]
    history: Array
    seconds: float


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
    X: ArrayLike | None = None,
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
    X : array of (n, n_components), optional
        Where the positions start; `start` describes this and all other starting values.
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
    start = starting_point(working, n_components, kernel, inducing, X, noise, random_state)
    variables = Variables(start, noise_floor * working.scale)
    trail = _Trail(working.n * working.d, max_iter, progress)
    # the sparse path has threads of its own
    alone = start.inducing is not None or working.n <= ONE_THREAD_SAMPLES
    with threadpool_limits(1, user_api="blas") if alone else nullcontext():
        trail.record(-_evaluate(working, start).value / trail.scale)
        result = minimize(
            _descended(working, variables, trail),
            variables.pack(start),
            jac=True,
            method="L-BFGS-B",
            bounds=np.stack([variables.lower, variables.upper], axis=1),
            callback=trail,
            options={"maxiter": max_iter, "maxfun": 20 * max_iter, "ftol": tol, "gtol": tol},
        )
    point, report = variables.unpack(result.x), trail.report(result, variables)
    _warn(report, noise_floor)
    return Fit(factor, *point, report)


def _check_options(n_components: int, noise_floor: float, max_iter: int, tol: float) -> None:
    for name, value in (("n_components", n_components), ("max_iter", max_iter)):
        if not isinstance(value, Integral) or value < 1:
            raise ValueError(f"{name} must be a positive integer, not {value!r}.")
    for name, number in (("noise_floor", noise_floor), ("tol", tol)):
        if not isinstance(number, Real) or not 0 < number < 1:
            raise ValueError(f"{name} must lie between 0 and 1, not {number!r}.")


def _descended(factor: Factor, variables: Variables, trail: _Trail) -> Callable[[Array], tuple[float, Array]]:
    """Return what L-BFGS descends: minus the objective over n d, and its gradient in the variables."""

    def function(v: Array) -> tuple[float, Array]:
        try:
            e = _evaluate(factor, variables.unpack(v))
        except SingularCovarianceError:
            # the line search went too far: a value above all others, and finite for its interpolation, sends it back
            return trail.barrier, np.zeros_like(v)
        return -e.value / trail.scale, -variables.pack_gradient(e) / trail.scale

    return function


def _evaluate(factor: Factor, point: Point) -> Evaluation:
    """Evaluate the exact objective, or the bound where there are inducing inputs."""
    if point.inducing is None:
        return exact.evaluate(factor, point.X, point.kernel, point.noise)
    return sparse.evaluate(factor, point.X, point.kernel, point.noise, point.inducing)


@dataclass
class _Trail:
    """Follows the search from iteration to iteration."""

    scale: float
    max_iter: int
    progress: bool
    began: float = field(default_factory=time.perf_counter)
    values: list[float] = field(default_factory=list)

    @property
    def barrier(self) -> float:
        """A value far above where the search began."""
        return 1e3 + 1e3 * abs(self.values[0] / self.scale)

    def record(self, f: float) -> None:
        self.values.append(-f * self.scale)
        if self.progress:
            sys.stderr.write(f"\riteration {len(self.values) - 1}/{self.max_iter}: objective {self.values[-1]:<16.8g}")
            sys.stderr.flush()

    def __call__(self, intermediate_result: OptimizeResult) -> None:
        self.record(intermediate_result.fun)

    def report(self, result: OptimizeResult, variables: Variables) -> Report:
        if self.progress:
            sys.stderr.write("\n")
        messages = ("the tolerance was met", f"{result.nit} iterations were not enough", "no better point on the line")
        return Report(
            converged=result.status == 0,
            message=messages[result.status],
            n_iter=result.nit,
            n_evaluations=result.nfev + 1,
            objective=-result.fun * self.scale,
            gradient_norm=variables.projected_norm(result.x, result.jac),
            at_bounds=variables.at_bounds(result.x),
            history=np.array(self.values),
            seconds=time.perf_counter() - self.began,
        )


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
