"""The rows of the table: a piece of work, who did it in what time, and the ratio that is wanted."""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nanfold.bench import data, job, machine
from nanfold.bench.running import Measurement, NotInstalledError, Runner

# Alternating least squares, as far as it is worth tuning here: rounds, ridge, and how each round is solved.
CMFREC: tuple[dict[str, Any], ...] = (
    {"niter": 3, "lambda_": 10.0, "use_cg": True},
    {"niter": 6, "lambda_": 10.0, "use_cg": True},
    {"niter": 3, "lambda_": 20.0, "use_cg": True},
    {"niter": 6, "lambda_": 20.0, "use_cg": True},
    {"niter": 3, "lambda_": 20.0, "use_cg": False},
)
NANFOLD_RATINGS: dict[str, Any] = {"missing": "unstored", "assist": 8, "tol": 0.1}


class Scale(NamedTuple):
    """How large everything is."""

    counts: tuple[int, int]
    cells: tuple[int, int]
    ratings: tuple[int, int, int]
    growth: tuple[int, int]


SCALES = {
    "tiny": Scale((400, 300), (400, 100), (500, 200, 8000), (200, 100)),
    "small": Scale((10_000, 5_000), (10_000, 2_000), (20_000, 4_000, 800_000), (5_000, 2_000)),
    "medium": Scale((30_000, 10_000), (30_000, 2_000), (100_000, 10_000, 4_000_000), (20_000, 5_000)),
    "full": Scale((100_000, 20_000), (100_000, 2_000), (500_000, 18_000, 20_000_000), (50_000, 10_000)),
}
SHARE, SHARE_OF_CELLS = 0.05, 0.12


@dataclass(frozen=True)
class Row:
    """One line: `ours` and `theirs` in seconds or bytes, and `wanted`, the most that their ratio may be.

    `processors` are the seconds of all processors together, ours and theirs, which other work on the machine changes
    little.
    """

    work: str
    against: str
    ours: float
    theirs: float | None
    wanted: float
    unit: str = "s"
    note: str = ""
    processors: tuple[float, float] | None = None

    @property
    def ratio(self) -> float | None:
        """Ours over theirs."""
        return None if self.theirs is None else self.ours / self.theirs


def allowed_memory(fit: Measurement, n: int, k: int) -> float:
    """1.3 times the stored data, and 6 n k values."""
    return 1.3 * fit.data_bytes + 6 * n * k * 8


def time_row(work: str, against: str, ours: Measurement, theirs: Measurement, wanted: float, note: str) -> Row:
    """One fit against another."""
    processors = (ours.cpu_seconds, theirs.cpu_seconds)
    return Row(work, against, ours.seconds, theirs.seconds, wanted, note=note, processors=processors)


def memory_row(work: str, fit: Measurement, n: int, k: int) -> Row:
    """Peak memory against what is allowed."""
    note = f"data {fit.data_bytes / 2**20:.0f} MB"
    return Row(work, "1.3 x stored data + 6 n k values", fit.peak_bytes, allowed_memory(fit, n, k), 1.0, "bytes", note)


def counts_rows(run: Runner, scale: Scale, k: int) -> list[Row]:
    """Complete sparse counts against scikit-learn's two ways, memory, and the fused pass against the machine."""
    n, d = scale.counts
    where = _counts(run, n, d, SHARE)
    X, _ = job.read(where)
    size = f"counts {n:,} x {d:,}, {X.nnz / (n * d):.0%} stored"
    fused = _pass_row(X, size)
    del X
    ours = run.run("nanfold", where, k, residuals=True, tol=1e-3)
    rows = [fused, memory_row(size, ours, n, k)]
    theirs = run.run("arpack", where, k, residuals=True)
    note = f"largest residuals {ours.residual:.0e} and {theirs.residual:.0e}"
    rows.append(time_row(f"PCA({k}), {size}", 'scikit-learn PCA(svd_solver="arpack")', ours, theirs, 1 / 3, note))
    theirs = run.run("randomized", where, k, residuals=True)
    ours = run.run("nanfold", where, k, residuals=True, center=False, tol=theirs.residual)
    note = f"largest residuals {ours.residual:.0e} and {theirs.residual:.0e}"
    rows.append(time_row("the same, not centred", 'TruncatedSVD(algorithm="randomized")', ours, theirs, 1.0, note))
    return rows


def _counts(run: Runner, n: int, d: int, share: float) -> Path:
    """Where counts of that size are."""
    return run.keep_made(f"counts-{n}x{d}-{share:g}", lambda: data.counts(n, d, share))


