"""CIDR's dissimilarity: squared differences, each with a weight that says how far a dropout candidate is believed.

An entry z_is is a candidate if it is less than its cell's limit.
"""

from collections.abc import Callable

import numpy as np
from numba import njit
from scipy.optimize import least_squares
from scipy.special import expit

from nanfold._threads import even_blocks, run_blocks


def fit_dropout_curve(z: np.ndarray, candidates: np.ndarray) -> tuple[float, float]:
    """Fit P(e) = 1 / (1 + exp(a (e - b))) to each gene's share of candidates by least squares; return a and b.

    e is the gene's mean over the cells where it is no candidate. Genes that are candidates everywhere have none.
    """
    seen = ~candidates & (z != 0)
    kept = seen.any(axis=0)
    if kept.sum() < 2:
        raise ValueError(
            f"Only {kept.sum()} of {z.shape[1]} genes are above the dropout threshold in some cell, "
            "and the dropout curve needs 2: give more genes or deeper cells."
        )
    rate = candidates.mean(axis=0)[kept]
    level = np.sum(z, axis=0, where=seen)[kept] / seen.sum(axis=0)[kept]
    fit = least_squares(
        lambda ab: expit(-ab[0] * (level - ab[1])) - rate, (1.0, np.round(np.median(level))), method="lm"
    )
    if not fit.success:
        raise ValueError(f"The dropout curve did not converge ({fit.message}): X has too few genes, or no dropouts.")
    return float(fit.x[0]), float(fit.x[1])


def step_dissimilarity(z: np.ndarray, limits: np.ndarray, threshold: float) -> np.ndarray:
    """Return D_ij = sqrt(sum (z_i - z_j)^2 I), I = 1 if neither is a candidate or the larger one is > threshold.

    So a candidate beside a value <= threshold is imputed by that value, and beside a larger one is taken as observed.
    """
    return _dissimilarity(_add_step, z, limits, threshold)


def smooth_dissimilarity(z: np.ndarray, limits: np.ndarray, a: float, b: float) -> np.ndarray:
    """Return D with a lone candidate z_i replaced by P(z_j) z_j + (1 - P(z_j)) z_i; two candidates add nothing.

    The difference that is left is (1 - P(z_j)) (z_i - z_j), so its weight in D^2 is (1 - P(z_j))^2.
    """
    weights = expit(a * (z - b)) ** 2
    weights[z < limits[:, None]] = 0
    return _dissimilarity(_add_smooth, z, limits, weights)


def _dissimilarity(kernel: Callable[..., None], z: np.ndarray, *arguments: np.ndarray | float) -> np.ndarray:
    n = len(z)
    squares = np.zeros((n, n))
    # Small blocks: the early rows have more partners j > i than the late ones.
    run_blocks(lambda start, stop: kernel(z, *arguments, squares, start, stop), even_blocks(n, 16))
    squares += squares.T
    return np.sqrt(squares, out=squares)


# Sums in any order, so that they vectorise; z is finite, and NaN and inf keep their meaning with these two flags.
kernel = njit(cache=True, nogil=True, fastmath={"reassoc", "nsz"})


@kernel
def _add_step(z: np.ndarray, limits: np.ndarray, threshold: float, out: np.ndarray, start: int, stop: int) -> None:
    """out_ij = sum_s (z_is - z_js)^2 [both >= their limits, or one > threshold] for start <= i < stop, j > i."""
    n, d = z.shape
    for i in range(start, stop):
        for j in range(i + 1, n):
            limit_i, limit_j = limits[i], limits[j]
            total = 0.0
            for s in range(d):
                x, y = z[i, s], z[j, s]
                # & and |, not "and" and "or": a branch would keep the loop from vectorising.
                counts = ((x >= limit_i) & (y >= limit_j)) | (x > threshold) | (y > threshold)
                total += (x - y) * (x - y) if counts else 0.0
            out[i, j] = total


@kernel
def _add_smooth(z: np.ndarray, limits: np.ndarray, weights: np.ndarray, out: np.ndarray, start: int, stop: int) -> None:
    """out_ij = sum_s (z_is - z_js)^2 [1 if both >= their limits, else w_is + w_js] for start <= i < stop, j > i."""
    n, d = z.shape
    for i in range(start, stop):
        for j in range(i + 1, n):
            limit_i, limit_j = limits[i], limits[j]
            total = 0.0
            for s in range(d):
                x, y = z[i, s], z[j, s]
                # A candidate's own weight is 0, so that the sum is that of the other one.
                weight = 1.0 if (x >= limit_i) & (y >= limit_j) else weights[i, s] + weights[j, s]
                total += weight * (x - y) * (x - y)
            out[i, j] = total
