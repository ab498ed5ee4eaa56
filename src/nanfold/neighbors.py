"""Nearest neighbours by unbiased distance.

The squared distance between two samples is estimated by E2_ij = G_ii + G_jj - 2 G_ij, times d. Up to EXACT_SAMPLES
samples every pair is looked at, in blocks of rows. Beyond, each sample has candidates, its nearest neighbours by the
leading corrected scores, and the best of them by E2 are kept. The scores leave out what noise does to E2, so how many
candidates it takes depends on the data: it is found out on a few samples whose exact neighbours are known.
"""

import warnings
from typing import Any, NamedTuple

import numba
import numpy as np
from sklearn.utils import check_random_state

from nanfold import _kernels
from nanfold._threads import even_blocks, n_threads, run_blocks
from nanfold.correction import check_assist, corrected_gram
from nanfold.gram import Gram, UnbiasedGram
from nanfold.observation import observation_model
from nanfold.observed import observe
from nanfold.observed.checks import check_shared_features
from nanfold.observed.contract import PANEL_VALUES
from nanfold.spectrum import eigenpairs

# Up to this many samples every pair is looked at.
EXACT_SAMPLES = 10_000
# Up to this many, every pair is looked at if MOST_CANDIDATES would not be enough.
EXACT_IF_NEEDED = 50_000
# Candidates of one sample: fewer than the first and their search misses some, more than the second and it is slower
# than looking at every pair of EXACT_IF_NEEDED samples.
LEAST_CANDIDATES, MOST_CANDIDATES = 30, 300
# Components that the candidates are found on.
SCORES = 50
# The share of the exact neighbours that is to be found, and how many samples it is checked on.
RECALL = 0.95
CHECKED = 200


class Neighbors(NamedTuple):
    """The nearest neighbours of every sample, the nearest first and itself not among them.

    Attributes
    ----------
    indices : (n, k) array of whole numbers
    distances : (n, k) array, increasing along the rows
    """

    indices: np.ndarray
    distances: np.ndarray


def nearest_neighbors(
    X: Any,
    n_neighbors: int = 15,
    *,
    mask: Any = None,
    missing: str = "nan",
    observation: Any = "rank-one",
    assist: Any = "auto",
    center: bool = True,
    candidates: Any = "auto",
    random_state: Any = None,
) -> Neighbors:
    """The nearest neighbours of every row of data with holes, by estimates of the distances between complete rows.

    Parameters
    ----------
    X : (n, d) array, table or sparse array
    n_neighbors : how many, the row itself not counted
    mask : True where observed; or a fitted ``Dropouts``; None if X itself shows its holes
    missing : "nan" (NaN are holes) or "unstored" (what a sparse array does not store is a hole)
    observation : the model of the probability of being observed, as in :func:`nanfold.unbiased_gram`
    assist : the guess that lowers the variance of the distances: 0 for none, a rank, "low-rank" or "auto", as in
        :func:`nanfold.unbiased_gram`
    center : subtract the mean of the observed entries from each feature
    candidates : as in :func:`corrected_neighbors`
    random_state : seed

    Returns
    -------
    Neighbors
        ``indices`` and ``distances``, both (n, n_neighbors). On complete data these are Euclidean distances; with
        holes, noise can make the estimate of a squared distance negative, which gets the smallest distance of all.
    """
    observed = observe(X, mask, missing, center=bool(center))
    check_n_neighbors(n_neighbors, observed.shape[0])
    check_candidates(candidates, n_neighbors, observed.shape[0])
    check_assist(assist, *observed.shape)
    check_shared_features(observed)
    seeds = check_random_state(random_state).randint(2**31, size=2)
    plain = UnbiasedGram(observed, observation_model(observation).fit(observed))
    gram = corrected_gram(plain, assist, rng=np.random.default_rng(seeds[0]))
    return corrected_neighbors(gram, n_neighbors, candidates=candidates, random_state=int(seeds[1]))


