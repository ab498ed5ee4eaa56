"""Neighbours by unbiased distance of many samples: recall against the exact ones, time, and memory beside n x n.

Each size runs in a process of its own, so that its peak memory is its own. Run from the root of a checkout:

    python benchmarks/neighbours_large.py [--samples 20000] [--features 500] [--neighbors 15]
"""

import argparse
import resource
import subprocess
import sys
from time import perf_counter

import numpy as np

import nanfold as nf

CHECKED = 500


def clusters(n: int, d: int) -> np.ndarray:
    """Twenty clusters in twenty dimensions of falling size, with noise of the size of the signal; 40 % hidden."""
    rng = np.random.default_rng(0)
    centres = 2 * rng.standard_normal((20, 20))
    latent = (centres[rng.integers(0, 20, n)] + rng.standard_normal((n, 20))) * 0.9 ** np.arange(20)
    X = latent @ rng.standard_normal((20, d)) + rng.standard_normal((n, d))
    return nf.datasets.hide(X.astype(np.float32), random_state=1)


def exact(gram: object, rows: np.ndarray, k: int) -> np.ndarray:
    """The k nearest of some rows, from whole rows of the Gram matrix."""
    found = []
    for i in rows:
        squared = gram.diagonal() - 2 * gram.rows(i, i + 1)[0]
        squared[i] = np.inf
        found.append(np.argpartition(squared, k)[:k])
    return np.array(found)


def run_one(n: int, d: int, k: int) -> None:
    X = clusters(n, d)
    start = perf_counter()
    gram = nf.unbiased_gram(X, assist="auto", random_state=0)
    estimated = perf_counter()
    indices, _ = nf.corrected_neighbors(gram, k, random_state=0)
    searched = perf_counter()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    rows = np.sort(np.random.default_rng(2).choice(n, CHECKED, replace=False))
    true = exact(gram, rows, k)
    recall = float(np.mean((indices[rows][:, :, None] == true[:, None, :]).any(axis=1)))
    print(
        f"n = {n:7}, d = {d}: recall {recall:.3f} (wanted: at least 0.95); Gram matrix {estimated - start:.1f} s, "
        f"neighbours {searched - estimated:.1f} s; peak {peak:.2f} GiB, n x n alone {8 * n**2 / 2**30:.1f} GiB",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", default="20000")
    parser.add_argument("--features", type=int, default=500)
    parser.add_argument("--neighbors", type=int, default=15)
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        run_one(arguments.one, arguments.features, arguments.neighbors)
        return
    for n in arguments.samples.split(","):
        command = [sys.executable, __file__, "--one", n, "--features", str(arguments.features)]
        subprocess.run([*command, "--neighbors", str(arguments.neighbors)], check=True)


if __name__ == "__main__":
    main()
