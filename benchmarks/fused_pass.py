"""What a fused pass over sparse counts takes, and its two halves, beside the bound of the machine.

    python benchmarks/fused_pass.py [--cells 20000 --genes 20000 --stored 0.05 --vectors 8 16 32]

Nanoseconds of processor time a stored entry; `times the bound` is by the clock, on all threads.
"""

import argparse
from collections.abc import Callable
from time import perf_counter, process_time

import numpy as np

import nanfold as nf
from nanfold.bench import machine
from nanfold.bench.data import counts


def best(run: Callable[[], object], times: int = 5) -> tuple[float, float]:
    """The least seconds of the clock and of the processors that a run takes, after a first one."""
    run()
    spent = []
    for _ in range(times):
        wall, cpu = perf_counter(), process_time()
        run()
        spent.append((perf_counter() - wall, process_time() - cpu))
    wall, cpu = np.min(spent, axis=0)
    return wall, cpu


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", type=int, default=20_000)
    parser.add_argument("--genes", type=int, default=20_000)
    parser.add_argument("--stored", type=float, default=0.05)
    parser.add_argument("--vectors", type=int, nargs="+", default=[8, 16, 32])
    options = parser.parse_args()
    X = counts(options.cells, options.genes, options.stored)
    gram = nf.unbiased_gram(X)
    speed, rate = machine.bandwidth(), machine.multiplications()
    print(f"{X.shape[0]} x {X.shape[1]}, {X.nnz} stored; {speed / 1e9:.1f} GB/s, {rate / 1e9:.1f} G multiply-adds/s")
    print("| vectors | Y W, ns | Y' Z, ns | pass, ns | pass, s | bound, s | times the bound |")
    print("|---|---|---|---|---|---|---|")
    rng = np.random.default_rng(0)
    for vectors in options.vectors:
        Q, W = (rng.standard_normal((length, vectors)) for length in X.shape)
        gathered, scattered, fused = (
            best(run)
            for run in (
                lambda W=W: gram.observed.matmul(W),
                lambda Q=Q: gram.observed.rmatmul(Q),
                lambda W=W, Q=Q: gram.step(Q, W),
            )
        )
        bound = machine.pass_bound(X, vectors, speed, rate)
        processors = " | ".join(f"{cpu / X.nnz * 1e9:.2f}" for _, cpu in (gathered, scattered, fused))
        print(f"| {vectors} | {processors} | {fused[0]:.3f} | {bound:.3f} | {fused[0] / bound:.2f} |", flush=True)


if __name__ == "__main__":
    main()
