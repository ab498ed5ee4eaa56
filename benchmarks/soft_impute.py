"""SoftImpute beside plain proximal gradients: certificate, agreement and time; and memory on a large sparse array.

    python benchmarks/soft_impute.py [--size 2000] [--rank 50] [--holes 0.6] [--part dense|sparse]

Dense: a matrix of the given rank plus noise, from which entries are hidden at random, and a penalty at which the
minimum has about that rank. Plain proximal gradients take steps of length 1 from zero, each of which finds the singular
values above the penalty by LAPACK, by ARPACK or from the eigenpairs of the Gram matrix, whichever is fastest. No such
step leads further from the minimum, so they go on until they are within 1e-6 of SoftImpute's, whose duality gap is at
most 1e-12, and the time that counts is that of the steps until then. The processor time beside it is what a busy
machine does not change.
Sparse: 20,000 x 5,000 with 1 % stored, where one dense array would take 0.75 GiB. Each part runs in its own process.
"""

import argparse
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from time import perf_counter, process_time

import numpy as np
from scipy import linalg, sparse
from scipy.sparse.linalg import svds

from nanfold.baselines import SoftImpute

Triplets = tuple[np.ndarray, np.ndarray, np.ndarray]


def problem(size: int, rank: int, holes: float) -> tuple[np.ndarray, float]:
    """A matrix with NaN in the holes, and a penalty somewhat above the spectral norm of its noise."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((size, rank)) @ rng.standard_normal((rank, size)) + rng.standard_normal((size, size))
    X[rng.random((size, size)) < holes] = np.nan
    return X, 1.1 * np.sqrt(1 - holes) * 2 * np.sqrt(size)


def by_lapack(A: np.ndarray, penalty: float, k: int) -> Triplets:
    """All singular triplets."""
    return linalg.svd(A, full_matrices=False, check_finite=False)


def by_gram(A: np.ndarray, penalty: float, k: int) -> Triplets:
    """The singular triplets above the penalty, from the eigenpairs of A'A above its square."""
    values, V = linalg.eigh(A.T @ A, subset_by_value=(penalty**2, np.inf), driver="evr", check_finite=False)
    s = np.sqrt(values)
    return A @ (V / s), s, V.T


