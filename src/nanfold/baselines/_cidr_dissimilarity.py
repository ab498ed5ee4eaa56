"""CIDR's dissimilarity: squared differences, each with a weight that says how far a dropout candidate is believed."""

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
    kept = ~candidates.all(axis=0) & seen.any(axis=0)
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


def step_dissimilarity(z: np.ndarray, candidates: np.ndarray, threshold: float) -> np.ndarray:
    """Return D_ij = sqrt(sum (z_i - z_j)^2 I), I = 1 if neither is a candidate or the larger one is > threshold.

    So a candidate beside a value <= threshold is imputed by that value, and beside a larger one is taken as observed.
    """
    return _dissimilarity(_add_step, z, (~candidates).astype(np.float64), (z > threshold).astype(np.float64))


def smooth_dissimilarity(z: np.ndarray, candidates: np.ndarray, a: float, b: float) -> np.ndarray:
    """Return D with a lone candidate z_i replaced by P(z_j) z_j + (1 - P(z_j)) z_i; two candidates add nothing.

    The difference that is left is (1 - P(z_j)) (z_i - z_j), so its weight in D^2 is (1 - P(z_j))^2.
    """
    certain = (~candidates).astype(np.float64)
    return _dissimilarity(_add_smooth, z, certain, certain * expit(a * (z - b)) ** 2)


def _dissimilarity(kernel: Callable[..., None], z: np.ndarray, one: np.ndarray, two: np.ndarray) -> np.ndarray:
    n = len(z)
    squares = np.zeros((n, n))
    # Small blocks: the early rows have more partners j > i than the late ones.
    run_blocks(lambda start, stop: kernel(z, one, two, squares, start, stop), even_blocks(n, 16))
    squares += squares.T
    return np.sqrt(squares, out=squares)


@njit(cache=True, nogil=True)
def _add_step(z: np.ndarray, certain: np.ndarray, high: np.ndarray, out: np.ndarray, start: int, stop: int) -> None:
    """out_ij = sum_s max(certain_i certain_j, high_i, high_j) (z_i - z_j)^2 for start <= i < stop, j > i."""
    n, d = z.shape
    for i in range(start, stop):
        for j in range(i + 1, n):
            total = 0.0
            for s in range(d):
                difference = z[i, s] - z[j, s]
                total += max(certain[i, s] * certain[j, s], high[i, s], high[j, s]) * difference * difference
            out[i, j] = total


@njit(cache=True, nogil=True)
def _add_smooth(z: np.ndarray, certain: np.ndarray, kept: np.ndarray, out: np.ndarray, start: int, stop: int) -> None:
    """out_ij = sum_s [c_i c_j + (1 - c_i) k_j + (1 - c_j) k_i] (z_i - z_j)^2 for start <= i < stop, j > i."""
    n, d = z.shape
    for i in range(start, stop):
        for j in range(i + 1, n):
            total = 0.0
            for s in range(d):
                difference = z[i, s] - z[j, s]
                weight = (
                    certain[i, s] * certain[j, s] + (1 - certain[i, s]) * kept[j, s] + (1 - certain[j, s]) * kept[i, s]
                )
                total += weight * difference * difference
            out[i, j] = total
