"""Every mean and standard deviation, as csv and as Markdown."""

import csv
import io
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from nanfold.datasets.real import SPECS
from nanfold.paper.protocol import METHODS, VARIANTS, Result
from nanfold.paper.simulation import PREFIX, size_of


@dataclass(frozen=True)
class Entry:
    """The adjusted Rand indices of one set, variant and method, by repetition, and the jobs that failed."""

    data: str
    variant: str
    method: str
    aris: dict[int, float]
    failures: tuple[Result, ...]

    @property
    def mean(self) -> float:
        """NaN if all failed."""
        return float(np.mean(list(self.aris.values()))) if self.aris else np.nan

    @property
    def deviation(self) -> float:
        """The standard deviation between repetitions; NaN for fewer than two."""
        return float(np.std(list(self.aris.values()), ddof=1)) if len(self.aris) > 1 else np.nan

    def as_text(self) -> str:
        """Mean and deviation, three digits."""
        if not self.aris:
            return "failed"
        text = f"{self.mean:.3f}" + (f" ± {self.deviation:.3f}" if len(self.aris) > 1 else "")
        return text + (f" ({len(self.failures)} failed)" if self.failures else "")


Entries = dict[tuple[str, str, str], Entry]


def summarised(results: Iterable[Result]) -> Entries:
    """An entry for every set, variant and method; sets, variants and methods in the order of the protocol."""
    groups: defaultdict[tuple[str, str, str], list[Result]] = defaultdict(list)
    for result in results:
        groups[result.cell.data, result.cell.variant, result.cell.method].append(result)
    entries = {
        key: Entry(
            *key,
            {result.cell.repetition: result.ari for result in group if result.ari is not None},
            tuple(result for result in group if result.ari is None),
        )
        for key, group in groups.items()
    }
    places = [_place(data) for data, _, _ in entries]
    order = sorted(
        zip(places, entries, strict=True),
        key=lambda item: (item[0], list(VARIANTS).index(item[1][1]), list(METHODS).index(item[1][2])),
    )
    return {key: entries[key] for _, key in order}


def title_of(data: str) -> str:
    """What a set is called in tables."""
    return f"{size_of(data)} features" if data.startswith(PREFIX) else SPECS[data].title


def as_csv(entries: Entries) -> str:
    """A line for every set, variant and method."""
    rows = [
        (
            entry.data,
            entry.variant,
            entry.method,
            len(entry.aris),
            _number(entry.mean),
            _number(entry.deviation),
            len(entry.failures),
            " ".join(dict.fromkeys(str(failure.reason) for failure in entry.failures)),
        )
        for entry in entries.values()
    ]
    return _csv(("set", "variant", "method", "repetitions", "mean_ari", "sd_ari", "failed", "reason"), rows)


def jobs_as_csv(results: Sequence[Result]) -> str:
    """A line for every job."""
    rows = [
        (
            result.cell.data,
            result.cell.variant,
            result.cell.method,
            result.cell.repetition,
            result.seed,
            "" if result.ari is None else f"{result.ari:.6f}",
            result.n_components,
            f"{result.seconds:.2f}",
            f"{result.shared_seconds:.2f}",
            result.reason or "",
            "; ".join(result.notes),
            "; ".join(result.versions),
        )
        for result in sorted(results, key=lambda result: result.cell)
    ]
    head = ("set", "variant", "method", "repetition", "seed", "ari", "dimensions", "seconds", "shared_seconds")
    return _csv((*head, "reason", "notes", "versions"), rows)


def as_markdown(entries: Entries) -> str:
    """A table a set: variants in rows, methods in columns."""
    parts = []
    for data in dict.fromkeys(entry.data for entry in entries.values()):
        own = [entry for entry in entries.values() if entry.data == data]
        variants = list(dict.fromkeys(entry.variant for entry in own))
        methods = list(dict.fromkeys(entry.method for entry in own))
        rows = []
        for variant in variants:
            cells = [entries.get((data, variant, method)) for method in methods]
            rows.append([VARIANTS[variant].title, *(cell.as_text() if cell else "" for cell in cells)])
        table = markdown(["", *(METHODS[method] for method in methods)], rows)
        parts.append(f"### {title_of(data)}\n\n{table}")
    return "\n\n".join(parts)


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown, numbers to the right."""
    lines = [head, ["---", *("---:" for _ in head[1:])], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _place(data: str) -> int:
    return size_of(data) if data.startswith(PREFIX) else 10**6 + list(SPECS).index(data)


def _number(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.6f}"


def _csv(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(rows)
    return out.getvalue()
