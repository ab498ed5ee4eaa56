"""``nanfold inspect``: its tests have the size that they should, see what they should, and say so."""

import contextlib
import io
import json
import shlex

import numpy as np
import pytest

from nanfold.cli import main
from nanfold.inspection.dependence import _beyond_row_and_column, dependence
from nanfold.inspection.examine import examine
from nanfold.inspection.heterogeneity import spread_of
from nanfold.inspection.pattern import mask_of
from nanfold.inspection.rank_one import rank_one_fit
from nanfold.inspection.sharing import QUANTILES, sharing
from nanfold.inspection.words import verdicts
from nanfold.io import read_table
from nanfold.observed import observe

DRAWS = 40


def rank_one(n: int, d: int, rng) -> np.ndarray:
    """Probabilities of the rank-one model."""
    return np.outer(rng.uniform(0.4, 1.0, n), rng.uniform(0.3, 1.0, d))


def drawn(P: np.ndarray, rng) -> np.ndarray:
    return (rng.random(P.shape) < P).astype(np.float32)


def low_rank(n: int, d: int, rng) -> np.ndarray:
    return rng.normal(size=(n, 3)) @ rng.normal(size=(3, d)) + rng.normal(size=(n, d))


def rejected(p_values: list[float], level: float) -> float:
    return float(np.mean(np.array(p_values) < level))


class TestHeterogeneity:
    def test_size(self):
        rng = np.random.default_rng(0)
        for size, p in ((20, 0.05), (200, 0.5), (50, 0.97)):
            found = [spread_of(rng.binomial(size, p, 80), size).p_value for _ in range(600)]
            assert abs(rejected(found, 0.05) - 0.05) < 0.03
            assert abs(rejected(found, 0.5) - 0.5) < 0.08

    def test_power(self):
        rng = np.random.default_rng(0)
        counts = rng.binomial(100, rng.uniform(0.4, 0.8, 80))
        found = spread_of(counts, 100)
        assert found.p_value < 1e-10
        assert found.spread == pytest.approx(np.std(counts / 100, ddof=1))
        assert found.expected == pytest.approx(np.sqrt(counts.mean() * (100 - counts.mean())) / 1000)

    def test_all_or_nothing(self):
        assert spread_of(np.full(10, 7), 7).p_value == 1.0


class TestRankOne:
    def test_size(self):
        rng = np.random.default_rng(1)
        found = [rank_one_fit(drawn(rank_one(40, 60, rng), rng), rng) for _ in range(DRAWS)]
        p_values = [fit.p_value for fit in found]
        # Of 40, within three standard errors.
        assert rejected(p_values, 0.05) <= 0.16
        assert abs(rejected(p_values, 0.5) - 0.5) < 0.24
        assert np.mean([fit.misfit for fit in found]) < 0.03

    def test_blocks_are_seen(self):
        rng = np.random.default_rng(2)
        P = rank_one(60, 90, rng)
        P[:30, :45] *= 0.3
        fit = rank_one_fit(drawn(P, rng), rng)
        assert fit.p_value < 1e-4
        assert fit.misfit > 0.03
        # What pairs of samples share lies off the line.
        assert np.sqrt(np.mean((fit.seen / fit.predicted - 1) ** 2)) > 0.15

    def test_what_is_predicted(self):
        rng = np.random.default_rng(3)
        M = drawn(rank_one(50, 4000, rng), rng)
        fit = rank_one_fit(M, rng)
        assert np.allclose(fit.seen, fit.predicted, rtol=0.15)
        assert fit.beyond_one < 0.02

    def test_a_mask_with_hardly_a_hole(self):
        M = np.ones((8, 6), dtype=np.float32)
        M[2, 3] = 0
        assert 0 <= rank_one_fit(M, np.random.default_rng(0)).p_value <= 1


class TestDependence:
    def test_size(self):
        rng = np.random.default_rng(4)
        found = []
        for _ in range(DRAWS):
            X = np.where(drawn(rank_one(60, 80, rng), rng) > 0, low_rank(60, 80, rng), np.nan)
            found.append(dependence(X, rng).p_value)
        assert rejected(found, 0.05) <= 0.16
        assert abs(rejected(found, 0.5) - 0.5) < 0.24

    def test_values_that_are_lost(self):
        rng = np.random.default_rng(5)
        X = low_rank(80, 100, rng)
        slope = 0.8
        P = 1 / (1 + np.exp(-slope * X / X.std()))
        found = dependence(np.where(drawn(P, rng) > 0, X, np.nan), rng)
        assert found.p_value < 1e-6
        # Only a part of a value is predicted, so that the slope comes out smaller.
        assert 0.3 * slope < found.log_odds < 1.2 * slope

    def test_features_of_small_values_are_thin(self):
        rng = np.random.default_rng(6)
        level = np.linspace(-2, 2, 80)
        X = low_rank(60, 80, rng) + 3 * level
        P = np.outer(rng.uniform(0.5, 1, 60), 0.5 + 0.2 * level)
        found = dependence(np.where(drawn(P, rng) > 0, X, np.nan), rng)
        assert found.correlation > 0.8
        assert found.correlation_p < 1e-6
        assert found.p_value > 0.001  # a rate for every feature is all there is

    def test_noise_predicts_nothing(self):
        rng = np.random.default_rng(7)
        X = np.where(rng.random((30, 20)) < 0.7, rng.normal(size=(30, 20)), np.nan)
        found = dependence(X, rng)
        assert found.rank == 0
        assert found.p_value == 1.0