def corrected_neighbors(
    gram: Gram,
    n_neighbors: int,
    *,
    scores: np.ndarray | None = None,
    candidates: Any = "auto",
    random_state: Any = None,
) -> Neighbors:
    """The nearest neighbours of every sample by the distances of a corrected Gram matrix.

    Neighbours are ranked by E2_ij, negative or not. Their distance is the root of d E2_ij, but at least the root of
    d E2_ij's rounding error, so that no distance is zero: graphs that store distances would lose the zeros.

    Parameters
    ----------
    gram : the Gram matrix
    n_neighbors : how many, the sample itself not counted
    scores : (n, m) corrected scores that candidates are found on; None for the leading 50. Not used where every pair is
        looked at.
    candidates : how many candidates each sample has, None to look at every pair; or "auto": every pair up to 10,000
        samples, and beyond as many candidates as hold 95 % of the exact neighbours of a few samples. If that would
        take more than 300, every pair is looked at up to 50,000 samples.
    random_state : seed of the search for candidates, and of the samples that it is checked on

    Returns
    -------
    Neighbors
        ``indices`` and ``distances``, both (n, n_neighbors).

    Warns
    -----
    UserWarning
        If less than 95 % of the exact neighbours are found, which is checked on 200 samples.
    """
    n = gram.shape[0]
    check_n_neighbors(n_neighbors, n)
    check_candidates(candidates, n_neighbors, n)
    check_scores(scores, n)
    check_shared_features(gram.observed)
    if not np.any(gram.diagonal()):
        raise ValueError("X does not vary: every observed entry equals the mean of its column.")
    if candidates is None or (isinstance(candidates, str) and n <= EXACT_SAMPLES):
        indices, squared = _among_all(gram, n_neighbors)
    else:
        indices, squared = _among_candidates(gram, n_neighbors, scores, candidates, check_random_state(random_state))
    # E2 of two equal samples is a difference of numbers of the size of the diagonal.
    rounding = np.finfo(np.float64).eps * np.mean(np.abs(gram.diagonal()))
    return Neighbors(indices, np.sqrt(gram.n_features * np.maximum(squared, rounding)))


def check_n_neighbors(n_neighbors: Any, n: int) -> None:
    """One sentence for a number of neighbours that cannot be."""
    if not is_whole_number(n_neighbors) or n_neighbors < 1:
        raise ValueError(f"n_neighbors must be a whole number of at least 1; it is {n_neighbors!r}.")
    if n_neighbors >= n:
        raise ValueError(
            f"n_neighbors={n_neighbors} is too large: a sample has {n - 1} others among {n}; choose at most {n - 1}."
        )


def check_candidates(candidates: Any, n_neighbors: int, n: int) -> None:
    """One sentence for a number of candidates that cannot be."""
    if candidates is None or (isinstance(candidates, str) and candidates == "auto"):
        return
    if not is_whole_number(candidates) or not n_neighbors <= candidates < n:
        raise ValueError(
            f"candidates must be 'auto', None to look at every pair, or a whole number between n_neighbors="
            f"{n_neighbors} and n_samples - 1 = {n - 1}; it is {candidates!r}."
        )


def check_scores(scores: np.ndarray | None, n: int) -> None:
    """One sentence for scores of another shape."""
    if scores is not None and (np.ndim(scores) != 2 or len(scores) != n or not np.shape(scores)[1]):
        raise ValueError(f"scores must have one row for each of the {n} samples; their shape is {np.shape(scores)}.")


def is_whole_number(number: Any) -> bool:
    """Whether it is an integer, and not True or False."""
    return isinstance(number, int | np.integer) and not isinstance(number, bool)


