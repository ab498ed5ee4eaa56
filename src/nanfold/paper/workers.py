"""Processes that do batches, each on one thread; they end with the process that started them, however that ends."""

import contextlib
import multiprocessing
import os
import queue
import signal
import threading
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection, wait
from typing import Any, Protocol

from nanfold.paper.measuring import measure
from nanfold.paper.protocol import Batch, Cell, Result
from nanfold.paper.subject import Subject

# Seconds in which a process must have started, beside the limit for a job.
STARTING = 120.0
# Two processes with two threads of BLAS each are slower on two cores than with one.
LIBRARIES = ("OMP", "OPENBLAS", "MKL", "NUMBA")
SINGLE_THREAD = {**{f"{library}_NUM_THREADS": "1" for library in LIBRARIES}, "NANFOLD_THREADS": "1"}
# The process that multiprocessing keeps to clear away what killed ones leave would complain of having to.
QUIET = {"PYTHONWARNINGS": "ignore::UserWarning:multiprocessing.resource_tracker"}


class Source(Protocol):
    """Where sets come from; it is sent to every worker."""

    def subject(self, name: str, repetition: int) -> Subject:
        """The set of this name with its holes."""
        ...

    def fingerprint(self, name: str) -> str:
        """What tells this set from another of the same name; KeyError for a set that does not come from here."""
        ...


class Worker:
    """A process, what is left of the batch that it is at, and until when it may take for the next job."""

    def __init__(self, source: Source, limit: float) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, source), daemon=True)
        with _environment(SINGLE_THREAD | QUIET), _without_interrupts():
            self._process.start()
        theirs.close()
        self.left: list[Cell] = []
        self._limit = limit

    def give(self, batch: Batch) -> None:
        """Hand it a batch."""
        self.left = list(batch.cells)
        self.until = time.monotonic() + STARTING + self._limit
        with contextlib.suppress(BrokenPipeError):  # it has died; the wait for its answer will tell
            self.connection.send(batch)

    def answer(self) -> Result | None:
        """Its next result, or None if it has begun its batch; EOFError or another OSError if it died."""
        result: Result | None = self.connection.recv()
        self.until = time.monotonic() + self._limit
        if result is not None:
            self.left.remove(result.cell)
        return result

    def end(self, patience: float = 0.0) -> int | None:
        """End it; its exit code, if it had ended by itself within this many seconds."""
        self._process.join(patience)
        code = self._process.exitcode
        self._process.kill()
        self._process.join()
        self.connection.close()
        return code


def run_batches(source: Source, batches: list[Batch], jobs: int, limit: float) -> Iterator[Result]:
    """The results of all batches, in the order in which they come, from `jobs` processes.

    A job that takes longer than `limit` seconds, or whose process dies, has failed, and with it what is left of its
    batch.
    """
    waiting = list(reversed(batches))
    workers: list[Worker] = []
    try:
        while waiting or any(worker.left for worker in workers):
            for worker in workers:
                if waiting and not worker.left:
                    worker.give(waiting.pop())
            while waiting and len(workers) < jobs:
                workers.append(Worker(source, limit))
                workers[-1].give(waiting.pop())
            busy = {worker.connection: worker for worker in workers if worker.left}
            until = min(worker.until for worker in busy.values())
            ready: list[Any] = wait(list(busy), timeout=max(0.0, until - time.monotonic()))
            for worker in [busy[connection] for connection in ready]:
                try:
                    result = worker.answer()
                except (EOFError, OSError):
                    yield from _lost(worker, workers, source, "")
                    continue
                if result is not None:
                    yield result
            for worker in [worker for worker in workers if worker.left and time.monotonic() > worker.until]:
                yield from _lost(worker, workers, source, f"took longer than {limit:g} s")
    finally:
        for worker in workers:
            worker.end()


def _lost(worker: Worker, workers: list[Worker], source: Source, reason: str) -> Iterator[Result]:
    """The failures of a worker that died or is to be ended."""
    workers.remove(worker)
    code = worker.end(0.0 if reason else 5.0)
    if not reason:
        how = f"by signal {-code}" if code is not None and code < 0 else f"with exit code {code}"
        reason = f"its process was ended {how}, perhaps for want of memory"
    for cell in worker.left:
        yield Result(cell, cell.repetition, source.fingerprint(cell.data), reason=reason)


def _serve(connection: Connection, source: Source) -> None:
    """Do batch after batch."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    batches: queue.SimpleQueue[Batch] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(connection, batches), daemon=True).start()
    while True:
        batch = batches.get()
        connection.send(None)
        draw = _Drawing(source, batch)
        for result in measure(batch, draw, source.fingerprint(batch.data)):
            connection.send(result)


class _Drawing:
    """Draws the subject of a batch; the last one is kept, because the next batch often needs the same."""

    last: tuple[tuple[str, int], Subject] | None = None

    def __init__(self, source: Source, batch: Batch) -> None:
        self._source, self._which = source, (batch.data, batch.repetition)

    def __call__(self) -> Subject:
        kept = _Drawing.last
        if kept is None or kept[0] != self._which:
            _Drawing.last = None  # two need not fit into memory
            _Drawing.last = kept = (self._which, self._source.subject(*self._which))
        return kept[1]


def _listen(connection: Connection, batches: "queue.SimpleQueue[Batch]") -> None:
    """Take batches in, and end the process when the other end is gone."""
    try:
        while True:
            batches.put(connection.recv())
    except (EOFError, OSError):
        os._exit(1)


@contextlib.contextmanager
def _without_interrupts() -> Iterator[None]:
    """What is started here never sees Ctrl-C, which reaches all processes of a terminal; we end it ourselves.

    Ours waits until it is started: a process that is left while it is being told what to do would complain.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # now, because when it starts it lets interrupts in
    with _postponed_interrupts():
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _postponed_interrupts() -> Iterator[None]:
    """What ends us comes at the end; the mask of signals alone keeps it from one thread, and others let it in."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    ours = {number: handler for number, handler in handlers.items() if callable(handler)}
    came: list[int] = []
    for number in ours:
        signal.signal(number, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        for number, handler in ours.items():
            signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])


@contextlib.contextmanager
def _environment(settings: dict[str, str]) -> Iterator[None]:
    """These environment variables, for as long as it lasts."""
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
