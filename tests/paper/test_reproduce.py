"""The command: what it writes, and what it says about bad input."""

import csv
import sys

import numpy as np
import pytest
from made_up import expression

from nanfold.cli import main

COUNTS, LABELS = expression()


def refused(capsys, *argv: str) -> str:
    assert main(["reproduce", *argv]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert captured.err.startswith("nanfold reproduce: ")
    return captured.err.removeprefix("nanfold reproduce: ")


def test_a_run_writes_everything_and_the_page_can_be_made_again(folder, tmp_path, capsys):
    out = tmp_path / "out"
    argv = ["reproduce", "real", "--data-dir", str(folder), "--sets", "yan90", "--repetitions", "1"]
    argv += ["--methods", "pca", "--variants", "plain", "corrected", "cidr", "--out", str(out), "--jobs", "1"]
    assert main(argv) == 0
    said = capsys.readouterr().out
    assert "3 jobs, 0 of them failed" in said
    assert {path.name for path in out.iterdir()} == {
        "images",
        "jobs",
        "jobs.csv",
        "results.md",
        "table.csv",
        "tables.md",
    }
    with open(out / "table.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["variant"] for row in rows] == ["plain", "corrected", "cidr"]
    page = (out / "results.md").read_text()
    assert "the correction improves PCA, GPLVM, t-SNE and UMAP on real data" in page
    before = {path: path.stat().st_mtime_ns for path in (out / "jobs").rglob("*.json")}
    assert main(["reproduce", "page", "--out", str(out)]) == 0
    assert {path: path.stat().st_mtime_ns for path in (out / "jobs").rglob("*.json")} == before
    assert (out / "results.md").read_text() == page

    np.savez(folder / "yan90.npz", X=COUNTS + 1, labels=LABELS)
    capsys.readouterr()
    assert "holds results of another yan90" in refused(capsys, *argv[1:])


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["real", "--sets", "koh"], "does not hold koh: there is no koh.npz"),
        (["real", "--sets", "cells"], "--sets must be among pollen, "),
        (["real", "--methods", "isomap"], "--methods must be among pca, gplvm, tsne, umap; there is no isomap."),
        (["real", "--variants", "magic"], "--variants must be among complete, "),
        (["real", "--sets", "yan90", "--variants", "complete"], "None of these variants and methods suits the sets"),
        (["real", "--repetitions", "0"], "--repetitions must be at least 1; it is 0."),
        (["real", "--jobs", "0"], "--jobs must be at least 1; it is 0."),
        (["real", "--limit", "0"], "--limit must be a positive number of seconds; it is 0."),
        (["simulation", "--sets", "yan90"], "--sets chooses among the real sets"),
        (["real", "--samples", "100"], "--samples is of the simulation; leave it out, or say"),
        (["page", "--features", "100"], "--features is of the simulation; leave it out, or say"),
        (["simulation", "--features", "10"], "--features must be at least 60; it is 10."),
        (["page"], "to make a page of; run 'nanfold reproduce simulation'."),
    ],
)
def test_bad_options(argv, says, folder, tmp_path, capsys):
    assert says in refused(capsys, *argv, "--data-dir", str(folder), "--out", str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        ({"X": COUNTS}, "it has no labels"),
        ({"X": COUNTS, "labels": LABELS[:-1]}, "X has 45 rows and 60 columns, but labels have the shape (44,)"),
        ({"X": COUNTS[0], "labels": LABELS}, "X must have rows and columns"),
        ({"X": COUNTS, "labels": np.repeat("a", 45)}, "all labels are 'a'"),
        ({"X": COUNTS - 1, "labels": LABELS}, "values must be finite and not negative"),
        ({"Y": COUNTS, "labels": LABELS}, "and no array named X"),
    ],
)
def test_a_set_that_does_not_hold_together(arrays, says, folder, tmp_path, capsys):
    np.savez(folder / "yan90.npz", **arrays)
    argv = ["real", "--data-dir", str(folder), "--sets", "yan90", "--out", str(tmp_path / "out")]
    assert says in refused(capsys, *argv)
    assert not (tmp_path / "out").exists()


def test_a_truncated_file(folder, tmp_path, capsys):
    path = folder / "yan90.npz"
    path.write_bytes(path.read_bytes()[:1000])
    argv = ["real", "--data-dir", str(folder), "--sets", "yan90", "--out", str(tmp_path / "out")]
    assert "yan90.npz cannot be read" in refused(capsys, *argv)
    assert not (tmp_path / "out").exists()


def test_folders_that_cannot_be_used(folder, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert "is not a folder" in refused(capsys, "real", "--data-dir", str(tmp_path / "no"), "--sets", "yan90")
    out = str(tmp_path / "file" / "out")
    assert "Cannot write to" in refused(capsys, "real", "--data-dir", str(folder), "--sets", "yan90", "--out", out)


@pytest.mark.skipif(sys.platform == "win32", reason="the store is filled up in its own way")
def test_a_full_disk(folder, tmp_path, capsys, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    out = tmp_path / "out"
    argv = ["real", "--data-dir", str(folder), "--sets", "yan90", "--variants", "plain", "--methods", "pca"]
    assert "No space left on device" in refused(capsys, *argv, "--out", str(out), "--jobs", "1")
    assert [path.name for path in out.rglob("*") if path.is_file()] == [".lock"]


def test_without_names_what_is_damaged_is_told_and_the_rest_goes_on(folder, tmp_path, capsys):
    np.savez(folder / "pollen.npz", X=COUNTS)
    argv = ["real", "--data-dir", str(folder), "--variants", "plain", "--methods", "pca", "--repetitions", "1"]
    assert main(["reproduce", *argv, "--out", str(tmp_path / "out"), "--jobs", "1"]) == 1
    captured = capsys.readouterr()
    assert captured.err.startswith("Without pollen: ")
    assert "2 jobs, 0 of them failed" in captured.out
