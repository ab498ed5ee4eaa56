"""One search: L-BFGS on positions, kernel, noise and inducing inputs together, and a report of how it ended."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import OptimizeResult, minimize

from nanfold.gp import exact, sparse
from nanfold.gp.kernels import Array
from nanfold.gp.problem import Evaluation, Factor, Point, SingularCovarianceError
from nanfold.gp.variables import Variables


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
    start : str
        Where it began.
    n_starts : int
        Among how many starts that was chosen.
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
    start: str = "given"
    n_starts: int = 1


def climb(
    factor: Factor, start: Point, noise_floor: float, max_iter: int, tol: float, progress: bool = False
) -> tuple[Point, Report]:
    """Maximise the objective from a start; `fit.fit` describes the options."""
    variables = Variables(start, noise_floor * factor.scale)
    trail = Trail(factor.n * factor.d, max_iter, progress)
    trail.record(-evaluate(factor, start).value / trail.scale)
    result = minimize(
        _descended(factor, variables, trail),
        variables.pack(start),
        jac=True,
        method="L-BFGS-B",
        bounds=np.stack([variables.lower, variables.upper], axis=1),
        callback=trail,
        options={"maxiter": max_iter, "maxfun": 20 * max_iter, "ftol": tol, "gtol": tol},
    )
    return variables.unpack(result.x), trail.report(result, variables)


def _descended(factor: Factor, variables: Variables, trail: Trail) -> Callable[[Array], tuple[float, Array]]:
    """Return what L-BFGS descends: minus the objective over n d, and its gradient in the variables."""

    def function(v: Array) -> tuple[float, Array]:
        try:
            e = evaluate(factor, variables.unpack(v))
        except SingularCovarianceError:
            # the line search went too far: a value above all others, and finite for its interpolation, sends it back
            return trail.barrier, np.zeros_like(v)
        return -e.value / trail.scale, -variables.pack_gradient(e) / trail.scale

    return function


def evaluate(factor: Factor, point: Point) -> Evaluation:
    """Evaluate the exact objective, or the bound where there are inducing inputs."""
    if point.inducing is None:
        return exact.evaluate(factor, point.X, point.kernel, point.noise)
    return sparse.evaluate(factor, point.X, point.kernel, point.noise, point.inducing)


@dataclass
class Trail:
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
