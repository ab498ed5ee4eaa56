"""From the files that the sets were published as to a `Dataset`, one function a set."""

import contextlib
import csv
import gzip
import io
import re
import sys
import tarfile
import urllib.error
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from nanfold.datasets.cache import Source
from nanfold.datasets.dataset import Dataset

# Pollen's columns are named Hi_CLASS_NUMBER; these classes are called otherwise in print.
POLLEN_NAMES = {"GW21.2": "GW21+3"}
# The stages of Deng's embryos as their files name them, GSM1112490_16cell_1-10_expression.txt.gz.
DENG_STAGES = (
    *("zy", "early2cell", "mid2cell", "late2cell", "4cell", "8cell", "16cell"),
    *("earlyblast", "midblast", "lateblast"),
)
DENG_FILE = re.compile(rf"GSM\d+_({'|'.join(DENG_STAGES)})_?(\w*-?\w+)_expression\.txt(\.gz)?$")
# What stands before the genes in Treutlein's table, a row a cell.
TREUTLEIN_COLUMNS = ("cell_name", "assignment", "log_tauGFP_intensity", "experiment", "time_point")
# Usoskin's table: annotation above the expression, its names in the ninth column, genes in the first.
USOSKIN_FIRST_CELL, USOSKIN_LEVEL, USOSKIN_FIRST_GENE = 9, 6, 11
USOSKIN_CLASSES = ("NF", "NP", "PEP", "TH")


def parse_pollen(raw: Path, sources: tuple[Source, ...]) -> Dataset:
    """Genes in rows, TPM; the header may lack a field above the names of the genes, as R writes it."""
    header, genes, X = _table(raw / sources[0].name, "\t")
    labels = [name.split("_")[1] if name.count("_") >= 2 else "" for name in header]
    if "" in labels:
        raise ValueError(f"{sources[0].name}: column {str(header[labels.index('')])!r} is not named Hi_CLASS_NUMBER.")
    classes = np.array([POLLEN_NAMES.get(name, name) for name in labels])
    return Dataset("pollen", X.T, classes, "linear", genes, header)


def parse_deng(raw: Path, sources: tuple[Source, ...]) -> Dataset:
    """A tar with a table for each cell, of which the third column holds RPKM; the class is the stage in its name."""
    rows, labels, samples, others = [], [], [], Counter[str]()
    genes: np.ndarray | None = None
    with _archive(raw / sources[0].name) as archive:
        for member in sorted(archive.getmembers(), key=lambda m: m.name):
            name = Path(member.name).name
            found = DENG_FILE.match(name)
            if not member.isfile() or found is None or _is_technical(found[2]):
                others[name.split("_")[1] if "_" in name else name] += member.isfile()
                continue
            own, values = _deng_cell(archive, member, name)
            if genes is None:
                genes = own
            elif not np.array_equal(genes, own):
                raise ValueError(f"{sources[0].name}: {name} lists other genes than the cells before it.")
            rows.append(values)
            labels.append(found[1])
            samples.append(name.split("_expression")[0])
    if genes is None:
        raise ValueError(f"{sources[0].name} holds no file named GSM..._STAGE..._expression.txt.gz.")
    left = ", ".join(f"{count} {what}" for what, count in sorted(others.items()) if count)
    notes = (f"left out, being no cells of an embryo's stage: {left}",) if left else ()
    return Dataset("deng", np.array(rows), np.array(labels), "linear", genes, np.array(samples), notes)


def _archive(path: Path) -> tarfile.TarFile:
    try:
        return tarfile.open(path)
    except tarfile.ReadError as error:
        # tarfile says so in a line for every compression that it knows.
        raise ValueError(f"{path.name} is no tar archive.") from error


def _is_technical(rest: str) -> bool:
    """Whether the name says that lysates were pooled or split, or that the protocol was another one."""
    return bool(re.search(r"pool|split|smart", rest, re.IGNORECASE))


