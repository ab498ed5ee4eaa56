"""Measurements one after the other, each in a fresh process, and what they are compared with."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scipy import sparse

from nanfold._threads import n_threads
from nanfold.bench.data import Ratings, save

JOB = Path(__file__).with_name("job.py")
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "NANFOLD_THREADS",
)


class NotInstalledError(ValueError):
    """A rival is not there."""


@dataclass(frozen=True)
class Measurement:
    """One fit: its wall time and processor time in seconds, its peak memory above what the process held before.

    `residual` is the largest relative residual of the components, measured in the same way for everyone; `error` that
    of ratings held out; both None where they were not asked for.
    """

    method: str
    options: dict[str, Any]
    seconds: float
    cpu_seconds: float
    peak_bytes: int
    data_bytes: int
    products: int | None = None
    residual: float | None = None
    median_residual: float | None = None
    error: float | None = None


@dataclass
class Runner:
    """Runs jobs on data that it keeps in a temporary folder, and remembers what it measured.

    Attributes
    ----------
    cmfrec : the Python that has cmfrec; None for this one
    say : told what is being done
    """

    folder: Path
    cmfrec: str | None = None
    say: Callable[[str], None] = lambda _: None
    done: list[Measurement] = field(default_factory=list)

    def keep(self, name: str, X: sparse.csr_array, **more: Any) -> Path:
        """Write data, and a small piece of them for warming up, where jobs find them."""
        save(self.folder / name, X, **more)
        small = X[: min(2000, X.shape[0])]
        # Columns without an entry are refused where they are holes.
        seen = sparse.csr_array(small[:, small.astype(bool).sum(axis=0) > 1])
        save(self.folder / f"{name}-small", seen[(seen.astype(bool).sum(axis=1) > 1)])
        return self.folder / name

    def keep_made(self, name: str, make: Callable[[], sparse.csr_array | Ratings]) -> Path:
        """Keep what `make` makes, unless it is there from another time."""
        if not (self.folder / f"{name}-small" / "shape.npy").exists():  # the last that is written
            self.say(f"making {name}")
            made = make()
            if isinstance(made, Ratings):
                self.keep(name, made.known, users=made.users, items=made.items, values=made.values)
            else:
                self.keep(name, made)
        return self.folder / name

    def run(self, method: str, where: Path, k: int, *, residuals: bool = False, **options: Any) -> Measurement:
        """Measure one fit."""
        self.say(f"{method} on {where.name}")
        job = {"method": method, "k": k, "options": options, "data": str(where), "warm_up": f"{where}-small"}
        file = self.folder / "job.json"
        file.write_text(json.dumps({**job, "residuals": residuals}), encoding="utf-8")
        environment = os.environ | dict.fromkeys(THREAD_VARIABLES, str(n_threads()))
        python = self.cmfrec if method == "cmfrec" and self.cmfrec else sys.executable
        ended = subprocess.run(
            [python, str(JOB), str(file)], capture_output=True, text=True, env=environment, check=False
        )
        if ended.returncode:
            last = (ended.stderr.strip().splitlines() or [f"it ended with code {ended.returncode}"])[-1]
            if last.startswith("ModuleNotFoundError"):
                raise NotInstalledError(f"{method} is not installed ({last.removeprefix('ModuleNotFoundError: ')})")
            raise ValueError(f"The measurement of {method} on {where.name} failed: {last}.")
        measured = Measurement(method, options, **json.loads(ended.stdout.strip().splitlines()[-1]))
        self.done.append(measured)
        return measured


@contextmanager
def runner(cmfrec: str | None, say: Callable[[str], None], data: str | None = None) -> Iterator[Runner]:
    """A runner that keeps its data in a folder; without one they are gone at the end."""
    if data is not None:
        if Path(data).is_file():
            raise ValueError(f"--data must name a folder; {data} is a file.")
        yield Runner(Path(data), cmfrec, say)
        return
    with tempfile.TemporaryDirectory(prefix="nanfold-bench-") as folder:
        yield Runner(Path(folder), cmfrec, say)
