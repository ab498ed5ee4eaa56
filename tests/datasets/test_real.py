"""Loading sets: from a folder, from the cache, and everything that may be wrong with them."""

import numpy as np
import pytest
from scipy import sparse

import nanfold as nf
from nanfold.cli import main
from nanfold.datasets import real
from nanfold.datasets.cache import Source
from nanfold.datasets.dataset import Dataset, preprocess, stratified

rng = np.random.default_rng(0)
COUNTS = rng.poisson(1.0, size=(12, 20)) + np.eye(12, 20, dtype=int)
LABELS = np.repeat(["a", "b", "c"], 4)


def save(folder, name="yan90", X=COUNTS, labels=LABELS, **parts):
    np.savez(folder / f"{name}.npz", X=X, labels=labels, **parts)


def test_npz(tmp_path):
    save(tmp_path, features=np.array([f"g{j}" for j in range(20)]), samples=np.arange(12))
    data = nf.datasets.load("yan90", tmp_path)
    assert np.array_equal(data.X, COUNTS)
    assert data.labels.tolist() == LABELS.tolist()
    assert data.features[1] == "g1"
    assert data.samples[1] == "1"
    assert (data.values, data.n_classes) == ("linear", 3)


def test_sparse_with_arrays_beside_it(tmp_path):
    sparse.save_npz(tmp_path / "cellbench_sc_celseq2_X.npz", sparse.csr_array(COUNTS))
    np.save(tmp_path / "cellbench_sc_celseq2_labels.npy", LABELS)
    np.save(tmp_path / "cellbench_sc_celseq2_features.npy", np.arange(20).astype("S2"))
    data = nf.datasets.load("cellbench", tmp_path)
    assert isinstance(data.X, np.ndarray)
    assert np.array_equal(data.X, COUNTS)
    assert data.features.tolist() == [str(j) for j in range(20)]
    assert data.values == "counts"


@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_matrix])
def test_h5ad(tmp_path, storage):
    anndata = pytest.importorskip("anndata")
    adata = anndata.AnnData(storage(COUNTS.astype(np.float32)))
    adata.obs["cell_type"] = LABELS
    adata.uns["values"] = "log2"
    adata.write_h5ad(tmp_path / "koh.h5ad")
    data = nf.datasets.load("koh", tmp_path)
    assert np.array_equal(data.X, COUNTS)
    assert data.labels.tolist() == LABELS.tolist()
    assert data.values == "log2"
    assert data.samples[3] == "3"


def test_h5ad_without_classes(tmp_path):
    anndata = pytest.importorskip("anndata")
    anndata.AnnData(COUNTS.astype(np.float32)).write_h5ad(tmp_path / "koh.h5ad")
    with pytest.raises(ValueError, match=r"koh\.h5ad cannot be read: obs has none of the columns labels, label"):
        nf.datasets.load("koh", tmp_path)


@pytest.mark.parametrize(
    ("X", "parts", "values"),
    [
        (COUNTS, {}, "counts"),
        (COUNTS + 0.5, {}, "linear"),
        (COUNTS, {"values": "linear"}, "linear"),
        (COUNTS / 9, {"values": "log2"}, "log2"),
    ],
)
def test_what_the_values_are(tmp_path, X, parts, values):
    save(tmp_path, "pollen", X, **parts)
    assert nf.datasets.load("pollen", tmp_path).values == values


def test_wine_needs_no_file(tmp_path):
    assert nf.datasets.load("wine", tmp_path).X.shape == (178, 13)


def test_a_sample_of_images(tmp_path):
    images = rng.integers(0, 255, size=(3000, 4))
    labels = np.repeat(np.arange(10), 300)
    save(tmp_path, "fashion_mnist_test", images, labels)
    data = nf.datasets.load("fashion", tmp_path)
    assert np.unique(data.labels, return_counts=True)[1].tolist() == [100] * 10
    assert np.array_equal(data.X, nf.datasets.load("fashion", tmp_path).X)
    assert {tuple(row) for row in data.X} <= {tuple(row) for row in images}


