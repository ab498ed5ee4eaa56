"""Do what is not done yet of a plan, keeping each result as soon as it is there."""

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
    names = dict.fromkeys(batch.data for batch in batches)
    check_same_data(before, {name: source.fingerprint(name) for name in names}, store.folder)
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
