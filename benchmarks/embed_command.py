"""How long ``nanfold embed`` takes on a csv of 1000 samples x 1000 features with 40 % holes, in a fresh process.

With --cold, numba's caches of compiled code are put aside first, so that everything is compiled.

    python benchmarks/embed_command.py [--cold] [--samples N] [--features N]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import nanfold as nf
from nanfold.io.writing import write_table

WANTED = 60.0


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--features", type=int, default=1000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        X, labels = nf.datasets.make_clusters(args.samples, args.features, random_state=0)
        X = nf.datasets.hide(X, random_state=0)
        features = [f"f{s}" for s in range(args.features)]
        write_table(folder / "table.csv", X, None, features, {"kind": labels.astype(str)})
        environment = dict(os.environ)
        if args.cold:
            environment["NUMBA_CACHE_DIR"] = str(folder / "cache")
        command = [sys.executable, "-m", "nanfold.cli", "embed", str(folder / "table.csv")]
        command += ["--methods", "pca,umap,tsne,gplvm", "--out", str(folder / "out")]
        begin = time.perf_counter()
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
        seconds = time.perf_counter() - begin
        numbers = json.loads((folder / "out" / "numbers.json").read_text())
        for step, spent in numbers["seconds"].items():
            print(f"{step:24}{spent:8.1f} s")
        for file in sorted((folder / "out").iterdir()):
            print(f"{file.name:24}{file.stat().st_size / 1e6:8.2f} MB")
        print(f"{args.samples} x {args.features}: {seconds:.1f} s in all (wanted at 1000 x 1000: {WANTED:.0f} s)")


if __name__ == "__main__":
    main()
