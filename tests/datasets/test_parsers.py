"""The parsers of the published formats, on small files of the same format."""

import gzip
import io
import tarfile

import numpy as np
import pytest

from nanfold.datasets import parsers
from nanfold.datasets.cache import Source

rng = np.random.default_rng(0)


def write(path, text):
    data = text.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return (Source(path.name),)


def table(X, rows, columns, separator, corner=None):
    head = ([] if corner is None else [corner]) + list(columns)
    lines = [separator.join(head)]
    lines += [separator.join([name, *map(str, values)]) for name, values in zip(rows, X.tolist(), strict=True)]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("corner", [None, "gene"])
def test_pollen(tmp_path, corner):
    X = rng.random((3, 5)).round(3)
    cells = ["Hi_2338_1", "Hi_2338_2", "Hi_GW21.2_1", "Hi_GW21_1", "Hi_iPS_9"]
    sources = write(tmp_path / "tpm.txt", table(X, "abc", cells, "\t", corner))
    data = parsers.parse_pollen(tmp_path, sources)
    assert np.array_equal(data.X, X.T)
    assert data.labels.tolist() == ["2338", "2338", "GW21+3", "GW21", "iPS"]
    assert data.features.tolist() == ["a", "b", "c"]
    assert data.samples.tolist() == cells
    assert data.values == "linear"


def test_pollen_names_the_column(tmp_path):
    sources = write(tmp_path / "tpm.txt", "Hi_BJ_1\tplate7\na\t1\t2\nb\t3\t4\n")
    with pytest.raises(ValueError, match=r"tpm\.txt: column 'plate7' is not named Hi_CLASS_NUMBER"):
        parsers.parse_pollen(tmp_path, sources)


def test_a_table_cut_short(tmp_path):
    text = table(rng.random((3, 4)), "abc", ["Hi_A_1", "Hi_A_2", "Hi_B_1", "Hi_B_2"], "\t")
    sources = write(tmp_path / "tpm.txt", text[: text.rindex("\t")])
    with pytest.raises(
        ValueError, match=r"tpm\.txt: its rows differ in length, of 3 to 4 numbers; it may be cut short"
    ):
        parsers.parse_pollen(tmp_path, sources)


def test_text_among_the_numbers(tmp_path):
    sources = write(tmp_path / "tpm.txt", "Hi_A_1\tHi_B_1\na\t1\t2\nb\tmany\t4\n")
    with pytest.raises(ValueError, match=r"tpm\.txt, line 3: .*many"):
        parsers.parse_pollen(tmp_path, sources)


def deng_archive(path, cells, genes=("Xist", "Sox2", "Cdx2"), column="RPKM"):
    values = {}
    with tarfile.open(path, "w") as archive:
        for number, name in enumerate(cells):
            rpkm = values[name] = rng.random(len(genes)).round(4)
            lines = [f"#Gene_symbol\tRefseq_IDs\t{column}\treads\tin_exons\tof_all"]
            lines += [f"{g}\tNM_{i}\t{v}\t{i}\t0\t0" for i, (g, v) in enumerate(zip(genes, rpkm, strict=True))]
            packed = gzip.compress("\n".join(lines).encode())
            info = tarfile.TarInfo(f"GSM{1112490 + number}_{name}_expression.txt.gz")
            info.size = len(packed)
            archive.addfile(info, io.BytesIO(packed))
    return (Source(path.name),), values


def test_deng(tmp_path):
    cells = [
        "16cell_1-10",
        "zy1",
        "early2cell_0r-1",
        "8cell_5-2",
        "8cell_2pooled_1",
        "fibroblast_11_BxC",
        "lateblast_2-1",
    ]
    sources, values = deng_archive(tmp_path / "raw.tar", cells)
    data = parsers.parse_deng(tmp_path, sources)
    kept = ["16cell_1-10", "zy1", "early2cell_0r-1", "8cell_5-2", "lateblast_2-1"]
    assert data.labels.tolist() == ["16cell", "zy", "early2cell", "8cell", "lateblast"]
    assert np.array_equal(data.X, [values[name] for name in kept])
    assert data.features.tolist() == ["Xist", "Sox2", "Cdx2"]
    assert data.notes == ("left out, being no cells of an embryo's stage: 1 8cell, 1 fibroblast",)


