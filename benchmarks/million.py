"""A million cells on one machine: dropouts inferred, and principal components with them.

    python benchmarks/million.py [--cells 1000000 --genes 2000 --stored 0.1 --components 50 --limit-gib 8]

Makes the counts (rank-20 gamma-Poisson, log1p, float32), fits ``Dropouts`` and ``PCA``, and prints of each its time,
the time of all processors together (which other work changes little), and the most memory that the process had in it. A
thread watches the memory, and ends the process if it passes the limit.
"""

import argparse
import os
import threading
import time
from pathlib import Path

import numpy as np

import nanfold as nf
from nanfold.bench.data import counts

GIB = 2**30


class Watch:
    """The memory of this process, ten times a second; what is above `limit` bytes ends it."""

    def __init__(self, limit: float) -> None:
        self.limit, self.peak = limit, 0
        self.begin, self.cpu = time.perf_counter(), time.process_time()
        threading.Thread(target=self._look, daemon=True).start()

    def _look(self) -> None:
        while True:
            now = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            self.peak = max(self.peak, now)
            if now > self.limit:
                print(f"stopped: {now / GIB:.1f} GiB is above the limit of {self.limit / GIB:.1f} GiB", flush=True)
                os._exit(1)
            time.sleep(0.1)

    def phase(self, what: str) -> None:
        """Print the time and the peak since the last phase."""
        now, cpu = time.perf_counter(), time.process_time()
        spent = f"{now - self.begin:.0f} s ({cpu - self.cpu:.0f} s of processors)"
        print(f"{what}: {spent}, peak {self.peak / GIB:.2f} GiB", flush=True)
        self.begin, self.cpu, self.peak = now, cpu, 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", type=int, default=1_000_000)
    parser.add_argument("--genes", type=int, default=2000)
    parser.add_argument("--stored", type=float, default=0.1)
    parser.add_argument("--components", type=int, default=50)
    parser.add_argument("--tol", type=float, default=1e-3)
    parser.add_argument("--limit-gib", type=float, default=8.0)
    options = parser.parse_args()
    watch = Watch(options.limit_gib * GIB)
    X = counts(options.cells, options.genes, options.stored)
    size = (X.data.nbytes + X.indices.nbytes + X.indptr.nbytes) / GIB
    watch.phase(f"made {X.shape[0]} x {X.shape[1]}, {X.nnz / 1e6:.0f} million stored, {size:.2f} GiB")
    begin = time.perf_counter()
    dropouts = nf.Dropouts(random_state=0).fit(X)
    watch.phase(f"dropouts, {dropouts.n_groups_} groups of cells")
    model = nf.PCA(options.components, tol=options.tol, random_state=0)
    scores = model.fit_transform(X, mask=dropouts)
    residual = float(model.eigen_residuals_.max())
    watch.phase(f"components, {model.n_iter_} passes, largest residual {residual:.1e}")
    assert np.isfinite(scores).all()
    print(f"both: {(time.perf_counter() - begin) / 60:.1f} minutes")


if __name__ == "__main__":
    main()