def _deng_cell(archive: tarfile.TarFile, member: tarfile.TarInfo, name: str) -> tuple[np.ndarray, np.ndarray]:
    file = archive.extractfile(member)
    assert file is not None  # it is a regular file
    data = file.read()
    lines = (gzip.decompress(data) if name.endswith(".gz") else data).decode("utf-8").splitlines()
    if not lines or "RPKM" not in lines[0].split("\t")[2:3]:
        raise ValueError(f"{name} has no third column named RPKM.")
    table = [line.split("\t") for line in lines[1:] if line.strip()]
    return np.array([row[0] for row in table]), np.array([float(row[2]) for row in table])


def parse_treutlein(raw: Path, sources: tuple[Source, ...]) -> Dataset:
    """Cells in rows, five columns of annotation, then log2(1 + FPKM) of each gene."""
    rows = _rows(raw / sources[0].name, "\t")
    header = _header(rows, sources[0].name)
    if tuple(header[:5]) != TREUTLEIN_COLUMNS:
        raise ValueError(f"{sources[0].name}: the first columns are {header[:5]}, and not {list(TREUTLEIN_COLUMNS)}.")
    samples, labels, values = [], [], []
    for row in rows:
        samples.append(row[0])
        labels.append(row[1])
        values.append(np.array(row[5:], dtype=np.float64))
    X = _rectangle(values, sources[0].name)
    return Dataset("treutlein", X, np.array(labels), "log2", np.array(header[5:]), np.array(samples))


def parse_koh(raw: Path, sources: tuple[Source, ...]) -> Dataset:
    """The two tables that R exported: TPM, genes in rows; and what is known of each cell, its class as LibraryName."""
    tpm, cells = (raw / source.name for source in sources)
    header, genes, X = _table(tpm, ",")
    rows = _rows(cells, ",")
    columns = _header(rows, cells.name)
    if "LibraryName" not in columns:
        raise ValueError(f"{cells.name} has no column named LibraryName; there are {', '.join(columns)}.")
    at = columns.index("LibraryName")
    classes = {row[0]: row[at] for row in rows}
    missing = [name for name in header.tolist() if name not in classes]
    if missing:
        raise ValueError(f"{cells.name} has no row for {missing[0]}, which is a column of {tpm.name}.")
    return Dataset("koh", X.T, np.array([classes[name] for name in header.tolist()]), "linear", genes, header)


def parse_usoskin(raw: Path, sources: tuple[Source, ...]) -> Dataset:
    """The external table: reads per million, genes in rows below the annotation; neurons of the four main classes."""
    rows = list(_rows(raw / sources[0].name, ","))
    if len(rows) <= USOSKIN_FIRST_GENE or len(rows[USOSKIN_LEVEL]) <= USOSKIN_FIRST_CELL:
        raise ValueError(f"{sources[0].name} is not laid out as the external table 1 of Usoskin and others.")
    level = np.array(rows[USOSKIN_LEVEL][USOSKIN_FIRST_CELL:])
    kept = np.isin(level, USOSKIN_CLASSES)
    if not kept.any():
        raise ValueError(
            f"{sources[0].name}: row {USOSKIN_LEVEL + 1} holds none of the classes {', '.join(USOSKIN_CLASSES)}, but "
            f"{', '.join(np.unique(level)[:5])}."
        )
    table = [row for row in rows[USOSKIN_FIRST_GENE:] if row and row[0]]
    X = _rectangle([np.array(row[USOSKIN_FIRST_CELL:], dtype=np.float64) for row in table], sources[0].name)
    others = Counter(level[~kept].tolist())
    left = ", ".join(f"{count} {what or 'without a class'}" for what, count in sorted(others.items()))
    return Dataset(
        "usoskin",
        X.T[kept],
        level[kept],
        "linear",
        np.array([row[0] for row in table]),
        notes=(f"left out, being none of the four classes: {left}",) if left else (),
    )


