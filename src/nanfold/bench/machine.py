"""What the machine is, and what it can do: bytes moved and multiplications done in a second, on all threads."""

import os
import platform
from time import perf_counter
from typing import Any

import numba
import numpy as np

from nanfold._threads import even_blocks, n_threads, run_blocks
from nanfold._vectors import load, nothing, panel, plus, store
from nanfold.gram import UnbiasedGram
from nanfold.observation import RankOne
from nanfold.observed import observe

kernel: Any = numba.njit(cache=True, nogil=True)
LANES = (0,) * 32


@kernel
def _sum(a: np.ndarray, start: int, stop: int) -> float:
    """The sum of a[start:stop], in eight parts that need not wait for each other."""
    parts = np.zeros(8)
    for i in range(start, stop - 7, 8):
        for j in range(8):
            parts[j] += a[i + j]
    return parts.sum()


@kernel
def _multiply(numbers: np.ndarray, rounds: int, lanes: tuple) -> None:
    """Multiply and add vectors that are in the first cache."""
    first, second = nothing(lanes), nothing(lanes)
    for _ in range(rounds):
        for i in range(0, 16, 2):
            first = plus(first, 0.5, load(numbers, i, lanes))
            second = plus(second, 0.5, load(numbers, i + 1, lanes))
    store(first, numbers, 0)
    store(second, numbers, 1)


def bandwidth() -> float:
    """Bytes read from memory in a second."""
    a = np.ones(40_000_000)
    blocks = even_blocks(len(a), -(-len(a) // n_threads()))
    return a.nbytes / _best(lambda: run_blocks(lambda start, stop: _sum(a, start, stop), blocks))


def multiplications() -> float:
    """Multiplications with additions (of float64) in a second."""
    # Long enough for starting the threads not to count.
    rounds, threads = 2_000_000, n_threads()
    panels = [panel(16, len(LANES)) for _ in range(threads)]
    blocks = even_blocks(threads, 1)
    return (
        threads
        * rounds
        * 16
        * len(LANES)
        / _best(lambda: run_blocks(lambda i, _: _multiply(panels[i], rounds, LANES), blocks))
    )


def pass_seconds(X: Any, vectors: int) -> float:
    """The time of one fused pass over X, the product of its Gram matrix with vectors whose image is known."""
    observed = observe(X)
    gram = UnbiasedGram(observed, RankOne().fit(observed))
    N = np.random.default_rng(0).standard_normal((X.shape[0], vectors))
    image = gram.image(N)
    return _best(lambda: gram.step(N, image))


def pass_bound(X: Any, vectors: int, bytes_a_second: float, multiplications_a_second: float) -> float:
    """The time below which no fused pass over X can be: the stored entries, Q and Z moved once, two products done."""
    moved = X.data.nbytes + X.indices.nbytes + 8 * 2 * X.shape[0] * vectors
    return max(moved / bytes_a_second, 2 * X.nnz * vectors / multiplications_a_second)


def _best(run: Any, times: int = 5) -> float:
    run()
    spent = []
    for _ in range(times):
        start = perf_counter()
        run()
        spent.append(perf_counter() - start)
    return min(spent)


def description() -> dict[str, Any]:
    """The machine and the versions, for the results."""
    from importlib.metadata import PackageNotFoundError, version

    versions = {}
    for name in ("nanfold", "numpy", "scipy", "numba", "scikit-learn", "scanpy"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return {
        "processor": _processor(),
        "threads": n_threads(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else None,
        "system": platform.system(),
        "python": platform.python_version(),
        "versions": versions,
    }


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
