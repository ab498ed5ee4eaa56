"""R's kernel density estimate (4.2): binned, by FFT, with the Epanechnikov kernel and the bandwidth "nrd0".

CIDR takes its thresholds from the mode and the trough of such a density. They are grid points, so the grid, the
binning and the interpolation are part of the answer, and an exact sum over the data would give other thresholds.
"""

import numpy as np

GRID = 1024


def bandwidth_nrd0(x: np.ndarray) -> float:
    """Return 0.9 min(sd, IQR / 1.34) n^(-1/5); where that is 0, the sd, |x_1| or 1 takes the place of the minimum."""
    sd = float(np.std(x, ddof=1))
    lower, upper = np.quantile(x, (0.25, 0.75))
    spread = min(sd, (upper - lower) / 1.34) or sd or abs(x[0]) or 1.0
    return 0.9 * spread * len(x) ** -0.2


def binned_density(x: np.ndarray, bandwidth: float, start: float, stop: float) -> tuple[np.ndarray, np.ndarray]:
    """Return GRID points from start to stop and the density of x there.

    bandwidth is the kernel's standard deviation, so that its half-width is sqrt(5) times that.
    """
    low, high = start - 4 * bandwidth, stop + 4 * bandwidth
    mass = _linear_bins(x, low, high)
    # The kernel on a ring of 2 GRID points, with a step that is 2 (GRID - 1) / (2 GRID - 1) times that of the bins.
    ring = np.linspace(0, 2 * (high - low), 2 * GRID)
    ring[GRID + 1 :] = ring[GRID - 1 : 0 : -1]
    reach = bandwidth * np.sqrt(5)
    kernel = np.where(ring < reach, 0.75 * (1 - (ring / reach) ** 2) / reach, 0.0)
    smooth = np.fft.irfft(np.fft.rfft(mass) * np.conj(np.fft.rfft(kernel)), 2 * GRID)[:GRID]
    points = np.linspace(start, stop, GRID)
    return points, np.interp(points, np.linspace(low, high, GRID), np.maximum(smooth, 0))


def _linear_bins(x: np.ndarray, low: float, high: float) -> np.ndarray:
    """Share each point's weight 1/n between its two neighbours among GRID points low..high, padded to 2 GRID."""
    position = (x - low) / ((high - low) / (GRID - 1))
    left = np.floor(position)
    share = position - left
    inside = (left >= -1) & (left <= GRID - 1)
    left = left[inside].astype(np.intp)
    # One more bin at each end takes the outer share of a point less than one step outside; it is then cut off.
    mass = np.bincount(left + 1, 1 - share[inside], GRID + 2) + np.bincount(left + 2, share[inside], GRID + 2)
    return np.concatenate([mass[1 : GRID + 1] / len(x), np.zeros(GRID)])
