"""The models of p_is, the probability that entry (sample i, feature s) is observed.

A model answers four questions, and nothing else is asked of it:

- ``pair_sums``: sum_s p_is p_js, what (YY')_ij is divided by for i != j
- ``row_sums``: sum_s p_is, what (YY')_ii is divided by
- ``pair_noise``: the relative variance of what a pair of samples shares, N_ij, about what it is divided by
- ``row_noise``: the same for what one sample has

The noise is what the holes themselves add to the variance. With p known it is that of Proposition 2. Shares that were
estimated from the same holes move with them, so that part of the noise cancels.

Where p_is = c_i g_s factorises, so does the Gram matrix, and no n x n array is ever needed.
"""

import copy
from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np

from nanfold.observed import Observed


class ObservationModel(ABC):
    """A model of p_is; fitted to data with holes, it answers the sums that the unbiased Gram matrix divides by."""

    def fit(self, observed: Observed) -> Self:
        """A copy of this model, fitted to the data."""
        fitted = copy.copy(self)
        fitted._fit(observed)
        return fitted

    @abstractmethod
    def _fit(self, observed: Observed) -> None: ...

    @abstractmethod
    def pair_sums(self) -> np.ndarray:
        """sum_s p_is p_js, n x n."""

    @abstractmethod
    def row_sums(self) -> np.ndarray:
        """sum_s p_is, one a row."""

    @abstractmethod
    def pair_noise(self) -> np.ndarray:
        """Var(N_ij / denominator_ij), n x n."""

    @abstractmethod
    def row_noise(self) -> np.ndarray:
        """Var(N_ii / denominator_ii), one a row."""


class Factorised(ObservationModel):
    """p_is = c_i g_s.

    Attributes
    ----------
    c_ : (n,) array
    g_ : (d,) array
    g_square_sum_ : the sum of g_s^2, freed of the sampling error of g where the model knows how
    """

    c_: np.ndarray
    g_: np.ndarray
    g_square_sum_: float

    def pair_sums(self) -> np.ndarray:
        """c_i c_j |g|^2."""
        return np.outer(self.c_, self.c_) * self.g_square_sum_

    def row_sums(self) -> np.ndarray:
        """c_i sum(g)."""
        return self.c_ * self.g_.sum()

    def pair_noise(self) -> np.ndarray:
        """(S1 - S2) / S1^2 with S1 = c_i c_j |g|^2 and S2 = (c_i c_j)^2 sum(g^4)."""
        return 1.0 / self.pair_sums() - (self.g_**4).sum() / self.g_square_sum_**2

    def row_noise(self) -> np.ndarray:
        """sum_s p_is (1 - p_is) / (sum_s p_is)^2."""
        row = self.row_sums()
        return (row - self.c_**2 * self.g_square_sum_) / row**2


class Homogeneous(Factorised):
    """p_is = p, the share of entries that were observed."""

    def _fit(self, observed: Observed) -> None:
        n, d = observed.shape
        self.c_, self.g_ = np.ones(n), np.full(d, observed.share_observed)
        self.g_square_sum_ = float((self.g_**2).sum())

    def __repr__(self) -> str:
        return "Homogeneous()"


class RankOne(Factorised):
    """p_is = r_i f_s / kappa, with r_i and f_s the observed shares of row i and column s.

    By moments, kappa is the observed share of everything, and the sum of g_s^2 is freed of the sampling error of the
    column shares: two different rows see a column with probability (n f_s^2 - f_s) / (n - 1) and not f_s^2.
    Bounded, kappa is raised until no p_is exceeds 1, as in the paper, at the cost of a bias that grows with the most
    observed row and column.

    Parameters
    ----------
    bounded : whether kappa is raised so that p_is <= 1
    """

    def __init__(self, bounded: bool = False) -> None:
        self.bounded = bounded

    def _fit(self, observed: Observed) -> None:
        n, d = observed.shape
        row_share = observed.row_counts / d
        column_share = observed.column_counts / n
        kappa = observed.share_observed
        if self.bounded:
            kappa = max(kappa, row_share.max() * column_share.max())
            square_share = column_share**2
        else:
            # For weights in [0, 1] the same count of pairs of different rows: (sum_i M)^2 - sum_i M^2.
            square_share = (n * column_share**2 - observed.column_squares / n) / (n - 1)
        self.kappa_ = kappa
        self.c_ = row_share
        self.g_ = column_share / kappa
        self.g_square_sum_ = float(square_share.sum()) / kappa**2
        if not self.g_square_sum_ > 0:
            raise ValueError(
                "No column of X is observed in two rows, so no pair of rows can be compared; more of X must be known."
            )

    def pair_noise(self) -> np.ndarray:
        """Var(N_ij / S1 - n_i / m_i - n_j / m_j), with m_i = sum_s p_is: c_i and c_j were estimated from n_i and n_j.

        With g2, g3, g4 the sums of powers of g, Cov(N_ij, n_i) = sum_s p_is p_js (1 - p_is) = c_i c_j (g2 - c_i g3).
        """
        c, g1, g2 = self.c_, self.g_.sum(), self.g_square_sum_
        own = (g1 - c * g2) / (c * g1**2) - 2.0 * (g2 - c * (self.g_**3).sum()) / (c * g1 * g2)
        # p_is may exceed 1 here and there, which must not make a variance negative.
        return np.maximum(super().pair_noise() + own[:, None] + own[None, :], 0.0)

    def row_noise(self) -> np.ndarray:
        """Zero: the diagonal is divided by the count itself."""
        return np.zeros(len(self.c_))

    def __repr__(self) -> str:
        return f"RankOne(bounded={self.bounded})"


