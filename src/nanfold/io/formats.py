"""Which format a file is in: by its ending, checked against its first bytes."""

from pathlib import Path

from nanfold.io.table import FileError

ENDINGS = {
    ".csv": "csv",
    ".txt": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".npy": "npy",
    ".npz": "npz",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".feather": "feather",
    ".arrow": "feather",
    ".mtx": "mtx",
    ".h5": "10x-h5",
    ".h5ad": "h5ad",
    ".zarr": "zarr",
}
KINDS = (*dict.fromkeys(ENDINGS.values()), "10x")
TEXT = ("csv", "tsv", "mtx")

# What people also have, and what to do with it.
REMEDIES = {
    ".xlsx": "save the sheet as csv first",
    ".xls": "save the sheet as csv first",
    ".ods": "save the sheet as csv first",
    ".pkl": "pickles are never loaded, because loading one runs code; save it as parquet or npz first",
    ".pickle": "pickles are never loaded, because loading one runs code; save it as parquet or npz first",
    ".joblib": "pickles are never loaded, because loading one runs code; save it as parquet or npz first",
    ".rds": "write it in R with write.csv first",
    ".rdata": "write it in R with write.csv first",
    ".mat": "save it as npz with scipy.io.loadmat and numpy.savez first",
    ".zip": "unpack it first",
    ".bz2": "unpack it first",
    ".xz": "unpack it first",
    ".zst": "unpack it first",
    ".tar": "unpack it first",
    ".tgz": "unpack it first",
}

# First bytes, what they mean, and the formats that begin so.
SIGNATURES: tuple[tuple[bytes, str, tuple[str, ...]], ...] = (
    (b"\x93NUMPY", "a numpy array", ("npy",)),
    (b"PK\x03\x04", "a zip archive", ("npz",)),
    (b"PK\x05\x06", "an empty zip archive", ("npz",)),
    (b"PAR1", "parquet", ("parquet",)),
    (b"ARROW1", "feather", ("feather",)),
    (b"FEA1", "feather", ("feather",)),
    (b"\x89HDF\r\n\x1a\n", "HDF5", ("10x-h5", "h5ad")),
    (b"%%MatrixMarket", "a Matrix Market file", ("mtx",)),
    (b"\x1f\x8b", "gzipped", TEXT),
    (b"BZh", "compressed by bzip2", ()),
    (b"\xfd7zXZ\x00", "compressed by xz", ()),
    (b"\x28\xb5\x2f\xfd", "compressed by zstd", ()),
    (b"%PDF", "a PDF", ()),
    (b"\xd0\xcf\x11\xe0", "an old Excel file", ()),
)


def kind_of(path: Path, asked: str | None) -> str:
    """The format of an existing path."""
    if asked is not None:
        if asked not in KINDS:
            raise FileError(f"The format must be one of {', '.join(KINDS)}; it is {asked!r}.")
        return asked
    ending = path.name.lower().removesuffix(".gz")
    ending = ending[ending.rfind(".") :] if "." in ending else ""
    if path.is_dir():
        if ending == ".zarr":
            return "zarr"
        if any((path / name).is_file() for name in ("matrix.mtx", "matrix.mtx.gz")):
            return "10x"
        raise FileError(
            f"{path} is a folder without a matrix.mtx or matrix.mtx.gz in it; name a file, or a folder of 10x or zarr."
        )
    if not path.exists():
        raise FileError(f"There is no file {path}.")
    if ending in REMEDIES:
        raise FileError(f"{path} cannot be read: {REMEDIES[ending]}.")
    if ending not in ENDINGS:
        raise FileError(
            f"The ending of {path} does not say what it is; rename it to one of {', '.join(ENDINGS)} (.gz may follow "
            "where it is text), or name its format."
        )
    return ENDINGS[ending]


def check_start(path: Path, kind: str) -> None:
    """Compare the first bytes of a file with its format."""
    with open(path, "rb") as file:
        start = file.read(16)
    if not start:
        raise FileError(f"{path} is empty; a table needs two samples and two features at least.")
    for signature, what, kinds in SIGNATURES:
        if start.startswith(signature):
            if kind in kinds:
                return
            remedy = f"rename it to end in {_ending(kinds[0])}" if kinds else "unpack or convert it first"
            raise FileError(f"{path} is read as {kind}, but its content is {what}; {remedy}.")
    expected = [what for _, what, kinds in SIGNATURES if kind in kinds and kind not in ("csv", "tsv")]
    if expected and kind not in ("csv", "tsv"):
        raise FileError(f"{path} is read as {kind}, but does not begin like such a file; give it its true ending.")


def _ending(kind: str) -> str:
    return next(ending for ending, name in ENDINGS.items() if name == kind)
