"""`nanfold bench`: the data are what they are said to be, residuals are measured right, and results are written."""

import json
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

import nanfold as nf
from nanfold import cli
from nanfold.bench import data, job, machine, page, rows, running


class TestData:
    def test_counts_are_logarithms_with_the_asked_share(self):
        X = data.counts(600, 400, 0.1)
        assert X.dtype == np.float32
        assert X.data.min() > 0
        assert 0.08 < X.nnz / np.prod(X.shape) < 0.12
        assert X.has_sorted_indices

    def test_ratings_are_long_tailed_and_held_out(self):
        known, users, items, values = data.ratings(800, 600, 20_000)
        assert 0.8 * 20_000 < known.nnz < 1.2 * 20_000
        assert 0.03 < len(values) / (len(values) + known.nnz) < 0.07
        assert known[users, items].sum() == 0  # none of them is among those known
        each = np.sort(np.diff(known.indptr))
        assert each[-80:].sum() > 0.25 * known.nnz  # a tenth of the users has a quarter of the ratings
        assert np.diff(known.indptr).min() >= 1
        assert np.diff(known.tocsc().indptr).min() >= 1


class TestMeasuring:
    def test_residuals_are_those_of_the_centred_data(self):
        X = data.counts(300, 120, 0.2)
        Y = X.toarray().astype(np.float64)
        mean = Y.mean(axis=0)
        vectors = np.linalg.svd(Y - mean, full_matrices=False)[2]
        assert job.residuals(X, vectors[:4], mean).max() < 1e-10
        tilted = vectors[:4] + 0.01 * vectors[20:24]
        assert 1e-3 < job.residuals(X, tilted, mean).max() < 0.1

    def test_errors_of_ratings_held_out(self):
        U, V, mean = np.arange(6.0).reshape(3, 2), np.arange(8.0).reshape(2, 4), np.arange(4.0)
        found = {"scores": U, "components": V, "mean": mean}
        held = {"users": np.array([0, 2]), "items": np.array([1, 3])}
        held["values"] = (U @ V + mean)[held["users"], held["items"]] + [3.0, 4.0]
        assert_allclose(job.held_out_error(found, held), np.sqrt(12.5))
        found["user_bias"] = np.full(3, 3.0)
        assert_allclose(job.held_out_error(found, held), np.sqrt(0.5))

    def test_a_fit_in_a_process_of_its_own(self, tmp_path):
        run = running.Runner(tmp_path)
        X = data.counts(300, 120, 0.2)
        fit = run.run("nanfold", run.keep("counts", X), 3, residuals=True, tol=1e-8)
        assert fit.seconds > 0
        assert fit.residual < 1e-6
        assert fit.data_bytes == X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
        assert run.done == [fit]

    def test_data_are_made_once(self, tmp_path):
        made = []

        def make():
            made.append(data.counts(300, 120, 0.2))
            return made[-1]

        for _ in range(2):
            with running.runner(None, lambda _: None, str(tmp_path / "kept")) as run:
                X, _ = job.read(run.keep_made("counts", make))
        assert len(made) == 1
        assert (made[0] != X).nnz == 0
        with running.runner(None, lambda _: None) as run:
            folder = run.keep_made("counts", make)
        assert len(made) == 2
        assert not folder.exists()

    def test_ratings_are_kept_with_those_held_out(self, tmp_path):
        ratings = data.ratings(200, 100, 3000)
        with running.runner(None, lambda _: None, str(tmp_path)) as run:
            run.keep_made("ratings", lambda: ratings)
            known, held = job.read(run.keep_made("ratings", lambda: pytest.fail("made again")))
        assert (known != ratings.known).nnz == 0
        assert held.keys() == {"users", "items", "values"}
        for name, kept in held.items():
            assert_array_equal(kept, getattr(ratings, name))

    def test_a_file_in_place_of_a_folder(self, tmp_path, capsys):
        (tmp_path / "file").touch()
        wrong = ["--part", "counts", "--data", str(tmp_path / "file"), "--out", str(tmp_path / "out")]
        assert cli.main(["bench", *wrong]) == 2
        assert "--data must name a folder; " in capsys.readouterr().err

    def test_a_failure_is_one_sentence(self, tmp_path):
        run = running.Runner(tmp_path)
        where = run.keep("counts", data.counts(300, 120, 0.2))
        with pytest.raises(
            ValueError, match=r"The measurement of nanfold on counts failed: ValueError: n_components=500"
        ):
            run.run("nanfold", where, 500)

    def test_a_rival_that_is_not_there(self, tmp_path):
        # An interpreter without site-packages has no numpy, let alone the rival.
        bare = tmp_path / "python"
        bare.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
        bare.chmod(0o755)
        run = running.Runner(tmp_path, cmfrec=str(bare))
        where = run.keep("counts", data.counts(300, 120, 0.2))
        with pytest.raises(running.NotInstalledError, match="cmfrec is not installed"):
            run.run("cmfrec", where, 3)


