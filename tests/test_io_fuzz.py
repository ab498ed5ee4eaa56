"""Random tables in every format, awkward values and names among them, are read back to the same values and mask."""

import csv
import gzip
import io
import math
import shutil
import warnings
from pathlib import Path

import anndata
import h5py
import numpy as np
import pandas as pd
import pytest
import zarr
from hypothesis import HealthCheck, Phase, assume, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse
from scipy.io import mmwrite

from nanfold.io import Table, read_table
from nanfold.io.writing import write_table

# Examples are small as they are: without shrinking, a failure shows at once.
QUICK = settings(
    max_examples=6,
    deadline=None,
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
SHAPES = st.tuples(st.integers(2, 6), st.integers(2, 5))
SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.1, 1 / 3, 5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 1e22, 123456789.0)
FLOATS = st.one_of(
    st.floats(allow_nan=True, allow_infinity=False),
    st.sampled_from(SPECIAL),
    st.integers(-(2**53), 2**53).map(float),
    st.just(math.nan),
)


def arrays(elements=FLOATS, dtype="float64"):
    return SHAPES.flatmap(lambda shape: hnp.arrays(dtype, shape, elements=elements))


# Anything but control characters and halves of surrogate pairs, and text that is awkward in a table.
LETTERS = st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp"))
AWKWARD = (
    "a,b",
    'say "hi"',
    "'",
    "semi;colon",
    "tab\tin",
    "12",
    "1e5",
    "NA",
    "nan",
    "#1",
    "ä",
    "细胞",
    "-",
    "x y",
    "=1+1",
)
NAMES = st.one_of(st.sampled_from(AWKWARD), st.text(LETTERS, min_size=1, max_size=8))


def named(count: int):
    """So many distinct names, which differ even without the white space around them, which is not read."""
    return st.lists(NAMES, min_size=count, max_size=count, unique_by=str.strip).filter(
        lambda names: all(name.strip() for name in names)
    )


@st.composite
def tables(draw):
    """X, names of samples that are text, names of features, and a label column; the names may be absent."""
    X = draw(arrays())
    n, d = X.shape
    features = draw(named(d))
    samples = [f"s{name.strip()}" for name in draw(named(n))]
    label = draw(st.lists(st.sampled_from(("T cell", "B,cell", 'c"d', "β", "")), min_size=n, max_size=n))
    assume(any(label))
    return X, samples, features, np.array(label, dtype=str)


def same(table: Table, X: np.ndarray, samples=None, features=None) -> None:
    values = table.X.toarray() if sparse.issparse(table.X) else table.X
    assert values.shape == X.shape
    assert np.array_equal(values, X, equal_nan=True)
    # The sign of zero too, wherever the format has one.
    assert table.kind == "mtx" or sparse.issparse(table.X) or np.array_equal(signs(values), signs(X))
    assert (table.sample_names, table.feature_names) == (samples, features)


def signs(values: np.ndarray) -> np.ndarray:
    return np.signbit(values) & ~np.isnan(values)


def written_by_hand(path: Path, rows: list[list[str]], separator: str = ",") -> None:
    out = io.StringIO()
    csv.writer(out, delimiter=separator, lineterminator="\r\n").writerows(rows)
    content = out.getvalue().encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


@pytest.mark.parametrize("name", ["x.csv", "x.tsv", "x.csv.gz", "x.tsv.gz"])
@given(data=tables(), hole=st.sampled_from(["", "NA", "nan", " NaN ", "?"]))
@QUICK
def test_text(name, data, hole, tmp_path):
    X, samples, features, label = data
    features = [feature.strip() for feature in features]
    assume("kind" not in features and "id" not in features)
    cells = [[hole if math.isnan(value) else repr(value) for value in row] for row in X.tolist()]
    rows = [[sample, *row, kind] for sample, row, kind in zip(samples, cells, label.tolist(), strict=True)]
    written_by_hand(tmp_path / name, [["id", *features, "kind"], *rows], "\t" if ".tsv" in name else ",")
    # Whether the first line is a header is not in doubt here: it is said.
    table = read_table(tmp_path / name, header=True, row_names=True, labels=["kind"])
    same(table, X, samples, features)
    assert table.labels["kind"].tolist() == label.tolist()


@given(data=tables())
@QUICK
def test_text_without_being_told(data, tmp_path):
    """A header, names of samples and a label column are found where the header holds text over columns of numbers."""
    X, samples, features, _ = data
    features = [f"f {feature.strip()}" for feature in features]
    assume(np.isfinite(X).any(axis=0).all())
    rows = [[s, *("" if math.isnan(v) else repr(v) for v in row)] for s, row in zip(samples, X.tolist(), strict=True)]
    written_by_hand(tmp_path / "x.csv", [["", *features], *rows])
    same(read_table(tmp_path / "x.csv"), X, samples, features)


