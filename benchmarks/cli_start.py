"""How long the command line and the imports take to start, side by side.

Each line is the median over interleaved runs of a fresh process, as a multiple of its own yardstick: ``nanfold --help``
against a bare Python start with numpy, ``import nanfold`` against ``import sklearn``.

    python benchmarks/cli_start.py [RUNS]
"""

import statistics
import subprocess
import sys
import time
from pathlib import Path

SCRIPT = str(Path(sys.executable).with_name("nanfold"))
PYTHON = [sys.executable, "-c"]
CASES = {
    "python with numpy": [*PYTHON, "import numpy"],
    "nanfold --help": [SCRIPT, "--help"],
    "import sklearn": [*PYTHON, "import sklearn"],
    "import nanfold": [*PYTHON, "import nanfold"],
    "import nanfold, use nanfold.PCA": [*PYTHON, "import nanfold; nanfold.PCA"],
    "python alone": [*PYTHON, "pass"],
}
PAIRS = (("nanfold --help", "python with numpy"), ("import nanfold", "import sklearn"))


def seconds(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 11
    for command in CASES.values():
        seconds(command)  # compile and read everything once
    taken: dict[str, list[float]] = {name: [] for name in CASES}
    for _ in range(runs):
        for name, command in CASES.items():
            taken[name].append(seconds(command))
    median = {name: statistics.median(times) for name, times in taken.items()}
    for name, value in median.items():
        print(f"{name:34}{value:8.3f} s   (fastest {min(taken[name]):.3f} s)")
    for name, yardstick in PAIRS:
        print(f"{name} / {yardstick}: {median[name] / median[yardstick]:.2f}")


if __name__ == "__main__":
    main()