def test_equal_held_out_error():
    """The fastest of those as good as ours; without one, the best."""

    def fit(seconds, error):
        return running.Measurement("m", {}, seconds, seconds, 1, 1, error=error)

    tried = [fit(1.0, 0.9), fit(2.0, 0.7), fit(3.0, 0.6)]
    assert rows.equal_or_best(tried, fit(5.0, 0.8)) is tried[1]
    assert rows.equal_or_best(tried, fit(5.0, 0.5)) is tried[2]


def test_growth_is_compared_with_what_is_wanted(tmp_path, monkeypatch, capsys):
    """Of samples, features and stored entries; how components grow is shown, and nothing is wanted of it."""
    curves = {"samples": [(5.0, 1.0), (10.0, 1.5), (20.0, 3.6)], "components": [(10.0, 1.0), (20.0, 4.0)]}
    curves |= {"features": [(7.0, 1.0), (14.0, 2.0)], "stored share": [(0.1, 3.0), (0.2, 3.0)]}
    monkeypatch.setattr(rows, "growth", lambda *_: curves)
    assert cli.main(["bench", "--part", "growth", "--out", str(tmp_path / "out")]) == 0
    table = capsys.readouterr().out
    assert "| samples 10 to 20 | the time before | 3.60 s | 1.50 s | 2.40 | <= 2.10 |  |  |" in table
    assert "| components | 10, 20 | 1.00, 4.00 | 4.00 |" in table
    made = rows.growth_rows(curves)
    assert [row.work for row in made] == [
        "samples 5 to 10",
        "samples 10 to 20",
        "features 7 to 14",
        "stored share 0.1 to 0.2",
    ]
    assert_allclose([row.ratio for row in made], [1.5, 2.4, 2.0, 1.0])
    assert {row.wanted for row in made} == {2.1}


def test_the_machine():
    """The bound grows with the vectors, and is that of the slower of the two."""
    X = sparse.csr_array(np.eye(4, dtype=np.float32))
    moved = 4 * 8 + 16 * 4 * 10
    assert_allclose(machine.pass_bound(X, 10, 1.0, 1e12), moved)
    assert_allclose(machine.pass_bound(X, 10, 1e12, 1.0), 2 * 4 * 10)
    assert machine.description()["versions"]["nanfold"] == nf.__version__


def test_the_page():
    made = [
        rows.Row("work", "rival", 1.0, 4.0, 1 / 3, processors=(1.5, 4.0)),
        rows.Row("other", "absent", 2.0, None, 1.0, note="why"),
    ]
    table = page.markdown(made, {"samples": [(1, 1.0), (2, 3.0)]}, machine.description())
    assert "| work | rival | 1.00 s | 4.00 s | 0.25 | <= 0.33 | 1.5 and 4.0 |  |" in table
    assert "| other | absent | 2.00 s | - | - | <= 1.00 |  | why |" in table
    assert "| samples | 1, 2 | 1.00, 3.00 | 3.00 |" in table


def test_the_command(tmp_path, capsys):
    assert cli.main(["bench", "--scale", "tiny", "--part", "counts", "--out", str(tmp_path / "out")]) == 0
    assert {file.name for file in (tmp_path / "out").iterdir()} == {"bench.md", "bench.json", "bench.svg", "bench.png"}
    found = json.loads((tmp_path / "out" / "bench.json").read_text())
    assert [row["against"].split()[0] for row in found["rows"]] == [
        "bound",
        "1.3",
        "scikit-learn",
        'TruncatedSVD(algorithm="randomized")',
    ]
    assert "nanfold" in capsys.readouterr().out
