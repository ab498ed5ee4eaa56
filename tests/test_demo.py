"""``nanfold demo``: what it finds, what it writes, and that it writes all or nothing."""

import contextlib
import csv
import io
import re
import sys

import numpy as np
import pytest

from checked_html import Page
from nanfold import demo
from nanfold.cli import main
from nanfold.demo import comparison, page, pictures

QUICK = ["--samples", "120", "--features", "600", "--draws", "2"]
FILES = {
    "ari.csv",
    "clusters-dark.png",
    "clusters.png",
    "clusters.svg",
    "features-dark.png",
    "features.png",
    "features.svg",
    "report.html",
}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The folder that a quick run wrote, and what it said."""
    out = tmp_path_factory.mktemp("demo") / "results"
    said, complained = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(complained):
        assert main(["demo", *QUICK, "--out", str(out)]) == 0
    assert not complained.getvalue()
    return out, said.getvalue()


def test_writes_everything_and_says_where(written):
    out, text = written
    assert {path.name for path in out.iterdir()} == FILES
    assert [path.name for path in out.parent.iterdir()] == ["results"]
    for name in ("report.html", "clusters.png", "features.png", "ari.csv"):
        assert f"{out}/{name}" in text


def test_terminal_table_is_the_mean_of_the_numbers_on_disk(written):
    out, text = written
    with open(out / "ari.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 4 * 4 * 2
    assert re.search(r"^features +100 +200 +400 +600 +scale$", text, re.MULTILINE)
    for name in comparison.METHODS:
        shown = [float(cell) for cell in re.search(rf"^{name} +([\d. ]+)$", text, re.MULTILINE)[1].split()]
        for size, value in zip((100, 200, 400, 600), shown, strict=False):
            found = [float(row["ari"]) for row in rows if (row["method"], row["features"]) == (name, str(size))]
            assert value == pytest.approx(np.mean(found), abs=6e-4)


def test_report_is_self_contained(written):
    source = (written[0] / "report.html").read_text(encoding="utf-8")
    page = Page()
    page.feed(source)
    page.close()
    assert page.loads == []
    assert not re.search(r"@import|<script|url\((?!#)", source)
    assert page.open == []
    assert len(page.pictures) == 5
    assert all(picture["role"] == "img" and picture["aria-label"] for picture in page.pictures)
    assert len(set(page.ids)) == len(page.ids)
    assert "prefers-color-scheme: dark" in source
    assert 'name="viewport"' in source
    assert len(source) < 1_000_000


def test_report_tells_what_was_done(written):
    page = Page()
    page.feed((written[0] / "report.html").read_text(encoding="utf-8"))
    text = " ".join(" ".join(page.text).split())
    assert "120 samples with 600 features, in 3 clusters; 40 % of the entries hidden." in text
    assert "nanfold demo --samples 120 --features 600 --draws 2 --seed 0" in text
    assert f"numpy {np.__version__}" in text


def test_report_follows_the_colours_of_the_page(written):
    body = (written[0] / "report.html").read_text(encoding="utf-8").partition("<body>")[2]
    assert "var(--ink)" in body
    for colour in vars(pictures.LIGHT).values():
        assert colour not in body.lower()


def test_pictures_are_pictures(written):
    for path in written[0].glob("*.png"):
        content = path.read_bytes()
        assert content.startswith(b"\x89PNG")
        width, height = (int.from_bytes(content[start : start + 4], "big") for start in (16, 20))
        assert width > height > 300
    for path in written[0].glob("*.svg"):
        assert "<svg" in path.read_text(encoding="utf-8")


def test_same_seed_same_files(written, tmp_path, capsys):
    assert main(["demo", *QUICK, "--out", str(tmp_path)]) == 0
    for path in written[0].iterdir():
        assert path.read_bytes() == (tmp_path / path.name).read_bytes(), path.name


def test_another_seed_other_data_and_holes():
    one, other = (comparison.compare(60, 120, n_draws=1, seed=seed) for seed in (0, 1))
    assert not np.allclose(np.abs(one.scores["nothing hidden"]), np.abs(other.scores["nothing hidden"]))
    assert one.share_hidden != other.share_hidden


def test_only_the_first_method_sees_what_was_hidden():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 80))
    holed = np.where(rng.random(X.shape) < 0.4, np.nan, X)
    other = np.where(np.isnan(holed), 99.0, X)
    for name, method in comparison.METHODS.items():
        same = np.allclose(method(X, holed, 0), method(other, holed, 0))
        assert same == (name != "nothing hidden")


def test_signs_agree_in_the_pictures():
    Z = np.array([[1.0, 2.0], [-1.0, 1.0], [0.0, -3.0]])
    aligned = comparison._with_common_signs({"a": Z, "b": Z * [-1.0, 1.0], "c": -Z})
    for scores in aligned.values():
        np.testing.assert_array_equal(scores, Z)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--samples", "29"], "--samples must be at least 30; it is 29."),
        (["--features", "0"], "--features must be at least 60; it is 0."),
        (["--draws", "0"], "--draws must be at least 1; it is 0."),
        (["--seed", "-1"], "--seed must be at least 0; it is -1."),
        (["--out", "file/results"], "Cannot write to file/results: file is not a folder."),
        (["--out", "file"], "Cannot write to file: file is not a folder."),
    ],
)
def test_bad_options(options, says, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    assert main(["demo", *options]) == 2
    captured = capsys.readouterr()
    assert captured.err == f"nanfold demo: {says}\n"
    assert not captured.out
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_full_disk_leaves_nothing(tmp_path, monkeypatch, capsys):
    def full(found, folder):
        (folder / "clusters.svg").write_text("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pictures, "save", full)
    assert main(["demo", *QUICK, "--draws", "1", "--out", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err == f"nanfold demo: Cannot write to {tmp_path}/out: No space left on device.\n"
    assert not any(tmp_path.iterdir())


def test_without_matplotlib_it_names_the_extra(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for module in (pictures, page):
        monkeypatch.delitem(sys.modules, module.__name__)
        monkeypatch.delattr(demo, module.__name__.rpartition(".")[2])
    assert main(["demo", "--out", str(tmp_path / "out")]) == 1
    assert capsys.readouterr().err == (
        "nanfold demo: needs matplotlib, which is not installed; pip install 'nanfold[plot]'.\n"
    )
    assert not any(tmp_path.iterdir())


@pytest.mark.slow
def test_the_papers_setting():
    found = comparison.compare(600, 3000, 10, seed=0)
    ari = dict(zip(comparison.METHODS, found.ari.mean(axis=2), strict=True))
    assert found.sizes == (500, 1000, 2000, 3000)
    assert found.share_hidden == pytest.approx(0.4, abs=0.005)
    assert ari["nothing hidden"][-1] > 0.99
    assert ari["nanfold"][-1] > 0.99
    assert ari["holes set to zero"][-1] < 0.65
    assert np.all(ari["nanfold"] >= ari["holes set to the mean"] - 0.02)
    scale = dict(zip(comparison.METHODS, found.scale.mean(axis=1), strict=True))
    assert scale["nanfold"] == pytest.approx(1.0, abs=0.05)
    assert scale["holes set to the mean"] < 0.7
