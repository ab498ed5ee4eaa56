"""Rows in blocks over a pool of threads: the only place that knows how many cores there are."""

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import numpy as np

Result = TypeVar("Result")
_here = threading.local()


@contextmanager
def one_thread() -> Iterator[None]:
    """For what is one of many tasks already: whatever the calling thread does inside, it does alone."""
    _here.alone, before = True, getattr(_here, "alone", False)
    try:
        yield
    finally:
        _here.alone = before


def n_threads() -> int:
    """Threads to use: the environment variable ``NANFOLD_THREADS``, or the cores this process may run on."""
    if getattr(_here, "alone", False):
        return 1
    setting = os.environ.get("NANFOLD_THREADS")
    if setting is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not setting.isdigit() or int(setting) < 1:
        raise ValueError(f"NANFOLD_THREADS must be a positive whole number; it is {setting!r}.")
    return int(setting)


def even_blocks(n: int, size: int) -> list[tuple[int, int]]:
    """Cut range(n) into consecutive blocks of at most `size`."""
    return [(start, min(start + size, n)) for start in range(0, n, size)]


def balanced_blocks(indptr: np.ndarray, parts: int) -> list[tuple[int, int]]:
    """Cut the rows of a CSR array into at most `parts` consecutive blocks with equal numbers of stored entries."""
    n = len(indptr) - 1
    # A row costs a little even when nothing is stored in it.
    work = np.asarray(indptr, dtype=np.float64) + np.arange(n + 1)
    wanted = np.linspace(work[0], work[-1], parts + 1)[1:-1]
    cuts = np.searchsorted(work, wanted)
    cuts -= wanted - work[cuts - 1] < work[cuts] - wanted  # whichever edge is nearer
    edges = np.unique(np.concatenate(([0], cuts, [n])))
    return list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))


def run_blocks(function: Callable[[int, int], Result], blocks: list[tuple[int, int]]) -> list[Result]:
    """Call ``function(start, stop)`` for every block, on all threads; results in the order of the blocks."""
    threads = min(n_threads(), len(blocks))
    if threads <= 1:
        return [function(start, stop) for start, stop in blocks]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(lambda block: function(*block), blocks))


def add_blocks(function: Callable[[int, int], np.ndarray], blocks: list[tuple[int, int]]) -> np.ndarray:
    """Call ``function(start, stop)`` for every block, on all threads, and add up the arrays in block order."""
    first, *others = run_blocks(function, blocks)
    for other in others:
        first += other
    return first
