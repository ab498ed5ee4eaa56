"""One HTML file with everything in it: works from disk, loads nothing, for light and dark, for a desk and a phone."""

import base64
import hashlib
from functools import cache
from importlib.resources import files

from nanfold.report import charts, maps, pack
from nanfold.report.content import Chart, Colouring, Distrust, Facts, Findings, ReportContent, Section, Table
from nanfold.report.markup import card, facts_card, findings_card, paragraph, percent, table_card, text, unfolding
from nanfold.report.theme import CLASSES, DARK, LIGHT, variables

SCRIPTS = ("data", "colours", "stamps", "plot", "readout", "linked", "samples", "legend", "saving", "holes", "page")
WORST = 15  # so many samples to distrust are seen at once; the others unfold

PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<header class="top">
<div><h1>{title}</h1>{summary}</div>
<button id="theme" type="button" class="plain" hidden>Dark</button>
</header>
<main>
{stage}
{findings}
{pictures}
{distrust}
{tables}
{command}
</main>
<div id="tip" class="tip" hidden></div>
<div id="live" class="unseen" aria-live="polite"></div>
<script type="application/json" id="report-data">{data}</script>
<script>{script}</script>
</body>
</html>
"""


def render(content: ReportContent) -> str:
    """The whole page."""
    style, script = _style(), _script()
    sections = {kind: _sections(content.sections, kind) for kind in (Findings, Chart, Table, Facts)}
    return PAGE.format(
        policy=f"default-src 'none'; img-src data: blob:; style-src {_hash(style)}; script-src {_hash(script)}",
        style=style,
        title=text(content.title),
        summary=paragraph(content.summary, "summary"),
        stage=_stage(content),
        findings=sections[Findings],
        pictures=_group(_pictures(content) + sections[Chart], "pictures"),
        distrust=_distrust(content.distrust, bool(content.embeddings)),
        tables=_group("\n".join(filter(None, (sections[Table], sections[Facts]))), "tables"),
        command=_command(content.command),
        data=pack.data(content),
        script=script,
    )


@cache
def _asset(name: str) -> str:
    return (files("nanfold.report") / "assets" / name).read_text(encoding="utf-8")


@cache
def _style() -> str:
    light, dark = variables(LIGHT, CLASSES["light"]), variables(DARK, CLASSES["dark"])
    # What the system asks for, unless the reader has chosen.
    themes = (
        f":root {{ color-scheme: light; {light} }}\n"
        f"@media (prefers-color-scheme: dark) {{ :root:not([data-theme=light]) {{ color-scheme: dark; {dark} }} }}\n"
        f":root[data-theme=dark] {{ color-scheme: dark; {dark} }}\n"
    )
    return themes + _asset("report.css")


@cache
def _script() -> str:
    parts = "\n".join(_asset(f"{name}.js") for name in SCRIPTS)
    return f'(() => {{\n"use strict";\n{parts}\n}})();'


def _hash(source: str) -> str:
    """The only style and the only script that the browser will run, whatever the data hold."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()}'"


def _sections(sections: tuple[Section, ...], kind: type[Section]) -> str:
    out = []
    for s, section in enumerate(sections):
        if not isinstance(section, kind):
            continue
        if isinstance(section, Findings):
            out.append(findings_card(section))
        elif isinstance(section, Chart):
            out.append(charts.chart_card(section, f"chart-{s}"))
        elif isinstance(section, Table):
            out.append(table_card(section))
        else:
            out.append(facts_card(section))
    return "\n".join(out)


def _group(inner: str, kind: str) -> str:
    return f'<div class="{kind}">{inner}</div>' if inner else ""


def _pictures(content: ReportContent) -> str:
    out = []
    if content.scree is not None:
        out.append(charts.scree_card(content.scree, "scree"))
    if content.holes is not None:
        out.append(maps.holes_card(content.holes))
    if content.agreement is not None:
        out.append(maps.agreement_card(content.agreement))
    return "\n".join(out)