def _among_all(gram: Gram, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k smallest E2 of every row, and where they are, from one block of rows of the Gram matrix at a time."""
    n = gram.shape[0]
    found = []
    for start, stop in even_blocks(n, max(1, PANEL_VALUES // n)):
        found.append(_nearest(gram.rows(start, stop), gram.diagonal(), np.arange(start, stop), k))
    return np.concatenate([indices for indices, _ in found]), np.concatenate([squared for _, squared in found])


def _of_rows(gram: Gram, rows: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The same for some rows, by products with their unit vectors."""
    n = gram.shape[0]
    indices, squared = np.empty((len(rows), k), dtype=np.intp), np.empty((len(rows), k))
    for start, stop in even_blocks(len(rows), max(1, PANEL_VALUES // n)):
        unit = np.zeros((n, stop - start))
        unit[rows[start:stop], np.arange(stop - start)] = 1.0
        G = np.ascontiguousarray((gram @ unit).T)
        indices[start:stop], squared[start:stop] = _nearest(G, gram.diagonal(), rows[start:stop], k)
    return indices, squared


def _nearest(G: np.ndarray, diagonal: np.ndarray, rows: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    indices, squared = np.empty((len(rows), k), dtype=np.intp), np.empty((len(rows), k))
    blocks = even_blocks(len(rows), max(1, -(-len(rows) // n_threads())))
    run_blocks(lambda a, b: _kernels.nearest_others(G, diagonal, rows, indices, squared, a, b), blocks)
    return indices, squared


def _among_candidates(
    gram: Gram, k: int, scores: np.ndarray | None, candidates: Any, rng: np.random.RandomState
) -> tuple[np.ndarray, np.ndarray]:
    n = gram.shape[0]
    seed = int(rng.randint(2**31))
    scores = _leading_scores(gram, seed) if scores is None else np.asarray(scores)
    # In units in which float32 neither overflows nor vanishes.
    scores = np.ascontiguousarray(scores / (np.abs(scores).max() or 1.0), dtype=np.float32)
    checked = np.sort(rng.choice(n, min(CHECKED, n), replace=False))
    exact, _ = _of_rows(gram, checked, k)
    if isinstance(candidates, str):
        candidates = max(_enough(scores, checked, exact), LEAST_CANDIDATES)
        if candidates > MOST_CANDIDATES and (n <= EXACT_IF_NEEDED or k >= MOST_CANDIDATES):
            return _among_all(gram, k)
        candidates = min(candidates, MOST_CANDIDATES)
    indices, squared = _best(gram, k, _by_scores(scores, candidates, seed))
    recall = float(np.mean((indices[checked][:, :, None] == exact[:, None, :]).any(axis=1)))
    if recall < RECALL:
        warnings.warn(
            f"Of the exact corrected neighbours, {recall:.2f} are among {candidates} candidates (checked on "
            f"{len(checked)} samples); give more candidates, or candidates=None to look at every pair.",
            stacklevel=3,
        )
    return indices, squared


def _leading_scores(gram: Gram, seed: int) -> np.ndarray:
    k = min(SCORES, gram.shape[0], gram.n_features)
    pairs = eigenpairs(gram, k, tol=1e-2, rng=np.random.default_rng(seed))
    # One component at least, so that there is something to search on.
    kept = np.maximum(pairs.values, 0.0)[: max(1, int(np.sum(pairs.values > 0)))]
    return pairs.vectors[:, : len(kept)] * np.sqrt(kept)


def _enough(scores: np.ndarray, rows: np.ndarray, exact: np.ndarray) -> int:
    """How many neighbours by score hold the exact ones: all but half of the share that may be missed."""
    norms = np.einsum("ia,ia->i", scores, scores)
    ranks = np.empty(exact.shape)
    for rank, i, others in zip(ranks, rows, exact, strict=True):
        away = norms - 2.0 * (scores @ scores[i])
        away[i] = -np.inf
        rank[:] = np.searchsorted(np.sort(away), away[others])
    return int(np.ceil(np.quantile(ranks, (1.0 + RECALL) / 2.0)))


def _by_scores(scores: np.ndarray, count: int, seed: int) -> np.ndarray:
    """The nearest neighbours by scores, (n, count + 1), itself among them, and -1 where the search failed."""
    from pynndescent import NNDescent

    with warnings.catch_warnings():
        # Rows for which too few are found are looked at again.
        warnings.filterwarnings("ignore", message="Failed to correctly find n_neighbors")
        threads = min(n_threads(), numba.get_num_threads())
        index = NNDescent(scores, n_neighbors=count + 1, random_state=seed, n_jobs=threads)
    return index.neighbor_graph[0]


def _best(gram: Gram, k: int, candidates: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The k smallest E2 of every row among its candidates, and where they are."""
    n, width = candidates.shape
    diagonal = gram.diagonal()
    indices, squared = np.empty((n, k), dtype=np.intp), np.empty((n, k))
    for start, stop in even_blocks(n, max(1, PANEL_VALUES // width)):
        rows = np.arange(start, stop)
        others = np.sort(candidates[start:stop], axis=1).astype(np.intp)  # so that ties go to the smaller index
        others = np.where(others < 0, rows[:, None], others)
        values = diagonal[rows, None] + diagonal[others] - 2.0 * gram.pairs(rows, others)
        values[others == rows[:, None]] = np.inf
        order = np.argsort(values, axis=1, kind="stable")[:, :k]
        indices[start:stop] = np.take_along_axis(others, order, axis=1)
        squared[start:stop] = np.take_along_axis(values, order, axis=1)
    few = np.flatnonzero(np.isinf(squared[:, -1]))
    indices[few], squared[few] = _of_rows(gram, few, k)
    return indices, squared
