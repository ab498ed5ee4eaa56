"""Do what is not done yet of a plan, keeping each result as soon as it is there."""

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass

from nanfold.paper.protocol import Batch, Result
from nanfold.paper.store import Store, check_same_data
from nanfold.paper.workers import Source, run_batches


@dataclass(frozen=True)
class State:
    """How far a run is: jobs done, in all, failed, and the seconds that the rest will take, if that can be told."""

    done: int
    total: int
    failed: int
    left: float | None


def run(
    store: Store,
    source: Source,
    batches: list[Batch],
    *,
    jobs: int = 2,
    limit: float = 600.0,
    again: bool = False,
    progress: Callable[[State], None] = lambda state: None,
) -> list[Result]:
    """The results of the plan, those of earlier runs among them.

    Parameters
    ----------
    store : opened
    source : where the sets come from
    batches : the plan
    jobs : processes at a time
    limit : the most seconds that a job may take
    again : whether jobs that failed in an earlier run are done again
    progress : called after every job
    """
    planned = {cell for batch in batches for cell in batch.cells}
    before = store.results()
    check_same_data(before, _fingerprints(source, before, batches), store.folder)
    found = {result.cell: result for result in before if result.cell in planned and not (again and result.ari is None)}
    left = [batch for batch in (batch.without(found) for batch in batches) if batch.methods]
    started, begin = len(found), time.monotonic()

    def state() -> State:
        new = len(found) - started
        rest = (time.monotonic() - begin) * (len(planned) - len(found)) / new if new else None
        return State(len(found), len(planned), sum(result.ari is None for result in found.values()), rest)

    progress(state())
    for result in run_batches(source, left, jobs, limit):
        store.keep(result)
        found[result.cell] = result
        progress(state())
    return [found[cell] for cell in sorted(found)]


def _fingerprints(source: Source, before: list[Result], batches: list[Batch]) -> dict[str, str]:
    """Of all sets that the source knows, those that are not planned now among them: results of others do not mix."""
    found = {}
    for name in {batch.data for batch in batches} | {result.cell.data for result in before}:
        with contextlib.suppress(KeyError):
            found[name] = source.fingerprint(name)
    return found