def _stage(content: ReportContent) -> str:
    """The embeddings, and beside them what they are coloured by and which sample is pointed at."""
    if not content.embeddings:
        return ""
    plots = "\n".join(_plot(content, e) for e in range(len(content.embeddings)))
    return f"""<section class="stage" aria-label="The embeddings">
<div class="side">
{_colour_by(content.colourings)}
<div class="field find"><label for="find">Find a sample</label>
<input id="find" type="search" autocomplete="off" spellcheck="false" placeholder="name, then Enter"></div>
<div id="chosen" class="chosen" aria-label="The sample that is pointed at" role="group"></div>
<p id="keys" class="quiet hint">Point at a sample to see it in every picture; click to keep it.
By keyboard: arrows go to the next sample, Enter keeps it, Esc lets go.</p>
</div>
<div class="plots of{len(content.embeddings)}">
{plots}
</div>
<noscript><p>The embeddings are drawn by a script, which this browser does not run.</p></noscript>
</section>
<details id="samples" class="card"><summary>All samples as a table</summary></details>"""


def _colour_by(colourings: tuple[Colouring, ...]) -> str:
    if not colourings:
        return '<div id="legend" class="classes"></div>'
    options = "".join(f'<option value="{c}">{text(colouring.name)}</option>' for c, colouring in enumerate(colourings))
    return f"""<div class="field"><label for="colour">Colour by</label>
<select id="colour" autocomplete="off">{options}</select></div>
<p id="colour-note" class="quiet"></p>
<div id="legend" class="classes" role="group" aria-label="Legend"></div>"""


def _plot(content: ReportContent, e: int) -> str:
    embedding = content.embeddings[e]
    note = f'<span class="quiet" title="{text(embedding.note)}">{text(embedding.note)}</span>' if embedding.note else ""
    says = f"{embedding.name}: {content.n_samples:,} samples as points"
    if any(embedding.axes):
        says += f", {embedding.axes[0]} across and {embedding.axes[1]} up"
    name = text(embedding.name)
    return f"""<section class="plot" data-plot="{e}">
<div class="head"><h2>{name}</h2>{note}
<button type="button" class="plain enlarge" aria-pressed="false" aria-label="Enlarge {name}">Enlarge</button>
<button type="button" class="plain save" aria-label="Save the picture of {name}">Save</button></div>
<div class="field-of-points" tabindex="0" role="application" aria-roledescription="scatter plot"
 aria-label="{text(says)}" aria-describedby="keys"><canvas class="base"></canvas><canvas class="over"></canvas></div>
</section>"""


def _distrust(distrust: Distrust | None, drawn: bool) -> str:
    if distrust is None:
        return ""
    if not distrust.rows:
        return card("Samples to distrust", paragraph(distrust.note) + "<p>None.</p>")
    inner = _distrusted(distrust.rows[:WORST], drawn)
    if drawn:
        inner = _ring(distrust.rows) + inner
    if distrust.rows[WORST:]:
        inner += unfolding(f"{len(distrust.rows) - WORST:,} more", _distrusted(distrust.rows[WORST:], drawn))
    return card("Samples to distrust", paragraph(distrust.note) + inner, "table")


def _ring(rows: list[tuple[int, str, float, str]]) -> str:
    positions = " ".join(str(position) for position, *_ in rows)
    return (
        f'<p><button id="ring" type="button" class="plain" aria-pressed="false" data-samples="{positions}">'
        "Ring them in the pictures</button></p>"
    )


def _distrusted(rows: list[tuple[int, str, float, str]], drawn: bool) -> str:
    body = []
    for position, name, share, reason in rows:
        shown = text(name)
        if drawn:
            shown = f'<button type="button" class="sample" data-sample="{position}">{shown}</button>'
        meter = "" if share != share else f'<meter min="0" max="1" value="{share:.4f}" aria-hidden="true"></meter>'
        body.append(
            f'<tr><th scope="row">{shown}</th><td class="number">{percent(share, 1)}</td><td>{meter}</td>'
            f"<td>{text(reason)}</td></tr>"
        )
    return (
        '<div class="wide" tabindex="0" role="region" aria-label="table: samples to distrust">'
        '<table class="distrusted"><thead><tr><th scope="col">sample</th><th scope="col" class="number">seen</th>'
        f'<td></td><th scope="col">why</th></tr></thead><tbody>{"".join(body)}</tbody></table></div>'
    )


def _command(command: str) -> str:
    if not command:
        return ""
    return card(
        "Again", f'<p class="quiet">This command makes this report again.</p><pre tabindex="0">{text(command)}</pre>'
    )
