"""From the columns of a file to a table: which are features, which are labels, and which names the rows.

A column without text is a feature. A column with text is a label column, unless most of its known cells are numbers:
that is a column of numbers with something wrong in it, and an error. A first column of unique strings without holes
names the samples.
"""

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from nanfold.io.table import FileError, listed


@dataclass
class Columns:
    """The columns of a file.

    Attributes
    ----------
    names : one name a column, or None without a header
    numbers : (n, a) array of the columns without text
    number_places : their positions in the file
    texts : the cells of every other column, by position; "" is a hole
    row_names : whether the first column (a text column then) names the samples; None to find out
    notes : what else should be known of how the file was read
    """

    names: list[str] | None
    numbers: np.ndarray
    number_places: list[int]
    texts: dict[int, list[str]]
    row_names: bool | None = None
    notes: tuple[str, ...] = field(default=())

    def name(self, place: int) -> str:
        """The name of a column, or what stands for one."""
        return self.names[place] if self.names is not None and self.names[place] else f"column {place + 1}"


def assemble(columns: Columns, labels: Sequence[str], source: Path) -> dict[str, Any]:
    """X, sample_names, feature_names and labels of the columns."""
    places = sorted([*columns.number_places, *columns.texts])
    names = {place: columns.name(place) for place in places}
    if columns.names is not None:
        refuse_duplicates([names[place] for place in places], "columns", source)
    by_name = {name: place for place, name in names.items()}
    for label in labels:
        if label not in by_name:
            raise FileError(unknown_label(label, list(by_name), source))
    sample_names, first = None, places[0]
    rest = dict(columns.texts)
    if _names_rows(columns, first, names, labels):
        sample_names = rest.pop(first)
    found: dict[str, np.ndarray] = {names[place]: np.array(cells, dtype=str) for place, cells in rest.items()}
    kept = [j for j, place in enumerate(columns.number_places) if names[place] not in labels]
    for j, place in enumerate(columns.number_places):
        if names[place] in labels:
            found[names[place]] = columns.numbers[:, j].copy()
    everything = len(kept) == len(columns.number_places)
    feature_places = [columns.number_places[j] for j in kept]
    return {
        "X": np.ascontiguousarray(columns.numbers if everything else columns.numbers[:, kept]),
        "sample_names": sample_names,
        "feature_names": None if columns.names is None else [names[place] for place in feature_places],
        # In the order of the file, whatever kind they are.
        "labels": {name: found[name] for name in by_name if name in found},
        "notes": columns.notes,
    }


def _names_rows(columns: Columns, first: int, names: dict[int, str], labels: Sequence[str]) -> bool:
    if first not in columns.texts or names[first] in labels or columns.row_names is False:
        return False
    cells = columns.texts[first]
    return bool(columns.row_names) or ("" not in cells and len(set(cells)) == len(cells))


def refuse_duplicates(names: Sequence[str], what: str, source: Path) -> None:
    """Raise an error that names the first repeated name and both its places."""
    first: dict[str, int] = {}
    for place, name in enumerate(names):
        if name in first:
            raise FileError(
                f"{source}: {what} {first[name] + 1} and {place + 1} are both named {name!r}; rename one of them."
            )
        first[name] = place


def unknown_label(label: str, names: Sequence[str], source: Path) -> str:
    """The sentence for a label column that is not there."""
    near = difflib.get_close_matches(label, names, n=1)
    there = f"did you mean {near[0]!r}?" if near else f"there {'is' if len(names) == 1 else 'are'} {listed(names)}."
    if not names:
        there = "the file has no column that could be a label."
    return f"{source} has no column {label!r} to take as labels; {there}"


def bad_number(cells: Sequence[str], number: Callable[[str], float | None]) -> int | None:
    """The first cell of text, if most of the known cells of a column are numbers."""
    first, n_numbers, n_texts = None, 0, 0
    for i, cell in enumerate(cells):
        if cell == "":
            continue
        if number(cell) is None:
            n_texts += 1
            first = i if first is None else first
        else:
            n_numbers += 1
    return first if n_numbers > n_texts else None


def not_a_number(cell: str, most: int = 40) -> str:
    """What to say about such a cell."""
    shown = repr(cell if len(cell) <= most else cell[: most - 3] + "...")
    return (
        f"{shown} is not a number, but most of the column is; correct it, write NA if the value is not known, or name "
        "the column as a label."
    )
