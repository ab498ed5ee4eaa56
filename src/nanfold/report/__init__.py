"""The report: one HTML file that shows embeddings side by side, and what is behind them."""

from nanfold.report.content import (
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
    Section,
    Series,
    Table,
)

__all__ = [
    "Agreement",
    "Chart",
    "Colouring",
    "Distrust",
    "Embedding",
    "Facts",
    "Finding",
    "Findings",
    "Holes",
    "ReportContent",
    "Scree",
    "Section",
    "Series",
    "Table",
]
