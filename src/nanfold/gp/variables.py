"""A point of the search as one vector, scaled so that L-BFGS sees a problem of even curvature."""

from __future__ import annotations

import numpy as np

from nanfold.gp.kernels import Array
from nanfold.gp.problem import Evaluation, Point

#: Logarithms of the kernel's parameters stay this close to where they started, so that K stays within what floats hold.
LOG_RANGE = np.log(1e6)
#: L-BFGS begins with a step of length one; this is how much of the unit of each variable that may be.
FIRST_STEP = 0.1


class Variables:
    """Packs points into vectors: positions, logarithms of the kernel's parameters and of the noise, inducing inputs.

    The mean over samples of a term in x_i has a curvature of 1 / n in x_i, and of 1 in a kernel parameter; with
    X / sqrt(n) as the variable it is 1 in both. The inducing inputs are scaled by their own number likewise.

    Parameters
    ----------
    start : Point
        The starting point, for the shapes and the bounds.
    noise_floor : float
        The least noise variance.
    """

    def __init__(self, start: Point, noise_floor: float) -> None:
        if not start.noise >= noise_floor > 0:
            raise ValueError(
                f"noise starts at {start.noise:.3g}, which must not be below its floor, {noise_floor:.3g} > 0 "
                "(noise_floor times the mean variance of a sample)."
            )
        self._kernel = start.kernel
        sizes = [start.X.size, start.kernel.theta.size, 1, 0 if start.inducing is None else start.inducing.size]
        self._ends = np.cumsum(sizes)[:-1]
        self._shape = start.X.shape
        units = [np.sqrt(len(start.X)), 1.0, 1.0, 1.0 if start.inducing is None else np.sqrt(len(start.inducing))]
        self._scale = FIRST_STEP * np.repeat(units, sizes)
        theta = start.kernel.theta
        free, free_inducing = np.full(sizes[0], np.inf), np.full(sizes[3], np.inf)
        lower = np.concatenate([-free, theta - LOG_RANGE, [np.log(noise_floor)], -free_inducing])
        upper = np.concatenate([free, theta + LOG_RANGE, [np.inf], free_inducing])
        self.lower, self.upper = lower / self._scale, upper / self._scale

    def pack(self, point: Point) -> Array:
        """Return the vector of a point."""
        inducing = np.empty(0) if point.inducing is None else point.inducing.ravel()
        return np.concatenate([point.X.ravel(), point.kernel.theta, [np.log(point.noise)], inducing]) / self._scale

    def unpack(self, v: Array) -> Point:
        """Return the point of a vector."""
        X, theta, log_noise, inducing = np.split(v * self._scale, self._ends)
        return Point(
            X.reshape(self._shape),
            self._kernel.with_theta(theta),
            float(np.exp(log_noise[0])),
            inducing.reshape(-1, self._shape[1]) if inducing.size else None,
        )

    def pack_gradient(self, e: Evaluation) -> Array:
        """Return the gradient in the vector's entries."""
        inducing = np.empty(0) if e.inducing is None else e.inducing.ravel()
        return np.concatenate([e.X.ravel(), e.theta, [e.log_noise], inducing]) * self._scale

    def at_bounds(self, v: Array) -> tuple[str, ...]:
        """Name the parameters at a bound."""
        names = [*self._kernel.theta_names, "noise"]
        held = ((v <= self.lower) | (v >= self.upper))[self._ends[0] : self._ends[2]]
        return tuple(name for name, flag in zip(names, held, strict=True) if flag)

    def projected_norm(self, v: Array, gradient: Array) -> float:
        """Return the largest entry of a gradient to be descended, without what points out of the bounds."""
        return float(np.abs(np.clip(v - gradient, self.lower, self.upper) - v).max())
