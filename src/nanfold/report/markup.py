"""Pieces of HTML: text that is safe whatever it holds, tables, findings, and numbers as a reader wants them."""

import html
import math
import re
from collections.abc import Iterable, Sequence

from nanfold.report.content import Facts, Finding, Findings, Table

# What no page may hold: control characters, and halves of characters from file names that are not UTF-8.
UNSPEAKABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
STATES = {"good": "fine", "warn": "look at this", "bad": "a problem"}


def text(plain: str) -> str:
    """Plain text for the page; what cannot be shown becomes the replacement character."""
    return html.escape(UNSPEAKABLE.sub("\N{REPLACEMENT CHARACTER}", plain))


def number(value: float, digits: int = 3) -> str:
    """A number in so many significant digits, with thousands apart and a true minus."""
    value = float(value)
    if not math.isfinite(value):
        return "not known" if math.isnan(value) else ("∞" if value > 0 else "−∞")
    size = abs(value)
    if size and not 1e-4 <= size < 1e7:
        mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
        shown = f"{float(mantissa):g}e{int(exponent)}"
    else:
        places = max(0, digits - 1 - math.floor(math.log10(size))) if size else 0
        shown = f"{value:,.{places}f}"
        shown = shown.rstrip("0").rstrip(".") if "." in shown else shown
    return shown.replace("-", "−")


def percent(share: float, places: int = 0) -> str:
    """A share in per cent."""
    return f"{100 * share:.{places}f}\u00a0%" if math.isfinite(share) else "not known"


def paragraph(plain: str, kind: str = "quiet") -> str:
    """A paragraph, or nothing where there is no text."""
    return f'<p class="{kind}">{text(plain)}</p>' if plain else ""


def rows(cells: Iterable[Sequence[str]], numbers: Sequence[int] = ()) -> str:
    """The body of a table of plain text."""
    out = []
    for row in cells:
        inner = "".join(f"<td{' class=number' if c in numbers else ''}>{text(cell)}</td>" for c, cell in enumerate(row))
        out.append(f"<tr>{inner}</tr>")
    return "<tbody>" + "\n".join(out) + "</tbody>"


def table(head: Sequence[str], cells: Iterable[Sequence[str]], numbers: Sequence[int] = ()) -> str:
    """A table of plain text that scrolls sideways on its own where it is too wide."""
    top = "".join(
        f'<th scope="col"{" class=number" if c in numbers else ""}>{text(name)}</th>' for c, name in enumerate(head)
    )
    # A region that scrolls must be reachable by keyboard, and so must have a name.
    label = text(f"table: {', '.join(head)}")
    body = rows(cells, numbers)
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{label}">'
        f"<table><thead><tr>{top}</tr></thead>{body}</table></div>"
    )


def unfolding(summary: str, inner: str) -> str:
    """What is shown when it is asked for."""
    return f"<details><summary>{text(summary)}</summary>{inner}</details>"


def card(title: str, inner: str, kind: str = "") -> str:
    """A section with its title."""
    return f'<section class="card {kind}"><h2>{text(title)}</h2>{inner}</section>'


def table_card(shown: Table) -> str:
    """A table as it was handed in."""
    return card(
        shown.title,
        paragraph(shown.note) + table(shown.head, shown.rows, shown.numbers),
        "broad" if len(shown.head) > 4 else "",
    )


def facts_card(facts: Facts) -> str:
    """Terms and what they are."""
    items = "".join(f"<div><dt>{text(term)}</dt><dd>{text(what)}</dd></div>" for term, what in facts.items)
    return card(facts.title, f"{paragraph(facts.note)}<dl>{items}</dl>", "facts")


def findings_card(findings: Findings) -> str:
    """What was found, each with a mark of its own shape."""
    items = "".join(_finding(item) for item in findings.items)
    return card(findings.title, f'{paragraph(findings.note)}<ul class="findings">{items}</ul>', "found")


def _finding(item: Finding) -> str:
    detail = f'<span class="quiet">{text(item.detail)}</span>' if item.detail else ""
    return (
        f'<li class="{item.state}"><span class="mark" aria-hidden="true"></span><div>'
        f'<span class="unseen">{STATES[item.state]}: </span><strong>{text(item.says)}</strong> {detail}</div></li>'
    )
