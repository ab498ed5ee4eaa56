"""BFGS on many small problems at once: their evaluations share matrix products, their steps do not mix."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from nanfold.gp.kernels import Array

#: Values and gradients of the problems with these indices, at one position each.
Function = Callable[[Array, np.ndarray], tuple[Array, Array]]

SUFFICIENT_DECREASE = 1e-4
MOST_HALVINGS = 30


class Minima(NamedTuple):
    """Where each problem ended, its value there, and whether its gradient is below the tolerance."""

    X: Array
    values: Array
    converged: np.ndarray


def descend(function: Function, X: Array, *, max_step: float, max_iter: int = 200, tol: float = 1e-6) -> Minima:
    """Minimise one function of few variables per row of X, each from that row.

    Parameters
    ----------
    function : callable
        ``function(X, index)`` gives values and gradients for the problems in `index`, row by row.
    X : array of (problems, variables)
        Where each starts.
    max_step : float
        The longest step tried, and the length of the first.
    max_iter : int
        The most steps of each.
    tol : float
        A problem has converged when no entry of its gradient, times `max_step`, is above this.
    """
    X = X.copy()
    values, gradients = function(X, np.arange(len(X)))
    # inverse Hessians; None yet known, hence steepest descent with a step of max_step
    H = np.zeros((*X.shape, X.shape[1]))
    _reset(H, gradients, np.arange(len(X)), max_step)
    active = np.flatnonzero(_steep(gradients, max_step, tol))
    for _ in range(max_iter):
        if not active.size:
            break
        step = _direction(H, gradients, active, max_step)
        moved, X_new, values_new, gradients_new = _search(function, X, values, gradients, active, step)
        index = active[moved]
        s, y = X_new[moved] - X[index], gradients_new[moved] - gradients[index]
        X[index], values[index], gradients[index] = X_new[moved], values_new[moved], gradients_new[moved]
        _update(H, index, s, y)
        # where no shorter step is better, the value has reached its rounding error
        active = index[_steep(gradients[index], max_step, tol)]
    return Minima(X, values, ~_steep(gradients, max_step, tol))


def _steep(gradients: Array, max_step: float, tol: float) -> np.ndarray:
    return np.abs(gradients).max(axis=1) * max_step > tol


def _reset(H: Array, gradients: Array, index: np.ndarray, max_step: float) -> None:
    lengths = np.maximum(np.linalg.norm(gradients[index], axis=1), np.finfo(float).tiny)
    H[index] = np.eye(H.shape[1]) * (max_step / lengths)[:, None, None]


def _direction(H: Array, gradients: Array, active: np.ndarray, max_step: float) -> Array:
    step = -np.einsum("pij,pj->pi", H[active], gradients[active])
    uphill = np.einsum("pi,pi->p", step, gradients[active]) >= 0
    if uphill.any():
        _reset(H, gradients, active[uphill], max_step)
        step[uphill] = -np.einsum("pij,pj->pi", H[active[uphill]], gradients[active[uphill]])
    return step * np.minimum(1, max_step / np.linalg.norm(step, axis=1))[:, None]


def _search(
    function: Function, X: Array, values: Array, gradients: Array, active: np.ndarray, step: Array
) -> tuple[np.ndarray, Array, Array, Array]:
    """Halve each step until it decreases the value enough; also return which of the problems found such a step."""
    slope = SUFFICIENT_DECREASE * np.einsum("pi,pi->p", step, gradients[active])
    X_new, values_new, gradients_new = X[active].copy(), values[active].copy(), gradients[active].copy()
    pending = np.arange(len(active))
    share = 1.0
    for _ in range(MOST_HALVINGS):
        trial = X[active[pending]] + share * step[pending]
        f, g = function(trial, active[pending])
        good = f <= values[active[pending]] + share * slope[pending]
        done = pending[good]
        X_new[done], values_new[done], gradients_new[done] = trial[good], f[good], g[good]
        pending = pending[~good]
        if not pending.size:
            break
        share /= 2
    moved = np.ones(len(active), dtype=bool)
    moved[pending] = False
    return moved, X_new, values_new, gradients_new


def _update(H: Array, index: np.ndarray, s: Array, y: Array) -> None:
    """H <- (I - s y'/y's) H (I - y s'/y's) + s s'/y's, where y's is positive."""
    ys = np.einsum("pi,pi->p", y, s)
    curved = ys > 1e-10 * np.linalg.norm(y, axis=1) * np.linalg.norm(s, axis=1)
    index, s, y, ys = index[curved], s[curved], y[curved], ys[curved]
    Hy = np.einsum("pij,pj->pi", H[index], y)
    factor = (1 + np.einsum("pi,pi->p", y, Hy) / ys) / ys
    outer = np.einsum("pi,pj->pij", Hy, s)
    H[index] += (
        factor[:, None, None] * np.einsum("pi,pj->pij", s, s) - (outer + outer.transpose(0, 2, 1)) / ys[:, None, None]
    )
