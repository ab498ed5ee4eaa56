"""What was measured, as a Markdown table, a picture and plain data."""

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nanfold.bench.rows import Row
from nanfold.bench.running import Measurement

Curves = dict[str, list[tuple[float, float]]]


def markdown(rows: Sequence[Row], curves: Curves, machine: dict[str, Any]) -> str:
    """The machine, the table and the growth."""
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    memory = f", {machine['memory_bytes'] / 2**30:.0f} GiB" if machine["memory_bytes"] else ""
    lines = [
        f"{machine['processor']}, {machine['threads']} threads{memory}; Python {machine['python']}, {versions}.",
        "",
        "| work | against | nanfold | the other | ratio | wanted | processor seconds | |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        theirs = "-" if row.theirs is None else _amount(row.theirs, row.unit)
        ratio = "-" if row.ratio is None else f"{row.ratio:.2f}"
        ours = _amount(row.ours, row.unit)
        busy = " and ".join(f"{seconds:.1f}" for seconds in row.processors or ())
        cells = (row.work, row.against, ours, theirs, ratio, f"<= {row.wanted:.2f}", busy, row.note)
        lines.append("| " + " | ".join(cells) + " |")
    if curves:
        lines += ["", "| what doubles | sizes | seconds | times as long, each time |", "|---|---|---|---|"]
    for name, points in curves.items():
        sizes = ", ".join(f"{size:g}" for size, _ in points)
        seconds = [second for _, second in points]
        factors = ", ".join(f"{b / a:.2f}" for a, b in itertools.pairwise(seconds))
        lines.append(f"| {name} | {sizes} | {', '.join(f'{s:.2f}' for s in seconds)} | {factors} |")
    return "\n".join(lines) + "\n"


def _amount(value: float, unit: str) -> str:
    return f"{value / 2**20:.0f} MB" if unit == "bytes" else f"{value:.2f} s"


def as_json(rows: Sequence[Row], curves: Curves, machine: dict[str, Any], fits: Sequence[Measurement]) -> str:
    """Everything that was measured."""
    content = {
        "machine": machine,
        "rows": [{**vars(row), "ratio": row.ratio} for row in rows],
        "growth": curves,
        "measurements": [vars(fit) for fit in fits],
    }
    return json.dumps(content, indent=1) + "\n"


def picture(rows: Sequence[Row], curves: Curves, folder: Path) -> None:
    """Ratios beside what is wanted, and the growth, as ``bench.svg`` and ``bench.png``."""
    from matplotlib.figure import Figure

    known = [row for row in rows if row.ratio is not None]
    figure = Figure(figsize=(10, 1.2 + max(0.45 * len(known), 3.0)), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    places = range(len(known))
    left.barh(places, [row.ratio for row in known], color="#4477aa", height=0.6)
    left.scatter([row.wanted for row in known], places, marker="|", s=300, color="#bb5566", label="wanted, at most")
    left.set_yticks(places, [f"{row.work}\nagainst {row.against}" for row in known], fontsize=6)
    left.invert_yaxis()
    left.set_xlabel("nanfold / the other")
    left.legend(fontsize=7)
    for name, points in curves.items():
        first_size, first_seconds = points[0]
        right.plot([size / first_size for size, _ in points], [s / first_seconds for _, s in points], "o-", label=name)
    if curves:
        right.plot([1, 2, 4], [1, 2, 4], ":", color="gray", label="in proportion")
        right.set_xscale("log", base=2)
        right.set_yscale("log", base=2)
        right.legend(fontsize=7)
    right.set_xlabel("times as large")
    right.set_ylabel("times as long")
    for ending in ("svg", "png"):
        figure.savefig(folder / f"bench.{ending}", dpi=150)
