"""Results as json, csv and a page of tables."""

import csv
import json
from collections.abc import Callable
from itertools import groupby
from pathlib import Path

COLUMNS = (
    "problem",
    "n",
    "d",
    "mechanism",
    "holes",
    "seed",
    "method",
    "package",
    "version",
    "loading_error",
    "neighbour_recall",
)
COLUMNS += ("ari", "seconds", "cpu_seconds", "megabytes", "failure", "machine")
MECHANISMS = {
    "rank-one": "a probability that is the row's times the column's",
    "mcar": "completely at random",
    "by-value": "small values more often than large ones",
}
ABOUT = """# The rivals

<!-- Written by run.py from results.json; what is changed here by hand is lost. -->

PCA of the same tables with holes, by nanfold and by what else there is, in one run. Each method runs in a process of
its own, each rival in an environment of its own:

```bash
python benchmarks/rivals/install.py
python benchmarks/rivals/run.py
```

The data are six clusters in five dimensions, seen through orthonormal loadings with noise (`problems.py`). What is told
of every method (`metrics.py`):

- **error**: the sine of the largest principal angle between its loadings and the true ones. 0 is best.
- **recall**: of the 15 nearest neighbours by the scores of PCA on the complete data, the share among the 15 nearest by
  its scores. 1 is best.
- **ARI**: the adjusted Rand index between the true clusters and those of k-means on its scores. 1 is best.
- **time**: of the fit alone, on a table that is in memory, after a fit to a small one.
- **CPU**: the time that processors worked for it, over all threads, which other work on the machine changes less.
- **memory**: the most that its process ever held.

Imputing methods are followed by PCA of the filled table. `methods.py` has the options of each.
"""


def write_all(rows: list[dict], folder: Path) -> None:
    """results.json, results.csv and README.md."""
    (folder / "results.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    with open(folder / "results.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, restval="")
        writer.writeheader()
        writer.writerows(rows)
    (folder / "README.md").write_text(page(rows), encoding="utf-8")


def page(rows: list[dict]) -> str:
    """The page of all tables."""
    parts = [ABOUT]
    for (problem, n, d), same in grouped(rows, "problem", "n", "d"):
        parts.append(
            f"\n## {problem.capitalize()}: {n:,} x {d:,}\n\n{'; '.join(dict.fromkeys(r['machine'] for r in same))}.\n"
        )
        for (mechanism, _), of_one in grouped(same, "mechanism", "seed"):
            parts.append(f"\nHoles: {MECHANISMS[mechanism]}.\n\n{one_table(of_one)}")
    parts.append(versions(rows))
    return "".join(parts)


def grouped(rows: list[dict], *keys: str) -> list[tuple[tuple, list[dict]]]:
    """Rows with the same values of some keys, in the order in which these first appear."""

    def values(row: dict) -> tuple:
        return tuple(row[key] for key in keys)

    order = {value: place for place, value in enumerate(dict.fromkeys(map(values, rows)))}
    ranked = sorted(rows, key=lambda row: order[values(row)])
    return [(value, list(same)) for value, same in groupby(ranked, key=values)]


def one_table(rows: list[dict]) -> str:
    """A row a method, the columns of each share of holes beside each other, and below it what failed and why."""
    shares = sorted({row["holes"] for row in rows})
    cells = {(row["method"], row["holes"]): row for row in rows}
    named: list[tuple[str, Callable[[dict], str]]] = [
        ("error", lambda row: f"{row['loading_error']:.4f}"),
        ("recall", lambda row: f"{row['neighbour_recall']:.3f}"),
        ("ARI", lambda row: f"{row['ari']:.3f}"),
        ("time", lambda row: f"{row['seconds']:.2f} s"),
    ]
    if len(shares) == 1:
        named.append(("CPU", lambda row: f"{row['cpu_seconds']:.2f} s"))
        named.append(("memory", lambda row: f"{row['megabytes']:.0f} MB"))
    lines = ["| | " + " | ".join(f"{share:.0%}: {name}" for share in shares for name, _ in named) + " |"]
    lines.append("|---|" + "---:|" * (len(shares) * len(named)))
    notes: dict[str, list[str]] = {}
    for method in dict.fromkeys(row["method"] for row in rows):
        line = []
        for share in shares:
            row = cells.get((method, share), {"failure": "not run"})
            line += ["-" if row["failure"] else show(row) for _, show in named]
            if row["failure"]:
                notes.setdefault(f"{method}: {row['failure']}", []).append(f"{share:.0%}")
        lines.append(f"| {method} | " + " | ".join(line) + " |")
    told = "".join(f"- {note} ({', '.join(where)} holes)\n" for note, where in notes.items())
    return "\n".join(lines) + "\n" + (f"\n{told}" if told else "")


def versions(rows: list[dict]) -> str:
    """Which versions were measured."""
    measured = [row for row in rows if row.get("version")]
    found = sorted({f"{row['package']} {row['version']}" for row in measured})
    return f"\n## Versions\n\n{', '.join(found)}\n" if found else ""
