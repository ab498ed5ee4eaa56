"""The dense Gram matrix beside a plain BLAS product of the same size, and products on a large sparse array.

Dense, n = 2000 and d = 20,000 with 40 % of holes in float64: ``unbiased_gram(X).toarray()`` against ``X @ X.T`` of an
array without holes, best of several in turns, and the peak memory of the former beside the size of X.
Sparse, 50,000 x 20,000 at 5 %: two products, the diagonal and a few rows, and the peak memory beside what one array of
n x n or n x d would take. Each part runs in a process of its own, so that the peaks are its own.

    python benchmarks/gram_dense.py [--part dense|sparse]
"""

import argparse
import resource
import subprocess
import sys
import threading
import time

import numpy as np
import psutil
from scipy import sparse

import nanfold as nf

MIB = 2**20


class Peak:
    """The most resident memory of this process while the block ran, beyond what it had before."""

    def __enter__(self) -> "Peak":
        self.before = self.most = psutil.Process().memory_info().rss
        self._stop = threading.Event()
        self._watch = threading.Thread(target=self._sample)
        self._watch.start()
        return self

    def _sample(self) -> None:
        process = psutil.Process()
        while not self._stop.wait(0.002):
            self.most = max(self.most, process.memory_info().rss)

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._watch.join()

    @property
    def added(self) -> float:
        return (self.most - self.before) / MIB


def warm_up() -> None:
    """Compile, or load what was compiled before, and let libraries take what memory they take for themselves."""
    X = np.random.default_rng(0).standard_normal((300, 400))
    X[::2, ::3] = np.nan
    nf.unbiased_gram(X).toarray()
    stored = sparse.random_array((300, 400), density=0.2, format="csr", rng=np.random.default_rng(0))
    gram = nf.unbiased_gram(stored, observation="rank-one", missing="unstored")
    gram @ np.ones((300, 2))
    X[np.isnan(X)] = 0.0
    X @ X.T


def dense(n: int, d: int, rounds: int) -> None:
    warm_up()
    rng = np.random.default_rng(0)
    X = np.empty((n, d))
    for i in range(n):  # row by row, so that making the data needs no second array
        X[i] = rng.standard_normal(d)
        X[i, rng.random(d) < 0.4] = np.nan
    whole = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    with Peak() as peak:
        nf.unbiased_gram(X).toarray()
    size = X.nbytes / MIB
    total = (size + peak.added) / size
    plain = np.nan_to_num(X)
    ours, blas = [], []
    for _ in range(rounds):
        start = time.perf_counter()
        plain @ plain.T
        blas.append(time.perf_counter() - start)
        start = time.perf_counter()
        nf.unbiased_gram(X).toarray()
        ours.append(time.perf_counter() - start)
    print(f"dense {n} x {d}, {size:.0f} MiB, 40 % of holes")
    print(f"  X @ X.T                    {min(blas):8.2f} s   (all: {' '.join(f'{t:.2f}' for t in blas)})")
    print(f"  unbiased_gram(X).toarray() {min(ours):8.2f} s   (all: {' '.join(f'{t:.2f}' for t in ours)})")
    print(f"  ratio                      {min(ours) / min(blas):8.2f}     (wanted: at most 1.6)")
    print(f"  peak with X over X         {total:8.2f}     (wanted: at most 2.5)")
    print(f"  resident before            {whole:8.0f} MiB, of which X {size:.0f}")


def sparse_products(n: int, d: int, density: float) -> None:
    warm_up()
    rng = np.random.default_rng(0)
    per_row = rng.binomial(d, density, size=n)
    indptr = np.concatenate(([0], np.cumsum(per_row)))
    indices = np.empty(indptr[-1], dtype=np.int32)
    for i in range(n):
        indices[indptr[i] : indptr[i + 1]] = np.sort(rng.choice(d, per_row[i], replace=False, shuffle=False))
    data = rng.standard_normal(len(indices))
    X = sparse.csr_array((data, indices, indptr), shape=(n, d))
    stored = (data.nbytes + indices.nbytes + X.indptr.nbytes) / MIB
    V = rng.standard_normal((n, 10))
    print(f"sparse {n} x {d} at {density:.0%}: {len(data):,} entries, {stored:.0f} MiB")
    for name, options in (("unstored are holes", {"missing": "unstored"}), ("unstored are zeros", {})):
        with Peak() as peak:
            start = time.perf_counter()
            gram = nf.unbiased_gram(X, **options)
            made = time.perf_counter() - start
            start = time.perf_counter()
            gram @ V
            product = time.perf_counter() - start
            gram.diagonal()
            gram.rows(0, 10)
        print(f"  {name}: made in {made:.2f} s, a product with 10 vectors in {product:.2f} s, ", end="")
        print(f"peak {peak.added:.0f} MiB beyond X (n x n: {8 * n * n / MIB:.0f}, n x d: {8 * n * d / MIB:.0f})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=["dense", "sparse"])
    parser.add_argument("--scale", type=float, default=1.0, help="of n and d, for a short trial")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    if options.part is None:
        for part in ("dense", "sparse"):
            subprocess.run([sys.executable, __file__, "--part", part, *sys.argv[1:]], check=True)
    elif options.part == "dense":
        dense(int(2000 * options.scale), int(20_000 * options.scale), options.rounds)
    else:
        sparse_products(int(50_000 * options.scale), int(20_000 * options.scale), 0.05)


if __name__ == "__main__":
    main()
