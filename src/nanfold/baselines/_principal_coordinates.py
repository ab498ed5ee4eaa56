"""Principal coordinates of a dissimilarity, and the constant that makes one Euclidean."""

import numpy as np
from scipy.linalg import eigh, eigvals

ZERO = float(np.sqrt(np.finfo(np.float64).eps))
"""Eigenvalues of smaller size count as 0."""


def double_centred(S: np.ndarray) -> np.ndarray:
    """Return H S H with H = I - 11'/n."""
    return S - S.mean(axis=0) - S.mean(axis=1)[:, None] + S.mean()


def principal_coordinates(D: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the coordinates (one column an eigenvalue > 0) and all eigenvalues of H (-D^2 / 2) H, largest first."""
    values, vectors = eigh(double_centred(-0.5 * D**2))
    values, vectors = values[::-1], vectors[:, ::-1]
    values = np.where(np.abs(values) < ZERO, 0.0, values)
    positive = values > 0
    return vectors[:, positive] * np.sqrt(values[positive]), values


def cailliez_constant(D: np.ndarray) -> float:
    """Return the smallest c >= 0 with which D + c (off the diagonal) is Euclidean.

    It is the largest real eigenvalue of [[0, 2 B1], [-I, -4 B2]] with B1 = H (-D^2 / 2) H and B2 = H (-D / 2) H.
    """
    n = len(D)
    block = np.zeros((2 * n, 2 * n))
    block[:n, n:] = 2 * double_centred(-0.5 * D**2)
    block[n:, :n] = -np.eye(n)
    block[n:, n:] = -4 * double_centred(-0.5 * D)
    values = eigvals(block)
    return max(0.0, float(values.real.max()))