@given(X=arrays())
@QUICK
def test_text_of_numbers_alone(X, tmp_path):
    rows = [["NA" if math.isnan(value) else repr(value) for value in row] for row in X.tolist()]
    written_by_hand(tmp_path / "x.csv", rows)
    same(read_table(tmp_path / "x.csv", header=False, row_names=False), X)


@pytest.mark.parametrize("name", ["x.csv", "x.tsv.gz", "x.parquet", "x.feather", "x.npz", "x.h5ad"])
@given(data=tables())
@QUICK
def test_what_we_write(name, data, tmp_path):
    X, samples, features, label = data
    features = [feature.strip() for feature in features]
    assume("kind" not in features and len(set(samples)) == len(samples) and "\0" not in "".join(samples + features))
    assume("/" not in "".join(features))  # parts of a path in HDF5
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        write_table(tmp_path / name, X, samples, features, {"kind": label})
    options = {"header": True, "row_names": True} if name.startswith(("x.csv", "x.tsv")) else {}
    table = read_table(tmp_path / name, labels=["kind"], **options)
    same(table, X, samples, features)
    assert table.labels["kind"].tolist() == label.tolist()


@pytest.mark.parametrize("kind", ["parquet", "feather"])
@given(
    X=arrays(),
    whole=st.lists(st.integers(-(2**53), 2**53), min_size=6, max_size=6),
    features=named(5),
    truth=st.lists(st.booleans(), min_size=6, max_size=6),
)
@QUICK
def test_frames(kind, X, whole, features, truth, tmp_path):
    n, d = X.shape
    assume(not {"whole", "truth"} & set(features))
    frame = pd.DataFrame(X, columns=features[:d])
    frame["whole"], frame["truth"] = whole[:n], truth[:n]
    path = tmp_path / f"x.{kind}"
    getattr(frame, f"to_{kind}")(path)
    table = read_table(path)
    same(table, np.column_stack([X, np.array(whole[:n], dtype=float)]), None, [*features[:d], "whole"])
    assert table.labels["truth"].tolist() == [str(value).lower() for value in truth[:n]]


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int64", "int8", "uint16", "bool"])
@given(data=st.data())
@QUICK
def test_numpy(dtype, data, tmp_path):
    width = np.dtype(dtype).itemsize * 8
    elements = {
        "f": lambda: st.floats(width=width, allow_infinity=False),
        "i": lambda: st.integers(-100, 100),
        "u": lambda: st.integers(0, 60000),
        "b": st.booleans,
    }[np.dtype(dtype).kind]()
    X = data.draw(arrays(elements, dtype))
    np.save(tmp_path / "x.npy", X)
    same(read_table(tmp_path / "x.npy"), X.astype(np.result_type(X.dtype, np.float32)))
    np.savez(tmp_path / "x.npz", X=X, samples=[f"s{i}" for i in range(len(X))], depth=np.arange(len(X)))
    table = read_table(tmp_path / "x.npz", labels=["depth"])
    same(table, X.astype(np.result_type(X.dtype, np.float32)), [f"s{i}" for i in range(len(X))])
    assert table.labels["depth"].tolist() == list(range(len(X)))


STORED = st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(SPECIAL))


@st.composite
def sparse_tables(draw):
    """A sparse array with stored zeros, and which entries are stored."""
    X = draw(arrays(STORED))
    stored = draw(hnp.arrays(bool, X.shape))
    rows, columns = np.nonzero(stored)
    return sparse.csr_array((X[stored], (rows, columns)), shape=X.shape), stored


def same_stored(table: Table, X: sparse.csr_array, stored: np.ndarray) -> None:
    assert table.unstored
    same(table, X.toarray(), table.sample_names, table.feature_names)
    pattern = sparse.csr_array((np.ones(table.X.nnz), table.X.indices, table.X.indptr), shape=table.shape)
    assert np.array_equal(pattern.toarray() > 0, stored)


@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
@given(data=sparse_tables())
@QUICK
def test_sparse_npz(form, data, tmp_path):
    X, stored = data
    sparse.save_npz(tmp_path / "x.npz", X.asformat(form))
    same_stored(read_table(tmp_path / "x.npz", missing="unstored"), X, stored)
    same(read_table(tmp_path / "x.npz"), X.toarray())