def test_a_sample_that_cannot_be_drawn():
    data = Dataset("x", COUNTS, LABELS, "counts")
    with pytest.raises(
        ValueError, match="x: 15 samples cannot be drawn evenly from 3 classes, the smallest of which has 4"
    ):
        stratified(data, 15, 0)


@pytest.mark.parametrize(
    ("name", "parts", "says"),
    [
        ("nonsense", {}, "There is no data set named 'nonsense'; there are pollen, deng"),
        ("deng", {}, r"does not hold deng: there is no deng\.npz, deng_X\.npz or deng\.h5ad"),
        ("yan90", {"X": COUNTS[:-1]}, r"yan90: X has 11 rows and 20 columns, but labels have the shape \(12,\)"),
        ("yan90", {"X": COUNTS[0]}, r"yan90: X must have rows and columns"),
        ("yan90", {"features": np.arange(19)}, r"features have the shape \(19,\); there must be 20"),
        ("yan90", {"labels": np.repeat("a", 12)}, "all labels are 'a'; there must be two classes"),
        (
            "yan90",
            {"X": COUNTS - 1.0},
            r"yan90: X holds -1\.0 at row 0, column \d+; values must be finite and not negative",
        ),
        ("yan90", {"X": np.where(COUNTS == 2, np.nan, COUNTS)}, "yan90: X holds nan at row"),
        ("yan90", {"X": COUNTS.astype(str)}, "yan90: X must hold numbers"),
        (
            "pollen",
            {"values": "cubits"},
            "values must be one of counts, linear, log2, log10, complete; they are 'cubits'",
        ),
    ],
)
def test_what_may_be_wrong(tmp_path, name, parts, says):
    if parts:
        save(tmp_path, name, **parts)
    with pytest.raises(ValueError, match=says) as found:
        nf.datasets.load(name, tmp_path)
    assert "\n" not in str(found.value)


def test_files_that_are_none(tmp_path):
    (tmp_path / "yan90.npz").write_bytes(b"not a zip")
    with pytest.raises(ValueError, match=r"yan90\.npz cannot be read"):
        nf.datasets.load("yan90", tmp_path)
    np.savez(tmp_path / "koh.npz", Y=COUNTS)
    with pytest.raises(ValueError, match=r"koh\.npz cannot be read: it holds Y, and no array named X"):
        nf.datasets.load("koh", tmp_path)
    np.savez(tmp_path / "usoskin.npz", X=COUNTS)
    with pytest.raises(ValueError, match=r"it has no labels, and there is no usoskin_labels\.npy beside it"):
        nf.datasets.load("usoskin", tmp_path)
    with pytest.raises(ValueError, match="is not a folder"):
        nf.datasets.load("koh", tmp_path / "nowhere")


def test_genes_that_one_cell_has_are_dropped():
    X = np.zeros((4, 3))
    X[0, 0] = X[0, 1] = X[1, 1] = 3.0
    X[:, 2] = 1.0
    logs, linear = preprocess(Dataset("x", X, np.array(list("aabb")), "linear"))
    assert np.array_equal(linear, X[:, 1:])
    assert np.allclose(logs, np.log2(1 + X[:, 1:]))


@pytest.mark.parametrize(
    ("values", "X"), [("log2", np.log2(1.0 + COUNTS)), ("log10", np.log10(1.0 + COUNTS)), ("linear", COUNTS)]
)
def test_logarithms_of_all_kinds_agree(values, X):
    logs, linear = preprocess(Dataset("x", X, LABELS, values))
    kept = COUNTS[:, (COUNTS > 0).sum(axis=0) >= 2]
    assert np.allclose(linear, kept)
    assert np.allclose(logs, np.log2(1 + kept))


def test_counts_are_scaled_to_a_common_depth():
    logs, linear = preprocess(Dataset("x", COUNTS * np.arange(1, 13)[:, None], LABELS, "counts"))
    assert np.allclose(linear.sum(axis=1), linear.sum(axis=1)[0])
    assert np.allclose(logs, np.log2(1 + linear))
    with pytest.raises(ValueError, match="x: sample 2 has no counts at all"):
        preprocess(Dataset("x", np.where(np.arange(12)[:, None] == 2, 0, COUNTS), LABELS, "counts"))


