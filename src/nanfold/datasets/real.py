"""The paper's nine data sets, and public sets that stand in for some of them: what they are and how to load them."""

import csv
import gzip
import tarfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nanfold.datasets import folder as folders
from nanfold.datasets.cache import Cache, Source, draw_bar
from nanfold.datasets.dataset import Dataset, stratified
from nanfold.datasets.parsers import (
    parse_deng,
    parse_fashion,
    parse_koh,
    parse_kumar,
    parse_olivetti,
    parse_pollen,
    parse_treutlein,
    parse_usoskin,
    parse_wine,
)

GEO = "https://ftp.ncbi.nlm.nih.gov/geo/series"
MANUAL = "https://s3.amazonaws.com/scrnaseq-public-datasets/manual-data"
# What parsers, and the libraries that they read with, say of files that are not as they should be.
DAMAGE = (
    *(ValueError, KeyError, IndexError, EOFError),
    *(csv.Error, gzip.BadGzipFile, tarfile.TarError, zlib.error),
)
# The seed with which a set's samples are drawn, so that everyone has the same.
SAMPLE_SEED = 0


@dataclass(frozen=True)
class Spec:
    """What is known of a set.

    Attributes
    ----------
    name, title : what it is called on the command line, and in tables
    expression : whether zeros may be dropouts
    files : the names under which a folder may hold it
    parse : makes it from the files of `sources`; None if it is only read from folders
    sources : what is downloaded
    paper : samples, features and classes in the paper's Table 1; None where we do not know them
    values : what the values of a folder's file are, where the file does not say so and its numbers would mislead
    n_samples : how many samples are drawn, evenly from the classes
    of_paper : whether the paper has it, or it stands in for those that cannot be had
    part_of : the paper's set that it is a part of, if it is
    by_hand : how the files are come by where they cannot be downloaded
    """

    name: str
    title: str
    expression: bool
    files: tuple[str, ...]
    parse: Callable[[Path, tuple[Source, ...]], Dataset] | None = None
    sources: tuple[Source, ...] = ()
    paper: tuple[int | None, int | None, int | None] = (None, None, None)
    values: str | None = None
    n_samples: int | None = None
    of_paper: bool = True
    part_of: str | None = None
    by_hand: str | None = None


KOH_BY_HAND = (
    "conquer gives Koh as an R object, SRP073808.rds, which only R reads; export it there with "
    "m <- readRDS('SRP073808.rds'); library(MultiAssayExperiment); "
    "write.csv(assays(experiments(m)[['gene']])[['TPM']], 'koh_tpm.csv'); "
    "write.csv(as.data.frame(colData(m)), 'koh_cells.csv')"
)

SPECS = {
    spec.name: spec
    for spec in (
        Spec(
            "pollen",
            "Pollen",
            True,
            ("pollen",),
            parse_pollen,
            (Source("NBT_hiseq_linear_tpm_values.txt", f"{MANUAL}/pollen/NBT_hiseq_linear_tpm_values.txt"),),
            (301, None, 11),
        ),
        Spec(
            "deng",
            "Deng",
            True,
            ("deng",),
            parse_deng,
            (Source("GSE45719_RAW.tar", f"{GEO}/GSE45nnn/GSE45719/suppl/GSE45719_RAW.tar"),),
            (286, None, None),
        ),
        Spec(
            "treutlein",
            "Treutlein",
            True,
            ("treutlein",),
            parse_treutlein,
            (
                Source(
                    "GSE67310_iN_data_log2FPKM_annotated.txt.gz",
                    f"{GEO}/GSE67nnn/GSE67310/suppl/GSE67310_iN_data_log2FPKM_annotated.txt.gz",
                ),
            ),
        ),
        Spec(
            "koh",
            "Koh",
            True,
            ("koh",),
            parse_koh,
            (Source("koh_tpm.csv"), Source("koh_cells.csv")),
            by_hand=KOH_BY_HAND,
        ),
        Spec(
            "usoskin",
            "Usoskin",
            True,
            ("usoskin",),
            parse_usoskin,
            (
                Source(
                    "usoskin_external_table_1.csv",
                    f"{MANUAL}/Usoskin+et+al.+External+resources+Table+1.csv",
                ),
            ),
        ),
        Spec(
            "kumar",
            "Kumar",
            True,
            ("kumar",),
            parse_kumar,
            tuple(
                Source(name, f"{GEO}/GSE60nnn/GSE60749/suppl/{name}")
                for name in (
                    "GSE60749_RnaSeq_single_cell_mESC_TPM.csv.gz",
                    "GSE60749_RnaSeq_single_cell_NPC_TPM.csv.gz",
                )
            ),
        ),
        Spec(
            "olivetti", "Olivetti faces", False, ("olivetti", "olivetti_faces"), parse_olivetti, paper=(400, 4096, 40)
        ),
        Spec(
            "fashion",
            "Fashion-MNIST",
            False,
            ("fashion", "fashion_mnist", "fashion_mnist_test"),
            parse_fashion,
            paper=(1000, 784, 10),
            n_samples=1000,
        ),
        Spec("wine", "Wine", False, ("wine",), parse_wine, paper=(178, 13, 3)),
        Spec(
            "pollen_simlr249",
            "Pollen, 249 cells",
            True,
            ("pollen_simlr249",),
            values="log10",
            of_paper=False,
            part_of="pollen",
        ),
        Spec(
            "deng231",
            "Deng, 231 cells",
            True,
            ("deng231_allelic_total", "deng231"),
            values="linear",
            of_paper=False,
            part_of="deng",
        ),
        Spec("yan90", "Yan", True, ("yan90",), values="linear", of_paper=False),
        Spec(
            "cellbench",
            "CellBench",
            True,
            ("cellbench_sc_celseq2", "cellbench"),
            values="counts",
            of_paper=False,
        ),
    )
}
PAPER_SETS = tuple(name for name, spec in SPECS.items() if spec.of_paper)


