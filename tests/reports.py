"""A report with everything in it, for the tests of pages and the benchmark of drawing."""

import numpy as np

from nanfold.report import (
    Agreement,
    Chart,
    Colouring,
    Distrust,
    Embedding,
    Facts,
    Finding,
    Findings,
    Holes,
    ReportContent,
    Scree,
    Series,
    Table,
)

METHODS = ("PCA", "UMAP", "t-SNE", "GPLVM")


def full_report(n: int = 60, methods: int = 4, word: str = "plain") -> ReportContent:
    """Every part of a report, with `word` wherever a user's text may come."""
    rng = np.random.default_rng(0)
    classes = np.array([f"class {c} {word}" for c in range(14)] + [""])
    share = np.clip(rng.normal(0.6, 0.15, n), 0.02, 1.0)
    dose = rng.gamma(2, 20, n)
    dose[::7] = np.nan
    centres = rng.normal(size=(methods, 15, 2)) * 3
    label = rng.integers(15, size=n)
    names = [f"{word} {i}" for i in range(n)]
    x = np.linspace(1, 100, 12)
    return ReportContent(
        title=f"A report on {word}",
        summary=f"{n} samples {word}",
        names=names,
        embeddings=tuple(
            Embedding(
                f"{name} {word}",
                centres[e, label] + rng.normal(size=(n, 2)),
                ("component 1", word) if e == 0 else ("", ""),
                f"note {word}",
            )
            for e, name in enumerate(METHODS[:methods])
        ),
        colourings=(
            Colouring(f"kind {word}", classes[label], "category", f"from {word}"),
            Colouring(f"dose {word}", dose, "number"),
            Colouring("share observed", share, "share"),
        ),
        scree=Scree(np.linspace(8, -1, 40), 4, f"asked for {word}", rng.normal(size=(20, 40))),
        holes=Holes(rng.random((30, 40)), f"rows {word}", f"columns {word}", f"blocks {word}"),
        agreement=Agreement(
            tuple(f"{name} {word}" for name in METHODS[:methods]), np.full((methods, methods), 0.5), neighbours=15
        ),
        distrust=Distrust([(i, names[i], float(share[i]), f"thin {word}") for i in range(20)], f"because {word}"),
        sections=(
            Facts(f"Settings {word}", [(f"seed {word}", f"0 {word}")], f"facts {word}"),
            Table(f"Thin {word}", [f"feature {word}", "share"], [[f"gene {word}", "3 %"]], (1,), f"table {word}"),
            Chart(
                f"Fit {word}",
                f"Says {word}",
                f"x {word}",
                f"y {word}",
                [Series(x, x, "bars", f"bars {word}"), Series(x, x + 1, "line"), Series(x, x - 1, "dots", "dots")],
                marks=[(50.0, f"mark {word}")],
            ),
            Findings(f"Found {word}", [Finding("warn", f"Look {word}", f"Detail {word}"), Finding("good", "Fine")]),
        ),
        command=f"nanfold embed {word}",
    )
