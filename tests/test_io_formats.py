"""Parquet, feather, Matrix Market, 10x, h5ad and zarr: values, names and labels as they are in the file."""

import gzip
import io
import warnings
from pathlib import Path

import anndata
import h5py
import numpy as np
import pandas as pd
import pytest
import zarr
from scipy import sparse
from scipy.io import mmwrite

from nanfold.io import FileError, Table, read_table
from tables import is_table, written

NAN = np.nan


@pytest.fixture
def read(tmp_path):
    def read_content(content: str | bytes, name: str = "table.csv", **options) -> Table:
        return read_table(written(tmp_path, content, name), **options)

    return read_content


class TestFrames:
    """Parquet and feather."""

    @pytest.fixture(params=["parquet", "feather"])
    def saved(self, request, tmp_path):
        def save(frame, **options) -> Table:
            path = tmp_path / f"table.{request.param}"
            getattr(frame, f"to_{request.param}")(path)
            return read_table(path, **options)

        return save

    def test_types(self, saved):
        frame = pd.DataFrame(
            {
                "a": [1.5, NAN, 3.0],
                "b": pd.array([1, None, 3], dtype="Int64"),
                "kind": ["u", None, "v"],
                "c": np.array([1, 2, 3], dtype="int8"),
                "category": pd.Categorical(["x", "y", None]),
                "good": [True, False, True],
                "day": pd.to_datetime(["2020-01-01", None, "2020-01-03"]),
            }
        )
        table = saved(frame)
        is_table(table, [[1.5, 1, 1], [NAN, NAN, 2], [3, 3, 3]], None, ["a", "b", "c"])
        assert {name: list(values) for name, values in table.labels.items()} == {
            "kind": ["u", "", "v"],
            "category": ["x", "y", ""],
            "good": ["true", "false", "true"],
            "day": ["2020-01-01 00:00:00.000000000", "", "2020-01-03 00:00:00.000000000"],
        }

    def test_names(self, saved):
        names = pd.DataFrame({"id": ["s", "t"], "a": [1.0, 2.0], "b": [3.0, 4.0]})
        is_table(saved(names), [[1, 3], [2, 4]], ["s", "t"], ["a", "b"])
        assert saved(names.astype({"a": "float32", "b": "float32"})).X.dtype == "float32"
        assert saved(names, labels=["id"]).labels["id"].tolist() == ["s", "t"]

    def test_numbers_that_are_labels(self, saved):
        table = saved(pd.DataFrame({"a": [1.0, 2.0], "batch": [1, 2], "b": [3.0, 4.0]}), labels=["batch"])
        is_table(table, [[1, 3], [2, 4]], None, ["a", "b"])
        assert table.labels["batch"].tolist() == [1, 2]

    def test_a_column_of_lists(self, saved):
        with pytest.raises(FileError, match="column 'c' holds list"):
            saved(pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0], "c": [[1], [2]]}))


def test_a_parquet_index_names_the_samples(tmp_path):
    path = tmp_path / "table.parquet"
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]}, index=["s", "t"])
    frame.to_parquet(path)
    is_table(read_table(path), [[1, 3], [2, 4]], ["s", "t"], ["a", "b"])
    frame.set_index(pd.MultiIndex.from_tuples([("s", 1), ("s", 2)])).to_parquet(path)
    assert read_table(path).sample_names == ["s / 1", "s / 2"]
    frame.set_index(pd.Index([7, 9])).to_parquet(path)
    assert read_table(path).sample_names == ["7", "9"]


COUNTS = sparse.csr_array(np.array([[1, 0, 2, 0], [0, 0, 3, 1], [4, 0, 0, 0]]))
CELLS, GENES, IDS = ["AA", "CC", "GG"], ["g", "h", "g", "k"], ["E1", "E2", "E3", "E4"]
UNIQUE = ["g (E1)", "h", "g (E3)", "k"]


def mtx_of(X) -> bytes:
    out = io.BytesIO()
    mmwrite(out, X)
    return out.getvalue()


