"""The report: one HTML file with everything in it, for light and dark, for a desk and a phone."""

import functools
import html
import platform
from dataclasses import asdict
from importlib.metadata import version

import numpy as np

from nanfold.demo import pictures
from nanfold.demo.comparison import METHODS, SCALE, Comparison

LIBRARIES = ("nanfold", "numpy", "scipy", "scikit-learn", "numba", "matplotlib")

PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>
:root {{ {light} --quiet: #59626d; --ours: #e7f1f8; }}
@media (prefers-color-scheme: dark) {{ :root {{ {dark} --quiet: #a3abb5; --ours: #12344a; }} }}
body {{ margin: 0 auto; max-width: 62rem; padding: 1.5rem 1rem 3rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.55 system-ui, sans-serif; }}
h1 {{ font-size: 1.6rem; line-height: 1.25; margin: 0 0 .75rem; }}
h2 {{ font-size: 1.15rem; margin: 2.25rem 0 .5rem; }}
p {{ max-width: 44rem; }}
.wide {{ overflow-x: auto; }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; }}
th, td {{ padding: .35rem .9rem .35rem 0; text-align: right; white-space: nowrap;
  border-bottom: 1px solid var(--faint); }}
th:first-child {{ text-align: left; font-weight: normal; padding-left: .4rem; }}
thead th {{ font-weight: 600; }}
tr.ours {{ background: var(--ours); }}
tr.ours th, tr.ours td {{ font-weight: 600; }}
.spread, .quiet {{ color: var(--quiet); font-size: .85em; font-weight: normal; }}
.panels {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(min(13rem, 100%), 1fr)); gap: .75rem; }}
figure {{ margin: 0; }}
figure.curve {{ max-width: 38rem; }}
svg {{ width: 100%; height: auto; display: block; }}
@media (max-width: 40rem) {{
  .spread {{ display: none; }}
  th, td {{ padding-right: .5rem; font-size: .85rem; }}
  th:first-child {{ white-space: normal; }}
}}
svg text {{ font-family: system-ui, sans-serif !important; }}
</style>
</head>
<body>
<main>
<h1>{title}</h1>
<p>{what}</p>
<h2>Clusters found again</h2>
<p>{how} {scale}</p>
<div class="wide">{table}</div>
<h2>What each sees</h2>
<p>The first draw with all {n_features} features; colours and shapes are the true clusters. The axes are the
same throughout: filling the holes draws the samples together.</p>
<div class="panels">
{panels}
</div>
<h2>How many features it takes</h2>
<figure class="curve">{curve}</figure>
<h2>Settings and versions</h2>
<p class="quiet">{settings}</p>
</main>
</body>
</html>
"""


def render(found: Comparison) -> str:
    """The whole page."""
    draws = f"{found.n_draws} draws, seeds {found.seed} to {found.seed + found.n_draws - 1}"
    versions = ", ".join(f"{library} {version(library)}" for library in LIBRARIES)
    return PAGE.format(
        light=_variables(pictures.LIGHT),
        dark=_variables(pictures.DARK),
        title=f"Finding clusters again with {100 * found.share_hidden:.0f} % of the data missing",
        what=f"Simulated: {found.what} Each method sees what is left, except the first, which sees everything.",
        how=found.how + (" ± is the standard deviation." if found.n_draws > 1 else ""),
        scale=SCALE,
        table=_table(found),
        n_features=found.n_features,
        panels="\n".join(_panel(found, m, name) for m, name in enumerate(METHODS)),
        curve=_picture(
            pictures.inline(functools.partial(pictures.features, found), "curve"),
            "Adjusted Rand index of each method against the number of features; the numbers are in the table above.",
        ),
        settings=f"{draws if found.n_draws > 1 else f'one draw, seed {found.seed}'}; made with "
        f"<code>nanfold demo --samples {found.n_samples} --features {found.n_features} --draws {found.n_draws} "
        f"--seed {found.seed}</code>; Python {platform.python_version()}, {versions}.",
    )


def _variables(theme: pictures.Theme) -> str:
    return " ".join(f"--{name}: {colour};" for name, colour in asdict(theme).items())


def _table(found: Comparison) -> str:
    head = "".join(f'<th scope="col">{size}</th>' for size in found.sizes)
    rows = []
    for name, ari, scale in zip(METHODS, found.ari, found.scale, strict=True):
        cells = "".join(f"<td>{_mean_and_spread(draws)}</td>" for draws in ari) + f"<td>{scale.mean():.2f}</td>"
        kind = ' class="ours"' if name == "nanfold" else ""
        rows.append(f'<tr{kind}><th scope="row">{html.escape(name)}</th>{cells}</tr>')
    head = f'<tr><th scope="col">features</th>{head}<th scope="col">scale</th></tr>'
    return f"<table><thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>"


def _mean_and_spread(draws: np.ndarray) -> str:
    mean = f"{draws.mean():.3f}"
    return mean if len(draws) == 1 else f'{mean} <span class="spread">± {draws.std(ddof=1):.3f}</span>'


def _panel(found: Comparison, m: int, name: str) -> str:
    svg = pictures.inline(functools.partial(pictures.panel, found, name), f"panel{m}")
    ari = found.ari[m, -1, 0]
    return f"<figure>{_picture(svg, f'Scores on two components, {name}: adjusted Rand index {ari:.2f}.')}</figure>"


def _picture(svg: str, says: str) -> str:
    return svg.replace("<svg ", f'<svg role="img" aria-label="{html.escape(says)}" ', 1)
