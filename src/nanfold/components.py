"""How many components: CNG, a share of the variance, sign flips, or all."""

import functools
from typing import Any

import numpy as np

from nanfold.gram import Gram, UnbiasedGram
from nanfold.spectrum import DENSE_SAMPLES, Eigenpairs, check_solver, eigenpairs, exact_eigenpairs

RULES = ("cng", "signflip", "all")
# How many leading eigenvalues the scree test and sign flips look at where not all can be had.
SCREE_LENGTH = 50
N_FLIPS = 20


def cng(eigenvalues: np.ndarray) -> int:
    """The Cattell-Nelson-Gorsuch scree test.

    For each run of six eigenvalues, the slope of its last three is compared with that of its first three; the elbow is
    where they differ most, and what comes before the second half of that run is kept.
    """
    eigenvalues = np.asarray(eigenvalues, dtype=np.float64)
    if len(eigenvalues) < 6:
        raise ValueError(
            f"n_components='cng' needs at least 6 eigenvalues and there are {len(eigenvalues)}; give a number of "
            "components instead."
        )
    # The least-squares slope through three equally spaced points is half the difference of the outer two.
    slopes = (eigenvalues[2:] - eigenvalues[:-2]) / 2.0
    bend = slopes[3:] - slopes[:-3]
    return int(np.argmax(bend)) + 3


def share_of_variance(eigenvalues: np.ndarray, total: float, share: float) -> int:
    """The fewest components whose eigenvalues exceed a share of the total."""
    reached = np.cumsum(eigenvalues) / total
    # The last bit of rounding must not ask for one component more than there is.
    return min(int(np.searchsorted(reached, share, side="right")) + 1, len(eigenvalues))


def null_eigenvalues(gram: UnbiasedGram, n_flips: int, rng: np.random.Generator) -> np.ndarray:
    """The largest eigenvalue of the Gram matrix under random signs, drawn `n_flips` times.

    The sign of every observed centred entry is drawn at random: mask, sizes and denominators stay, all covariance goes.
    """
    out = np.empty(n_flips)
    for t in range(n_flips):
        null = UnbiasedGram(gram.observed.flipped(rng), gram.model)
        out[t] = eigenpairs(null, 1, tol=1e-3, rng=rng).values[0]
    return out


def signflip_rank(gram: UnbiasedGram, n_flips: int, rng: np.random.Generator) -> int:
    """How many eigenvalues exceed the 95 % quantile of the largest one under random signs."""
    found = rank_above(gram, signflip_limit(null_eigenvalues(gram, n_flips, rng)), rng)
    if found == 0:
        raise ValueError(
            "There is nothing to keep: no component stands out of the sign-flipped data; give a number of components, "
            "which is what diagonal='denoised' needs too."
        )
    return found


def signflip_limit(null: np.ndarray) -> float:
    """What an eigenvalue has to exceed to stand out: the 95 % quantile of the largest ones under random signs."""
    return float(np.quantile(null, 0.95))


def rank_above(gram: UnbiasedGram, limit: float, rng: np.random.Generator) -> int:
    """How many eigenvalues exceed a limit."""
    most = min(gram.shape[0], gram.n_features)
    k = min(SCREE_LENGTH, most)
    while True:
        found = int(np.sum(eigenpairs(gram, k, tol=1e-3, rng=rng).values > limit))
        if found < k or k == most:
            return found
        k = min(2 * k, most)


def check_n_components(n_components: Any, n: int, d: int, name: str = "n_components") -> None:
    """One sentence for a number of components that cannot be, which calls it by its name."""
    most = min(n, d)
    if n_components is None or (isinstance(n_components, str) and n_components in RULES):
        return
    if isinstance(n_components, int | np.integer) and not isinstance(n_components, bool):
        if 1 <= n_components <= most:
            return
        raise ValueError(
            f"{name}={n_components} must lie between 1 and min(n_samples, n_features)={most}; choose fewer."
        )
    if isinstance(n_components, float | np.floating):
        if 0 < n_components < 1:
            return
        raise ValueError(f"{name}={n_components} as a share of the variance must lie between 0 and 1.")
    raise ValueError(
        f"{name} must be a whole number, a share in (0, 1), 'cng', 'signflip', 'all' or None; it is {n_components!r}."
    )


