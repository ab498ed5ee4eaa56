"""Reading tables: values, names, labels and holes as they are in the file, by the rules of docs/files.md."""

import gzip
import io

import numpy as np
import pytest
from scipy import sparse

from nanfold.io import FileError, Table, read_table
from tables import is_table, written

NAN = np.nan


@pytest.fixture
def read(tmp_path):
    def read_content(content: str | bytes, name: str = "table.csv", **options) -> Table:
        return read_table(written(tmp_path, content, name), **options)

    return read_content


class TestHeader:
    """Whether the first line holds names."""

    @pytest.mark.parametrize(
        ("text", "X", "samples", "features"),
        [
            ("a,b\n1,2\n3,4\n", [[1, 2], [3, 4]], None, ["a", "b"]),
            ("1,2\n3,4\n", [[1, 2], [3, 4]], None, None),
            ("NA,2\n3,4\n", [[NAN, 2], [3, 4]], None, None),
            ("id,a,b\ns,1,2\nt,3,4\n", [[1, 2], [3, 4]], ["s", "t"], ["a", "b"]),
            ("s,1.5,1\nt,3,4\n", [[1.5, 1], [3, 4]], ["s", "t"], None),
            ("s,NA,2\nt,3,4\n", [[NAN, 2], [3, 4]], ["s", "t"], None),
            # pandas: an empty corner, and numbers for names
            (",0,1\n0,5,6\n1,7,8\n", [[5, 6], [7, 8]], ["0", "1"], ["0", "1"]),
            (",a,b\n7,5,6\n9,7,8\n", [[5, 6], [7, 8]], ["7", "9"], ["a", "b"]),
            ("id,1,2,3\ns,5,6,0\nt,7,8,0\n", [[5, 6, 0], [7, 8, 0]], ["s", "t"], ["1", "2", "3"]),
            # names that are numbers and no row of the table, for they count upwards
            (
                "w,400,401.5,403,404,405,409\ns,1,2,3,4,5,6\nt,1,2,3,4,5,6\n",
                [[1, 2, 3, 4, 5, 6]] * 2,
                ["s", "t"],
                ["400", "401.5", "403", "404", "405", "409"],
            ),
            (",0.5,0.25\n1,5,6\n2,7,8\n", [[NAN, 0.5, 0.25], [1, 5, 6], [2, 7, 8]], None, None),
            # R's write.table: one name less
            ("a b\n".replace(" ", "\t") + "s\t1\t2\nt\t3\t4\n", [[1, 2], [3, 4]], ["s", "t"], ["a", "b"]),
            ('"","a","b"\n"1",1,2\n"2",3,4\n', [[1, 2], [3, 4]], ["1", "2"], ["a", "b"]),
            # a name of a column that is all holes in the first lines
            ("a,b,c\n1,2,\n3,4,\n", [[1, 2, NAN], [3, 4, NAN]], None, ["a", "b", "c"]),
        ],
    )
    def test_found_out(self, text, X, samples, features, read):
        is_table(read(text), X, samples, features)

    def test_told(self, read):
        is_table(read("1,2\n3,4\n5,6\n", header=True), [[3, 4], [5, 6]], None, ["1", "2"])
        is_table(read("s,1,2\nt,3,4\nt,5,6", row_names=True), [[1, 2], [3, 4], [5, 6]], ["s", "t", "t"])
        table = read("s,1,2\nt,3,4\n", row_names=False)
        is_table(table, [[1, 2], [3, 4]])
        assert table.labels["column 1"].tolist() == ["s", "t"]


class TestCells:
    @pytest.mark.parametrize(
        "hole", ["", "NA", "N/A", "nan", "NaN", "NULL", "None", "?", "<NA>", " NA ", "-", ".", '""']
    )
    def test_holes(self, hole, read):
        is_table(read(f"a,b\n1,{hole}\n{hole},4\n5,6\n"), [[1, NAN], [NAN, 4], [5, 6]], None, ["a", "b"])

    def test_numbers(self, read):
        is_table(read("a,b\n 1 ,+2e3\n-.5,4.\n"), [[1, 2000], [-0.5, 4]], None, ["a", "b"])

    def test_a_number_with_an_underscore_is_a_name(self, read):
        is_table(read("a,b\n1_0,1,2\n1_1,3,4\n"), [[1, 2], [3, 4]], ["1_0", "1_1"], ["a", "b"])

    def test_separators(self, read):
        for text in ("a;b\n1,5;2\n3;4\n", "a\tb\n1.5\t2\n3\t4\n", '"a","b"\r\n1.5,2\r\n3,4\r\n', "a|b\n1.5|2\n3|4\n"):
            table = read(text, separator="|" if "|" in text else None)
            is_table(table, [[1.5, 2], [3, 4]], None, ["a", "b"])

    def test_encodings_and_gzip(self, read):
        text = "ä,b\n1,2\n3,4\n"
        for content in (text.encode("utf-8-sig"), text.encode("utf-16"), gzip.compress(text.encode())):
            is_table(read(content), [[1, 2], [3, 4]], None, ["ä", "b"])
        is_table(read(text.encode("latin-1"), encoding="latin-1"), [[1, 2], [3, 4]], None, ["ä", "b"])

    def test_empty_lines_are_skipped(self, read):
        is_table(read("\na,b\n\n1,2\n3,4\n\n\n"), [[1, 2], [3, 4]], None, ["a", "b"])


