"""Tables in text: csv, tsv and their relatives, plain or gzipped.

The rules, which ``docs/files.md`` explains to users:

- The separator is a tab in .tsv and .tab; elsewhere it is the one of comma, semicolon and tab that the first line has
  most of. Where it is a semicolon, a comma in a number is a decimal point.
- The first line is a header if a cell of it is text where the column below is not. Names that look like numbers are
  recognised where they count upwards, beside an empty corner or beside a column of text.
- One cell fewer in the header than in the lines below, or an empty first one: the first column names the samples.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from nanfold.io.cells import HOLES, Progress, Row, TextFile
from nanfold.io.columns import Columns, bad_number, not_a_number
from nanfold.io.table import FileError

# A line of increasing numbers beside a text cell is a header from this length on; shorter, it may be chance.
COUNTS_UPWARDS = 6


def read_text(
    path: Path,
    *,
    separator: str | None = None,
    encoding: str | None = None,
    header: bool | None = None,
    row_names: bool | None = None,
    labels: Sequence[str] = (),
    progress: Progress = None,
) -> Columns:
    """The columns of a text file."""
    reading = TextFile(path, separator, encoding, progress)
    texts: set[int] = set()
    with reading.blocks() as blocks:
        first = next(blocks, None)
        if first is None:
            raise FileError(f"{path} is empty; a table needs two samples and two features at least.")
        shape = Layout(first[1], header, row_names, reading)
        if shape.row_names:
            texts.add(0)
        numbers, strings, lines = _convert(itertools.chain([first], blocks), shape, texts, reading)
    if any(len(strings[place]) < len(lines) for place in texts):
        # Columns whose text came late had been numbers so far, and their cells are needed as they were written.
        with reading.blocks() as blocks:
            numbers, strings, lines = _convert(blocks, shape, texts, reading)
    names = shape.names or [f"column {place + 1}" for place in range(shape.width)]
    for place, cells in strings.items():
        bad = None if (place == 0 and shape.row_names) or names[place] in labels else bad_number(cells, reading.number)
        if bad is not None:
            raise FileError(f"{path}, line {lines[bad]}, column {names[place]!r}: {not_a_number(cells[bad])}")
    places = [place for place in range(shape.width) if place not in texts]
    return Columns(shape.names, numbers, places, strings, shape.row_names if shape.row_names else row_names)


class Layout:
    """What the first lines say: the width, whether there is a header, and whether the corner tells of row names."""

    def __init__(self, rows: list[Row], header: bool | None, row_names: bool | None, reading: "TextFile") -> None:
        first, body = rows[0], rows[1:]
        self.width = len(first)
        shorter = bool(body) and header is not False and all(len(row) == len(first) + 1 for row in body)
        if shorter and row_names is not False:
            # R's write.table: no name above the row names.
            self.width += 1
            first = ["", *first]
            header = row_names = True
        reading.width = self.width
        self.header = _is_header(first, body, reading) if header is None else header
        self.names: list[str] | None = None
        if self.header:
            stripped = [cell.strip() for cell in first]
            self.names = [name or f"column {place + 1}" for place, name in enumerate(stripped)]
            if row_names is None and stripped[0] == "" and self.width > 1:
                cells = [row[0].strip() for row in body if row]
                row_names = "" not in cells and len(set(cells)) == len(cells)
        if row_names and self.width < 2:
            raise FileError(f"{reading.path} has a single column, which cannot both name the samples and be a feature.")
        self.row_names = bool(row_names)


def _is_header(first: Row, body: list[Row], reading: "TextFile") -> bool:
    whole = [row for row in body if len(row) == len(first)]
    text_over_text = False
    for place, cell in enumerate(first):
        if reading.number(cell) is not None:
            continue
        below = [reading.number(row[place]) for row in whole]
        n_texts = sum(value is None for value in below)
        n_numbers = sum(value is not None and not math.isnan(value) for value in below)
        if n_texts <= n_numbers:
            return True
        text_over_text = True
    numbers = [value for cell in first if (value := reading.number(cell)) is not None]
    if not numbers or all(map(math.isnan, numbers)):
        return text_over_text  # not one number in the line
    if not (text_over_text or first[0].strip() == ""):
        return False
    corner = math.isnan(numbers[0]) and first[0].strip() == ""
    numbers = numbers[1:] if corner else numbers
    steps = [b - a for a, b in itertools.pairwise(numbers)]
    counts = all(step == 1 for step in steps) and all(value.is_integer() for value in numbers)
    if counts and len(numbers) >= (2 if corner else 3):
        return True
    return len(numbers) >= COUNTS_UPWARDS and all(step > 0 for step in steps)


def _convert(
    blocks: Iterator[tuple[list[int], list[Row]]], shape: Layout, texts: set[int], reading: TextFile
) -> tuple[np.ndarray, dict[int, list[str]], list[int]]:
    """Numbers, texts by place and the line of every row; `texts` gains the places where text turns up."""
    numbers: list[np.ndarray] = []
    strings: dict[int, list[str]] = {place: [] for place in texts}
    all_lines: list[int] = []
    begins = shape.header
    for lines, rows in blocks:
        if begins:
            lines, rows, begins = lines[1:], rows[1:], False
        for line, row in zip(lines, rows, strict=True):
            if len(row) != shape.width:
                reading.refuse_ragged(line, row)
        places = [place for place in range(shape.width) if place not in texts]
        block = reading.floats(list(itertools.chain.from_iterable(_picked(rows, places, shape.width))))
        if block is None:
            late = {place for place in places if reading.floats([row[place] for row in rows]) is None}
            if not all_lines:
                strings.update({place: [] for place in late})
            texts |= late
            places = [place for place in places if place not in late]
            block = reading.floats(list(itertools.chain.from_iterable(_picked(rows, places, shape.width))))
        assert block is not None
        values = block.reshape(len(rows), len(places))
        _refuse_infinity(values, lines, places, shape, reading)
        numbers.append(values)
        for place, cells in strings.items():
            cells.extend(_text(row[place]) for row in rows)
        all_lines += lines
    narrowest = numbers[-1].shape[1] if numbers else 0
    whole = all(values.shape[1] == narrowest for values in numbers)
    if whole and numbers:
        return np.concatenate(numbers), strings, all_lines
    # Some columns turned into text on the way: the caller reads again, and asks for them from the start.
    return np.empty((len(all_lines), 0)), {place: strings.get(place, []) for place in texts}, all_lines


def _picked(rows: list[Row], places: list[int], width: int) -> Iterator[Sequence[str]]:
    if len(places) == width:
        return iter(rows)
    return ([row[place] for place in places] for row in rows)


def _text(cell: str) -> str:
    cell = cell.strip()
    return "" if cell in HOLES else cell


def _refuse_infinity(values: np.ndarray, lines: list[int], places: list[int], shape: Layout, reading: TextFile) -> None:
    infinite = np.isinf(values)
    if infinite.any():
        i, j = np.argwhere(infinite)[0]
        name = shape.names[places[j]] if shape.names else f"column {places[j] + 1}"
        raise FileError(
            f"{reading.path}, line {lines[i]}, column {name!r} holds infinity; write NA if it stands for a hole."
        )