def test_deng_without_its_column(tmp_path):
    sources, _ = deng_archive(tmp_path / "raw.tar", ["zy1", "16cell_1-1"], column="FPKM")
    with pytest.raises(ValueError, match=r"zy1_expression.*no third column named RPKM"):
        parsers.parse_deng(tmp_path, sources)


def test_deng_with_nothing_in_it(tmp_path):
    sources, _ = deng_archive(tmp_path / "raw.tar", ["liver_1"])
    with pytest.raises(ValueError, match=r"raw\.tar holds no file named GSM"):
        parsers.parse_deng(tmp_path, sources)


def test_treutlein(tmp_path):
    X = rng.random((3, 4)).round(3)
    lines = ["\t".join((*parsers.TREUTLEIN_COLUMNS, "Ascl1", "Myt1l", "Brn2", "Tau"))]
    classes = ["MEF", "Neuron", "MEF"]
    lines += ["\t".join((f"cell{i}", classes[i], "NA", "e", "day2", *map(str, X[i]))) for i in range(3)]
    sources = write(tmp_path / "annotated.txt.gz", "\n".join(lines))
    data = parsers.parse_treutlein(tmp_path, sources)
    assert np.array_equal(data.X, X)
    assert data.labels.tolist() == classes
    assert data.features.tolist() == ["Ascl1", "Myt1l", "Brn2", "Tau"]
    assert data.samples.tolist() == ["cell0", "cell1", "cell2"]
    assert data.values == "log2"


def test_treutlein_of_other_columns(tmp_path):
    sources = write(tmp_path / "t.txt", "cell_name\tgroup\ta\tb\tc\td\nx\ty\t1\t2\t3\t4\n")
    with pytest.raises(ValueError, match="the first columns are"):
        parsers.parse_treutlein(tmp_path, sources)


def test_kumar(tmp_path):
    genes = ["Nanog", "Klf4", "Nes"]
    stem, neural = rng.random((3, 4)).round(3), rng.random((3, 2)).round(3)
    one = write(
        tmp_path / "mESC.csv.gz", table(stem, genes, ["mESC_LIF_1", "mESC_LIF_2", "Dgcr8_1", "Dgcr8_12"], ",", "Gene")
    )
    two = write(tmp_path / "NPC.csv.gz", table(neural, genes, ["NPC_1", "NPC_2"], ",", "Gene"))
    data = parsers.parse_kumar(tmp_path, one + two)
    assert np.array_equal(data.X, np.hstack([stem, neural]).T)
    assert data.labels.tolist() == ["mESC_LIF", "mESC_LIF", "Dgcr8", "Dgcr8", "NPC", "NPC"]
    assert data.features.tolist() == genes


def test_kumar_of_different_genes(tmp_path):
    one = write(tmp_path / "mESC.csv", "Gene,a_1,a_2\nx,1,2\ny,3,4\n")
    two = write(tmp_path / "NPC.csv", "Gene,n_1,n_2\nx,1,2\nz,3,4\n")
    with pytest.raises(ValueError, match=r"NPC\.csv lists other genes than mESC\.csv"):
        parsers.parse_kumar(tmp_path, one + two)


def usoskin_table(level):
    n, genes = len(level), ["Th", "Nefh", "P2rx3"]
    X = rng.random((3, n)).round(3)
    rows = [[""] * (9 + n)]
    for name in ("Picking", "Library", "Batch", "Reads", "Sex", "Level 1", "Level 2", "Level 3", "", ""):
        values = level if name == "Level 1" else [f"{name}{i}" for i in range(n)]
        rows.append([""] * 8 + [name, *values])
    rows += [[gene] + [""] * 8 + [str(value) for value in X[g]] for g, gene in enumerate(genes)]
    text = "\n".join(",".join(f'"{value}"' for value in row) for row in rows)
    return text, X


