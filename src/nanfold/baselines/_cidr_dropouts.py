"""Which entries CIDR takes for dropout candidates: those below a threshold that each cell's density gives."""

import numpy as np

from nanfold.baselines._counts import name_some
from nanfold.baselines._r_density import bandwidth_nrd0, binned_density

FAST_ABOVE = 2000
"""With more cells than this, the fast rule reads the thresholds off this many of the largest libraries."""


def log_cpm(counts: np.ndarray, library_sizes: np.ndarray) -> np.ndarray:
    """Return z = log2(1 + counts per million)."""
    z = counts / library_sizes[:, None]
    z *= 1e6
    z += 1
    return np.log2(z, out=z)


def cell_thresholds(z: np.ndarray, library_sizes: np.ndarray) -> np.ndarray:
    """Return tau, one a cell: the trough of the density of z between 3 counts and the mode above 8 counts."""
    mode_from, trough_from = (np.log2(count / library_sizes * 1e6 + 1) for count in (8, 3))
    bandwidths = np.array([bandwidth_nrd0(cell) for cell in z])
    mode_to = z.max(axis=1) + 3 * bandwidths
    shallow = np.flatnonzero(mode_to <= mode_from)
    if len(shallow):
        raise ValueError(
            f"The counts of cells {name_some(shallow)} are too small for a dropout threshold, which is sought around "
            "8 counts: leave these cells out, or use zeros_only=True."
        )
    return np.array([_trough(*cell) for cell in zip(z, bandwidths, mode_from, mode_to, trough_from, strict=True)])


def _trough(z: np.ndarray, bandwidth: float, mode_from: float, mode_to: float, trough_from: float) -> float:
    points, density = binned_density(z, bandwidth, mode_from, mode_to)
    points, density = binned_density(z, bandwidth, trough_from, points[np.argmax(density)])
    return points[np.argmin(density)]


def clipped_thresholds(z: np.ndarray, library_sizes: np.ndarray) -> np.ndarray:
    """Return tau of every cell, clipped to its 10 % and 90 % quantiles over the cells."""
    tau = cell_thresholds(z, library_sizes)
    return np.clip(tau, *np.quantile(tau, (0.1, 0.9)))


def common_threshold(z: np.ndarray, library_sizes: np.ndarray) -> np.ndarray:
    """Return, for every cell, the median tau of the FAST_ABOVE cells with the largest libraries."""
    largest = np.argsort(-library_sizes, kind="stable")[:FAST_ABOVE]
    return np.full(len(z), np.median(cell_thresholds(z[largest], library_sizes[largest])))
