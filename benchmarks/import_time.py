"""How long ``import nanfold`` takes beside ``import sklearn``, each in fresh interpreters, in turns.

python benchmarks/import_time.py [--rounds 15]
"""

import argparse
import statistics
import subprocess
import sys
import time

STATEMENTS = {
    "nothing": "pass",
    "numpy": "import numpy",
    "sklearn": "import sklearn",
    "nanfold": "import nanfold",
    "nanfold.PCA": "import nanfold; nanfold.PCA",
    "sklearn's PCA": "from sklearn.decomposition import PCA",
}


def seconds(statement: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", statement], check=True)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    for statement in STATEMENTS.values():
        seconds(statement)  # fill the caches
    times: dict[str, list[float]] = {name: [] for name in STATEMENTS}
    for _ in range(rounds):
        for name, statement in STATEMENTS.items():
            times[name].append(seconds(statement))
    print("seconds of a fresh interpreter".ljust(34) + "  median     best")
    for name, taken in times.items():
        print(f"{name.ljust(34)}{statistics.median(taken):8.3f} {min(taken):8.3f}")
    ratio = statistics.median(times["nanfold"]) / statistics.median(times["sklearn"])
    print(f"import nanfold / import sklearn   {ratio:8.3f}   (wanted: at most 1)")


if __name__ == "__main__":
    main()
