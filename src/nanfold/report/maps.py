"""The map of holes, and the table of how far embeddings agree."""

import numpy as np

from nanfold.report.content import Agreement, Holes
from nanfold.report.markup import card, paragraph, percent, text


def holes_card(holes: Holes) -> str:
    """What was observed; the script draws it from the report's data."""
    share = np.asarray(holes.share, float)
    says = (
        f"A map of what was observed, {holes.rows} from top to bottom and {holes.columns} from left to right: "
        f"on average {percent(share.mean())}; the least observed row of the map {percent(share.mean(axis=1).min())}, "
        f"the least observed column {percent(share.mean(axis=0).min())}."
    )
    return card(
        "What was seen",
        '<ul class="legend"><li><span class="key hole" aria-hidden="true"></span>holes</li>'
        '<li><span class="key seen" aria-hidden="true"></span>observed</li></ul>'
        f'<figure class="holes"><canvas id="holes" role="img" aria-label="{text(says)}"></canvas>'
        f'<figcaption class="quiet"><span id="holes-at" class="at"></span>'
        f"Down: {text(holes.rows)}. Across: {text(holes.columns)}. {text(holes.note)}</figcaption></figure>",
        "chart",
    )


def agreement_card(agreement: Agreement) -> str:
    """A table whose cells are the darker the more neighbours two embeddings share."""
    overlap = np.asarray(agreement.overlap, float)
    head = "".join(f'<th scope="col">{text(name)}</th>' for name in agreement.names)
    body = []
    for i, name in enumerate(agreement.names):
        cells = "".join(_cell(value, i == j) for j, value in enumerate(overlap[i]))
        body.append(f'<tr><th scope="row">{text(name)}</th>{cells}</tr>')
    note = (
        f"The share of a sample's {agreement.neighbours} nearest neighbours that two pictures have in common, "
        "on average. What only one of them shows may be the method's doing."
    )
    return card(
        "Who is near whom",
        '<div class="wide" tabindex="0" role="region" aria-label="table: agreement on neighbours">'
        f'<table class="tinted"><thead><tr><td></td>{head}</tr></thead><tbody>{"".join(body)}</tbody></table></div>'
        + paragraph(note),
        "chart",
    )


def _cell(value: float, itself: bool) -> str:
    if itself:
        return '<td class="itself"><span class="unseen">itself</span></td>'
    if not np.isfinite(value):
        return "<td>not known</td>"
    return f'<td class="tint{round(10 * min(max(value, 0.0), 1.0))}">{percent(value)}</td>'
