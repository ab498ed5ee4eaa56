"""PCA of counts on disk, read through Dask in chunks, against the same PCA with all of them in memory.

    python benchmarks/dask_pca.py --samples 200000 --features 20000 --chunks 20

The chunks are files of NumPy arrays without compression in a temporary folder, which goes at the end. Each way runs in
a process of its own; it prints time, time over that in memory, processor time, and by how much its peak memory exceeded
what the process took before, over the size of the data.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from scipy import sparse

RANK = 20
PARTS = ("data", "indices", "indptr")


def write_chunk(folder: Path, number: int, n: int, d: int, density: float) -> None:
    """Logged counts of rank 20: a gene is drawn by one of 20 programs of the cell, whose share of counts it has."""
    programs = np.random.default_rng(0)
    shares = programs.gamma(0.3, size=(RANK, d))
    cumulative = np.cumsum(shares, axis=1) / shares.sum(axis=1, keepdims=True)
    rng = np.random.default_rng([1, number])
    loads = rng.gamma(0.2, size=(n, RANK)) + 1e-3
    drawn = int(1.3 * density * d)
    loads = np.cumsum(loads, axis=1) / loads.sum(axis=1, keepdims=True)
    picks = rng.random((n, drawn))
    which = sum((picks > loads[:, r, None]).astype(np.int8) for r in range(RANK - 1))
    genes = np.empty((n, drawn), dtype=np.int32)
    for r in range(RANK):
        here = which == r
        genes[here] = np.searchsorted(cumulative[r], rng.random(int(here.sum()))).clip(max=d - 1)
    X = sparse.csr_array((np.ones(genes.size, np.float32), genes.ravel(), np.arange(0, genes.size + 1, drawn)), (n, d))
    X.sum_duplicates()
    X.data = np.log1p(X.data)
    for part in PARTS:
        np.save(folder / f"{number}-{part}.npy", getattr(X, part))


def read_chunk(folder: str, number: int, d: int) -> sparse.csr_array:
    """One chunk."""
    data, indices, indptr = (np.load(Path(folder, f"{number}-{part}.npy")) for part in PARTS)
    return sparse.csr_array((data, indices, indptr), (len(indptr) - 1, d))


def peak() -> int:
    """The most memory that this process has had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def fit(way: str, folder: Path, sizes: list[int], d: int, k: int, tol: float) -> dict:
    """Fit in this process."""
    import dask.array as da
    from dask import delayed

    import nanfold as nf

    rng = np.random.default_rng(0)
    small = sparse.random_array((1000, 60), density=0.2, rng=rng, format="csr", dtype=np.float32)
    pca = nf.PCA(k, tol=tol, assist=0, random_state=0)
    for data in (small, da.from_array(small.toarray(), chunks=(500, 60)).map_blocks(sparse.csr_array)):
        nf.PCA(5, assist=0).fit(data)  # compile
    before = peak()
    start = time.perf_counter()
    if way == "memory":
        X = sparse.vstack([read_chunk(str(folder), b, d) for b in range(len(sizes))], format="csr")
        start = time.perf_counter()
    else:
        blocks = [delayed(read_chunk)(str(folder), b, d) for b in range(len(sizes))]
        X = da.concatenate([da.from_delayed(b, (n, d), np.float32) for b, n in zip(blocks, sizes, strict=True)])
    cpu = time.process_time()
    pca.fit(X)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    np.save(folder / f"{way}-components.npy", pca.components_)
    residual = float(np.median(pca.eigen_residuals_))
    return {"seconds": seconds, "cpu": cpu, "memory": peak() - before, "passes": pca.n_iter_, "residual": residual}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=50_000)
    parser.add_argument("--features", type=int, default=20_000)
    parser.add_argument("--chunks", type=int, default=20)
    parser.add_argument("--components", type=int, default=50)
    parser.add_argument("--density", type=float, default=0.05)
    parser.add_argument("--tol", type=float, default=1e-3)
    parser.add_argument("--keep", type=Path, help="a folder for the data, which are made unless they are there")
    parser.add_argument("--one", choices=("memory", "dask"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    sizes = [len(part) for part in np.array_split(np.arange(args.samples), args.chunks)]
    if args.one:
        print(json.dumps(fit(args.one, args.keep, sizes, args.features, args.components, args.tol)))
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.keep or Path(temporary)
        folder.mkdir(exist_ok=True)
        if not (folder / f"{args.chunks - 1}-indptr.npy").exists():
            genes = args.features, args.density
            with ThreadPoolExecutor(2) as pool:
                list(pool.map(lambda b: write_chunk(folder, b, sizes[b], *genes), range(args.chunks)))
        files = [folder / f"{b}-{part}.npy" for b in range(args.chunks) for part in PARTS]
        size = sum(path.stat().st_size for path in files)
        what = f"{args.samples} x {args.features} in {args.chunks} chunks, {size / 1e9:.2f} GB"
        print(f"{what}, {args.components} components")
        results = {}
        for way in ("memory", "dask"):
            command = [sys.executable, __file__, *sys.argv[1:], "--one", way]
            command += [] if args.keep else ["--keep", str(folder)]
            results[way] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        components = [np.load(folder / f"{way}-components.npy").astype(float) for way in results]
        angles = np.linalg.svd(components[0] @ components[1].T, compute_uv=False)
        print(f"{'':8}{'seconds':>9}{'ratio':>7}{'CPU':>8}{'memory':>8}{'passes':>8}{'residual':>10}")
        for way, found in results.items():
            ratio = found["seconds"] / results["memory"]["seconds"]
            used = f"{found['seconds']:9.1f}{ratio:7.2f}{found['cpu']:8.1f}{found['memory'] / size:8.2f}"
            print(f"{way:8}{used}{found['passes']:8}{found['residual']:10.1e}", flush=True)
        print(f"least cosine between the subspaces: 1 - {1 - angles.min():.1e}")


if __name__ == "__main__":
    main()
