"""Loading sets: from a folder, from the cache, and everything that may be wrong with them."""

import gzip
import urllib.error
import warnings

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


def test_h5ad_with_cells_of_no_class(tmp_path):
    anndata = pytest.importorskip("anndata")
    pandas = pytest.importorskip("pandas")
    adata = anndata.AnnData(COUNTS.astype(np.float32))
    adata.obs["cell_type"] = pandas.Categorical([None if name == "c" else name for name in LABELS])
    adata.write_h5ad(tmp_path / "koh.h5ad")
    with pytest.raises(ValueError, match=r"koh\.h5ad cannot be read: sample 8 has no label"):
        nf.datasets.load("koh", tmp_path)


@pytest.mark.parametrize(
    ("X", "parts", "values"),
    [
        (COUNTS, {}, "counts"),
        (COUNTS + 0.5, {}, "linear"),
        (COUNTS, {"values": "linear"}, "linear"),
        (COUNTS / 9, {"values": "log2"}, "log2"),
        (COUNTS / 9, {"values": np.array([b"log10"])}, "log10"),
        (COUNTS > 0, {}, "counts"),
    ],
)
def test_what_the_values_are(tmp_path, X, parts, values):
    save(tmp_path, "pollen", X, **parts)
    assert nf.datasets.load("pollen", tmp_path).values == values


def test_what_a_file_says_of_its_values_goes_before_what_is_known_of_the_set(tmp_path):
    save(tmp_path, "yan90", values="log2")
    assert nf.datasets.load("yan90", tmp_path).values == "log2"
    save(tmp_path, "olivetti", values="counts")
    with pytest.raises(
        ValueError, match=r"olivetti\.npz says that its values are 'counts', but olivetti has no dropouts"
    ):
        nf.datasets.load("olivetti", tmp_path)


def test_a_stand_in_under_its_own_name(tmp_path):
    save(tmp_path, "deng231")
    assert nf.datasets.load("deng231", tmp_path).X.shape == (12, 20)


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
        ("pollen", {"X": np.where(COUNTS == 2, np.inf, COUNTS)}, "pollen: X holds inf at row"),
        ("pollen", {"X": COUNTS.astype(str)}, "pollen: X must hold numbers"),
        ("yan90", {"labels": np.where(np.arange(12) == 5, np.nan, np.arange(12) // 4)}, "sample 5 has no label; give"),
        ("yan90", {"labels": LABELS.astype(object)}, "it holds Python objects, which are not loaded; save names"),
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
    with pytest.raises(ValueError, match=r"yan90\.npz cannot be read: it is no npz file\."):
        nf.datasets.load("yan90", tmp_path)
    with open(tmp_path / "yan90.npz", "wb") as file:
        np.save(file, COUNTS)
    with pytest.raises(ValueError, match=r"yan90\.npz cannot be read: it is a single array; save X and labels with"):
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


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", r"t\.txt is empty"),
        (b"g\tHi_A_1\n", r"t\.txt has nothing below its first line; it may be cut short"),
        (b"\x1f\x8b nothing of the kind", "Unknown compression method"),
        (gzip.compress(b"g\tHi_A_1\n" + bytes(range(48, 58)) * 50)[:-20], "Compressed file ended"),
        (gzip.compress(rng.bytes(2000))[:40] + b"\xff" * 400, "Error -3|codec|CRC"),
        (b"g\tHi_A_1\n" + b"x" * 200_000, "field larger than field limit"),
    ],
    # not the bytes themselves: gzip writes the time into them, and processes must agree on the names of tests
    ids=["empty", "header only", "unknown compression", "cut short", "damaged", "a long line"],
)
def test_damaged_files_are_named_with_the_remedy(mini, content, says):
    (mini / "t.txt").write_bytes(content)
    wanted = rf"^t\.txt in .*raw is not what Pollen was published as: .*({says}).*; delete it, with the \.sha256"
    with pytest.raises(ValueError, match=wanted) as found:
        nf.datasets.load("pollen", cache_dir=mini.parent)
    assert "\n" not in str(found.value)
    assert not list(mini.parent.glob("*.npz"))


@pytest.mark.parametrize(("content", "says"), [(b"<html>", "is no tar archive"), (bytes(5000), "no file named GSM")])
def test_a_damaged_archive(tmp_path, content, says):
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "GSE45719_RAW.tar").write_bytes(content)
    with pytest.raises(ValueError, match=rf"GSE45719_RAW\.tar in .*raw is not what Deng.*{says}.*; delete it") as found:
        nf.datasets.load("deng", cache_dir=tmp_path)
    assert "\n" not in str(found.value)


def test_no_network_for_what_scikit_learn_fetches(tmp_path, monkeypatch, capsys):
    import sklearn.datasets

    def faces(data_home):
        print("downloading from somewhere")
        warnings.warn("Retry downloading", UserWarning, stacklevel=2)
        raise urllib.error.URLError(OSError(-2, "Name not known"))

    monkeypatch.setattr(sklearn.datasets, "fetch_olivetti_faces", faces)
    assert main(["datasets", "olivetti", "--fetch", "--cache-dir", str(tmp_path)]) == 2
    captured = capsys.readouterr()
    assert "downloading" not in captured.out
    assert captured.err.endswith(
        "nanfold datasets: Olivetti faces could not be downloaded: [Errno -2] Name not known. Try again later, or name "
        "a folder that holds the set.\n"
    )


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


def test_columns_of_the_command_are_wide_enough(tmp_path, capsys):
    assert main(["datasets", "--cache-dir", str(tmp_path)]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    at = head.index("where")
    assert all(line[at - 1] == " " != line[at] for line in lines)


def test_a_folder_that_is_none_is_refused_before_anything_is_listed(tmp_path, capsys):
    assert main(["datasets", "--data-dir", str(tmp_path / "nowhere")]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.endswith("nowhere is not a folder.\n")


def test_what_cannot_be_fetched_is_said_if_it_is_named(tmp_path, capsys):
    assert main(["datasets", "cellbench", "--fetch", "--cache-dir", str(tmp_path)]) == 2
    assert "cellbench is only read from a folder" in capsys.readouterr().err


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
