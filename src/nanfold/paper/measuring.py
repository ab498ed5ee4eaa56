"""One batch of jobs: what they share, then each method, and how well k-means finds the classes in what it gives."""

import functools
import platform
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.metadata import version
from typing import Any, TypeVar

import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from nanfold.paper.protocol import KMEANS_STARTS, PICTURED, Batch, Result
from nanfold.paper.subject import VIEWS, Subject, View

LIBRARIES = ("nanfold", "numpy", "scipy", "scikit-learn", "numba", "umap-learn", "openTSNE")

Value = TypeVar("Value")


def measure(batch: Batch, subject: Callable[[], Subject], fingerprint: str) -> Iterator[Result]:
    """The results of a batch, each as soon as it is there; a job that fails says why, and the others go on."""
    common: dict[str, Any] = {"seed": batch.repetition, "fingerprint": fingerprint, "versions": versions()}

    def prepare() -> tuple[Subject, View]:
        drawn = subject()
        return drawn, VIEWS[batch.variant](drawn)

    made, shared = attempted(prepare)
    for cell in batch.cells:
        result = Result(cell, shared_seconds=shared.seconds, **common)
        if made is None:
            yield replace(result, reason=shared.reason, notes=shared.notes)
            continue
        drawn, view = made
        found, own = attempted(functools.partial(_found, drawn, view, cell.method))
        notes = tuple(dict.fromkeys((*view.notes, *shared.notes, *own.notes)))
        result = replace(result, seconds=own.seconds, notes=notes)
        if found is None:
            yield replace(result, reason=own.reason)
            continue
        positions, ari = found
        result = replace(result, ari=ari, n_components=positions.shape[1])
        if cell.repetition == PICTURED:
            shown = np.round(positions[:, :2].astype(np.float64), 5)
            codes = np.unique(drawn.labels, return_inverse=True)[1]
            result = replace(result, positions=shown.tolist(), labels=codes.tolist())
        yield result


class Attempt:
    """How a piece of work went: its processor time, what it warned of, and why it failed, if it did."""

    seconds: float = 0.0
    notes: tuple[str, ...] = ()
    reason: str | None = None


def attempted(work: Callable[[], Value]) -> tuple[Value | None, Attempt]:
    """The value of a piece of work, or None if it failed, and how it went."""
    attempt, value = Attempt(), None
    begin = time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        try:
            value = work()
        except MemoryError:
            attempt.reason = "ran out of memory"
        except Exception as error:
            attempt.reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
    attempt.seconds = time.process_time() - begin
    ours = (warning for warning in caught if not issubclass(warning.category, DeprecationWarning | ImportWarning))
    attempt.notes = tuple(dict.fromkeys(" ".join(str(warning.message).split()) for warning in ours))
    return value, attempt


def versions() -> tuple[str, ...]:
    """Of Python and the libraries that the results depend on."""
    return (f"Python {platform.python_version()}", *(f"{library} {version(library)}" for library in LIBRARIES))


def _found(subject: Subject, view: View, method: str) -> tuple[np.ndarray, float]:
    """Positions of the samples, and how well k-means finds the classes in them."""
    positions = view.embed(method)
    bad = np.flatnonzero(~np.isfinite(positions).all(axis=1))
    if bad.size:
        raise ValueError(f"the position of sample {bad[0]} is not finite")
    clusters = KMeans(subject.n_classes, n_init=KMEANS_STARTS, random_state=subject.seed).fit_predict(positions)
    return positions, float(adjusted_rand_score(subject.labels, clusters))