def test_usoskin(tmp_path):
    level = ["NF", "NoN", "TH", "PEP", "Central, unsolved", "NP", "NF", "NF outlier"]
    text, X = usoskin_table(level)
    data = parsers.parse_usoskin(tmp_path, write(tmp_path / "u.csv", text))
    kept = [0, 2, 3, 5, 6]
    assert data.labels.tolist() == ["NF", "TH", "PEP", "NP", "NF"]
    assert np.array_equal(data.X, X.T[kept])
    assert data.features.tolist() == ["Th", "Nefh", "P2rx3"]
    assert data.notes == ("left out, being none of the four classes: 1 Central, unsolved, 1 NF outlier, 1 NoN",)


def test_usoskin_of_another_layout(tmp_path):
    text, _ = usoskin_table(["one", "two", "two"])
    with pytest.raises(ValueError, match="row 7 holds none of the classes NF, NP, PEP, TH, but one, two"):
        parsers.parse_usoskin(tmp_path, write(tmp_path / "u.csv", text))
    with pytest.raises(ValueError, match="is not laid out as the external table 1"):
        parsers.parse_usoskin(tmp_path, write(tmp_path / "v.csv", "a,b\n1,2\n"))


def test_koh(tmp_path):
    X = rng.random((3, 4)).round(3)
    cells = ["SRR1", "SRR2", "SRR3", "SRR4"]
    quoted = table(X, ['"ENSG1"', '"ENSG2"', '"ENSG3"'], [f'"{c}"' for c in cells], ",", '""')
    tpm = write(tmp_path / "koh_tpm.csv", quoted)
    about = '"","Run","LibraryName"\n' + "".join(f'"{c}","x","{"AB"[i // 2]}"\n' for i, c in enumerate(reversed(cells)))
    data = parsers.parse_koh(tmp_path, tpm + write(tmp_path / "koh_cells.csv", about))
    assert np.array_equal(data.X, X.T)
    assert data.labels.tolist() == ["B", "B", "A", "A"]
    assert data.features.tolist() == ["ENSG1", "ENSG2", "ENSG3"]


@pytest.mark.parametrize(
    ("about", "says"),
    [("cell,Run\nSRR1,x\nSRR2,x\n", "no column named LibraryName"), ("cell,LibraryName\nSRR1,A\n", "no row for SRR2")],
)
def test_koh_of_other_columns(tmp_path, about, says):
    tpm = write(tmp_path / "koh_tpm.csv", table(rng.random((2, 2)), "ab", ["SRR1", "SRR2"], ",", ""))
    with pytest.raises(ValueError, match=says):
        parsers.parse_koh(tmp_path, tpm + write(tmp_path / "koh_cells.csv", about))


def test_wine():
    data = parsers.parse_wine(None, ())
    assert data.X.shape == (178, 13)
    assert np.allclose(data.X.std(axis=0), 1)
    assert data.n_classes == 3


def test_faces_and_images_come_by_way_of_scikit_learn(tmp_path, monkeypatch):
    import sklearn.datasets
    from sklearn.utils import Bunch

    asked = {}

    def faces(data_home):
        asked["faces"] = data_home
        return Bunch(data=np.ones((4, 3), np.float32), target=np.array([0, 0, 1, 1]))

    def openml(name, **options):
        asked["name"], asked["images"] = name, options["data_home"]
        return np.ones((4, 3)), np.array(list("0099"), dtype=object)

    monkeypatch.setattr(sklearn.datasets, "fetch_olivetti_faces", faces)
    monkeypatch.setattr(sklearn.datasets, "fetch_openml", openml)
    assert parsers.parse_olivetti(tmp_path, ()).labels.tolist() == ["0", "0", "1", "1"]
    images = parsers.parse_fashion(tmp_path, ())
    assert images.labels.tolist() == list("0099")
    assert images.values == "complete"
    assert asked == {"faces": str(tmp_path), "name": "Fashion-MNIST", "images": str(tmp_path)}