def leading_components(
    gram: Gram,
    n_components: Any,
    solver: str = "auto",
    *,
    tol: float = 1e-6,
    max_iter: int = 200,
    n_flips: int = N_FLIPS,
    plain: UnbiasedGram,
    rng: np.random.Generator,
) -> Eigenpairs:
    """As many leading eigenpairs as `n_components` asks for, all with non-negative eigenvalues.

    Where n is too large for all eigenvalues, a share of the variance is reached by asking for twice as many until it
    is, and the scree test looks at the first 50 eigenvalues. Sign flips are counted on the unbiased Gram matrix itself,
    `plain`, whatever `gram` is.
    """
    n, d = gram.shape[0], gram.n_features
    check_n_components(n_components, n, d)
    check_solver(solver, tol, max_iter)
    solve = functools.partial(eigenpairs, gram, solver=solver, tol=tol, max_iter=max_iter, rng=rng)
    if isinstance(n_components, int | np.integer):
        return _real(solve(int(n_components)), gram, int(n_components))
    if n_components == "signflip":
        k = signflip_rank(plain, n_flips, rng)
        return _real(solve(k), gram, k)
    if solver != "krylov" and (n <= DENSE_SAMPLES or solver == "exact"):
        pairs = exact_eigenpairs(gram, min(n, d))
        return _first(pairs, _count(pairs.values, gram, n_components))
    if n_components is None or n_components == "all":
        raise ValueError(
            f"n_components={n_components!r} needs every eigenvalue, which solver={solver!r} does not find for {n} "
            "samples; give a number of components, or solver='exact' if a dense n x n matrix is affordable."
        )
    k = min(SCREE_LENGTH, n, d)
    while True:
        pairs = solve(k)
        found = _count(pairs.values, gram, n_components)
        if n_components == "cng" or found < k or k == min(n, d):
            return _first(pairs, found)
        k = min(2 * k, n, d)


def _count(values: np.ndarray, gram: Gram, n_components: Any) -> int:
    positive = _not_negative(values, gram)
    if n_components is None or n_components == "all":
        return positive
    if n_components == "cng":
        return min(cng(values), positive)
    return share_of_variance(values[:positive], float(gram.diagonal().sum()), float(n_components))


def _not_negative(values: np.ndarray, gram: Gram) -> int:
    """How many eigenvalues are not negative; an error if all are."""
    count = int(np.sum(values >= -_rounding(values, gram)))
    if count == 0:
        raise ValueError(
            "There is nothing to keep: every eigenvalue of the corrected Gram matrix is negative; more of X must "
            "be known."
        )
    return count


def _rounding(values: np.ndarray, gram: Gram) -> float:
    """How far below zero an eigenvalue of zero may come out."""
    return float(max(gram.shape[0], gram.n_features) * np.finfo(np.float64).eps * np.max(np.abs(values), initial=0.0))


def _first(pairs: Eigenpairs, k: int) -> Eigenpairs:
    # What is below zero by rounding alone is zero.
    return Eigenpairs(np.maximum(pairs.values[:k], 0.0), pairs.vectors[:, :k], pairs.residuals[:k], pairs.n_iter)


def _real(pairs: Eigenpairs, gram: Gram, asked: int) -> Eigenpairs:
    """All of them, or an error if some are negative."""
    positive = _not_negative(pairs.values, gram)
    if positive < asked:
        raise ValueError(
            f"n_components={asked} asks for more than the data can give: only {positive} eigenvalues of the corrected "
            f"Gram matrix are not negative; choose at most {positive}, or 'all'."
        )
    return _first(pairs, asked)
