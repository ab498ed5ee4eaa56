"""The unbiased Gram matrix: products without an n x n array, the dense matrix, variances, distances.

K is the Gram matrix per feature of the complete (centred) data, G~ its estimate from data with holes.
"""

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from scipy.special import ndtri

from nanfold._threads import even_blocks
from nanfold.observation import Factorised, ObservationModel
from nanfold.observed import DenseObserved, Observed
from nanfold.observed.contract import PANEL_VALUES, as_pairs


class Gram(ABC):
    """A symmetric n x n estimate of K, known through its products.

    Attributes
    ----------
    shape : (n, n)
    n_features : d, the number of features; n_features * G estimates the Gram matrix YY' of the complete data
    observed : the data that it was estimated from
    """

    shape: tuple[int, int]
    n_features: int
    observed: Observed
    dtype = np.dtype(np.float64)

    @abstractmethod
    def __matmul__(self, V: np.ndarray) -> np.ndarray:
        """G V, for a vector or a block of vectors."""

    def image(self, N: np.ndarray) -> np.ndarray:
        """What `step` wants to know of N, linear in N; nothing (no rows) where the matrix has no factor."""
        return np.empty((0, N.shape[1]))

    def step(self, N: np.ndarray, image: np.ndarray, shift: Any = 0.0) -> tuple[np.ndarray, np.ndarray]:
        """(G + diag(shift)) N and its image, in one pass over the data where N's image saves the other."""
        return self @ N + np.reshape(shift, (-1, 1)) * N, image

    @abstractmethod
    def diagonal(self) -> np.ndarray:
        """The diagonal."""

    @abstractmethod
    def toarray(self) -> np.ndarray:
        """The dense matrix, n x n."""

    @abstractmethod
    def rows(self, start: int, stop: int) -> np.ndarray:
        """Rows start:stop of the dense matrix."""

    def pairs(self, rows: np.ndarray, candidates: np.ndarray) -> np.ndarray:
        """G_ij for every i of `rows`, (b,), and each of its own candidates j, (b, c)."""
        rows, candidates = as_pairs(rows, candidates, self.shape[0])
        own = self.diagonal()[rows, None]
        return np.where(candidates == rows[:, None], own, self._off_diagonal(rows, candidates))

    def _off_diagonal(self, rows: np.ndarray, candidates: np.ndarray) -> np.ndarray:
        """What `pairs` returns where i != j; elsewhere it may be anything."""
        return np.array([self.rows(i, i + 1)[0, own] for i, own in zip(rows, candidates, strict=True)])

    def squared_distances(self) -> np.ndarray:
        """Estimates of the squared distances per feature, G_ii + G_jj - 2 G_ij; noise can make some negative."""
        out = -2.0 * self.toarray()
        diagonal = self.diagonal()
        out += diagonal[:, None]
        out += diagonal[None, :]
        np.fill_diagonal(out, 0.0)
        return out

    # Of the guess of the complete data that assists, where there is one: the rank of its low-rank part, and over how
    # many neighbours it averages.
    rank = 0
    neighbors = 0

    @property
    def residual_variance(self) -> float:
        """The mean square of what the guess leaves of the observed entries; 0 where there is none."""
        return 0.0

    is_whole = False  # whether nothing is missing, so that G = YY' / d

    def factor(self) -> np.ndarray | None:
        """A dense F with G = F F', where one is at hand (complete data), else None."""
        return None

    def __repr__(self) -> str:
        n = self.shape[0]
        return f"<{n} x {n} {type(self).__name__} over {self.n_features} features>"


class FormedGram(Gram):
    """An estimate that is a dense matrix from the start."""

    def __init__(self, observed: Observed, dense: np.ndarray) -> None:
        self.observed = observed
        self.shape = dense.shape
        self.n_features = observed.shape[1]
        self._dense = dense

    def __matmul__(self, V: np.ndarray) -> np.ndarray:
        """G V."""
        return self._dense @ np.asarray(V, dtype=np.float64)

    def diagonal(self) -> np.ndarray:
        """The diagonal."""
        return np.diag(self._dense).copy()

    def toarray(self) -> np.ndarray:
        """The dense matrix, n x n."""
        return self._dense.copy()

    def rows(self, start: int, stop: int) -> np.ndarray:
        """Rows start:stop of the dense matrix."""
        return self._dense[start:stop].copy()

    def _off_diagonal(self, rows: np.ndarray, candidates: np.ndarray) -> np.ndarray:
        return self._dense[rows[:, None], candidates]


