"""Tables of triplets (user, item, rating): a sparse array in which what is not stored is a hole."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from nanfold.io.cells import Progress, TextFile
from nanfold.io.table import FileError, listed
from nanfold.io.text import Layout


def read_triplets(
    path: Path,
    *,
    separator: str | None = None,
    encoding: str | None = None,
    header: bool | None = None,
    progress: Progress = None,
) -> dict[str, Any]:
    """Users as samples and items as features, both in the order in which they first appear; one rating a line."""
    reading = TextFile(path, separator, encoding, progress)
    users, items, ratings = _Codes(), _Codes(), _Ratings(path)
    lines_of: list[int] = []
    shape: Layout | None = None
    with reading.blocks() as blocks:
        for lines, rows in blocks:
            if shape is None:
                shape = Layout(rows, _triplet_header(rows[0], reading) if header is None else header, False, reading)
                if shape.width < 3:
                    raise FileError(
                        f"{path} has {shape.width} column{'' if shape.width == 1 else 's'}, but triplets need three: "
                        "user, item and rating."
                    )
                if shape.header:
                    lines, rows = lines[1:], rows[1:]
            for line, row in zip(lines, rows, strict=True):
                if len(row) != shape.width:
                    reading.refuse_ragged(line, row)
            columns = list(zip(*rows, strict=True)) or [()] * 3
            users.add(columns[0])
            items.add(columns[1])
            ratings.add(list(columns[2]), lines, reading)
            lines_of += lines
    if shape is None:
        raise FileError(f"{path} is empty; triplets need three columns: user, item and rating.")
    values, known = ratings.collected()
    rows_, columns_ = users.collected(), items.collected()
    _refuse_unnamed(users, items, rows_, columns_, lines_of, path)
    _refuse_repeated(rows_, columns_, users, items, lines_of, path)
    X = sparse.csr_array((values[known], (rows_[known], columns_[known])), shape=(len(users.names), len(items.names)))
    extra = [shape.names[s] if shape.names else f"column {s + 1}" for s in range(3, shape.width)]
    notes = (f"not used: {listed(extra)}",) if extra else ()
    return {
        "X": X,
        "sample_names": list(users.names),
        "feature_names": list(items.names),
        "labels": {},
        "unstored": True,
        "notes": notes,
    }


def _triplet_header(first: list[str], reading: TextFile) -> bool:
    """Users and items may have names, so that only the rating tells a header from the rest."""
    return len(first) > 2 and reading.number(first[2]) is None


class _Codes:
    """Names and the number of each, in the order of appearance."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self._parts: list[np.ndarray] = []

    def add(self, cells: Iterable[str]) -> None:
        names = self.names
        self._parts.append(np.array([names.setdefault(cell.strip(), len(names)) for cell in cells], dtype=np.int64))

    def collected(self) -> np.ndarray:
        return np.concatenate(self._parts)


class _Ratings:
    """The third column."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._parts: list[np.ndarray] = []

    def add(self, cells: list[str], lines: list[int], reading: TextFile) -> None:
        values = reading.floats(cells)
        if values is None:
            bad = next(i for i, cell in enumerate(cells) if reading.number(cell) is None)
            raise FileError(
                f"{self.path}, line {lines[bad]}: the rating {cells[bad]!r} is not a number; the columns must be user, "
                "item and rating, in this order."
            )
        if np.isinf(values).any():
            line = lines[int(np.argmax(np.isinf(values)))]
            raise FileError(f"{self.path}, line {line}: the rating is infinite; remove the line if it is not known.")
        self._parts.append(values)

    def collected(self) -> tuple[np.ndarray, np.ndarray]:
        """The values, and which are known."""
        values = np.concatenate(self._parts)
        return values, ~np.isnan(values)


def _refuse_unnamed(
    users: _Codes, items: _Codes, rows: np.ndarray, columns: np.ndarray, lines: list[int], path: Path
) -> None:
    for what, codes, places in (("user", users, rows), ("item", items, columns)):
        if "" in codes.names:
            line = lines[int(np.argmax(places == codes.names[""]))]
            raise FileError(f"{path}, line {line} names no {what}; add it, or remove the line.")


def _refuse_repeated(
    rows: np.ndarray, columns: np.ndarray, users: _Codes, items: _Codes, lines: list[int], path: Path
) -> None:
    keys = rows * max(len(items.names), 1) + columns
    order = np.argsort(keys, kind="stable")
    twice = np.flatnonzero(np.diff(keys[order]) == 0)
    if len(twice):
        first, second = order[twice[0]], order[twice[0] + 1]
        user, item = list(users.names)[rows[first]], list(items.names)[columns[first]]
        raise FileError(
            f"{path}, lines {lines[first]} and {lines[second]} both rate item {item!r} for user {user!r}; keep one of "
            "them, or their mean."
        )
