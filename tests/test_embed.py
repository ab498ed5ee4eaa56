"""``nanfold embed``: what it writes, that the numbers agree with the estimators, and how it ends."""

import contextlib
import csv
import io
import json
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import anndata
import joblib
import numpy as np
import pandas as pd
import pytest

import nanfold as nf
from nanfold.cli import main
from nanfold.io import read_table
from nanfold.study.agreement import neighbour_overlap
from nanfold.study.settings import METHODS, assist_of, components_of, methods_of

FILES = {"report.html", "coordinates.csv", "models.joblib", "numbers.json"}
N, D = 40, 60


def embed(*words: str) -> str:
    """Run the command; what it prints."""
    said, complained = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(complained):
        assert main(["embed", *map(str, words)]) == 0, complained.getvalue()
    assert not complained.getvalue()
    return said.getvalue()


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> Path:
    """Three clusters with holes, and two samples of which little was seen."""
    rng = np.random.default_rng(0)
    kind = np.arange(N) % 3
    X = rng.normal(size=(3, D))[kind] * 2 + rng.normal(size=(N, D))
    P = np.outer(rng.uniform(0.6, 1, N), rng.uniform(0.6, 1, D))
    P[[4, 9]] = 0.12
    X[rng.random(X.shape) > P] = np.nan
    frame = pd.DataFrame(X, columns=[f"f{s}" for s in range(D)])
    frame.insert(0, "id", [f"s{i}" for i in range(N)])
    frame["kind"] = np.array(["a", "b", "c"])[kind]
    frame["batch"] = rng.integers(0, 2, N)
    path = tmp_path_factory.mktemp("data") / "table.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def written(table) -> tuple[Path, str]:
    out = table.parent / "out"
    return out, embed(table, "--label", "kind", "--label", "batch", "--out", out, "--seed", "3")


def test_everything_is_written_and_said(written):
    out, text = written
    pictures = {f"{name}.{ending}" for name in (*METHODS, "all") for ending in ("png", "svg")}
    assert {path.name for path in out.iterdir()} == FILES | pictures
    assert text.startswith("table.csv: 40 samples x 60 features, ")
    assert "label columns 'kind', 'batch'" in text
    for name in ("report.html", "all.png", "coordinates.csv", "models.joblib", "numbers.json"):
        assert f"{out}/{name}" in text