@pytest.mark.parametrize("name", ["x.mtx", "x.mtx.gz"])
@given(data=sparse_tables())
@QUICK
def test_matrix_market(name, data, tmp_path):
    X, stored = data
    out = io.BytesIO()
    mmwrite(out, sparse.coo_array(X), precision=17, symmetry="general")
    content = out.getvalue()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    same_stored(read_table(tmp_path / name, missing="unstored"), X, stored)


COUNTS = st.integers(0, 4).map(lambda count: max(count - 2, 0))


def genes(count: int):
    """Names as in the files of 10x: no tabs, nothing that ends a line."""
    return named(count).filter(lambda names: not any("\t" in name or name.splitlines() != [name] for name in names))


@given(X=arrays(COUNTS, "int32"), data=st.data())
@QUICK
def test_10x(X, data, tmp_path):
    n, d = X.shape
    symbols = data.draw(genes(d))
    by_gene = sparse.csc_array(X.T)
    barcodes, ids = [f"AC{i}-1" for i in range(n)], [f"ENSG{s}" for s in range(d)]
    folder = tmp_path / "10x"
    folder.mkdir(exist_ok=True)
    mmwrite(folder / "matrix.mtx", sparse.coo_array(by_gene), symmetry="general")
    (folder / "barcodes.tsv").write_text("\n".join(barcodes))
    lines = [f"{i}\t{symbol}\tGene Expression" for i, symbol in zip(ids, symbols, strict=True)]
    (folder / "features.tsv").write_text("\n".join(lines), encoding="utf-8")
    same(read_table(folder), X, barcodes, symbols)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        group = file.create_group("matrix")
        for part in ("data", "indices", "indptr"):
            group[part] = getattr(by_gene, part)
        group["shape"], group["barcodes"] = by_gene.shape, np.array(barcodes, dtype="S")
        group["features/name"] = np.array([symbol.encode() for symbol in symbols])
        group["features/id"] = np.array(ids, dtype="S")
    same(read_table(tmp_path / "x.h5"), X, barcodes, symbols)


@pytest.mark.parametrize("kind", ["h5ad", "zarr"])
@given(data=tables(), is_sparse=st.booleans())
@settings(QUICK, max_examples=3)
def test_annotated(kind, data, is_sparse, tmp_path):
    X, samples, features, label = data
    assume("\0" not in "".join(samples + features) and len(set(samples)) == len(samples))
    X = np.nan_to_num(X) if is_sparse else X
    obs = pd.DataFrame({"kind": pd.Categorical(np.where(label == "", None, label))}, index=samples)
    values = sparse.csr_matrix(X) if is_sparse else X
    adata = anndata.AnnData(X=values, obs=obs, var=pd.DataFrame(index=features))
    path = tmp_path / f"x.{kind}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # anndata's of formats to come
        getattr(adata, f"write_{kind}")(path)
    table = read_table(path)
    same(table, X, samples, features)
    assert table.labels["kind"].tolist() == label.tolist()


@given(X=arrays())
@settings(QUICK, max_examples=3)
def test_plain_zarr(X, tmp_path):
    shutil.rmtree(tmp_path / "x.zarr", ignore_errors=True)
    zarr.save(str(tmp_path / "x.zarr"), X)
    same(read_table(tmp_path / "x.zarr"), X)


@given(data=sparse_tables(), users=named(6), items=named(5))
@example(
    data=(sparse.csr_array(np.array([[1.0, 2.0], [3.0, 4.0]])), np.ones((2, 2), bool)),
    users=["1", "2", "3", "4", "5", "6"],
    items=["1", "a,b", 'c"', "ü", "NA"],
)
@QUICK
def test_triplets(data, users, items, tmp_path):
    X, stored = data
    rows, columns = np.nonzero(stored)
    seen_rows, seen_columns = list(dict.fromkeys(rows.tolist())), list(dict.fromkeys(columns.tolist()))
    assume(len(seen_rows) > 1 and len(seen_columns) > 1)
    users, items = [user.strip() for user in users], [item.strip() for item in items]
    lines = [[users[i], items[s], repr(float(X[i, s]))] for i, s in zip(rows, columns, strict=True)]
    written_by_hand(tmp_path / "x.csv", [["user", "item", "rating"], *lines])
    table = read_table(tmp_path / "x.csv", triplets=True)
    part = X.toarray()[np.ix_(seen_rows, seen_columns)]
    same_stored(table, sparse.csr_array(part), stored[np.ix_(seen_rows, seen_columns)])
    assert (table.sample_names, table.feature_names) == (
        [users[i] for i in seen_rows],
        [items[s] for s in seen_columns],
    )
