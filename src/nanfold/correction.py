"""Which corrected Gram matrix: the unbiased one as it is, or assisted by a guess, and how the guess is chosen."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from nanfold.assist import HELD_OUT, AssistedGram, HeldOut, Leading, best_rank, enough_rows, fit_baseline
from nanfold.gram import Gram, UnbiasedGram
from nanfold.observation import RankOne, observation_model
from nanfold.observed import Observed, observe
from nanfold.refinement import refined, refined_rank
from nanfold.smoothing import LowRank, no_rank, smoothable, smoothed, smoothed_distances, smoothed_gram

RULES = ("auto", "low-rank")
# Of data that are not in memory, rows with so many values are brought there to choose by.
SAMPLE_VALUES = 10_000_000
# More components must lower the held-out error by so much, as must averages to be worth their dense arrays.
WORTHWHILE = 0.98


@dataclass(frozen=True)
class Guess:
    """The chosen baseline: its rank, and what is smoothed over neighbours.

    Attributes
    ----------
    rank : of the low-rank part, or of that which neighbours are found by
    upon : None for no smoothing; else the rank of what is smoothed upon, `rank` or 0
    refined : whether the low-rank part has gone through further sweeps
    leading : eigenvectors of some rows that the low-rank part can start from
    """

    rank: int
    upon: int | None = None
    refined: bool = False
    leading: Leading | None = None

    def low_rank(self, plain: UnbiasedGram, rng: np.random.Generator) -> LowRank:
        """The low-rank part, fitted."""
        if not self.rank:
            return no_rank(plain.observed)
        factors = fit_baseline(plain.observed, plain, self.rank, rng, self.leading)
        return LowRank(*(refined(plain.observed, *factors) if self.refined else factors))


def choose_guess(observed: Observed, rng: np.random.Generator, *, smooth: bool) -> Guess:
    """The baseline that predicts held-out entries best; rank 0 without smoothing if none beats the mean.

    Parameters
    ----------
    observed : the data
    rng : which entries are held out, and the eigensolver
    smooth : whether averages over neighbours are tried, where the data are small enough for dense arrays
    """
    small = observed.in_memory and smoothable(observed)
    sample = observed.sample(SAMPLE_VALUES, rng)
    # Averages are the better, the more rows there are to have near neighbours among.
    some, rows = (sample, None) if small else enough_rows(sample, rng)
    training, held = HeldOut.draw(some, HELD_OUT, rng)
    if not len(held.values):
        return Guess(0)  # a table so small that nothing could be spared
    plain = UnbiasedGram(training, RankOne().fit(training))
    rank, error, vectors = best_rank(plain, held, rng)
    best = Guess(rank, leading=Leading(vectors, rows) if rows is not None and observed.in_memory else None)
    if not small:
        return best
    best, error, low_rank = more_components(best, error, plain, held, rng)
    return better_smoothed(best, error, plain, held, low_rank) if smooth else best


def more_components(
    guess: Guess, error: float, plain: UnbiasedGram, held: HeldOut, rng: np.random.Generator
) -> tuple[Guess, float, LowRank]:
    """The guess refined, if that predicts held-out entries enough better; with its error and its low-rank part."""
    rank = refined_rank(plain.observed.shape, guess.rank)
    if rank:
        more = Guess(rank, refined=True)
        low_rank = more.low_rank(plain, rng)
        reached = held.error(np.einsum("pa,pa->p", low_rank.U[held.rows], low_rank.V[held.columns]))
        if reached < WORTHWHILE * error:
            return more, reached, low_rank
    return guess, error, guess.low_rank(plain, rng)


def better_smoothed(guess: Guess, error: float, plain: UnbiasedGram, held: HeldOut, low_rank: LowRank) -> Guess:
    """The guess with averages over neighbours, upon it or of the data themselves, if either is enough better."""
    best, least = guess, WORTHWHILE * error
    squared = smoothed_distances(plain, low_rank)
    for basis in [no_rank(plain.observed), low_rank][: 2 if low_rank.rank else 1]:
        reached = held.error(smoothed(plain.observed, basis, squared)[0][held.rows, held.columns])
        if reached < least:
            best, least = replace(guess, upon=basis.rank), reached
    return best


def check_assist(assist: Any, n: int, d: int) -> None:
    """One sentence for an `assist` that cannot be."""
    if isinstance(assist, str) and assist in RULES:
        return
    if isinstance(assist, int | np.integer) and not isinstance(assist, bool):
        if 0 <= assist < min(n, d):
            return
        raise ValueError(f"assist={assist} must lie between 0 and min(n_samples, n_features) - 1 = {min(n, d) - 1}.")
    raise ValueError(
        f"assist must be a rank, 0 for the unbiased Gram matrix alone, 'auto' or 'low-rank'; it is {assist!r}."
    )


def corrected_gram(plain: UnbiasedGram, assist: Any = "auto", *, rng: np.random.Generator) -> Gram:
    """The unbiased Gram matrix as it is, or assisted.

    Parameters
    ----------
    plain : the unbiased Gram matrix
    assist : 0 for the unbiased Gram matrix alone; the rank of a low-rank baseline; "low-rank" for the rank that
        predicts held-out entries best; or "auto", which also tries averages over neighbours where dense arrays of the
        data's size are small. Both are 0 for complete data, and where no single entries can be held out: under weights,
        such as those of inferred dropouts, and of sparse arrays with NaN beside known zeros
    rng : for the eigensolver and the held-out entries
    """
    observed = plain.observed
    n, d = observed.shape
    check_assist(assist, n, d)
    if isinstance(assist, str):
        # Complete data need no help; under weights it is not known which entries could be held out.
        settled = observed.complete or not observed.can_hold_out or min(n, d) < 3
        guess = Guess(0) if settled else choose_guess(observed, rng, smooth=assist == "auto")
    else:
        guess = Guess(int(assist))
    if guess.upon is None and (guess.rank == 0 or observed.complete):
        return plain
    low_rank = guess.low_rank(plain, rng)
    if guess.upon is not None:
        return smoothed_gram(plain, low_rank, guess.upon)
    return AssistedGram(observed, plain.model, low_rank.U, low_rank.V)


def unbiased_gram(
    X: Any,
    mask: Any = None,
    missing: str = "nan",
    observation: Any = "rank-one",
    center: bool = True,
    assist: Any = 0,
    random_state: Any = None,
) -> Gram:
    """The unbiased Gram matrix of data with holes.

    Parameters
    ----------
    X : (n, d) array, table or sparse array
    mask : True where observed; or a fitted ``Dropouts``; None if X itself shows its holes
    missing : "nan" (NaN are holes) or "unstored" (what a sparse array does not store is a hole)
    observation : the model of p_is: "rank-one", "rank-one-bounded", "homogeneous", "pairwise", an array of
        probabilities, a pair of factors (c, g), or a model
    center : subtract the mean of the observed entries from each feature
    assist : 0 for the paper's estimator; the rank of a baseline that lowers its variance; "low-rank" to choose that
        rank; or "auto" to choose between ranks and averages over neighbours
    random_state : seeds what is held out and the eigensolver behind the baseline

    Returns
    -------
    UnbiasedGram, AssistedGram or SmoothedGram
        With ``G @ V``, ``G.diagonal()``, ``G.toarray()`` and ``G.squared_distances()``; the first also with
        ``G.variance()``, ``G.standard_error()`` and ``G.interval()``.
    """
    observed = observe(X, mask, missing, center=bool(center))
    plain = UnbiasedGram(observed, observation_model(observation).fit(observed))
    return corrected_gram(plain, assist, rng=np.random.default_rng(check_random_state(random_state).randint(2**31)))