def test_images_stay_as_they_are():
    X, same = preprocess(Dataset("x", COUNTS, LABELS, "complete"))
    assert np.array_equal(X, COUNTS)
    assert same is X


@pytest.fixture
def mini(monkeypatch, tmp_path):
    """A set of one file that is there already, instead of Pollen's."""
    text = "Hi_A_1\tHi_A_2\tHi_B_1\nx\t1\t2\t0\ny\t3\t0\t1\n"
    spec = real.Spec("pollen", "Pollen", True, ("pollen",), real.parse_pollen, (Source("t.txt"),), (301, None, 11))
    monkeypatch.setitem(real.SPECS, "pollen", spec)
    raw = tmp_path / "cache" / "raw"
    raw.mkdir(parents=True)
    (raw / "t.txt").write_text(text)
    return raw


def test_a_set_is_parsed_once(mini):
    first = nf.datasets.load("pollen", cache_dir=mini.parent)
    (mini / "t.txt").unlink()
    again = nf.datasets.load("pollen", cache_dir=mini.parent)
    assert np.array_equal(first.X, again.X)
    assert again.labels.tolist() == ["A", "A", "B"]


def test_a_file_of_another_format(mini):
    (mini / "t.txt").write_bytes(b"\xff\xfe\x00 nothing of the kind")
    with pytest.raises(ValueError, match=r"t\.txt in .*raw is not what Pollen was published as"):
        nf.datasets.load("pollen", cache_dir=mini.parent)


def test_stand_ins_are_not_downloaded(tmp_path):
    with pytest.raises(ValueError, match="cellbench is only read from a folder"):
        nf.datasets.load("cellbench", cache_dir=tmp_path)


def test_koh_says_how_it_is_exported(tmp_path):
    with pytest.raises(ValueError, match=r"SRP073808\.rds.*write\.csv.*put koh_tpm\.csv and koh_cells\.csv into .*raw"):
        nf.datasets.load("koh", cache_dir=tmp_path)


def test_the_command_lists_what_is_there(tmp_path, capsys, mini):
    assert main(["datasets", "--cache-dir", str(mini.parent)]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert list(lines) == ["set", *real.SPECS]
    assert "not downloaded" in lines["pollen"]
    assert "only from a folder" in lines["cellbench"]
    nf.datasets.load("pollen", cache_dir=mini.parent)
    assert main(["datasets", "pollen", "--cache-dir", str(mini.parent)]) == 0
    line = capsys.readouterr().out.splitlines()[1]
    # y is the only gene that two cells have, beside x.
    assert line.split() == ["pollen", "3", "x", "2,", "2", "301", "x", "?,", "11", "cache"]


def test_the_command_looks_into_a_folder(tmp_path, capsys):
    save(tmp_path, "deng231_allelic_total")
    assert main(["datasets", "--data-dir", str(tmp_path)]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert "12 x 20, 3" in lines["deng231"]
    assert "a part of its deng" in lines["deng231"]
    assert "not in the folder" in lines["deng"]
    save(tmp_path, "koh", labels=LABELS[:-1])
    assert main(["datasets", "--data-dir", str(tmp_path)]) == 2
    captured = capsys.readouterr()
    assert "unusable" in captured.out
    assert captured.err.startswith("nanfold datasets: koh: X has 12 rows")


def test_the_command_fetches(tmp_path, capsys, monkeypatch):
    assert main(["datasets", "wine", "--fetch", "--cache-dir", str(tmp_path)]) == 0
    assert "178 x 13, 3" in capsys.readouterr().out
    assert (tmp_path / "wine.npz").is_file()
    assert main(["datasets", "koh", "--fetch", "--cache-dir", str(tmp_path)]) == 2
    assert "could not be downloaded" in capsys.readouterr().out
    assert main(["datasets", "--fetch", "--data-dir", str(tmp_path)]) == 2
    assert "give one of them" in capsys.readouterr().err


def test_real_sets_have_the_shapes_of_the_paper(real_data):
    for name in real.found_in(real_data):
        spec = real.spec_of(name)
        found = real.shape_of(nf.datasets.load(name, real_data))
        if name == "pollen":
            continue  # two cells fewer
        assert all(wanted in (None, own) for wanted, own in zip(spec.paper, found, strict=True)), name
