"""How many vectors the Krylov solver should multiply at once, and hold.

    python benchmarks/krylov.py [--cells 20000 --genes 10000 --stored 0.05 --components 50 --tol 1e-3]

On complete sparse counts, on the side of the features: passes over the data, the time in them, and the time in all.
"""

import argparse
from time import perf_counter, process_time

import numpy as np

import nanfold as nf
from nanfold._krylov import krylov_eigenpairs
from nanfold.bench.data import counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", type=int, default=20_000)
    parser.add_argument("--genes", type=int, default=10_000)
    parser.add_argument("--stored", type=float, default=0.05)
    parser.add_argument("--components", type=int, default=50)
    parser.add_argument("--tol", type=float, nargs="+", default=[1e-3, 1e-1])
    parser.add_argument("--blocks", type=int, nargs="+", default=[8, 16, 32])
    parser.add_argument("--depths", type=int, nargs="+", default=[3, 6], help="in units of the components")
    options = parser.parse_args()
    gram = nf.unbiased_gram(counts(options.cells, options.genes, options.stored))
    d, k = options.genes, options.components
    print(f"{gram.shape[0]} x {d}, {options.stored:.0%} stored, {k} components")
    spent: list[float] = []

    def product(V: np.ndarray) -> np.ndarray:
        start = perf_counter()
        out = gram.covariance_matmul(V)
        spent.append(perf_counter() - start)
        return out

    for block in options.blocks:
        product(np.ones((d, block)))
    print("| tol | block | depth | passes | s | s in passes | processor s | largest residual |")
    print("|---|---|---|---|---|---|---|---|")
    for tol in options.tol:
        for block in options.blocks:
            for depth in options.depths:
                spent.clear()
                wall, cpu = perf_counter(), process_time()
                pairs = krylov_eigenpairs(product, d, k, tol, 500, block=block, depth=depth * k, check=False)
                wall, cpu = perf_counter() - wall, process_time() - cpu
                print(
                    f"| {tol:g} | {block} | {depth * k} | {pairs.n_iter} | {wall:.2f} | {sum(spent):.2f} | {cpu:.2f} | "
                    f"{pairs.residuals.max():.0e} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