class TestLabels:
    def test_columns_of_text(self, read):
        table = read("a,kind,b,site\n1,x,2,north pole\n3,NA,4,here\n5,x,6,here\n")
        is_table(table, [[1, 2], [3, 4], [5, 6]], None, ["a", "b"])
        assert {name: values.tolist() for name, values in table.labels.items()} == {
            "kind": ["x", "", "x"],
            "site": ["north pole", "here", "here"],
        }

    def test_numbers_that_are_asked_for(self, read):
        table = read("a,batch,b,g\n1,1,2,u\n3,,4,v\n", labels=["batch"])
        is_table(table, [[1, 2], [3, 4]], None, ["a", "b"])
        assert list(table.labels) == ["batch", "g"]
        assert np.array_equal(table.labels["batch"], [1, NAN], equal_nan=True)

    def test_names_that_repeat_are_labels(self, read):
        table = read("g,a,b\nx,1,2\nx,3,4\ny,5,6\n")
        assert table.sample_names is None
        assert table.labels["g"].tolist() == ["x", "x", "y"]

    def test_names_that_are_asked_for_are_labels(self, read):
        table = read("g,a,b\nx,1,2\ny,3,4\n", labels=["g"])
        assert table.sample_names is None
        assert table.labels["g"].tolist() == ["x", "y"]

    def test_one_bad_cell_is_an_error_and_no_label_column(self, read):
        text = "a,b\n1,2\n3,4\n5,x7\n8,9\n"
        with pytest.raises(FileError, match=r"table\.csv, line 4, column 'b': 'x7' is not a number"):
            read(text)
        table = read(text.replace("\n", ",1\n").replace("b,1", "b,c"), labels=["b"])
        assert table.labels["b"].tolist() == ["2", "4", "x7", "9"]

    def test_text_that_comes_late_keeps_its_cells_as_they_were(self, read, monkeypatch):
        monkeypatch.setattr("nanfold.io.cells.BLOCK_CELLS", 8)
        lines = [f"{i},{i}.50,{'late' if i > 10 else '01'},2" for i in range(40)]
        table = read("a,b,g,c\n" + "\n".join(lines))
        is_table(table, [[i, i + 0.5, 2] for i in range(40)], None, ["a", "b", "c"])
        assert table.labels["g"].tolist() == ["01"] * 11 + ["late"] * 29

    def test_absent(self, read):
        with pytest.raises(FileError, match=r"has no column 'kimd' to take as labels; did you mean 'kind'\?"):
            read("a,kind,b\n1,x,2\n3,y,4\n", labels=["kimd"])


class TestNumpy:
    def saved(self, save, *args, **options) -> bytes:
        out = io.BytesIO()
        save(out, *args, **options)
        return out.getvalue()

    @pytest.mark.parametrize("dtype", ["float64", "float32", "int16", "bool"])
    def test_npy(self, dtype, read):
        X = np.arange(6).reshape(3, 2).astype(dtype)
        table = read(self.saved(np.save, X), "x.npy")
        is_table(table, X)
        assert table.X.dtype == ("float32" if dtype in ("float32", "int16", "bool") else "float64")

    def test_npz_with_names(self, read):
        content = self.saved(
            np.savez, X=[[1, NAN], [3, 4]], labels=["u", "v"], features=["a", "b"], samples=["s", "t"], depth=[1, 2]
        )
        table = read(content, "x.npz", labels=["depth"])
        is_table(table, [[1, NAN], [3, 4]], ["s", "t"], ["a", "b"])
        assert {name: values.tolist() for name, values in table.labels.items()} == {
            "labels": ["u", "v"],
            "depth": [1, 2],
        }

    def test_npz_of_one_array_or_a_named_one(self, read):
        is_table(read(self.saved(np.savez, [[1, 2], [3, 4]]), "x.npz"), [[1, 2], [3, 4]])
        two = self.saved(np.savez, u=np.eye(2), v=np.ones((2, 2)))
        is_table(read(two, "x.npz", layer="v"), np.ones((2, 2)))
        with pytest.raises(FileError, match="has the arrays 'u', 'v', and none is 'X'"):
            read(two, "x.npz")

    @pytest.mark.parametrize("form", ["csr", "csc", "coo"])
    def test_npz_sparse(self, form, read):
        X = sparse.coo_array(([1.0, 2.0, 0.0], ([0, 1, 2], [1, 0, 1])), shape=(3, 2)).asformat(form)
        table = read(self.saved(sparse.save_npz, X), "x.npz")
        is_table(table, X.toarray())
        assert not table.unstored
        table = read(self.saved(sparse.save_npz, X), "x.npz", missing="unstored")
        assert table.unstored
        assert table.X.nnz == 3
        assert table.share_of_holes() == 0.5