class Known(ObservationModel):
    """The user's own probabilities, one for every entry.

    Parameters
    ----------
    P : (n, d) array of probabilities in (0, 1]
    """

    def __init__(self, P: Any) -> None:
        self.P = P

    def _fit(self, observed: Observed) -> None:
        P = np.asarray(self.P, dtype=np.float64)
        if P.shape != observed.shape:
            raise ValueError(f"The probabilities have shape {P.shape}, but X has shape {observed.shape}.")
        bad = ~((P > 0) & (P <= 1))
        if bad.any():
            i, s = np.argwhere(bad)[0]
            raise ValueError(
                f"The probability of row {i}, column {s} is {P[i, s]:.6g}; probabilities of being observed must lie in "
                "(0, 1]."
            )
        self.P_ = P

    def pair_sums(self) -> np.ndarray:
        """P P'."""
        return self.P_ @ self.P_.T

    def row_sums(self) -> np.ndarray:
        """Row sums of P."""
        return self.P_.sum(axis=1)

    def pair_noise(self) -> np.ndarray:
        """(S1 - S2) / S1^2 with S2 = (P * P) (P * P)'."""
        pair, square = self.pair_sums(), self.P_**2
        return (pair - square @ square.T) / pair**2

    def row_noise(self) -> np.ndarray:
        """sum_s p_is (1 - p_is) / (sum_s p_is)^2."""
        row = self.row_sums()
        return (row - np.einsum("is,is->i", self.P_, self.P_)) / row**2

    def __repr__(self) -> str:
        return "Known(P)"


class KnownFactors(Factorised):
    """The user's own probabilities as p_is = c_i g_s.

    Parameters
    ----------
    c : (n,) array
    g : (d,) array
    """

    def __init__(self, c: Any, g: Any) -> None:
        self.c, self.g = c, g

    def _fit(self, observed: Observed) -> None:
        c, g = (np.asarray(factor, dtype=np.float64) for factor in (self.c, self.g))
        for name, factor, axis, length in (("c", c, "row", observed.shape[0]), ("g", g, "column", observed.shape[1])):
            if factor.shape != (length,):
                raise ValueError(
                    f"The factor {name} has shape {factor.shape}; one number a {axis} is needed: ({length},)."
                )
            bad = np.flatnonzero(~(factor > 0))
            if bad.size:
                raise ValueError(f"The factor {name} is {factor[bad[0]]:.6g} at {axis} {bad[0]}; it must be above 0.")
        i, s = int(np.argmax(c)), int(np.argmax(g))
        if c[i] * g[s] > 1 + 1e-12:
            raise ValueError(
                f"The probability of row {i}, column {s} is {c[i] * g[s]:.6g}; probabilities of being observed must "
                "lie in (0, 1]."
            )
        self.c_, self.g_ = c, g
        self.g_square_sum_ = float(g @ g)

    def __repr__(self) -> str:
        return "KnownFactors(c, g)"


class Pairwise(ObservationModel):
    """Divide by N_ij, the number of features that both samples have, in place of its expectation.

    Everything is then conditional on the holes, which add no noise of their own.
    """

    def _fit(self, observed: Observed) -> None:
        self.shared_ = observed.mask_gram()
        self.row_counts_ = observed.row_counts
        alone = np.argwhere(self.shared_ <= 0)
        if alone.size:
            i, j = alone[0]
            raise ValueError(
                f"Rows {i} and {j} share no feature ({len(alone) // 2} such pairs in all), so observation='pairwise' "
                "cannot compare them; use observation='rank-one', or drop the thinnest rows."
            )

    def pair_sums(self) -> np.ndarray:
        """N_ij."""
        return self.shared_

    def row_sums(self) -> np.ndarray:
        """Row counts."""
        return self.row_counts_

    def pair_noise(self) -> np.ndarray:
        """Zero."""
        return np.zeros_like(self.shared_)

    def row_noise(self) -> np.ndarray:
        """Zero."""
        return np.zeros_like(self.row_counts_)

    def __repr__(self) -> str:
        return "Pairwise()"


NAMES = ("rank-one", "rank-one-bounded", "homogeneous", "pairwise")


def observation_model(observation: Any) -> ObservationModel:
    """The model that `observation` asks for: a name, an array P, a pair (c, g), or a model."""
    if isinstance(observation, ObservationModel):
        return observation
    if isinstance(observation, str):
        models = (RankOne(), RankOne(bounded=True), Homogeneous(), Pairwise())
        if observation not in NAMES:
            raise ValueError(
                f"observation must be one of {', '.join(map(repr, NAMES))}, an array of probabilities, a pair of "
                f"factors (c, g) or a model; it is {observation!r}."
            )
        return models[NAMES.index(observation)]
    if isinstance(observation, tuple) and len(observation) == 2:
        return KnownFactors(*observation)
    if np.ndim(observation) == 2:
        return Known(observation)
    raise ValueError(
        f"observation must be one of {', '.join(map(repr, NAMES))}, an array of probabilities, a pair of factors "
        f"(c, g) or a model; it is of type {type(observation).__name__}."
    )