class TestMatrixMarket:
    @pytest.mark.parametrize("pack", [bytes, gzip.compress])
    def test_sparse_and_dense(self, pack, read):
        name = "x.mtx" if pack is bytes else "x.mtx.gz"
        table = read(pack(mtx_of(COUNTS)), name)
        is_table(table, COUNTS.toarray())
        assert isinstance(table.X, sparse.csr_array)
        is_table(read(pack(mtx_of(COUNTS)), name, transpose=True), COUNTS.T.toarray())
        is_table(read(pack(mtx_of(COUNTS.toarray())), name), COUNTS.toarray())
        assert read(pack(mtx_of(COUNTS)), name, missing="unstored").unstored

    def test_an_entry_twice(self, read):
        text = "%%MatrixMarket matrix coordinate real general\n2 2 3\n1 1 5\n2 2 1\n1 1 6\n"
        with pytest.raises(FileError, match="row 1, column 1 more than once"):
            read(text, "x.mtx")

    @pytest.mark.parametrize("ending", ["", ".gz"])
    def test_10x_folder(self, ending, tmp_path):
        folder = tmp_path / "filtered"
        folder.mkdir()
        pack = gzip.compress if ending else bytes
        features = "".join(f"{i}\t{g}\tGene Expression\n" for i, g in zip(IDS, GENES, strict=True))
        written(folder, pack(mtx_of(COUNTS.T)), "matrix.mtx" + ending)
        written(folder, pack("\n".join(CELLS).encode()), "barcodes.tsv" + ending)
        written(folder, pack(features.encode()), ("features.tsv" if ending else "genes.tsv") + ending)
        is_table(read_table(folder), COUNTS.toarray(), CELLS, UNIQUE)
        is_table(read_table(folder / f"matrix.mtx{ending}"), COUNTS.toarray(), CELLS, UNIQUE)
        written(folder, pack(b"AA\nCC\n"), "barcodes.tsv" + ending)
        with pytest.raises(FileError, match=r"barcodes\.tsv.* has 2 lines, but matrix\.mtx.* asks for 3"):
            read_table(folder)
        (folder / f"barcodes.tsv{ending}").unlink()
        with pytest.raises(FileError, match="has no barcodes"):
            read_table(folder)


class TestTenX:
    def save(self, path: Path, group: str, names: str, ids: str) -> Path:
        with h5py.File(path, "a") as file:
            place = file.create_group(group)
            by_gene = sparse.csc_array(COUNTS.T)
            for name in ("data", "indices", "indptr"):
                place[name] = getattr(by_gene, name)
            place["shape"] = by_gene.shape
            place["barcodes"] = np.array(CELLS, dtype="S")
            place[names], place[ids] = np.array(GENES, dtype="S"), np.array(IDS, dtype="S")
        return path

    def test_version_3(self, tmp_path):
        path = self.save(tmp_path / "x.h5", "matrix", "features/name", "features/id")
        is_table(read_table(path), COUNTS.toarray(), CELLS, UNIQUE)

    def test_version_2(self, tmp_path):
        path = self.save(tmp_path / "x.h5", "GRCh38", "gene_names", "genes")
        is_table(read_table(path), COUNTS.toarray(), CELLS, UNIQUE)
        self.save(path, "mm10", "gene_names", "genes")
        with pytest.raises(FileError, match="several genomes, 'GRCh38', 'mm10'; choose one"):
            read_table(path)
        is_table(read_table(path, layer="mm10"), COUNTS.toarray(), CELLS, UNIQUE)

    def test_another_hdf5(self, tmp_path):
        with h5py.File(tmp_path / "x.h5", "w") as file:
            file["what"] = [1]
        with pytest.raises(FileError, match="no file of 10x: it has 'what' in it, but no 'matrix'"):
            read_table(tmp_path / "x.h5")


class TestAnnotated:
    @pytest.fixture(params=["h5ad", "zarr"])
    def path(self, request, tmp_path):
        adata = anndata.AnnData(
            X=sparse.csr_matrix(COUNTS, dtype="float32"),
            obs=pd.DataFrame(
                {"type": pd.Categorical(["T", None, "B"]), "batch": ["u", "v", "u"], "depth": [3, 4, 4]}, index=CELLS
            ),
            var=pd.DataFrame(index=UNIQUE),
        )
        adata.layers["dense"] = COUNTS.toarray() + 0.5
        path = tmp_path / f"cells.{request.param}"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # anndata's about a zarr format to come
            getattr(adata, f"write_{request.param}")(path)
        return path

    def test_values_names_and_labels(self, path):
        table = read_table(path)
        is_table(table, COUNTS.toarray(), CELLS, UNIQUE)
        assert table.X.dtype == "float32"
        assert {name: values.tolist() for name, values in table.labels.items()} == {
            "type": ["T", "", "B"],
            "batch": ["u", "v", "u"],
        }
        assert read_table(path, labels=["depth"]).labels["depth"].tolist() == [3, 4, 4]

    def test_a_layer(self, path):
        is_table(read_table(path, layer="dense"), COUNTS.toarray() + 0.5, CELLS, UNIQUE)
        with pytest.raises(FileError, match="has no layer 'dens'; it has 'dense'"):
            read_table(path, layer="dens")

    def test_absent(self, path):
        with pytest.raises(FileError, match="has no column 'typ' to take as labels; did you mean 'type'"):
            read_table(path, labels=["typ"])


def test_a_zarr_array(tmp_path):
    zarr.save(str(tmp_path / "x.zarr"), np.array([[1.0, NAN], [3.0, 4.0]]))
    is_table(read_table(tmp_path / "x.zarr"), [[1, NAN], [3, 4]])