class TestTriplets:
    def test_users_items_and_what_is_not_stored(self, read):
        table = read("user,film,stars\nu,f,5\nv,g,0\nu,g,3\n", triplets=True)
        is_table(table, [[5, 3], [0, 0]], ["u", "v"], ["f", "g"])
        assert table.unstored
        assert table.X.nnz == 3
        assert table.share_of_holes() == 0.25

    def test_no_header_and_a_column_too_many(self, read):
        table = read("1\t10\t5\t881250949\n2\t20\t3\t881250949\n1\t20\t4\t881250949\n", "u.tsv", triplets=True)
        is_table(table, [[5, 4], [0, 3]], ["1", "2"], ["10", "20"])
        assert "not used: 'column 4'" in table.summary()

    def test_a_rating_that_is_not_known_is_a_hole(self, read):
        table = read("u,f,5\nv,f,NA\nv,g,1\n", triplets=True)
        assert table.X.nnz == 2

    @pytest.mark.parametrize(
        ("text", "says"),
        [
            ("u,f,5\nu,f,4\n", "lines 1 and 2 both rate item 'f' for user 'u'"),
            ("u,f,5\nv,g,good\n", "line 2: the rating 'good' is not a number"),
            ("u,f\nv,g\n", "has 2 columns, but triplets need three"),
            ("u,f,5\n,g,4\n", "line 2 names no user"),
            ("u,f,5\nu,g,inf\n", "line 2: the rating is infinite"),
            ("u,f,5\nu,g\n", "line 2 has 2 cells"),
        ],
    )
    def test_refused(self, text, says, read):
        with pytest.raises(FileError, match=says):
            read(text, triplets=True)


def test_transposed(read):
    is_table(
        read("gene,c1,c2,c3\ng,1,2,3\nh,4,5,NA\n", transpose=True),
        [[1, 4], [2, 5], [3, NAN]],
        ["c1", "c2", "c3"],
        ["g", "h"],
    )
    with pytest.raises(FileError, match="has columns of text beside the names: 'chrom'"):
        read("gene,chrom,c1,c2\ng,X,1,2\nh,X,4,5\n", transpose=True)


def test_the_summary_is_one_line(read):
    table = read("a,kind,b\n1,x,NA\n3,y,4\n")
    assert table.summary() == "table.csv: 2 samples x 2 features, 25.0 % holes, label column 'kind'"


def test_samples_and_features_without_a_value_are_named(read):
    with pytest.raises(FileError, match=r"Feature 'b' of .* has no observed value"):
        read("a,b,c\n1,NA,2\n3,NA,4\n").refuse_unseen()
    with pytest.raises(FileError, match=r"Samples '2', '3' of .* have no observed value"):
        read(",a,b\n1,1,2\n2,,\n3,,\n").refuse_unseen()
    read("a,b,c\n1,NA,2\n3,2,4\n").refuse_unseen()


def test_what_is_a_hole_is_asked_for_in_a_way_that_fits(read):
    with pytest.raises(FileError, match="holds a dense table, in which everything is stored"):
        read("a,b\n1,2\n3,4\n", missing="unstored")
    with pytest.raises(FileError, match="holds negative values, but dropouts are zeros of counts"):
        read("a,b\n1,2\n3,-4\n", missing="dropouts")
    assert (
        read("a,b\n1,0\n3,4\n", missing="dropouts")
        .summary()
        .startswith("table.csv: 2 samples x 2 features, 0 % holes, 25.0 % zeros")
    )