def by_arpack(A: np.ndarray, penalty: float, k: int) -> Triplets:
    """k leading singular triplets, or more where these do not reach the penalty."""
    U, s, Vt = svds(A, k, solver="arpack", random_state=0)
    return by_arpack(A, penalty, k + max(1, k // 4)) if s[0] > penalty else (U, s, Vt)


def now() -> np.ndarray:
    """Seconds on the clock and of the processor."""
    return np.array([perf_counter(), process_time()])


def fastest(A: np.ndarray, penalty: float, k: int) -> Callable:
    """What decomposes A soonest."""
    spent = {}
    for decompose in (by_lapack, by_gram, by_arpack):
        start = now()
        decompose(A, penalty, k)
        spent[decompose] = (now() - start)[1]
        print(f"{decompose.__name__}: {spent[decompose]:.2f} s of processor time a step", file=sys.stderr)
    return min(spent, key=spent.get)


def plain(Y: np.ndarray, seen: np.ndarray, penalty: float, k: int, decompose: Callable) -> Iterator[np.ndarray]:
    """The matrix after every step."""
    M = np.zeros_like(Y)
    while True:
        U, s, Vt = decompose(np.where(seen, Y, M), penalty, k)
        kept = s > penalty
        M = (U[:, kept] * (s[kept] - penalty)) @ Vt[kept]
        yield M


def approach(steps: Iterator[np.ndarray], goal: np.ndarray) -> tuple[int, float, np.ndarray]:
    """Step until within 1e-6 of the goal, or until steps lead nowhere: their number, the distance, the time spent."""
    size, spent, before = np.linalg.norm(goal), np.zeros(2), np.zeros_like(goal)
    count, apart, moved = 0, 1.0, 1.0
    while apart > 1e-6 and moved > 1e-10:
        start = now()
        M = next(steps)
        spent += now() - start
        count, apart, moved = count + 1, np.linalg.norm(M - goal) / size, np.linalg.norm(M - before) / size
        before = M
        if count % 20 == 0:
            print(f"plain: {count} steps, {spent[1]:.0f} s of processor time, {apart:.1e} apart", file=sys.stderr)
    return count, apart, spent


def dense(size: int, rank: int, holes: float) -> None:
    X, penalty = problem(size, rank, holes)
    # The kernels are compiled, or read from their cache, before anything is timed.
    SoftImpute(penalty / 3, rank=3, random_state=0).fit(X[:100, :100])
    start = now()
    model = SoftImpute(penalty, tol=1e-12, random_state=0).fit(X)
    ours = now() - start
    print(f"{size} x {size}, {holes:.0%} holes, penalty {penalty:.4g}: rank {model.rank_}")
    print(
        f"SoftImpute: {ours[0]:.1f} s ({ours[1]:.1f} s of processor time), {model.n_iter_} steps, relative duality gap "
        f"{model.certificate_:.1e} (wanted: at most 1e-12)",
        flush=True,
    )
    seen = ~np.isnan(X)
    Y = np.where(seen, X - np.nanmean(X, axis=0), 0.0)
    goal = model.U_ * model.singular_values_ @ model.components_
    k = rank + rank // 4
    decompose = fastest(np.where(seen, Y, goal), penalty, k)
    count, apart, spent = approach(plain(Y, seen, penalty, k, decompose), goal)
    print(
        f"plain proximal gradients {decompose.__name__.replace('_', ' ')}: {spent[0]:.1f} s ({spent[1]:.1f} s of "
        f"processor time), {count} steps, relative distance to SoftImpute's minimum {apart:.1e} (wanted: at most 1e-6)"
    )
    print(
        f"SoftImpute is {spent[0] / ours[0]:.1f} times faster ({spent[1] / ours[1]:.1f} in processor time; wanted: at "
        "least 5)"
    )


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def stored(n: int = 20_000, d: int = 5_000, share: float = 0.01, rank: int = 5) -> None:
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((n, rank)), rng.standard_normal((d, rank))
    places = np.unique(rng.integers(0, n * d, int(share * n * d)))
    rows, columns = places // d, places % d
    values = np.einsum("pc,pc->p", A[rows], B[columns]) + rng.standard_normal(len(rows))
    X = sparse.coo_array((values, (rows, columns)), shape=(n, d)).tocsr()
    SoftImpute(30.0, rank=3, missing="unstored", random_state=0).fit(X[:2000])
    held = peak()
    start = now()
    model = SoftImpute(rank=20, missing="unstored", random_state=0).fit(X)
    took = now() - start
    others = rng.integers(0, n, 10**5), rng.integers(0, d, 10**5)
    wanted = np.einsum("pc,pc->p", A[others[0]], B[others[1]])
    error = np.sqrt(np.mean((model.predict_entries(*others) - wanted) ** 2) / np.mean(wanted**2))
    print(
        f"{n} x {d}, {X.nnz / (n * d):.1%} stored, penalty chosen by held-out entries: {took[0]:.1f} s ({took[1]:.1f} "
        f"s of processor time), rank {model.rank_}, certificate {model.certificate_:.1e}, relative error of unseen "
        f"entries {error:.2f}"
    )
    print(
        f"peak {peak():.2f} GiB, {peak() - held:.2f} GiB above what was held before (wanted: below the "
        f"{8 * n * d / 2**30:.2f} GiB of one dense array)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=2000)
    parser.add_argument("--rank", type=int, default=50)
    parser.add_argument("--holes", type=float, default=0.6)
    parser.add_argument("--part", choices=["dense", "sparse"])
    options = parser.parse_args()
    if options.part == "dense":
        dense(options.size, options.rank, options.holes)
    elif options.part == "sparse":
        stored()
    else:
        for part in ("dense", "sparse"):
            subprocess.run([sys.executable, __file__, *sys.argv[1:], "--part", part], check=True)


if __name__ == "__main__":
    main()
