"""Every method on every problem, each in a process of its own with a limit of time; one that fails is told with why.

    python benchmarks/rivals/run.py [--problems large,grid] [--methods nanfold,ppca-py] [--limit 60] [--threads 2]

Writes results.json, results.csv and README.md with the tables into --out, after each method. What was measured before
of the same problem and method is replaced, all else is kept, so that the parts can be run one by one.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from install import FOLDER, python_of, read_report
from methods import METHODS, principal
from metrics import cluster_ari, loading_error, neighbour_recall
from problems import LARGE, Problem, Setting, draw, grid
from table import write_all

HERE = Path(__file__).parent
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "NANFOLD_THREADS")


def measure(command: list[str], limit: float, environment: dict[str, str]) -> str:
    """Run to the end; the reason if it did not get there, else nothing."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, env=environment)
    except subprocess.TimeoutExpired:
        return f"not done after {limit:g} s"
    except OSError as error:
        return f"does not start: {error}"
    if done.returncode == 0:
        return ""
    said = done.stderr.strip().splitlines()
    return said[-1][:300] if said else f"ended with code {done.returncode}"


def attempt(name: str, given: Path, problem: Problem, truth: np.ndarray, options: argparse.Namespace) -> dict:
    """One method on one problem: what it reached, or its reason for not doing so."""
    method = METHODS[name]
    python = sys.executable
    if method.group:
        installed = read_report(options.environments, method.group)
        if installed.failure:
            return {"failure": installed.failure}
        python = str(python_of(options.environments, method.group))
    result = given.with_name("result.npz")
    result.unlink(missing_ok=True)
    environment = os.environ | dict.fromkeys(THREADS, str(options.threads))
    failure = measure([python, str(HERE / "runner.py"), name, str(given), str(result)], options.limit, environment)
    if failure:
        return {"failure": failure}
    found = np.load(result)
    scores, loadings = found["scores"], found["loadings"]
    k = problem.loadings.shape[1]
    if scores.shape != (len(problem.X), k) or loadings.shape != problem.loadings.shape:
        return {"failure": f"returned scores of shape {scores.shape} and loadings of shape {loadings.shape}"}
    if not (np.isfinite(scores).all() and np.isfinite(loadings).all()):
        return {"failure": "returned values that are not finite"}
    return {
        "failure": "",
        "loading_error": loading_error(loadings, problem.loadings),
        "neighbour_recall": neighbour_recall(scores, truth),
        "ari": cluster_ari(scores, problem.labels),
        "seconds": float(found["seconds"]),
        "cpu_seconds": float(found["cpu_seconds"]),
        "megabytes": float(found["megabytes"]),
        "package": method.package,
        "version": str(found["version"]),
    }


def machine(threads: int) -> str:
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line.split(":")[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")]
        cpu = names[0] if names else cpu
    used = f"{threads} threads" if threads > 1 else "1 thread"
    # With other work going on, only the CPU's time can be compared.
    load = f", load before {os.getloadavg()[0]:.0f}" if hasattr(os, "getloadavg") else ""
    return f"{cpu}, {used}, {platform.system()}, Python {platform.python_version()}{load}"


def compare(setting: Setting, names: list[str], options: argparse.Namespace) -> Iterator[dict]:
    """One row a method, as each is done."""
    problem = draw(setting)
    truth, _ = principal(problem.complete, problem.loadings.shape[1])
    about = {
        "problem": setting.name,
        "n": setting.n,
        "d": setting.d,
        "mechanism": setting.mechanism,
        "holes": setting.share,
        "seed": setting.seed,
        "machine": machine(options.threads),
    }
    with tempfile.TemporaryDirectory() as folder:
        given = Path(folder) / "problem.npz"
        problem.save(given)
        for name in names:
            row = about | {"method": name} | attempt(name, given, problem, truth, options)
            told = row["failure"] or f"{row['loading_error']:.4f} in {row['seconds']:.2f} s"
            print(f"{setting}: {name}: {told}", flush=True)
            yield row


def merged(old: list[dict], new: list[dict]) -> list[dict]:
    """Rows of both, the new in place of the old of the same problem and method."""
    keys = ("problem", "n", "d", "mechanism", "holes", "seed", "method")
    kept = {tuple(row[key] for key in keys): row for row in [*old, *new]}
    return list(kept.values())


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", default="large,grid", help="large, grid, or a shape of the grid")
    parser.add_argument("--methods", default="", help="separated by semicolons; all if not given")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds that a method may take on a problem")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--environments", type=Path, default=FOLDER, help="where install.py put them")
    parser.add_argument("--out", type=Path, default=HERE)
    options = parser.parse_args()
    options.names = [name for name in options.methods.split(";") if name] or list(METHODS)
    unknown = [name for name in options.names if name not in METHODS]
    if unknown:
        parser.error(f"there is no method {unknown[0]!r}; there are {'; '.join(METHODS)}")
    everything = [LARGE, *grid(options.seed)]
    options.settings = []
    for wanted in options.problems.split(","):
        found = [s for s in everything if s.name == wanted or (wanted == "grid" and s is not LARGE)]
        if not found:
            parser.error(f"there are no problems {wanted!r}; there are large, grid, tall, wide and square")
        options.settings += found
    return options


def main() -> None:
    options = parse()
    options.out.mkdir(parents=True, exist_ok=True)
    stored = options.out / "results.json"
    rows = json.loads(stored.read_text(encoding="utf-8")) if stored.exists() else []
    for setting in options.settings:
        for row in compare(setting, options.names, options):
            rows = merged(rows, [row])
            write_all(rows, options.out)


if __name__ == "__main__":
    main()
