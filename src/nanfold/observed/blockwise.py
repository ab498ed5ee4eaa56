"""Values that have no compact form, made again one dense block of rows at a time whenever they are needed."""

import numpy as np

from nanfold.observed.contract import Observed, add_to_pass, as_block, as_pass


class BlockwiseObserved(Observed):
    """An array with the mask of another and values that are formed, one dense block of rows at a time, when needed."""

    def __init__(self, parent: Observed) -> None:
        self.parent = parent
        self.shape, self.dtype = parent.shape, parent.dtype
        self.row_counts, self.column_counts = parent.row_counts, parent.column_counts
        self.column_squares = parent.column_squares
        self.mean = np.zeros(self.shape[1])
        self.row_squares = np.concatenate([np.einsum("is,is->i", Y, Y) for Y in map(self._block, self.row_blocks())])

    def _block(self, block: tuple[int, int]) -> np.ndarray:
        return self.rows(*block)[0]

    def matmul(self, V: np.ndarray) -> np.ndarray:
        """Y V."""
        V = as_block(V, self.shape[1])
        return np.concatenate([self._block(block) @ V for block in self.row_blocks()])

    def rmatmul(self, U: np.ndarray) -> np.ndarray:
        """Y' U."""
        U = as_block(U, self.shape[0])
        out = np.zeros((self.shape[1], U.shape[1]))
        for start, stop in self.row_blocks():
            out += self._block((start, stop)).T @ U[start:stop]
        return out

    def normal_pass(
        self, W: np.ndarray, Q: np.ndarray, scale: np.ndarray, shift: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Z = diag(scale) Y W + diag(shift) Q and A = Y' diag(scale) Z, forming each block of rows once."""
        W, Q, scale, shift = as_pass(W, Q, scale, shift, self.shape)
        Z, A = np.empty_like(Q), np.zeros_like(W)
        for block in self.row_blocks():
            add_to_pass(self._block(block), slice(*block), W, Q, scale, shift, Z, A)
        return Z, A

    def mask_matmul(self, V: np.ndarray) -> np.ndarray:
        """M V."""
        return self.parent.mask_matmul(V)

    def mask_rmatmul(self, U: np.ndarray) -> np.ndarray:
        """M' U."""
        return self.parent.mask_rmatmul(U)

    def row_normals(self, V: np.ndarray, start: int, stop: int) -> np.ndarray:
        """sum_s M_is V_s V_s'."""
        return self.parent.row_normals(V, start, stop)

    def column_normals(self, U: np.ndarray, start: int, stop: int) -> np.ndarray:
        """sum_i M_is U_i U_i'."""
        return self.parent.column_normals(U, start, stop)

    def flipped(self, rng: np.random.Generator) -> Observed:
        """Random signs for every entry."""
        return FlippedObserved(self, int(rng.integers(2**63)))

    def residual(self, U: np.ndarray, V: np.ndarray) -> Observed:
        """M * (Y - U V')."""
        return ResidualObserved(self, U, V)


class FlippedObserved(BlockwiseObserved):
    """The entries of another array with random signs that depend only on the seed and the row."""

    def __init__(self, parent: Observed, seed: int) -> None:
        self.seed = seed
        super().__init__(parent)

    def rows(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows of Y and of M."""
        Y, M = self.parent.rows(start, stop)
        Y = Y.copy()
        for row, i in zip(Y, range(start, stop), strict=True):
            rng = np.random.Generator(np.random.SFC64([self.seed, i]))
            row *= rng.integers(0, 2, size=len(row), dtype=np.int8) * 2 - 1
        return Y, M


class ResidualObserved(BlockwiseObserved):
    """What a low-rank baseline leaves: M * (Y - U V')."""

    def __init__(self, parent: Observed, U: np.ndarray, V: np.ndarray) -> None:
        self.U, self.V = U, V
        super().__init__(parent)

    def rows(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows of Y and of M."""
        Y, M = self.parent.rows(start, stop)
        return Y - M * (self.U[start:stop] @ self.V.T), M