def parse_kumar(raw: Path, sources: tuple[Source, ...]) -> Dataset:
    """Two tables of TPM, genes in rows, of stem cells and precursors; a column's name less its number is the class."""
    headers, tables, genes = [], [], None
    for source in sources:
        header, own, X = _table(raw / source.name, ",")
        if genes is None:
            genes = own
        elif not np.array_equal(genes, own):
            raise ValueError(f"{source.name} lists other genes than {sources[0].name}.")
        headers.append(header)
        tables.append(X.T)
    samples = np.concatenate(headers)
    labels = np.array(
        [re.sub(r"[\W_]*(rep|cell)?[\W_]*\d+$", "", name, flags=re.IGNORECASE) for name in samples.tolist()]
    )
    return Dataset("kumar", np.vstack(tables), labels, "linear", genes, samples)


def parse_olivetti(raw: Path, sources: tuple[Source, ...]) -> Dataset:
    """Faces of 40 persons, from scikit-learn."""
    from sklearn.datasets import fetch_olivetti_faces

    with _downloading("Olivetti faces"):
        faces = fetch_olivetti_faces(data_home=str(raw))
    return Dataset("olivetti", faces.data.astype(np.float64), faces.target.astype(str), "complete")


def parse_fashion(raw: Path, sources: tuple[Source, ...]) -> Dataset:
    """All 70,000 images of Fashion-MNIST, from OpenML by way of scikit-learn."""
    from sklearn.datasets import fetch_openml

    with _downloading("Fashion-MNIST"):
        X, y = fetch_openml("Fashion-MNIST", version=1, as_frame=False, return_X_y=True, data_home=str(raw))
    return Dataset("fashion", X.astype(np.float32), y.astype(str), "complete")


@contextlib.contextmanager
def _downloading(title: str) -> Iterator[None]:
    """What scikit-learn says on the way goes beside results and not among them; what stops it, into one sentence."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(sys.stderr):
        warnings.simplefilter("ignore", UserWarning)  # that it tries again
        try:
            yield
        except (urllib.error.URLError, ConnectionError, TimeoutError) as error:
            raise ConnectionError(
                f"{title} could not be downloaded: {getattr(error, 'reason', None) or error}. Try again later, or name "
                "a folder that holds the set."
            ) from error


def parse_wine(raw: Path, sources: tuple[Source, ...]) -> Dataset:
    """Wine comes with scikit-learn; its columns have different units, and are standardised."""
    from sklearn.datasets import load_wine
    from sklearn.preprocessing import StandardScaler

    wine = load_wine()
    X = StandardScaler().fit_transform(wine.data)
    return Dataset("wine", X, np.asarray(wine.target_names)[wine.target], "complete", np.array(wine.feature_names))


def _rows(path: Path, delimiter: str) -> Iterator[list[str]]:
    """The fields of each line, of a plain or compressed file."""
    with open(path, "rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    with gzip.open(path, "rb") if packed else open(path, "rb") as stream:
        text = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
        yield from (row for row in csv.reader(text, delimiter=delimiter) if row)


def _table(path: Path, delimiter: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Names of the columns, names of the rows, and the numbers, of a table whose first column names the rows."""
    rows = _rows(path, delimiter)
    header = _header(rows, path.name)
    names, values = [], []
    for number, row in enumerate(rows, start=2):
        names.append(row[0])
        try:
            values.append(np.array(row[1:], dtype=np.float64))
        except ValueError as error:
            raise ValueError(f"{path.name}, line {number}: {error}.") from error
    X = _rectangle(values, path.name)
    # R names the columns of numbers only.
    columns = header if len(header) == X.shape[1] else header[1:]
    if len(columns) != X.shape[1]:
        raise ValueError(f"{path.name}: the header names {len(columns)} columns, and there are {X.shape[1]}.")
    return np.array(columns), np.array(names), X


def _header(rows: Iterator[list[str]], name: str) -> list[str]:
    header = next(rows, None)
    if header is None:
        raise ValueError(f"{name} is empty.")
    return header


def _rectangle(values: list[np.ndarray], name: str) -> np.ndarray:
    lengths = {len(row) for row in values}
    if not lengths:
        raise ValueError(f"{name} has nothing below its first line; it may be cut short.")
    if len(lengths) > 1:
        raise ValueError(
            f"{name}: its rows differ in length, of {min(lengths)} to {max(lengths)} numbers; it may be cut short."
        )
    return np.vstack(values)
