"""``nanfold impute``: what was observed stays, what is filled in is near, and its uncertainty is what it says."""

import contextlib
import io
import warnings
from pathlib import Path

import anndata
import numpy as np
import pytest

from nanfold.cli import main
from nanfold.imputation import check_on_held_out, fill, fit_low_rank, held_out_rank
from nanfold.io import read_table
from nanfold.observed import observe


def simulated(n: int, d: int, k: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Complete data of rank k with noise of its own for every feature, and the same with holes."""
    rng = np.random.default_rng(seed)
    noise = rng.uniform(0.3, 2.0, d)
    full = rng.normal(size=(n, k)) @ rng.normal(size=(k, d)) + noise * rng.normal(size=(n, d)) + rng.normal(size=d)
    P = np.outer(rng.uniform(0.5, 1, n), rng.uniform(0.4, 1, d))
    return full, np.where(rng.random((n, d)) < P, full, np.nan)


@pytest.mark.parametrize(("n", "d", "k"), [(150, 60, 3), (60, 150, 4)])
def test_the_uncertainty_is_calibrated(n, d, k):
    away = []
    for seed in range(4):
        full, X = simulated(n, d, k, seed)
        filled = fill(X, observe(X), k, np.random.default_rng(0))
        holes = np.isnan(X)
        away.append(np.abs(full - filled.X)[holes] / filled.deviation[holes])
    away = np.concatenate(away)
    assert abs(np.mean(away < 1.0) - 0.683) < 0.03
    assert abs(np.mean(away < 1.96) - 0.95) < 0.02


def test_what_is_filled_in_beats_means_and_the_rest_stays():
    full, X = simulated(120, 80, 3, 0)
    observed = observe(X)
    rank = held_out_rank(observed, np.random.default_rng(0))
    filled = fill(X, observed, rank, np.random.default_rng(0))
    holes = np.isnan(X)
    assert np.array_equal(filled.X[~holes], X[~holes])
    assert (filled.deviation[~holes] == 0).all()
    assert (filled.deviation[holes] > 0).all()
    means = np.broadcast_to(np.nanmean(X, axis=0), X.shape)
    assert np.mean((filled.X - full)[holes] ** 2) < 0.55 * np.mean((means - full)[holes] ** 2)
    # A sample of which little was seen is less certain.
    thin = X.copy()
    thin[0, 5:] = np.nan
    again = fill(thin, observe(thin), rank, np.random.default_rng(0))
    assert again.deviation[0, 5:][holes[0, 5:]].mean() > 1.1 * filled.deviation[0, 5:][holes[0, 5:]].mean()


def test_the_noise_of_every_feature():
    rng = np.random.default_rng(0)
    noise = np.linspace(0.3, 2.0, 40)
    full = rng.normal(size=(400, 2)) @ rng.normal(size=(2, 40)) + noise * rng.normal(size=(400, 40))
    X = np.where(rng.random(full.shape) < 0.7, full, np.nan)
    model = fit_low_rank(observe(X), 2, rng)
    assert np.allclose(np.sqrt(model.noise), noise, rtol=0.2)


def test_components_that_are_not_asked_for_vanish():
    rng = np.random.default_rng(1)
    full = rng.normal(size=(200, 2)) @ rng.normal(size=(2, 50)) + 0.5 * rng.normal(size=(200, 50))
    X = np.where(rng.random(full.shape) < 0.7, full, np.nan)
    few, many = (fill(X, observe(X), rank, np.random.default_rng(0)).X for rank in (2, 8))
    holes = np.isnan(X)
    errors = [np.mean((guess - full)[holes] ** 2) for guess in (few, many)]
    assert errors[1] < 1.1 * errors[0]


def test_entries_and_rows_are_predicted_alike():
    _, X = simulated(30, 20, 2, 0)
    model = fit_low_rank(observe(X), 2, np.random.default_rng(0))
    mean, variance = model.predict(0, 30)
    rows, columns = np.nonzero(np.isnan(X))
    some = model.predict_entries(rows, columns)
    assert np.allclose(some[0], mean[rows, columns])
    assert np.allclose(some[1], variance[rows, columns])
    assert np.allclose(model.predict(7, 9)[0], mean[7:9])


def test_the_check_on_held_out_entries():
    _, X = simulated(150, 80, 3, 2)
    check = check_on_held_out(observe(X), 3, np.random.default_rng(0))
    assert abs(check.n_entries / np.sum(~np.isnan(X)) - 0.1) < 0.02
    assert check.error < 0.8 * check.error_of_means
    assert abs(check.within_one - 0.683) < 0.06
    assert abs(check.within_two - 0.95) < 0.04


def impute(*words: str) -> str:
    said, complained = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(complained):
        assert main(["impute", *map(str, words)]) == 0, complained.getvalue()
    assert not complained.getvalue()
    return said.getvalue()


@pytest.fixture
def table(tmp_path) -> Path:
    _, X = simulated(30, 12, 2, 3)
    lines = [
        ",".join([f"s{i}", *("" if np.isnan(v) else f"{v:.3f}" for v in row), "ab"[i % 2]]) for i, row in enumerate(X)
    ]
    path = tmp_path / "table.csv"
    path.write_text("\n".join([",".join(["id", *(f"f{s}" for s in range(12)), "kind"]), *lines]))
    return path


@pytest.mark.parametrize("ending", ["csv", "tsv.gz", "parquet", "feather", "npy", "npz", "h5ad"])
def test_every_format(ending, table, tmp_path):
    text = impute(table, "--out", tmp_path / "new" / f"filled.{ending}", "--rank", "2")
    labels = [] if ending == "npy" else ["kind"]
    before, after = read_table(table), read_table(tmp_path / "new" / f"filled.{ending}", labels=labels)
    holes = np.isnan(before.X)
    assert f"Filled {holes.sum()} holes with 2 components." in text
    assert np.array_equal(after.X[~holes], before.X[~holes])
    assert after.share_of_holes() == 0
    if ending != "npy":
        assert (after.sample_names, after.feature_names) == (before.sample_names, before.feature_names)
        assert after.labels["kind"].tolist() == before.labels["kind"].tolist()
    if ending in ("npz", "h5ad"):
        deviation = read_table(tmp_path / "new" / f"filled.{ending}", layer="sd").X
    else:
        deviation = read_table(tmp_path / "new" / f"filled.sd.{ending}").X
    assert np.array_equal(deviation > 0, holes)


def test_an_h5ad_keeps_what_else_it_held(tmp_path):
    _, X = simulated(20, 10, 2, 4)
    adata = anndata.AnnData(X, obs={"type": list("uv") * 10}, layers={"raw": np.ones((20, 10))})
    adata.uns["about"] = "kept"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # anndata's of formats to come
        adata.write_h5ad(tmp_path / "x.h5ad")
        impute(tmp_path / "x.h5ad", "--out", tmp_path / "y.h5ad", "--rank", "2")
        back = anndata.read_h5ad(tmp_path / "y.h5ad")
    assert back.uns["about"] == "kept"
    assert set(back.layers) == {"raw", "sd"}
    assert np.array_equal(back.X[~np.isnan(X)], X[~np.isnan(X)])
    assert not np.isnan(back.X).any()


def test_ratings(tmp_path):
    rng = np.random.default_rng(0)
    liking = 3 + rng.normal(size=(40, 1)) @ rng.normal(size=(1, 25))
    seen = rng.random(liking.shape) < 0.5
    lines = [f"u{i},f{s},{liking[i, s]:.3f}" for i in range(40) for s in range(25) if seen[i, s]]
    (tmp_path / "r.csv").write_text("\n".join(["user,film,stars", *lines]))
    impute(tmp_path / "r.csv", "--triplets", "--out", tmp_path / "filled.csv", "--rank", "1")
    after = read_table(tmp_path / "filled.csv")
    order = [[int(name[1:]) for name in names] for names in (after.sample_names, after.feature_names)]
    truth = liking[np.ix_(*order)]
    assert np.corrcoef(after.X[~seen[np.ix_(*order)]], truth[~seen[np.ix_(*order)]])[0, 1] > 0.95


def test_the_same_seed_gives_the_same_file(table, tmp_path):
    for name in ("a.csv", "b.csv"):
        impute(table, "--out", tmp_path / name, "--seed", "4")
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