def test_the_estimators_give_the_coordinates_again(written, table):
    out, _ = written
    models = joblib.load(out / "models.joblib")
    with open(out / "coordinates.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["sample"] for row in rows] == [f"s{i}" for i in range(N)]
    assert [row["kind"] for row in rows] == [("a", "b", "c")[i % 3] for i in range(N)]
    X = read_table(table, labels=["batch"]).X
    assert np.allclose([float(row["share_observed"]) for row in rows], 1 - np.isnan(X).mean(axis=1))
    for name, prefix in (("umap", "UMAP"), ("tsne", "tSNE"), ("gplvm", "GPLVM")):
        points = np.array([[float(row[f"{prefix}{a}"]) for a in (1, 2)] for row in rows])
        assert np.array_equal(points, models[name].embedding_.astype(float))
        assert models[name].transform(X[:2]).shape == (2, 2)
    alone = nf.PCA(models["pca"].n_components_, random_state=3).fit_transform(X)
    scores = np.array([[float(row[f"PC{a + 1}"]) for a in range(alone.shape[1])] for row in rows])
    assert np.allclose(scores, alone)


def test_the_numbers(written):
    out, _ = written
    numbers = json.loads((out / "numbers.json").read_text())
    models = joblib.load(out / "models.joblib")
    assert (numbers["samples"], numbers["features"]) == (N, D)
    assert numbers["settings"]["seed"] == 3
    assert numbers["methods"]["pca"]["explained_variance"] == models["pca"].explained_variance_.tolist()
    assert np.shape(numbers["eigenvalues_random_signs"])[1] == len(numbers["eigenvalues"])
    limit = np.quantile([draw[0] for draw in numbers["eigenvalues_random_signs"]], 0.95)
    kept = sum(value > limit for value in numbers["eigenvalues"])
    assert numbers["settings"]["components"] == models["pca"].n_components_ == kept >= 2
    assert set(numbers["seconds"]) >= set(METHODS)
    assert numbers["versions"]["nanfold"] == nf.__version__
    # Counted from 1, as in the file.
    assert {5, 10} <= set(numbers["samples_distrusted"])
    assert np.array_equal(np.diag(numbers["agreement"]["overlap"]), np.ones(4))


def test_the_report_shows_what_was_asked_for(written):
    text = (written[0] / "report.html").read_text()
    for says in ("UMAP", "t-SNE", "GPLVM", "share observed", "kind", "features observed", "sign flips", "table.csv"):
        assert says in text


def test_the_same_seed_gives_the_same_coordinates_and_pictures(written, table, tmp_path):
    embed(table, "--label", "kind", "--label", "batch", "--seed", "3", "--methods", "pca,tsne", "--out", tmp_path)
    models, again = joblib.load(written[0] / "models.joblib"), joblib.load(tmp_path / "models.joblib")
    assert np.array_equal(models["tsne"].embedding_, again["tsne"].embedding_)
    assert (tmp_path / "pca.svg").read_text() == (written[0] / "pca.svg").read_text()


def test_complete_data_and_parquet(tmp_path):
    X = np.random.default_rng(0).normal(size=(12, 8)) @ np.diag([9, 5, *[1] * 6])
    np.save(tmp_path / "x.npy", X)
    out = tmp_path / "out"
    embed(tmp_path / "x.npy", "--methods", "pca", "--components", "2", "--coordinates", "parquet", "--out", out)
    frame = pd.read_parquet(out / "coordinates.parquet")
    assert list(frame.columns) == ["sample", "PC1", "PC2", "share_observed"]
    assert (frame["share_observed"] == 1).all()
    assert not (out / "all.png").exists()
    assert np.allclose(frame["PC1"], nf.PCA(2).fit_transform(X)[:, 0])


def test_back_into_h5ad(tmp_path):
    rng = np.random.default_rng(1)
    rates = rng.gamma(1.0, 2.0, size=(2, 40))[np.arange(30) % 2]
    adata = anndata.AnnData(rng.poisson(rates).astype("float32"), obs={"type": list("uv") * 15})
    adata.X[:, 0] += 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # anndata's of formats to come
        adata.write_h5ad(tmp_path / "cells.h5ad")
    text = embed(tmp_path / "cells.h5ad", "--missing", "dropouts", "--methods", "pca,umap", "--out", tmp_path / "out")
    assert "scaled to a common depth and logged" in text
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        back = anndata.read_h5ad(tmp_path / "out" / "cells.h5ad")
    assert {"X_pca", "X_umap"} <= set(back.obsm)
    assert np.array_equal(back.X, adata.X)
    models = joblib.load(tmp_path / "out" / "models.joblib")
    assert np.allclose(back.obsm["X_umap"], models["umap"].embedding_)
    assert back.varm["PCs"].shape == (40, models["pca"].n_components_)
    assert isinstance(models["dropouts"], nf.Dropouts)


def test_ratings(tmp_path):
    rng = np.random.default_rng(0)
    liking = 3 + rng.normal(size=(30, 2)) @ rng.normal(size=(2, 20))
    lines = [f"u{i},f{s},{liking[i, s]:.3f}" for i in range(30) for s in range(20) if rng.random() < 0.6]
    (tmp_path / "r.csv").write_text("\n".join(["user,film,stars", *lines]))
    text = embed(tmp_path / "r.csv", "--triplets", "--methods", "pca", "--components", "2", "--out", tmp_path / "out")
    assert "30 samples x 20 features" in text
    assert json.loads((tmp_path / "out" / "numbers.json").read_text())["settings"]["missing"] == "unstored"


def test_settings():
    assert methods_of(None, 100) == (METHODS, ())
    assert methods_of("PCA, t-SNE", 100)[0] == ("pca", "tsne")
    names, notes = methods_of(None, 50_000)
    assert names == ("pca", "umap", "tsne")
    assert "GPLVM" in notes[0]
    assert methods_of("gplvm", 50_000)[0] == ("gplvm",)
    assert methods_of(None, 4)[0] == ("pca",)
    with pytest.raises(ValueError, match="UMAP needs 6 samples"):
        methods_of("pca,umap", 4)
    assert [components_of(word) for word in ("3", "0.5", "cng")] == [3, 0.5, "cng"]
    assert [assist_of(word) for word in ("0", "10", "auto")] == [0, 10, "auto"]


def test_overlap_of_neighbours():
    points = np.random.default_rng(0).normal(size=(200, 2))
    overlap, k = neighbour_overlap([points, -3.0 * points, np.random.default_rng(1).normal(size=(200, 2))])
    assert k == 15
    assert overlap[0, 1] == 1.0
    assert abs(overlap[0, 2] - 15 / 199) < 0.03
    # All at one place: whoever is found, a sample is not its own neighbour.
    assert neighbour_overlap([np.zeros((5, 2)), np.zeros((5, 2))])[0][0, 1] == 1.0


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT")
def test_interrupted_it_leaves_nothing(table, tmp_path):
    code = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever we were started with
from nanfold.cli import main
import nanfold.study.fitting, nanfold.study.trust
nanfold.study.trust.trust_of = lambda study: time.sleep(60)
sys.exit(main(["embed", sys.argv[1], "--methods", "pca", "--out", sys.argv[2]]))
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code, table, tmp_path / "out"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    until = time.monotonic() + 60
    while not any(tmp_path.iterdir()) and process.poll() is None and time.monotonic() < until:
        time.sleep(0.05)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert (process.returncode, error) == (130, "nanfold embed: interrupted.\n")
    assert not any(tmp_path.iterdir())
