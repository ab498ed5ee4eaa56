"""What a report shows, as plain data: whoever has results fills these in, and `page` turns them into one HTML file.

All text is plain text; the page escapes it. What is None or empty does not appear.
"""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np


@dataclass(frozen=True)
class Embedding:
    """One picture of the samples.

    Attributes
    ----------
    name : what stands above it, such as "UMAP"
    points : (n, 2) array, finite
    axes : what the two axes are, such as ("component 1 (23 %)", "component 2 (11 %)"); empty where they mean nothing
    note : a clause below it, such as "30 neighbours"
    """

    name: str
    points: np.ndarray
    axes: tuple[str, str] = ("", "")
    note: str = ""


@dataclass(frozen=True)
class Colouring:
    """Something known of every sample, by which the points can be coloured; the first one is used when the page opens.

    Attributes
    ----------
    name : such as "cell type" or "share observed"
    values : (n,) array: strings, with "" where unknown, or numbers, with NaN where unknown
    kind : "category" for classes, "number" for a continuous scale, "share" for a number in [0, 1] shown in per cent
    note : a clause that says more
    """

    name: str
    values: np.ndarray
    kind: Literal["category", "number", "share"]
    note: str = ""


@dataclass(frozen=True)
class Scree:
    """The eigenvalues, largest first, and how many components were kept.

    Attributes
    ----------
    eigenvalues : (k,) array, with negative ones if there are any
    chosen : how many components were kept
    rule : how that was chosen, such as "sign flips" or "asked for"
    null : (draws, k) eigenvalues under sign flips; a (2, k) array is the lower and upper edge of a band
    """

    eigenvalues: np.ndarray
    chosen: int
    rule: str
    null: np.ndarray | None = None


@dataclass(frozen=True)
class Holes:
    """A small picture of what was observed.

    Attributes
    ----------
    share : (a, b) array in [0, 1], the mean of the mask over blocks of rows and columns; at most some 200 x 400
    rows, columns : how they are ordered, such as "samples, most observed first"
    note : a sentence below it
    """

    share: np.ndarray
    rows: str
    columns: str
    note: str = ""


@dataclass(frozen=True)
class Agreement:
    """How far the embeddings agree on who is near whom.

    Attributes
    ----------
    names : what is compared, m of them
    overlap : (m, m) mean share of common nearest neighbours
    neighbours : how many neighbours were compared
    """

    names: tuple[str, ...]
    overlap: np.ndarray
    neighbours: int = 15


@dataclass(frozen=True)
class Distrust:
    """The samples to distrust, the worst first.

    Attributes
    ----------
    rows : for each the position (from 0), the name, the share observed and the reason
    note : a sentence that says what makes a sample one of them
    """

    rows: list[tuple[int, str, float, str]]
    note: str = ""


@dataclass(frozen=True)
class Facts:
    """A table of terms and what they are: settings, versions, numbers."""

    title: str
    items: list[tuple[str, str]]
    note: str = ""


@dataclass(frozen=True)
class Finding:
    """One thing found: how bad it is, what it is in a sentence, and what follows from it."""

    state: Literal["good", "warn", "bad"]
    says: str
    detail: str = ""


@dataclass(frozen=True)
class Findings:
    """A list of findings; it stands above everything but the embeddings."""

    title: str
    items: list[Finding]
    note: str = ""


@dataclass(frozen=True)
class Series:
    """One set of marks in a chart: dots, a line, or bars that share the width between neighbouring x.

    `name` appears in the legend if it is not empty.
    """

    x: np.ndarray
    y: np.ndarray
    kind: Literal["dots", "line", "bars"] = "dots"
    name: str = ""


@dataclass(frozen=True)
class Chart:
    """A small chart.

    Attributes
    ----------
    title : what stands above it
    says : what can be seen in it, in a sentence: the text below it, and what is read aloud
    x, y : the names of the axes
    series : what is drawn, in this order
    log : axes with a logarithmic scale: "", "x", "y" or "xy"
    diagonal : whether the line y = x is drawn, for predicted against seen
    marks : vertical lines, each a position and its label
    """

    title: str
    says: str
    x: str
    y: str
    series: list[Series]
    log: Literal["", "x", "y", "xy"] = ""
    diagonal: bool = False
    marks: list[tuple[float, str]] = field(default_factory=list)


@dataclass(frozen=True)
class Table:
    """A table of text; the columns named in `numbers` (positions) are set to the right."""

    title: str
    head: list[str]
    rows: list[list[str]]
    numbers: tuple[int, ...] = ()
    note: str = ""


Section = Findings | Chart | Table | Facts


@dataclass(frozen=True)
class ReportContent:
    """Everything in a report.

    Findings come first, then pictures, then what is to be distrusted, tables, and facts; sections of one kind keep
    their order.

    Attributes
    ----------
    title, summary : the heading, and the line below it, such as what was read and what was done with it
    names : the n names of the samples, or None where they are known by position
    embeddings, colourings : what is drawn, and by what it can be coloured
    scree, holes, agreement, distrust : None where there is none
    sections : everything else
    command : the command that makes this report again
    """

    title: str
    summary: str
    names: list[str] | None = None
    embeddings: tuple[Embedding, ...] = ()
    colourings: tuple[Colouring, ...] = ()
    scree: Scree | None = None
    holes: Holes | None = None
    agreement: Agreement | None = None
    distrust: Distrust | None = None
    sections: tuple[Section, ...] = ()
    command: str = ""

    def __post_init__(self) -> None:
        _check(self)

    @property
    def n_samples(self) -> int:
        """How many samples are drawn; 0 where there is no embedding."""
        return len(self.embeddings[0].points) if self.embeddings else 0


def _check(content: ReportContent) -> None:
    n = content.n_samples
    for embedding in content.embeddings:
        if embedding.points.shape != (n, 2):
            raise ValueError(
                f"The points of {embedding.name} must have the shape ({n}, 2), as the first embedding's; "
                f"theirs is {embedding.points.shape}."
            )
        if not np.isfinite(embedding.points).all():
            row = int(np.flatnonzero(~np.isfinite(embedding.points).all(axis=1))[0])
            raise ValueError(f"The points of {embedding.name} must be finite; sample {row + 1} is not.")
    if not content.embeddings:
        return
    for colouring in content.colourings:
        if colouring.values.shape != (n,):
            raise ValueError(
                f"The colouring {colouring.name!r} must have one value for each of the {n} samples; "
                f"it has the shape {colouring.values.shape}."
            )
    if content.names is not None and len(content.names) != n:
        raise ValueError(f"There must be one name for each of the {n} samples; there are {len(content.names)}.")
    for position, name, _, _ in content.distrust.rows if content.distrust else []:
        if not 0 <= position < n:
            raise ValueError(
                f"The distrusted sample {name!r} must be one of the {n} samples; its position is {position}."
            )
