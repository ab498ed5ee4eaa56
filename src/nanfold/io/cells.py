"""Text files on their way from bytes to rows of cells: gzip, encodings, separators, holes and numbers."""

import csv
import gzip
import io
import math
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from nanfold.io.table import FileError

# What stands for a hole, as pandas and R write it and as people do.
HOLES = frozenset(
    {"", "NA", "N/A", "n/a", "na", "#N/A", "#NA", "<NA>", "NaN", "nan", "NAN", "-NaN", "-nan", "NULL", "Null", "null"}
    | {"None", "none", "?", ".", "-", "--", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"}
)
SEPARATORS = ",;\t"
BLOCK_CELLS = 500_000

Progress = Callable[[float], None] | None
Row = list[str]


class TextFile:
    """One file on its way from bytes to rows of cells."""

    def __init__(self, path: Path, separator: str | None, encoding: str | None, progress: Progress) -> None:
        self.path, self.encoding, self.progress = path, encoding, progress
        self.width: int | None = None
        with open_bytes(path) as raw:
            start = read_start(path, raw, 1 << 16)
        if self.encoding is None:
            self.encoding = "utf-16" if start[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
        if b"\0" in start and not self.encoding.startswith("utf-16"):
            raise FileError(f"{path} holds binary data and not text; give its true format by its ending.")
        self.separator = separator or self._find_separator(start)
        self.decimal_comma = self.separator == ";"
        self._hole = dict.fromkeys(HOLES, math.nan)

    def _find_separator(self, start: bytes) -> str:
        if self.path.name.lower().removesuffix(".gz").endswith((".tsv", ".tab")):
            return "\t"
        try:
            text = start.decode(self.encoding or "utf-8", errors="ignore")
        except LookupError:
            raise FileError(f"There is no encoding {self.encoding!r}; use, for example, utf-8 or latin-1.") from None
        lines = [line for line in text.splitlines() if line.strip()]
        counts = {separator: lines[0].count(separator) if lines else 0 for separator in SEPARATORS}
        return max(SEPARATORS, key=lambda separator: counts[separator])

    def number(self, cell: str) -> float | None:
        """The number that a cell holds, NaN for a hole, None for text."""
        cell = cell.strip()
        if cell in HOLES:
            return math.nan
        try:
            # Python reads 1_000 as a number; a table means a name by it.
            return None if "_" in cell else float(cell.replace(",", ".", 1) if self.decimal_comma else cell)
        except ValueError:
            return None

    def floats(self, cells: list[str]) -> np.ndarray | None:
        """The numbers of many cells, or None if one of them is text."""
        try:
            values = np.fromiter(map(float, map(self._hole.get, cells, cells)), np.float64, len(cells))
        except ValueError:
            found = [self.number(cell) for cell in cells]
            return None if any(value is None for value in found) else np.array(found, dtype=np.float64)
        return None if "_" in "".join(cells) else values

    @contextmanager
    def blocks(self) -> Iterator[Iterator[tuple[list[int], list[Row]]]]:
        """Consecutive rows with the lines they end on; what is wrong with the file becomes one sentence."""
        with open_bytes(self.path) as raw, text_errors(self.path, str(self.encoding)):
            stream = io.TextIOWrapper(raw, encoding=self.encoding, newline="")
            yield self._blocks(stream, raw)

    def _blocks(self, stream: IO[str], raw: Any) -> Iterator[tuple[list[int], list[Row]]]:
        reader = csv.reader(stream, delimiter=self.separator, strict=True)
        size = self.path.stat().st_size
        rows: list[Row] = []
        lines: list[int] = []
        cells = 0
        for row in self._checked(reader):
            if not row or (len(row) == 1 and not row[0].strip()):
                continue  # an empty line
            rows.append(row)
            lines.append(reader.line_num)
            cells += len(row)
            if cells > BLOCK_CELLS and len(rows) > 1:
                yield lines, rows
                rows, lines, cells = [], [], 0
                if self.progress:
                    below = getattr(raw, "fileobj", None) or raw
                    self.progress(min(below.tell() / max(size, 1), 1.0))
        if rows:
            yield lines, rows

    def _checked(self, reader: Any) -> Iterator[Row]:
        try:
            yield from reader
        except csv.Error as error:
            raise FileError(
                f"{self.path}, line {reader.line_num} cannot be cut into cells: {error}; look for a double quote that "
                "is not closed, here or above."
            ) from error

    def refuse_ragged(self, line: int, row: Row) -> None:
        """Raise an error for a line of another length."""
        raise FileError(
            f"{self.path}, line {line} has {_cells(len(row))}, but the lines before it have {self.width}; write NA "
            "where a value is missing, and put text that contains the separator between double quotes."
        )


def _cells(count: int) -> str:
    return f"{count} cell{'' if count == 1 else 's'}"


def open_bytes(path: Path) -> Any:
    """The bytes of a file, unpacked if they are gzipped, whatever its name."""
    with open(path, "rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
    return gzip.open(path, "rb") if packed else open(path, "rb")


def read_start(path: Path, raw: Any, size: int) -> bytes:
    """The first bytes of a stream of `open_bytes`."""
    with unpacking(path):
        return raw.read(size)


@contextmanager
def unpacking(path: Path) -> Iterator[None]:
    """What can be wrong with gzipped bytes, as one sentence."""
    try:
        yield
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise FileError(f"{path} is a gzip file that ends early or is damaged; copy or download it again.") from error


@contextmanager
def text_errors(path: Path, encoding: str) -> Iterator[None]:
    """What can be wrong with the text of a file, as one sentence."""
    try:
        with unpacking(path):
            yield
    except UnicodeDecodeError as error:
        raise FileError(_not_decoded(path, encoding)) from error
    except LookupError as error:
        raise FileError(f"There is no encoding {encoding!r}; use, for example, utf-8 or latin-1.") from error


def _not_decoded(path: Path, encoding: str) -> str:
    name = encoding.removesuffix("-sig").upper()
    remedy = "save the file as UTF-8, or name its encoding (for example latin-1)"
    if not encoding.startswith("utf-16"):
        with open_bytes(path) as raw:
            for number, line in enumerate(raw, start=1):
                try:
                    line.decode(encoding)
                except UnicodeDecodeError as error:
                    return f"{path}, line {number} is not {name} (byte 0x{line[error.start]:02x}); {remedy}."
    return f"{path} is not {name}; {remedy}."
