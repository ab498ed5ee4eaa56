"""Stopped at any point and started again, a run repeats no finished job and ends with the same table."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from nanfold.paper.protocol import Batch, Cell, Result
from nanfold.paper.real import RealSets
from nanfold.paper.running import State, run
from nanfold.paper.simulation import Simulation
from nanfold.paper.store import Store
from nanfold.paper.tables import as_csv, summarised

SOURCE = Simulation(30, 60)
BATCHES = SOURCE.plan(["complete", "plain"], ["pca"], 2)


def pretend(source, batches, jobs, limit):
    """In place of the processes: numbers that depend on the job alone, and a failure."""
    for batch in batches:
        for cell in batch.cells:
            bad = cell.variant == "plain" and cell.repetition == 1
            ari = None if bad else size(cell) / (2 + cell.repetition)
            reason = "No luck." if bad else None
            yield Result(cell, cell.repetition, source.fingerprint(cell.data), ari=ari, reason=reason)


def size(cell: Cell) -> float:
    return 1 / len(cell.key)


class StoppedError(Exception):
    pass


def stop_after(count: int):
    def progress(state: State) -> None:
        if state.done == count:
            raise StoppedError

    return progress


def test_a_stopped_run_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr("nanfold.paper.running.run_batches", pretend)
    with Store(tmp_path / "whole") as store:
        whole = run(store, SOURCE, BATCHES)
    assert len(whole) == 2 * 4 * 2
    with Store(tmp_path / "stopped") as store:
        with pytest.raises(StoppedError):
            run(store, SOURCE, BATCHES, progress=stop_after(5))
        kept = store.results()
        assert len(kept) == 5
        states: list[State] = []
        again = run(store, SOURCE, BATCHES, progress=states.append)
    assert (states[0].done, states[-1].done, states[-1].left) == (5, 16, 0.0)
    assert again == whole
    assert as_csv(summarised(again)) == as_csv(summarised(whole))


def test_finished_jobs_are_not_repeated(tmp_path, monkeypatch):
    monkeypatch.setattr("nanfold.paper.running.run_batches", pretend)
    with Store(tmp_path) as store:
        whole = run(store, SOURCE, BATCHES)
        asked: list = []
        monkeypatch.setattr(
            "nanfold.paper.running.run_batches", lambda source, batches, jobs, limit: asked.extend(batches) or iter(())
        )
        assert run(store, SOURCE, BATCHES) == whole
        assert asked == []
        run(store, SOURCE, BATCHES, again=True)
        assert {(batch.variant, batch.repetition) for batch in asked} == {("plain", 1)}


def test_other_jobs_of_the_folder_do_not_count(tmp_path, monkeypatch):
    monkeypatch.setattr("nanfold.paper.running.run_batches", pretend)
    with Store(tmp_path) as store:
        run(store, SOURCE, BATCHES)
        one = [batch for batch in BATCHES if batch.repetition == 0]
        assert {result.cell.repetition for result in run(store, SOURCE, one)} == {0}
        assert len(store.results()) == 16


def test_another_simulation_is_not_mixed_in(tmp_path, monkeypatch):
    """Not even where it has no number of features in common."""
    monkeypatch.setattr("nanfold.paper.running.run_batches", pretend)
    other = Simulation(30, 6000)
    assert not set(SOURCE.names) & set(other.names)
    with Store(tmp_path) as store:
        run(store, SOURCE, BATCHES)
        with pytest.raises(ValueError, match=r"holds results of another simulated-.* name another --out, or delete"):
            run(store, other, other.plan(["plain"], ["pca"], 1))
        real = RealSets(fingerprints={"wine": "178 x 13"})
        assert len(run(store, real, [Batch("wine", "plain", 0, ("pca",))])) == 1


def start(out: Path) -> subprocess.Popen:
    code = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from nanfold.cli import main\n"
        "if __name__ == '__main__': sys.exit(main(sys.argv[1:]))"
    )
    options = ["--samples", "60", "--features", "120", "--repetitions", "10", "--methods", "pca"]
    command = [sys.executable, "-c", code, "reproduce", "simulation", *options, "--out", str(out)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


def interrupted(out: Path, count: int, how: signal.Signals) -> tuple[int, str]:
    """Run until so many jobs are done, then send the signal; the exit code and what was said."""
    process = start(out)
    until = time.monotonic() + 100
    while (len(done(out)) < count or not out.exists()) and process.poll() is None and time.monotonic() < until:
        time.sleep(0.005)
    children = psutil.Process(process.pid).children(recursive=True)
    # Ctrl-C reaches the whole group; kill -9 is for one.
    (os.killpg if how == signal.SIGINT else os.kill)(process.pid, how)
    _, said = process.communicate(timeout=60)
    _, alive = psutil.wait_procs(children, timeout=20)
    assert not alive
    return process.returncode, said


def done(out: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in (out / "jobs" / "simulation").glob("*.json")}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="sends signals")
def test_killed_and_interrupted_runs_end_with_the_same_table(tmp_path):
    whole, out = tmp_path / "whole", tmp_path / "killed"
    process = start(whole)
    assert process.communicate(timeout=200)[1] == ""
    assert process.returncode == 0
    assert len(done(whole)) == 200

    assert interrupted(out, 0, signal.SIGINT) == (130, "nanfold reproduce: interrupted.\n")
    assert interrupted(out, 50, signal.SIGKILL)[0] == -signal.SIGKILL
    first = done(out)
    assert 50 <= len(first) < 200
    assert not (out / "table.csv").exists()

    process = start(out)
    assert process.communicate(timeout=200)[1] == ""
    assert first.items() <= done(out).items()
    assert not list((out / "jobs" / "simulation").glob(".*.part"))
    assert (out / "table.csv").read_bytes() == (whole / "table.csv").read_bytes()
    assert os.listdir(out / "images")
