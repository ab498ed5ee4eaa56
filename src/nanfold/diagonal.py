"""A diagonal freed of noise that differs between samples (HeteroPCA).

Noise that is independent between features adds its variance to the diagonal of the Gram matrix and to nothing else.
Where that variance differs between samples, so do the additions, and the eigenvectors lean towards noisy samples.
Replacing the diagonal by that of the rank-k approximation, again and again until it stands still, takes them out.
"""

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from nanfold.gram import Gram
from nanfold.spectrum import eigenpairs

DIAGONALS = ("unbiased", "denoised")


def check_diagonal(diagonal: str) -> None:
    """One sentence for a diagonal that cannot be."""
    if diagonal not in DIAGONALS:
        raise ValueError(f"diagonal must be one of {', '.join(map(repr, DIAGONALS))}; it is {diagonal!r}.")


class ShiftedGram(Gram):
    """Another Gram matrix with a different diagonal."""

    def __init__(self, gram: Gram, diagonal: np.ndarray) -> None:
        self.gram = gram
        self.shape, self.n_features, self.observed = gram.shape, gram.n_features, gram.observed
        self._diagonal = diagonal
        self._shift = diagonal - gram.diagonal()

    def __matmul__(self, V: np.ndarray) -> np.ndarray:
        """G V."""
        V = np.asarray(V, dtype=np.float64)
        return self.gram @ V + (self._shift if V.ndim == 1 else self._shift[:, None]) * V

    def image(self, N: np.ndarray) -> np.ndarray:
        """That of the other."""
        return self.gram.image(N)

    def step(self, N: np.ndarray, image: np.ndarray, shift: Any = 0.0) -> tuple[np.ndarray, np.ndarray]:
        """(G + diag(shift)) N and its image, in one pass where the other needs but one."""
        return self.gram.step(N, image, self._shift + shift)

    def diagonal(self) -> np.ndarray:
        """The diagonal."""
        return self._diagonal.copy()

    def toarray(self) -> np.ndarray:
        """The dense matrix, n x n."""
        out = self.gram.toarray()
        np.fill_diagonal(out, self._diagonal)
        return out

    def rows(self, start: int, stop: int) -> np.ndarray:
        """Rows start:stop of the dense matrix."""
        out = self.gram.rows(start, stop)
        out[np.arange(stop - start), np.arange(start, stop)] = self._diagonal[start:stop]
        return out

    def _off_diagonal(self, rows: np.ndarray, candidates: np.ndarray) -> np.ndarray:
        return self.gram.pairs(rows, candidates)


def denoised(
    gram: Gram, k: int, *, tol: float = 1e-4, max_iter: int = 200, rng: np.random.Generator | None = None
) -> ShiftedGram:
    """The Gram matrix with the diagonal of its rank-k approximation, iterated until it stands still.

    Parameters
    ----------
    gram : the Gram matrix
    k : the rank, at least 1 and below n
    tol : the diagonal stands still when it changes by less than tol of its own norm
    max_iter : the most iterations
    rng : for the eigensolver
    """
    n = gram.shape[0]
    if not 1 <= k < n:
        raise ValueError(f"diagonal='denoised' needs between 1 and n_samples - 1 = {n - 1} components; it has {k}.")
    rng = np.random.default_rng(0) if rng is None else rng
    current = ShiftedGram(gram, gram.diagonal())
    for _ in range(max_iter):
        pairs = eigenpairs(current, k, tol=min(tol, 1e-4), rng=rng)
        low_rank = np.einsum("ia,a,ia->i", pairs.vectors, pairs.values, pairs.vectors)
        before = current.diagonal()
        current = ShiftedGram(gram, low_rank)
        if np.linalg.norm(low_rank - before) <= tol * np.linalg.norm(low_rank):
            return current
    warnings.warn(
        f"The denoised diagonal still moved after max_iter={max_iter} rounds; with fewer components it settles sooner.",
        ConvergenceWarning,
        stacklevel=2,
    )
    return current