def load(
    name: str,
    data_dir: str | Path | None = None,
    *,
    cache_dir: str | Path | None = None,
    progress: Callable[[str, int, int | None], None] | None = draw_bar,
) -> Dataset:
    """One of the paper's data sets, or of those that stand in for them.

    Parameters
    ----------
    name : "pollen", "deng", "treutlein", "koh", "usoskin", "kumar", "olivetti", "fashion", "wine", or a stand-in:
        "pollen_simlr249", "deng231", "yan90", "cellbench"
    data_dir : a folder that holds the set as NAME.npz (X, labels, features, samples, and what the values are), as
        NAME_X.npz (a scipy CSR array) with NAME_labels.npy beside it, or as NAME.h5ad; nothing is downloaded then. None
        downloads it from its original source, once, into the cache.
    cache_dir : where downloads are kept; None for NANFOLD_CACHE, or nanfold in the user's cache folder
    progress : called with a file's name, the bytes that have come, and their total where it is known; None for silence

    Returns
    -------
    Dataset : X as published, `labels`, what the `values` are, and names of `features` and `samples` where known
    """
    spec = spec_of(name)
    data = _from_folder(spec, Path(data_dir)) if data_dir is not None else _from_source(spec, cache_dir, progress)
    if spec.n_samples is not None and len(data.X) != spec.n_samples:
        data = stratified(data, spec.n_samples, SAMPLE_SEED)
    return data


def spec_of(name: str) -> Spec:
    """What is known of the set of this name."""
    if name not in SPECS:
        raise ValueError(f"There is no data set named {name!r}; there are {', '.join(SPECS)}.")
    return SPECS[name]


def found_in(data_dir: str | Path) -> list[str]:
    """The sets that can be had from this folder; wine comes with scikit-learn."""
    folder = Path(data_dir)
    return [name for name, spec in SPECS.items() if folders.find(folder, spec.files) or name == "wine"]


def check_folder(data_dir: str | Path) -> Path:
    """The folder, or one sentence."""
    folder = Path(data_dir)
    if not folder.is_dir():
        raise ValueError(f"{folder} is not a folder.")
    return folder


def _from_folder(spec: Spec, folder: Path) -> Dataset:
    check_folder(folder)
    path = folders.find(folder, spec.files)
    if path is not None:
        values = spec.values if spec.expression else "complete"
        return folders.read(path, spec.name, values)
    if spec.name == "wine":
        return parse_wine(folder, ())
    raise ValueError(
        f"{folder} does not hold {spec.name}: there is no "
        f"{' and no '.join(f'{name}.npz, {name}_X.npz or {name}.h5ad' for name in spec.files)}."
    )


def _from_source(
    spec: Spec, cache_dir: str | Path | None, progress: Callable[[str, int, int | None], None] | None
) -> Dataset:
    if spec.parse is None:
        raise ValueError(f"{spec.name} is only read from a folder; name one with data_dir (--data-dir).")
    cache = Cache(cache_dir)
    kept = cache.kept(spec.name)
    if kept is not None:
        return kept
    if spec.by_hand is not None:
        missing = [source.name for source in spec.sources if not (cache.raw / source.name).is_file()]
        if missing:
            raise ValueError(f"{spec.by_hand}; then put {' and '.join(missing)} into {cache.raw}.")
    for source in spec.sources:
        cache.fetch(source, progress)
    try:
        data = spec.parse(cache.raw, spec.sources)
    except DAMAGE as error:
        raise ValueError(_damaged(spec, cache.raw, error)) from error
    cache.keep(data)
    return data


def _damaged(spec: Spec, raw: Path, error: Exception) -> str:
    """What is wrong with files that were downloaded, or put there, and how to come by others."""
    reason = " ".join(str(error).split()).rstrip(".") or f"it ends too early ({type(error).__name__})"
    if not spec.sources:
        return f"{spec.title} cannot be made of what was downloaded to {raw}: {reason}."
    names = " and ".join(source.name for source in spec.sources)
    what, it = ("is", "it") if len(spec.sources) == 1 else ("are", "them")
    if spec.by_hand is None:
        remedy = f"delete {it}, with the .sha256 beside {it}, to have {it} downloaded again"
    else:
        remedy = f"export {it} again"
    return f"{names} in {raw} {what} not what {spec.title} was published as: {reason}; {remedy}."


def shape_of(data: Dataset) -> tuple[int, int, int]:
    """Samples, features and classes, features as the paper counts them: genes that 2 cells or more have."""
    d = data.X.shape[1]
    if data.is_expression:
        d = int(np.sum(np.count_nonzero(data.X, axis=0) >= 2))
    return len(data.X), d, data.n_classes
