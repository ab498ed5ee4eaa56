"""The benchmark of rivals: its data, its measures, and that a rival that fails is told with its reason."""

import argparse
import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

FOLDER = Path(__file__).parent.parent / "benchmarks" / "rivals"
NAMES = ("install", "methods", "metrics", "problems", "table", "run")


@pytest.fixture(scope="module")
def rivals():
    """The benchmark's modules, which import each other by name, as scripts do."""
    if not FOLDER.exists():
        pytest.skip("this installation has no benchmarks/rivals")
    sys.path.insert(0, str(FOLDER))
    yield argparse.Namespace(**{name: importlib.import_module(name) for name in NAMES})
    sys.path.remove(str(FOLDER))
    for name in NAMES:
        del sys.modules[name]


@pytest.fixture(scope="module")
def problem(rivals):
    return rivals.problems.draw(rivals.problems.Setting("small", 300, 80, "mcar", 0.4))


def row(rivals, method, **found):
    about = {
        "problem": "small",
        "n": 300,
        "d": 80,
        "mechanism": "mcar",
        "holes": 0.4,
        "seed": 0,
        "machine": "a machine",
    }
    numbers = {
        "loading_error": 0.125,
        "neighbour_recall": 0.5,
        "ari": 0.75,
        "seconds": 1.5,
        "cpu_seconds": 2.5,
        "megabytes": 99.0,
    }
    return about | {"method": method, "failure": "", "package": "its package", "version": "1.0"} | numbers | found


class TestProblems:
    @pytest.mark.parametrize("mechanism", ["rank-one", "mcar", "by-value"])
    @pytest.mark.parametrize("share", [0.37, 0.8])
    def test_as_many_holes_as_asked_for(self, rivals, mechanism, share):
        drawn = rivals.problems.draw(rivals.problems.Setting("small", 400, 300, mechanism, share))
        assert_allclose(np.isnan(drawn.X).mean(), share, atol=0.02)
        seen = np.isfinite(drawn.X)
        assert_array_equal(drawn.X[seen], drawn.complete[seen])

    def test_the_same_data_whatever_is_hidden(self, rivals, problem):
        other = rivals.problems.draw(rivals.problems.Setting("small", 300, 80, "by-value", 0.8))
        assert_array_equal(problem.complete, other.complete)
        assert not np.array_equal(np.isnan(problem.X), np.isnan(other.X))

    def test_the_truth_is_not_handed_out(self, problem, tmp_path):
        problem.save(tmp_path / "problem.npz")
        assert set(np.load(tmp_path / "problem.npz").files) == {"X", "n_components"}

    def test_complete_data_give_the_loadings_away(self, rivals, problem):
        scores, loadings = rivals.methods.principal(problem.complete, 5)
        assert rivals.metrics.loading_error(loadings, problem.loadings) < 0.2
        assert rivals.metrics.cluster_ari(scores, problem.labels) > 0.6


class TestMetrics:
    @pytest.mark.parametrize("angle", [1e-9, 0.3, np.pi / 2])
    def test_loading_error_is_the_sine_of_the_largest_angle(self, rivals, angle):
        true = np.eye(6)[:, :2]
        found = true.copy()
        found[:, 1] = np.cos(angle) * true[:, 1] + np.sin(angle) * np.eye(6)[:, 4]
        mixed = found @ np.array([[2.0, 1.0], [0.5, -3.0]])
        assert_allclose(rivals.metrics.loading_error(mixed, true), np.sin(angle), rtol=1e-5)

    def test_recall(self, rivals):
        true = np.random.default_rng(0).standard_normal((60, 2))
        assert rivals.metrics.neighbour_recall(3.0 * true, true, 5) == 1.0
        assert rivals.metrics.neighbour_recall(true[::-1], true, 5) < 0.4

    def test_turned_keeps_the_product(self, rivals):
        rng = np.random.default_rng(0)
        A, B = rng.standard_normal((20, 3)), rng.standard_normal((10, 3))
        scores, loadings = rivals.methods.turned(A, B)
        assert_allclose(scores @ loadings.T, A @ B.T, atol=1e-12)
        assert_allclose(loadings.T @ loadings, np.eye(3), atol=1e-12)

    @pytest.mark.parametrize("shape", [(50, 20), (20, 50)])
    def test_principal_components_either_way(self, rivals, shape):
        filled = np.random.default_rng(0).standard_normal(shape)
        Y = filled - filled.mean(axis=0)
        scores, loadings = rivals.methods.principal(filled, 3)
        assert_allclose(np.linalg.norm(scores, axis=0), np.linalg.svd(Y, compute_uv=False)[:3])
        assert_allclose(loadings.T @ loadings, np.eye(3), atol=1e-12)


