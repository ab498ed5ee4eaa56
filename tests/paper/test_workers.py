"""The processes: what becomes of a batch whose process dies or takes too long."""

import os
import signal
import sys
import threading
import time
from dataclasses import dataclass

import numpy as np
import psutil
import pytest
from made_up import expression

from nanfold.paper import workers
from nanfold.paper.protocol import Batch
from nanfold.paper.subject import Subject
from nanfold.paper.workers import SINGLE_THREAD, run_batches


@dataclass
class Treacherous:
    """Repetition 1 kills its process, and repetition 2 takes for ever."""

    def fingerprint(self, name):
        return f"{name} indeed"

    def subject(self, name, repetition):
        if repetition == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        if repetition == 2:
            time.sleep(600)
        assert all(os.environ[variable] == "1" for variable in SINGLE_THREAD)
        counts, labels = expression()
        return Subject(np.log2(1 + counts), labels, repetition, counts)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGKILL")
def test_a_batch_that_is_lost_does_not_stop_the_others(monkeypatch):
    for variable in SINGLE_THREAD:
        monkeypatch.delenv(variable, raising=False)
    batches = [Batch("yan90", "plain", r, ("pca",)) for r in range(5)]
    results = {result.cell.repetition: result for result in run_batches(Treacherous(), batches, 2, 20.0)}
    assert sorted(results) == [0, 1, 2, 3, 4]
    assert results[1].reason == "its process was ended by signal 9, perhaps for want of memory"
    assert results[2].reason == "took longer than 20 s"
    for r in (0, 3, 4):
        assert results[r].ari is not None, results[r].reason
        assert results[r].fingerprint == "yan90 indeed"
    assert not any(variable in os.environ for variable in SINGLE_THREAD)


def test_processes_end_with_the_loop():
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    running = run_batches(Treacherous(), [Batch("yan90", "plain", 0, ("pca",)) for _ in range(3)], 1, 60.0)
    next(running)
    running.close()
    time.sleep(0.2)
    left = [child for child in psutil.Process().children(recursive=True) if child.pid not in before]
    # multiprocessing's own resource tracker stays.
    assert not [child for child in left if "spawn_main" in " ".join(child.cmdline())]


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="there are no masks of signals here")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_ends_us_waits_until_a_process_is_started(number):
    """Also where it reaches another thread, which the mask of the main one does not cover."""
    before, steps, begun = signal.getsignal(number), [], threading.Event()
    signal.signal(number, signal.default_int_handler)
    sender = threading.Thread(target=lambda: begun.wait(10) and signal.raise_signal(number))
    sender.start()

    def start():
        with workers._without_interrupts():
            begun.set()
            sender.join()
            time.sleep(0.01)
            steps.append("started")

    try:
        with pytest.raises(KeyboardInterrupt):
            start()
        assert steps == ["started"]
        assert signal.getsignal(number) is signal.default_int_handler
    finally:
        signal.signal(number, before)
