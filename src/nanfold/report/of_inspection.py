"""What was found out about a table's holes, as a report and as numbers."""

import json
from dataclasses import asdict
from typing import Any

import numpy as np

from nanfold import __version__
from nanfold.inspection.examine import Inspection
from nanfold.inspection.sharing import ACCURACIES, QUANTILES
from nanfold.inspection.words import Verdict
from nanfold.io.table import Table as Data
from nanfold.observed import Observed
from nanfold.report.content import Chart, Distrust, Facts, Finding, Findings, Holes, ReportContent, Series, Table
from nanfold.report.holes import holes_of

MOST_DISTRUSTED = 200
BARS = 30


def content_of(table: Data, found: Inspection | None, said: list[Verdict], advice: str, command: str) -> ReportContent:
    """The report."""
    sections: list[Findings | Chart | Table | Facts] = [
        Findings("What was found", [Finding(*verdict) for verdict in said])
    ]
    holes: Holes | None = None
    distrust: Distrust | None = None
    if found is not None:
        holes = holes_of(found.observed)
        sections += [*_shares(found.observed), *_fit(found), _needed(found)]
        distrust = _distrust(found, table)
    sections.append(Facts("What to run", [("command", advice)]))
    sections.append(Facts("Settings and versions", [("file", str(table.source)), ("nanfold", __version__)]))
    return ReportContent(
        title=f"The holes of {table.source.name}",
        summary=table.summary(),
        names=table.sample_names,
        holes=holes,
        distrust=distrust,
        sections=tuple(sections),
        command=command,
    )


def numbers_of(table: Data, found: Inspection | None, said: list[Verdict], advice: str) -> str:
    """Every number, as json."""
    out: dict[str, Any] = {
        "file": str(table.source),
        "nanfold": __version__,
        "samples": table.shape[0],
        "features": table.shape[1],
        "share_of_holes": table.share_of_holes(),
        "command": advice,
        "findings": [verdict._asdict() for verdict in said],
    }
    if found is not None:
        for name in ("rows", "columns", "fit", "dependence", "sharing"):
            part = getattr(found, name)
            out[name] = None if part is None else {key: _plain(value) for key, value in asdict(part).items()}
        out["tested"] = list(found.tested)
    return json.dumps(out, indent=1, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return list(value) if isinstance(value, tuple) else value


def _shares(observed: Observed) -> list[Chart]:
    n, d = observed.shape
    if observed.complete:
        return []
    out = []
    for what, shares in (("sample", observed.row_counts / d), ("feature", observed.column_counts / n)):
        heights, edges = np.histogram(shares, bins=BARS, range=(0.0, 1.0))
        out.append(
            Chart(
                f"How much of each {what} was observed",
                f"The middle {what} was observed at {100 * np.median(shares):.0f} %, the thinnest at "
                f"{100 * shares.min():.0f} %.",
                "share observed",
                f"{what}s",
                [Series((edges[1:] + edges[:-1]) / 2, heights.astype(float), "bars")],
            )
        )
    return out


def _fit(found: Inspection) -> list[Chart]:
    if found.fit is None:
        return []
    return [
        Chart(
            "How many features two samples share",
            "Each dot is a pair of samples: what the rank-one model of holes says they share, and what they do share. "
            f"It is off by {100 * found.fit.misfit:.1f} % more than chance makes it.",
            "as the model says",
            "as it is",
            [Series(found.fit.predicted, found.fit.seen)],
            diagonal=True,
        )
    ]


def _needed(found: Inspection) -> Table:
    shared = found.sharing
    rows = [
        [f"{100 * accuracy:.0f} %", f"{count}", "yes" if count <= found.shape[1] else "no"]
        for accuracy, count in zip(ACCURACIES, shared.needed, strict=True)
    ]
    middle = shared.quantiles[QUANTILES.index(0.5)]
    return Table(
        "How many features are enough",
        ["accuracy", "features needed", "there are as many"],
        rows,
        numbers=(0, 1),
        note=f"For two samples that share {100 * middle / found.shape[1]:.0f} % of the features, in the worst case.",
    )


def _distrust(found: Inspection, table: Data) -> Distrust | None:
    thin = found.sharing.thin_samples[:MOST_DISTRUSTED]
    if not len(thin):
        return None
    names = table.sample_names or [str(i + 1) for i in range(found.shape[0])]
    share = found.observed.row_counts / found.shape[1]
    return Distrust(
        [
            (
                int(i),
                names[i],
                float(share[i]),
                f"error {100 * found.sharing.errors[i]:.0f} % with the sample in the middle",
            )
            for i in thin
        ],
        "The standard error of their entries of the Gram matrix, in the worst case, as a share of the samples' size.",
    )
