"""Time CIDR and scImpute, beside what the original R programs took.

    python benchmarks/single_cell_baselines.py [--shared FOLDER]

The times of R are given and not measured here: 16 s and 22 s for scImpute, and for CIDR "well under a second", which
is entered as 1 s for yan90. Ours is the best of three, without imports and compilation; the processor time beside it is
what a busy machine does not change. Without the folder of real sets only the simulated one runs.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter, process_time
from typing import NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from nanfold.baselines.cidr import CIDR
from nanfold.baselines.sc_impute import ScImpute

SHARED = Path(__file__).resolve().parents[2] / "shared"
ORACLES = ("synth60", "synth_fewgenes80", "yan90")


class Case(NamedTuple):
    method: str
    data: str
    model: BaseEstimator
    X: np.ndarray
    given: dict[str, np.ndarray]
    r_seconds: float


def goolam_sized() -> tuple[np.ndarray, np.ndarray]:
    """Simulate 124 cells of 5 kinds x 41,000 genes of read counts, about 70 % of them zero."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(5), (6, 40, 16, 6, 56))
    level = rng.normal(0.5, 3, 41_000) + rng.normal(0, 1.5, (5, 41_000)) * (rng.random((5, 41_000)) < 0.1)
    mean = np.exp(level)[labels] * rng.gamma(5, 0.2, (124, 1))
    counts = rng.negative_binomial(1.5, 1.5 / (1.5 + mean)).astype(np.float64)
    return counts * (rng.random(counts.shape) > np.exp(-0.05 * counts)), labels


def cases(shared: Path) -> Iterator[Case]:
    X, labels = goolam_sized()
    yield Case("CIDR", "goolam-sized", CIDR(), X, {}, np.nan)
    yield Case("scImpute", "goolam-sized", ScImpute(n_clusters=5, random_state=0), X, {}, 22)
    yield Case("scImpute", "goolam-sized, labels", ScImpute(), X, {"labels": labels}, np.nan)
    if (shared / "data").is_dir():
        yan = np.load(shared / "data" / "yan90.npz")
        X = yan["X"].astype(np.float64)
        yield Case("CIDR", "yan90", CIDR(), X, {}, 1)
        yield Case("scImpute", "yan90", ScImpute(n_clusters=6, random_state=0), X, {}, 16)
        yield Case("scImpute", "yan90, labels", ScImpute(), X, {"labels": yan["labels"]}, 16)
    if (shared / "oracles").is_dir():
        for name in ORACLES:
            answer = np.load(shared / "oracles" / f"{name}_cidr.npz")
            X, labels = answer["X"].T, answer["labels"]
            yield Case("CIDR", f"oracle {name}", CIDR(), X, {}, np.nan)
            yield Case("scImpute", f"oracle {name}, labels", ScImpute(), X, {"labels": labels}, np.nan)


def main() -> None:
    parser = argparse.ArgumentParser(description="Time CIDR and scImpute beside the original R programs.")
    parser.add_argument("--shared", type=Path, default=SHARED, help="the folder that holds data and oracles")
    shared = parser.parse_args().shared
    rng = np.random.default_rng(0)
    warm_up = rng.negative_binomial(1, 0.01, (60, 300)).astype(np.float64)
    CIDR(n_clusters=2).fit(warm_up)
    ScImpute(n_clusters=2, random_state=0).fit(warm_up)
    print(
        f"{'':9} {'data':34} {'cells x genes':>15} {'R (s)':>6} {'ours (s)':>9} {'R / ours':>9} {'wanted':>6} "
        f"{'processor (s)':>14}"
    )
    for case in cases(shared):
        seconds = []
        for _ in range(3):
            wall, processor = perf_counter(), process_time()
            case.model.fit(case.X, **case.given)
            seconds.append((perf_counter() - wall, process_time() - processor))
        wall, processor = np.min(seconds, axis=0)
        theirs, ratio, wanted = f"{case.r_seconds:.0f}", f"{case.r_seconds / wall:.1f}", "> 1"
        if np.isnan(case.r_seconds):
            theirs = ratio = wanted = "-"
        size = " x ".join(map(str, case.X.shape))
        ours = f"{wall:9.3f} {ratio:>9} {wanted:>6} {processor:14.3f}"
        print(f"{case.method:9} {case.data:34} {size:>15} {theirs:>6} {ours}")


if __name__ == "__main__":
    main()