def _pass_row(X: object, size: str, vectors: int = 32) -> Row:
    speed, rate = machine.bandwidth(), machine.multiplications()
    seconds = machine.pass_seconds(X, vectors)
    bound = machine.pass_bound(X, vectors, speed, rate)
    note = f"{speed / 1e9:.1f} GB/s and {rate / 1e9:.1f} G multiply-adds/s measured"
    return Row(f"one pass with {vectors} vectors, {size}", "bound by the machine", seconds, bound, 3.0, note=note)


def cells_rows(run: Runner, scale: Scale, k: int) -> list[Row]:
    """Selected genes against scanpy's default."""
    n, d = scale.cells
    where = _counts(run, n, d, SHARE_OF_CELLS)
    size = f"{n:,} x {d:,}, {job.read(where)[0].nnz / (n * d):.0%} stored"
    ours = run.run("nanfold", where, k, residuals=True, tol=1e-3)
    rows = [memory_row(size, ours, n, k)]
    work = f"PCA({k}), {size}"
    try:
        theirs = run.run("scanpy", where, k, residuals=True)
    except NotInstalledError as reason:
        return [*rows, Row(work, "scanpy sc.pp.pca", ours.seconds, None, 1 / 3, note=str(reason))]
    note = f"largest residuals {ours.residual:.0e} and {theirs.residual:.0e}"
    return [*rows, time_row(work, "scanpy sc.pp.pca", ours, theirs, 1 / 3, note)]


def ratings_rows(run: Runner, scale: Scale, k: int) -> list[Row]:
    """Ratings against cmfrec, the fastest of its settings that predicts what was held out as well."""
    n, d, stored = scale.ratings
    where = run.keep_made(f"ratings-{n}x{d}-{stored}", lambda: data.ratings(n, d, stored))
    known = np.load(where / "data.npy", mmap_mode="r").size
    size = f"ratings {n:,} x {d:,}, {known / 1e6:.1f} million"
    ours = run.run("nanfold", where, k, **NANFOLD_RATINGS)
    rows = [memory_row(size, ours, n, k)]
    work = f"PCA({k}), {size}"
    try:
        tried = [run.run("cmfrec", where, k, **setting) for setting in CMFREC]
    except NotInstalledError as reason:
        return [*rows, Row(work, "cmfrec", ours.seconds, None, 1.0, note=str(reason))]
    theirs = equal_or_best(tried, ours)
    note = f"held-out errors {ours.error:.4f} and {theirs.error:.4f}"
    return [*rows, time_row(work, "cmfrec, tuned", ours, theirs, 1.0, note)]


def equal_or_best(tried: Sequence[Measurement], ours: Measurement) -> Measurement:
    """The fastest that predicts as well as ours, or the best predictor if none does."""
    as_good = [fit for fit in tried if _error(fit) <= _error(ours)]
    return min(as_good, key=lambda fit: fit.seconds) if as_good else min(tried, key=_error)


def _error(fit: Measurement) -> float:
    return math.inf if fit.error is None else fit.error


PARTS: dict[str, Callable[[Runner, Scale, int], list[Row]]] = {
    "counts": counts_rows,
    "cells": cells_rows,
    "ratings": ratings_rows,
}
COMPONENTS = {"counts": 50, "cells": 50, "ratings": 20}


# What a doubling of samples, or of stored entries, may take times as long.
DOUBLED = 2.1


def growth_rows(curves: dict[str, list[tuple[float, float]]]) -> list[Row]:
    """Each doubling of the data against the time before; with twice the features, twice as much is stored too."""
    return [
        Row(f"{name} {size:g} to {larger:g}", "the time before", longer, seconds, DOUBLED)
        for name in ("samples", "features", "stored share")
        for (size, seconds), (larger, longer) in itertools.pairwise(curves[name])
    ]


def growth(run: Runner, scale: Scale, doublings: int = 3) -> dict[str, list[tuple[float, float]]]:
    """Times as samples, features, stored entries and components double: (size, seconds) for each."""
    n, d = scale.growth
    share, k = 0.03, 10
    cases = {
        "samples": [(n << i, d, share, k) for i in range(doublings)],
        "features": [(n, d << i, share, k) for i in range(doublings)],
        "stored share": [(n, d, share * 2**i, k) for i in range(doublings)],
        "components": [(n, d, share, k << i) for i in range(doublings)],
    }
    curves: dict[str, list[tuple[float, float]]] = {}
    for axis, (name, sizes) in enumerate(cases.items()):
        curves[name] = []
        for case in sizes:
            where = _counts(run, *case[:3])
            # A fixed number of products, so that what grows is their cost and not how many the spectrum takes.
            fit = run.run("nanfold", where, case[3], max_iter=12, tol=1e-12)
            curves[name].append((float(case[(0, 1, 2, 3)[axis]]), fit.seconds))
    return curves
