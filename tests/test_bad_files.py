"""Files that cannot be read, and places that cannot be written: one sentence, exit code 2, nothing left behind."""

import bz2
import gzip
import io
import resource
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import anndata
import h5py
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from nanfold.cli import main
from nanfold.commands._output import OutputFolder

GOOD = "id,a,b,c\n" + "".join(f"s{i},{i % 7}.5,{(i * 3) % 11},{(i * i) % 5}\n" for i in range(12))
RNG = np.random.default_rng(0)


def saved(save: Callable, *args, **options) -> bytes:
    out = io.BytesIO()
    save(out, *args, **options)
    return out.getvalue()


def parquet(columns: dict) -> bytes:
    return saved(lambda out, frame: frame.to_parquet(out), pd.DataFrame(columns))


def h5ad(**options) -> bytes:
    adata = anndata.AnnData(RNG.poisson(2, (9, 5)).astype("float32"))
    return _from_file(adata.write_h5ad, **options)


def hdf5(**members) -> bytes:
    def write(path: str) -> None:
        with h5py.File(path, "w") as file:
            for name, values in members.items():
                file[name] = values

    return _from_file(write)


def _from_file(write: Callable[[str], None], cut: float = 1.0) -> bytes:
    import tempfile

    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        write(f"{folder}/x")
        whole = Path(f"{folder}/x").read_bytes()
    return whole[: int(cut * len(whole))]


