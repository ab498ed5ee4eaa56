"""Run one method on one problem, in whatever environment has it: python runner.py METHOD problem.npz result.npz

The time is that of the fit alone, after a fit to a small table that pays for importing and compiling. The memory is the
most that the process ever held, the table included.
"""

import re
import sys
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np
from methods import METHODS


def peak_memory() -> float:
    """In MB."""
    status = Path("/proc/self/status")
    if status.exists():  # getrusage would count the parent process too
        found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text())
        if found:
            return int(found[1]) / 1024
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


def small_table() -> np.ndarray:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((900, 3)) @ rng.standard_normal((3, 30)) + rng.standard_normal((900, 30))
    X[rng.random(X.shape) < 0.2] = np.nan
    return X


def main() -> int:
    name, problem, result = sys.argv[1:]
    method = METHODS[name]
    given = np.load(problem)
    X, k = given["X"], int(given["n_components"])
    try:
        method.fit(small_table(), 2)
        start, worked = time.perf_counter(), time.process_time()
        scores, loadings = method.fit(X, k)
        seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - worked
    except Exception as error:
        print(f"{type(error).__name__}: {error}".splitlines()[0], file=sys.stderr)
        return 1
    np.savez(
        result,
        scores=scores,
        loadings=loadings,
        seconds=seconds,
        cpu_seconds=cpu_seconds,
        megabytes=peak_memory(),
        version=version(method.package),
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