class UnbiasedGram(Gram):
    """G~ of Propositions 1 and 2: (YY')_ij / sum_s p_is p_js off the diagonal, (YY')_ii / sum_s p_is on it.

    Where the model factorises, G~ = F F' + diag(delta) with F = diag(1 / (c |g|)) Y, and a product costs two products
    with Y. Otherwise the dense matrix is formed once, at the first product.
    """

    def __init__(self, observed: Observed, model: ObservationModel) -> None:
        self.observed = observed
        self.model = model
        self.shape = (observed.shape[0], observed.shape[0])
        self.n_features = observed.shape[1]
        self._diagonal = observed.row_squares / model.row_sums()
        self._dense: np.ndarray | None = None
        self._scale: np.ndarray | None = None
        if isinstance(model, Factorised):
            self._scale = 1.0 / (model.c_ * math.sqrt(model.g_square_sum_))
            self._delta = self._diagonal - self._scale**2 * observed.row_squares
            self.is_whole = observed.complete and np.allclose(self._scale**2 * model.row_sums(), 1.0, rtol=1e-9, atol=0)
            if self.is_whole:
                self._delta[:] = 0.0  # zero up to rounding, which must not reach the small eigenvalues

    def __matmul__(self, V: np.ndarray) -> np.ndarray:
        """G~ V."""
        V = np.asarray(V, dtype=np.float64)
        if V.ndim == 1:
            return (self @ V[:, None])[:, 0]
        if self._scale is None:
            return self._formed() @ V
        out = self.observed.matmul(self.image(V))
        out *= self._scale[:, None]
        out += self._delta[:, None] * V
        return out

    def image(self, N: np.ndarray) -> np.ndarray:
        """F'N."""
        return super().image(N) if self._scale is None else self.observed.rmatmul(self._scale[:, None] * N)

    def step(self, N: np.ndarray, image: np.ndarray, shift: Any = 0.0) -> tuple[np.ndarray, np.ndarray]:
        """(G~ + diag(shift)) N and F' of it, in one pass."""
        if self._scale is None:
            return super().step(N, image, shift)
        return self.observed.normal_pass(image, N, self._scale, self._delta + shift)

    def factor_matmul(self, V: np.ndarray) -> np.ndarray:
        """F V, where the model factorises."""
        out = self.observed.matmul(V)
        out *= self._factor_scale()[:, None]
        return out

    def _factor_scale(self) -> np.ndarray:
        if self._scale is None:
            raise ValueError(f"{self.model!r} does not factorise, so that the Gram matrix has no factor.")
        return self._scale

    def covariance_step(self, V: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """F V and F'F V in one pass, where the model factorises."""
        n = self.shape[0]
        return self.observed.normal_pass(V, np.zeros((n, V.shape[1])), self._factor_scale(), np.zeros(n))

    def covariance_matmul(self, V: np.ndarray) -> np.ndarray:
        """F'F V, in one pass."""
        return self.covariance_step(V)[1]

    def diagonal(self) -> np.ndarray:
        """The diagonal."""
        return self._diagonal.copy()

    def toarray(self) -> np.ndarray:
        """The dense matrix, n x n."""
        return self._formed().copy() if self._scale is None else self._form()

    def rows(self, start: int, stop: int) -> np.ndarray:
        """Rows start:stop of the dense matrix."""
        if self._scale is None:
            return self._formed()[start:stop].copy()
        block = self.observed.rows(start, stop)[0]
        out = self.observed.matmul(block.T).T * self._scale
        out *= self._scale[start:stop, None]
        out[np.arange(stop - start), np.arange(start, stop)] = self._diagonal[start:stop]
        return out

    def _off_diagonal(self, rows: np.ndarray, candidates: np.ndarray) -> np.ndarray:
        if self._scale is None:
            return self._formed()[rows[:, None], candidates]
        out = self.observed.pair_products(rows, candidates)
        out *= self._scale[rows, None]
        out *= self._scale[candidates]
        return out

    def _formed(self) -> np.ndarray:
        if self._dense is None:
            self._dense = self._form()
        return self._dense

    def _form(self) -> np.ndarray:
        out = self.observed.gram()
        if self._scale is None:
            out /= self.model.pair_sums()
        else:
            n = self.shape[0]
            for start, stop in even_blocks(n, max(1, PANEL_VALUES // n)):
                # The same product on both sides of the diagonal, so that the matrix stays symmetric to the last bit.
                out[start:stop] *= np.outer(self._scale[start:stop], self._scale)
        np.fill_diagonal(out, self._diagonal)
        return out

    def factor(self) -> np.ndarray | None:
        """Y / sqrt(d) for complete dense data."""
        if not self.is_whole or self._scale is None or not isinstance(self.observed, DenseObserved):
            return None
        return self.observed.values * self._scale[:, None]

    def variance(self) -> np.ndarray:
        """Estimates of the variance of every entry, n x n.

        For features that are independent draws from N(0, K), each entry observed independently of the others, the
        variance is (K_ii K_jj + K_ij^2) / S1 from the values, plus K_ij^2 times the relative variance of the
        denominator's match from the holes. With p known that is Proposition 2; for shares that were estimated from the
        same holes it is less. The squares of G~ stand for those of K after their own variance is taken off:
        E[G~^2] = K^2 + Var, so that Var = a kk + b K^2 is estimated by (a kk + b G~^2) / (1 + b).
        """
        unit = self._unit()
        return self._variance(unit) * unit**2

    def _unit(self) -> float:
        """The size of the entries, in units of which squares neither overflow nor vanish."""
        return float(self._diagonal.max()) or 1.0

    def _variance(self, unit: float) -> np.ndarray:
        k = self._diagonal / unit
        values = 1.0 / self.model.pair_sums()
        squared_weight = values + self.model.pair_noise()
        out = (values * np.outer(k, k) + squared_weight * (self.toarray() / unit) ** 2) / (1.0 + squared_weight)
        own_weight = 2.0 / self.model.row_sums() + self.model.row_noise()
        np.fill_diagonal(out, own_weight * k**2 / (1.0 + own_weight))
        return out

    def standard_error(self) -> np.ndarray:
        """The standard error of every entry, n x n."""
        unit = self._unit()
        return np.sqrt(self._variance(unit)) * unit

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends of the intervals that hold K_ij with the given probability (Proposition 3)."""
        if not 0 < level < 1:
            raise ValueError(f"level must lie between 0 and 1; it is {level!r}.")
        estimate, reach = self.toarray(), ndtri((1.0 + level) / 2.0) * self.standard_error()
        return estimate - reach, estimate + reach


def variance_bounds(
    correlation: float, n_features: float, share: float, *, diagonal: bool = False
) -> tuple[float, float]:
    """Bounds of the variance of one entry of G~, in units of K_ii K_jj (Proposition 2).

    Parameters
    ----------
    correlation : K_ij / sqrt(K_ii K_jj); not used on the diagonal
    n_features : D
    share : the mean over the features of p_is p_js, the share of features that both samples have; on the diagonal the
        mean of p_is
    diagonal : whether the entry is on the diagonal
    """
    if diagonal:
        # sum p^2 lies between (sum p)^2 / D and sum p.
        return 2.0 / (n_features * share), (3.0 / share - 1.0) / n_features
    rho = correlation**2
    # S2 lies between S1^2 / D and S1.
    return (1.0 + rho) / (n_features * share), ((1.0 + 2.0 * rho) / share - rho) / n_features


def features_needed(
    accuracy: float, share: float = 1.0, *, correlation: float = 1.0, diagonal: bool = False, level: float | None = None
) -> int:
    """How many features are enough for an entry of the Gram matrix to be known to a given accuracy?

    Parameters
    ----------
    accuracy : the wanted standard error of G~_ij, as a share of sqrt(K_ii K_jj); with `level`, the wanted half-width
        of the interval
    share : the share of features that both samples have observed (for the diagonal, that one sample has)
    correlation : K_ij / sqrt(K_ii K_jj) of the pair; 1 is the worst case
    diagonal : whether the question is about G~_ii
    level : None for a standard error, or the probability of an interval, such as 0.95

    Returns
    -------
    int
        By the upper bound of Proposition 2: enough whatever the probabilities of the single features are.
    """
    for name, value, upper in (("accuracy", accuracy, math.inf), ("share", share, 1.0)):
        if not 0 < value <= upper:
            raise ValueError(f"{name} must lie in (0, {upper:g}]; it is {value!r}.")
    if not -1 <= correlation <= 1:
        raise ValueError(f"correlation must lie in [-1, 1]; it is {correlation!r}.")
    if level is not None:
        if not 0 < level < 1:
            raise ValueError(f"level must lie between 0 and 1; it is {level!r}.")
        accuracy = accuracy / ndtri((1.0 + level) / 2.0)
    return math.ceil(variance_bounds(correlation, 1, share, diagonal=diagonal)[1] / accuracy**2)