def half(content: bytes) -> bytes:
    return content[: len(content) // 2]


NPZ = saved(np.savez_compressed, X=RNG.normal(size=(30, 20)))
OBJECTS = saved(np.save, np.array([[1, "x"], [2, None]], dtype=object), allow_pickle=True)
MTX = "%%MatrixMarket matrix coordinate real general\n"

# What the file is called, what is in it, the options, and what the sentence must say.
FILES: dict[str, tuple[str, str | bytes, str, str]] = {
    "empty": ("x.csv", "", "", "is empty"),
    "only empty lines": ("x.csv", "\n\n  \n", "", "is empty"),
    "header only": ("x.csv", "a,b,c\n", "", "0 samples"),
    "one sample": ("x.csv", "a,b,c\n1,2,3\n", "", "1 sample with 3 columns"),
    "one column": ("x.csv", "a\n1\n2\n3\n", "", "1 column of numbers"),
    "one column, another separator": ("x.csv", "a|b\n1|2\n3|4\n5|6\n", "", "separated by something else"),
    "ragged rows": ("x.csv", "a,b,c\n1,2,3\n4,5\n6,7,8\n", "", "line 3 has 2 cells"),
    "a row too long": ("x.csv", "a,b,c\n1,2,3\n4,5,6,7\n6,7,8\n", "", "line 3 has 4 cells"),
    "a quote that is not closed": ("x.csv", 'a,b\n1,2\n"3,4\n5,6\n', "", "double quote"),
    "text in a number column": ("x.csv", "a,b\n1,2\n3,4\n5,six\n7,8\n", "", "line 4, column 'b': 'six' is not a"),
    "duplicate column names": ("x.csv", "a,b,a\n1,2,3\n4,5,6\n", "", "columns 1 and 3 are both named 'a'"),
    "infinity": ("x.csv", "a,b\n1,2\n3,inf\n5,6\n", "", "line 3, column 'b' holds infinity"),
    "all holes": ("x.csv", "a,b\nNA,NA\nNA,NA\nNA,NA\n", "", "no observed value"),
    "a feature without values": ("x.csv", "a,b,c\n1,NA,2\n3,NA,4\n5,NA,6\n", "", "Feature 'b'"),
    "a sample without values": ("x.csv", "id,a,b\ns,1,2\nt,NA,\nu,5,6\n", "", "Sample 't'"),
    "only text": ("x.csv", "kind,site\nu,v\nw,x\nu,x\n", "", "0 columns of numbers"),
    "constant values": ("x.csv", "a,b\n1,2\n1,2\n1,2\n", "", "does not vary"),
    "values whose squares overflow": ("x.csv", "a,b\n1e300,2\n3,1e301\n5,6\n", "", "overflows"),
    "binary named csv": ("x.csv", bytes(range(256)) * 4, "", "binary data"),
    "parquet named csv": ("x.csv", parquet({"a": [1.0, 2.0]}), "", "its content is parquet"),
    "csv named parquet": ("x.parquet", GOOD, "", "does not begin like such a file"),
    "csv named npy": ("x.npy", GOOD, "", "does not begin like such a file"),
    "npy named npz": ("x.npz", saved(np.save, np.eye(3)), "", "numpy array"),
    "unknown ending": ("x.data", GOOD, "", "ending"),
    "no ending": ("table", GOOD, "", "ending"),
    "Excel": ("x.xlsx", NPZ, "", "save the sheet as csv"),
    "a pickle": ("x.pkl", b"\x80\x04K\x01.", "", "never loaded"),
    "bzip2": ("x.csv", bz2.compress(GOOD.encode()), "", "bzip2"),
    "latin-1": ("x.csv", "ä,b\n1,2\n3,4\n".encode("latin-1"), "", "line 1 is not UTF-8"),
    "mixed encodings": ("x.csv", "ä,b\n".encode() + "1,ü\n2,é\n3,x\n".encode("latin-1"), "", "line 2 is not UTF-8"),
    "unknown encoding": ("x.csv", GOOD, "--encoding utf-9", "no encoding 'utf-9'"),
    "truncated gzip": ("x.csv.gz", half(gzip.compress(RNG.bytes(5000).hex().encode())), "", "ends early or is damaged"),
    "damaged gzip": ("x.csv.gz", gzip.compress(GOOD.encode())[:-6] + b"xxxxxx", "", "ends early or is damaged"),
    "truncated npy": ("x.npy", half(saved(np.save, np.eye(20))), "", "ends early or is damaged"),
    "truncated npz": ("x.npz", half(NPZ), "", "ends early or is damaged"),
    "truncated sparse npz": ("x.npz", half(saved(sparse.save_npz, sparse.eye_array(20))), "", "ends early"),
    "npy of three dimensions": ("x.npy", saved(np.save, np.ones((2, 2, 2))), "", "3 dimensions"),
    "npy of complex numbers": ("x.npy", saved(np.save, np.eye(3) * 1j), "", "complex numbers"),
    "npy of objects": ("x.npy", OBJECTS, "", "never loaded"),
    "npz without X": ("x.npz", saved(np.savez, u=np.eye(3), v=np.eye(3)), "", "none is 'X'"),
    "truncated parquet": ("x.parquet", half(parquet({"a": RNG.normal(size=99), "b": RNG.normal(size=99)})), "", "ends"),
    "parquet of lists": ("x.parquet", parquet({"a": [1.0, 2.0], "b": [3.0, 4.0], "c": [[1], [2]]}), "", "column 'c'"),
    "truncated feather": ("x.feather", b"ARROW1\0\0" + b"\1" * 40, "", "ends early or is damaged"),
    "truncated h5ad": ("x.h5ad", h5ad(cut=0.5), "", "ends early or is damaged"),
    "HDF5 that is no h5ad": ("x.h5ad", hdf5(what=[1, 2]), "", "x.h5ad"),
    "HDF5 that is not of 10x": ("x.h5", hdf5(what=[1, 2]), "", "no 'matrix'"),
    "mtx that ends early": ("x.mtx", MTX + "3 3 4\n1 1 5\n", "", "ends early or is damaged"),
    "mtx out of range": ("x.mtx", MTX + "2 2 1\n5 5 1\n", "", "ends early or is damaged"),
    "absent label": ("x.csv", GOOD, "--label kind", "no column 'kind'"),
    "absent layer": ("x.h5ad", h5ad(), "--layer logged", "no layer 'logged'"),
    "two characters between cells": ("x.csv", GOOD, "--separator ::", "one character"),
    "unknown format": ("x.csv", GOOD, "--format xml", "'xml'"),
    "unstored, but dense": ("x.csv", GOOD, "--missing unstored", "dense table"),
    "dropouts, but negative": ("x.csv", GOOD.replace("s1,1", "s1,-1"), "--missing dropouts", "negative"),
    "triplets of two columns": ("x.csv", "u,f\nv,g\n", "--triplets", "triplets need three"),
    "a triplet twice": ("x.csv", "u,f,1\nv,g,2\nu,f,3\n", "--triplets", "both rate"),
}


def refused(argv: list[str], says: str, capsys, folder: Path, code: int = 2) -> None:
    """One sentence on stderr that says so, the exit code, and the folder as it was."""
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
    assert main(argv) == code
    out, error = capsys.readouterr()
    assert error.count("\n") == 1, error
    assert error.startswith(f"nanfold {argv[0]}: ")
    assert says in error
    assert "Traceback" not in out + error
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()} == before
    assert not list(folder.glob("**/.nanfold-*"))


@pytest.mark.parametrize("command", ["embed", "inspect", "impute"])
@pytest.mark.parametrize("what", FILES)
def test_bad_files(what, command, tmp_path, capsys):
    name, content, options, says = FILES[what]
    if what in ("constant values", "values whose squares overflow") and command != "embed":
        pytest.skip("a matter of what is fitted")
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    out = tmp_path / ("out.csv" if command == "impute" else "out")
    refused([command, str(path), *options.split(), "--out", str(out)], says, capsys, tmp_path)
    assert not out.exists()