class TestFailures:
    def test_an_environment_that_is_not_there(self, rivals, problem, tmp_path):
        options = argparse.Namespace(environments=tmp_path, limit=5.0, threads=1)
        found = rivals.run.attempt("ppca-py", tmp_path / "problem.npz", problem, problem.complete[:, :5], options)
        assert found == {"failure": "not installed; run benchmarks/rivals/install.py"}

    def test_what_will_not_install_says_why(self, rivals, tmp_path):
        folder = tmp_path / "ppca-py"
        folder.mkdir()
        (folder / "report.json").write_text(json.dumps({"group": "ppca-py", "versions": {}, "failure": "no compiler"}))
        assert rivals.install.read_report(tmp_path, "ppca-py").failure == "no compiler"
        said = "Collecting x\nERROR: No matching distribution found for x\nwarning: something else\n"
        assert rivals.install.reason_in(said) == "ERROR: No matching distribution found for x"

    def test_a_process_that_fails_or_takes_too_long(self, rivals):
        fails = [sys.executable, "-c", "import sys; print('first'); sys.exit('ValueError: no such luck')"]
        assert rivals.run.measure(fails, 20.0, {}) == "ValueError: no such luck"
        assert rivals.run.measure([sys.executable, "-c", "raise SystemExit(3)"], 20.0, {}) == "ended with code 3"
        sleeps = [sys.executable, "-c", "import time; time.sleep(30)"]
        assert rivals.run.measure(sleeps, 0.2, {}) == "not done after 0.2 s"
        assert rivals.run.measure(["/no/such/python"], 1.0, {}).startswith("does not start: ")

    def test_are_in_the_table(self, rivals, tmp_path):
        rows = [
            row(rivals, "good"),
            row(rivals, "bad", failure="MemoryError: too large"),
            row(rivals, "good", holes=0.8),
        ]
        rivals.table.write_all(rows, tmp_path)
        page = (tmp_path / "README.md").read_text()
        assert "| good | 0.1250 | 0.500 | 0.750 | 1.50 s | 0.1250 |" in page
        assert "- bad: MemoryError: too large (40% holes)" in page
        assert "- bad: not run (80% holes)" in page
        assert json.loads((tmp_path / "results.json").read_text()) == rows
        assert "MemoryError: too large" in (tmp_path / "results.csv").read_text()


def test_measuring_again_replaces(rivals):
    old, other, new = row(rivals, "one"), row(rivals, "two"), row(rivals, "one", seconds=7.0)
    assert rivals.run.merged([old, other], [new]) == [new, other]


@pytest.mark.slow
def test_a_method_from_start_to_end(rivals, tmp_path):
    """In a process of its own, as the benchmark runs it."""
    setting = rivals.problems.Setting("small", 300, 80, "mcar", 0.4)
    options = argparse.Namespace(environments=tmp_path, limit=120.0, threads=1)
    ours, filled, missing = rivals.run.compare(setting, ["nanfold", "mean fill", "open-nipals"], options)
    assert ours["failure"] == filled["failure"] == ""
    assert ours["loading_error"] < filled["loading_error"]
    assert ours["seconds"] > 0
    assert ours["cpu_seconds"] > 0
    assert ours["megabytes"] > 10
    assert missing["failure"].startswith("not installed")
