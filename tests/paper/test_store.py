"""Results on disk: whole or not there."""

import os
import subprocess
import sys

import pytest
from made_up import results

from nanfold.paper.protocol import Cell
from nanfold.paper.store import Store, check_same_data

RESULTS = results("yan90", {"plain": 0.4, "corrected": 0.6}, ("pca", "umap"))


def test_what_is_kept_comes_back(tmp_path):
    with Store(tmp_path / "a" / "jobs") as store:
        for result in reversed(RESULTS):
            store.keep(result)
        assert store.results() == sorted(RESULTS, key=lambda result: result.cell)
    assert len(list((tmp_path / "a" / "jobs").glob("*.json"))) == len(RESULTS)


def test_a_full_disk_leaves_nothing_half_written(tmp_path, monkeypatch):
    with Store(tmp_path) as store:
        store.keep(RESULTS[0])

        def full(descriptor):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(ValueError, match=r"Cannot write .*: No space left on device; what was done before is kept"):
            store.keep(RESULTS[1])
        assert store.results() == [RESULTS[0]]
    assert {path.name for path in tmp_path.iterdir()} == {".lock", f"{RESULTS[0].cell.key}.json"}


def test_what_a_killed_run_left_is_cleared_away(tmp_path):
    (tmp_path / ".yan90.plain.pca.000.part").write_text("{")
    with Store(tmp_path) as store:
        assert store.results() == []
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]


def test_a_damaged_result_is_named(tmp_path):
    (tmp_path / "yan90.plain.pca.000.json").write_text('{"cell": {"data": "yan90"')
    with Store(tmp_path) as store, pytest.raises(ValueError, match=r"yan90\.plain\.pca\.000\.json is damaged; delete"):
        store.results()


@pytest.mark.skipif(sys.platform == "win32", reason="locks of another kind")
def test_two_runs_do_not_write_to_one_folder(tmp_path):
    code = "import sys; from nanfold.paper.store import Store; Store(sys.argv[1]).__enter__()"
    with Store(tmp_path):
        answer = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, timeout=60)
    assert "Another run writes to" in answer.stderr
    with Store(tmp_path):
        pass


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(ValueError, match=r"Cannot write to .*jobs: Not a directory\."),
        Store(tmp_path / "file" / "jobs"),
    ):
        pass


def test_results_of_other_data_are_not_mixed(tmp_path):
    check_same_data(RESULTS, {"yan90": RESULTS[0].fingerprint}, tmp_path)
    check_same_data(RESULTS, {"wine": "another"}, tmp_path)
    with pytest.raises(ValueError, match="holds results of another yan90 than this one; name another --out"):
        check_same_data(RESULTS, {"yan90": "another"}, tmp_path)


def test_keys_differ():
    assert len({result.cell.key for result in RESULTS}) == len(RESULTS)
    assert Cell("yan90", "plain", "pca", 12).key == "yan90.plain.pca.012"