def test_there_are_enough():
    assert len(FILES) >= 40


@pytest.fixture
def good(tmp_path) -> Path:
    path = tmp_path / "good.csv"
    path.write_text(GOOD.replace("s3,3.5", "s3,NA"))
    return path


@pytest.mark.parametrize("command", ["embed", "inspect", "impute"])
class TestPlaces:
    """What is not a matter of the content."""

    def out(self, command: str, folder: Path) -> str:
        return str(folder / ("out.csv" if command == "impute" else "out"))

    def test_no_such_file(self, command, tmp_path, capsys):
        argv = [command, str(tmp_path / "absent.csv"), "--out", self.out(command, tmp_path)]
        refused(argv, "There is no file", capsys, tmp_path)

    def test_a_folder(self, command, tmp_path, capsys):
        refused([command, str(tmp_path), "--out", self.out(command, tmp_path)], "is a folder without", capsys, tmp_path)

    def test_no_permission_to_read(self, command, good, tmp_path, capsys, monkeypatch):
        def refuse(path, *args, **options):
            raise PermissionError(13, "Permission denied", str(path))

        # Root may read everything, so the mode of the file would not do.
        monkeypatch.setattr("nanfold.io.formats.open", refuse, raising=False)
        refused([command, str(good), "--out", self.out(command, tmp_path)], "Permission denied", capsys, tmp_path)

    def test_no_permission_to_write(self, command, good, tmp_path, capsys, monkeypatch):
        def refuse(*args, **options):
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr("nanfold.commands._output.tempfile.mkdtemp", refuse)
        out = self.out(command, tmp_path / "new")
        refused([command, str(good), "--out", out], "Permission denied", capsys, tmp_path)
        assert not (tmp_path / "new").exists()

    def test_a_file_in_the_place_of_the_folder(self, command, good, tmp_path, capsys):
        (tmp_path / "file").write_text("mine")
        out = tmp_path / "file" / "out.csv" if command == "impute" else tmp_path / "file"
        refused([command, str(good), "--out", str(out)], "is not a folder", capsys, tmp_path)
        assert (tmp_path / "file").read_text() == "mine"

    def test_the_disk_is_full(self, command, good, tmp_path, capsys, monkeypatch):
        """The first file that is written to the folder fails, as it does on a full disk."""
        enter = OutputFolder.__enter__

        def limited(self):
            folder = enter(self)
            resource.setrlimit(resource.RLIMIT_FSIZE, (64, hard))
            return folder

        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        monkeypatch.setattr(OutputFolder, "__enter__", limited)
        argv = [command, str(good), "--out", self.out(command, tmp_path / "new")]
        if command == "embed":
            argv += ["--methods", "pca"]
        try:
            # Where it would be fatal, the signal is ignored by Python.
            refused(argv, "Cannot write to", capsys, tmp_path)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["embed", "--methods", "pca,tnse"], "'tnse' is not"),
        (["embed", "--components", "many"], "'many'"),
        (["embed", "--components", "0"], "'0'"),
        (["embed", "--methods", "pca", "--components", "99"], "n_components=99"),
        (["embed", "--assist", "much"], "'much'"),
        (["embed", "--assist", "50"], "assist=50"),
        (["embed", "--seed", "-1"], "--seed"),
        (["inspect", "--seed", "-1"], "--seed"),
        (["impute", "--out", "{}/x.xyz"], "must end in one of"),
        (["impute", "--out", "{}/good.csv"], "is the file that is read"),
        (["impute", "--out", "{}"], "must end in one of"),
        (["impute", "--out", "{}/out.csv", "--rank", "99"], "--rank"),
        (["impute", "--out", "{}/out.csv", "--seed", "-1"], "--seed"),
        (["impute", "--out", "{}/out.csv", "--missing", "dropouts"], "no zero is known to be a hole"),
    ],
)
def test_bad_options(argv, says, good, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command, *options = [word.format(tmp_path) for word in argv]
    if "dropouts" in options:
        good.write_text(GOOD)
    refused([command, str(good), *options], says, capsys, tmp_path)


def test_nothing_to_fill(tmp_path, capsys):
    path = tmp_path / "x.csv"
    path.write_text(GOOD)
    refused(["impute", str(path), "--out", str(tmp_path / "out.csv")], "has no holes", capsys, tmp_path)


def test_from_the_shell(tmp_path):
    """As everybody sees it: exit code, streams, folder."""
    path = tmp_path / "x.csv"
    path.write_text(FILES["ragged rows"][1])
    answer = subprocess.run(
        [sys.executable, "-m", "nanfold.cli", "embed", path, "--out", tmp_path / "out"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr.startswith("nanfold embed: ")
    assert answer.stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["x.csv"]