def test_sharing():
    rng = np.random.default_rng(8)
    X = np.where(rng.random((30, 200)) < 0.5, rng.normal(size=(30, 200)), np.nan)
    X[3, 10:] = np.nan
    X[:, 7] = np.nan
    X[:2, 7] = 1.0
    X[3, 0] = 1.0
    observed = observe(X)
    M = mask_of(observed, np.arange(30), np.arange(200))
    assert np.array_equal(M, ~np.isnan(X))
    found = sharing(observed, M)
    seen = (M @ M.T)[np.triu_indices(30, 1)]
    assert found.quantiles == tuple(np.quantile(seen, QUANTILES))
    assert found.none == np.mean(seen == 0)
    assert found.thin_samples[0] == 3
    assert found.thin_features.tolist() == [7]
    # Twice the accuracy takes four times the features.
    assert found.needed[1] == pytest.approx(4 * found.needed[0], rel=0.01)


@pytest.fixture
def table(tmp_path):
    def write(X: np.ndarray, name: str = "table.csv") -> str:
        lines = [",".join("" if np.isnan(v) else repr(v) for v in row) for row in X.tolist()]
        header = ",".join(f"f{s}" for s in range(X.shape[1]))
        (tmp_path / name).write_text("\n".join([header, *lines]) + "\n")
        return str(tmp_path / name)

    return write


def inspect(*words: str) -> str:
    said, complained = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(complained):
        assert main(["inspect", *words]) == 0, complained.getvalue()
    assert not complained.getvalue()
    return said.getvalue()


def test_on_the_terminal_and_as_a_report(table, tmp_path):
    rng = np.random.default_rng(9)
    path = table(np.where(drawn(rank_one(50, 70, rng), rng) > 0, low_rank(50, 70, rng), np.nan))
    text = inspect(path, "--out", str(tmp_path / "out"))
    plain = " ".join(text.split())
    for says in ("missingness is heterogeneous", "rank-one model of holes fits", "No sign that holes depend"):
        assert says in plain
    assert f"nanfold embed {path} --methods pca,umap,tsne,gplvm --out table-embedded" in plain
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == ["inspection.json", "report.html"]
    numbers = json.loads((tmp_path / "out" / "inspection.json").read_text())
    assert numbers["samples"], numbers["features"] == (50, 70)
    assert numbers["fit"]["p_value"] > 0.01
    page = (tmp_path / "out" / "report.html").read_text()
    assert "How many features are enough" in page
    assert "The missingness is heterogeneous" in page


def test_the_command_that_it_advises(table, tmp_path, monkeypatch):
    rng = np.random.default_rng(10)
    P = np.full((60, 90), 0.9)
    P[:30, :45] = 0.25
    path = table(np.where(drawn(P, rng) > 0, low_rank(60, 90, rng), np.nan))
    text = inspect(path)
    assert "does not fit" in text
    command = next(line.strip() for line in text.splitlines() if line.startswith("  nanfold embed"))
    assert "--observation pairwise" in command
    monkeypatch.chdir(tmp_path)
    assert main(shlex.split(command.replace("pca,umap,tsne,gplvm", "pca"))[1:]) == 0
    assert (tmp_path / "table-embedded" / "report.html").exists()


def test_without_holes_and_with_dropouts(table):
    rng = np.random.default_rng(11)
    counts = rng.poisson(0.7, (40, 30)).astype(float) + (np.arange(30) == 0)
    path = table(counts)
    assert "--missing dropouts" in inspect(path)
    text = inspect(path, "--missing", "dropouts")
    assert "inferred from the values" in text
    assert "--missing dropouts --methods" in " ".join(text.split())
    assert "There are no holes." in inspect(table(counts + 1.0))


def test_a_large_table_is_looked_at_in_part(table, monkeypatch):
    monkeypatch.setattr("nanfold.inspection.examine.MOST_SAMPLES", 20)
    monkeypatch.setattr("nanfold.inspection.examine.MOST_FEATURES", 25)
    rng = np.random.default_rng(12)
    path = table(np.where(drawn(np.full((50, 70), 0.6), rng) > 0, low_rank(50, 70, rng), np.nan))
    found = examine(read_table(path))
    assert found.tested == (20, 25)
    assert found.sharing.n_pairs == 190
    assert all(verdict.says.endswith(".") for verdict in verdicts(found, read_table(path)))


def test_predictions_freed_of_row_and_column():
    rng = np.random.default_rng(13)
    weights, interaction = rng.uniform(0, 1, (20, 30)), rng.normal(size=(20, 30))
    z = _beyond_row_and_column(interaction + 5 * rng.normal(size=(20, 1)) + 5 * rng.normal(size=30), weights)
    assert np.abs((weights * z).sum(axis=0)).max() < 1e-6
    assert np.abs((weights * z).sum(axis=1)).max() < 1e-6
    assert np.allclose(z, _beyond_row_and_column(interaction, weights), atol=1e-6)
