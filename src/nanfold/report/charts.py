"""Charts as svg: series of dots, lines and bars, and the scree plot."""

import numpy as np

from nanfold.report.axes import HEIGHT, RIGHT, TOP, WIDTH, Axes, Scale, dots, drawable, path, picture
from nanfold.report.content import Chart, Scree, Series
from nanfold.report.markup import card, number, percent, table, text, unfolding

# Above this many rows a table of the numbers is no help, and the page would grow.
ROWS = 300
COLOURS = 8


def chart_card(chart: Chart, identifier: str) -> str:
    """A chart with its legend, what it says, and its numbers."""
    x = np.concatenate([np.asarray(s.x, float).ravel() for s in chart.series] or [np.empty(0)])
    y = np.concatenate([np.asarray(s.y, float).ravel() for s in chart.series] or [np.empty(0)])
    bars = any(s.kind == "bars" for s in chart.series)
    marks = np.array([position for position, _ in chart.marks], dtype=float)
    log_x, log_y = "x" in chart.log, "y" in chart.log
    x_scale = Scale.around(np.concatenate([x, marks, y if chart.diagonal else y[:0]]), log_x)
    y_scale = Scale.around(np.concatenate([y, x if chart.diagonal else x[:0]]), log_y, zero=bars and not log_y)
    if bars:
        x_scale = _with_room_for_bars(x_scale, x)
    axes = Axes(x_scale, y_scale)
    inner = [axes.frame(chart.x, chart.y)]
    if chart.diagonal:
        inner.append(_diagonal(axes))
    lost = 0
    for s, series in enumerate(chart.series):
        drawn, missing = _series(axes, series, s, chart)
        inner.append(drawn)
        lost += missing
    inner.append(axes.marks(chart.marks))
    says = chart.says
    if lost:
        why = "not finite, or not above zero on a logarithmic axis" if chart.log else "not finite"
        says += f" {number(lost, 9)} of its points {'is' if lost == 1 else 'are'} not drawn: {why}."
    return card(
        chart.title,
        _legend([(series.name, s, series.kind) for s, series in enumerate(chart.series) if series.name])
        + f"<figure>{picture(''.join(inner), identifier)}"
        + f'<figcaption id="{identifier}" class="quiet">{text(says)}</figcaption></figure>'
        + _numbers(chart),
        "chart",
    )


def _with_room_for_bars(scale: Scale, x: np.ndarray) -> Scale:
    """Half a bar more at both ends."""
    if scale.log:
        return scale
    room = _gap(x) / 2
    finite = x[np.isfinite(x)]
    if not len(finite):
        return scale
    return Scale(min(scale.low, float(finite.min()) - room), max(scale.high, float(finite.max()) + room))


def _gap(x: np.ndarray) -> float:
    """The least distance between neighbours."""
    steps = np.diff(np.unique(x[np.isfinite(x)]))
    return float(steps.min()) if len(steps) else 1.0


def _diagonal(axes: Axes) -> str:
    low, high = max(axes.x.low, axes.y.low), min(axes.x.high, axes.y.high)
    ends = np.array([low, high])
    return f'<path class="diagonal" d="{path(np.column_stack([axes.across(ends), axes.up(ends)]))}"/>'


def _series(axes: Axes, series: Series, s: int, chart: Chart) -> tuple[str, int]:
    """The marks of one series, and how many of its points have no place."""
    x, y = np.asarray(series.x, float), np.asarray(series.y, float)
    fits = drawable(x, axes.x.log) & drawable(y, axes.y.log)
    with np.errstate(divide="ignore", invalid="ignore"):
        points = np.column_stack([axes.across(x), axes.up(y)])
    points[~fits] = np.nan
    colour = f"c{s % COLOURS}"
    if series.kind == "line":
        drawn = f'<path class="line {colour}" d="{path(points)}"/>'
    elif series.kind == "dots":
        many = "many" if fits.sum() > ROWS else ""
        drawn = f'<path class="dots {many} {colour}" d="{dots(points[fits])}"/>'
    else:
        beside = [t for t, other in enumerate(chart.series) if other.kind == "bars"]
        drawn = f'<path class="bars {colour}" d="{_bars(axes, x[fits], points[fits], beside.index(s), len(beside))}"/>'
    return drawn, int(len(fits) - fits.sum())


def _bars(axes: Axes, x: np.ndarray, points: np.ndarray, place: int, of: int) -> str:
    foot = float(axes.up(axes.y.low if axes.y.log else np.clip(0.0, axes.y.low, axes.y.high)))
    if axes.x.log:
        steps = np.diff(np.unique(points[:, 0]))
        room = float(steps.min()) if len(steps) else 20.0
    else:
        room = float(axes.across(_gap(x)) - axes.across(0.0))
    width = 0.84 * room / of
    return "".join(
        f"M{left:.1f} {foot:.1f}V{top:.1f}h{width:.1f}V{foot:.1f}z"
        for left, top in zip(points[:, 0] - 0.42 * room + place * width, points[:, 1], strict=True)
    )


def _legend(entries: list[tuple[str, int, str]]) -> str:
    items = "".join(
        f'<li><span class="key {kind} c{s % COLOURS}" aria-hidden="true"></span>{text(name)}</li>'
        for name, s, kind in entries
    )
    return f'<ul class="legend">{items}</ul>' if items else ""


def _numbers(chart: Chart) -> str:
    """The numbers, for those who do not see the picture; of long series, what describes them."""
    if sum(len(series.x) for series in chart.series) <= ROWS:
        cells = [
            (series.name or chart.y, number(x), number(y))
            for series in chart.series
            for x, y in zip(series.x, series.y, strict=True)
        ]
        return unfolding("The numbers", table(("series", chart.x, chart.y), cells, (1, 2)))
    short: list[list[str]] = []
    for series in chart.series:
        for name, values in ((chart.x, series.x), (chart.y, series.y)):
            finite = np.asarray(values, float)[np.isfinite(np.asarray(values, float))]
            found = np.quantile(finite, [0, 0.25, 0.5, 0.75, 1]) if len(finite) else np.full(5, np.nan)
            short.append([series.name or "all", name, f"{len(values):,}", *(number(value) for value in found)])
    head = ("series", "of", "points", "least", "lower quarter", "median", "upper quarter", "largest")
    return unfolding("The numbers in short", table(head, short, range(2, 8)))


def scree_card(scree: Scree, identifier: str) -> str:
    """The eigenvalues that matter, those that were kept, and what they are without structure."""
    eigenvalues = np.asarray(scree.eigenvalues, float)
    shown = min(len(eigenvalues), max(30, 2 * scree.chosen))
    top, band = eigenvalues[:shown], _band(scree, shown)
    every = np.concatenate([top, *band]) if band else top
    # Where one dwarfs the others, only the logarithm shows an elbow.
    log = bool(len(every)) and every.min() > 0 and every.max() > 40 * np.median(every)
    axes = Axes(Scale(0.4, shown + 0.6), Scale.around(every, log, zero=not log), whole=True)
    position = np.arange(1, shown + 1)
    points = np.column_stack([axes.across(position), axes.up(top)])
    kept = position <= scree.chosen
    inner = [axes.frame("component", "eigenvalue (logarithmic)" if log else "eigenvalue")]
    if band:
        inner.append(_band_area(axes, *band))
    inner += [
        f'<path class="line faded" d="{path(points)}"/>',
        f'<path class="dots scree c0" d="{dots(points[kept])}"/>',
        f'<path class="dots scree rest" d="{dots(points[~kept])}"/>',
        _kept(axes, scree.chosen, shown),
    ]
    legend = [f'<li><span class="key dots c0" aria-hidden="true"></span>{number(scree.chosen, 9)} kept</li>']
    legend += ['<li><span class="key dots rest" aria-hidden="true"></span>left out</li>'] if not kept.all() else []
    legend += ['<li><span class="key band" aria-hidden="true"></span>with random signs</li>'] if band else []
    return card(
        "How many components",
        f'<ul class="legend">{"".join(legend)}</ul><figure>{picture("".join(inner), identifier)}'
        f'<figcaption id="{identifier}" class="quiet">{text(_scree_says(scree, eigenvalues, shown))}</figcaption>'
        f"</figure>{_scree_numbers(scree, top, band)}",
        "chart",
    )


def _band(scree: Scree, shown: int) -> tuple[np.ndarray, np.ndarray] | None:
    """The lower and upper edge of the eigenvalues under sign flips: nine tenths of the draws lie between."""
    if scree.null is None or not np.size(scree.null):
        return None
    null = np.atleast_2d(np.asarray(scree.null, float))
    low, high = null if len(null) == 2 else np.quantile(null, [0.05, 0.95], axis=0)
    return low[:shown], high[:shown]


def _band_area(axes: Axes, low: np.ndarray, high: np.ndarray) -> str:
    x = axes.across(np.arange(1, len(low) + 1))
    if len(low) == 1:  # an area needs a width
        x, low, high = axes.across(np.array([0.75, 1.25])), np.repeat(low, 2), np.repeat(high, 2)
    there = np.column_stack([x, axes.up(high)])
    back = np.column_stack([x, axes.up(low)])[::-1]
    return f'<path class="band" d="{path(np.vstack([there, back]))}z"/>'


def _kept(axes: Axes, chosen: int, shown: int) -> str:
    if chosen >= shown:
        return ""
    x = float(axes.across(chosen + 0.5))
    return f'<g class="marks"><path d="M{min(x, WIDTH - RIGHT):.1f} {TOP}V{HEIGHT - 40}"/></g>'


def _scree_says(scree: Scree, eigenvalues: np.ndarray, shown: int) -> str:
    total = eigenvalues[eigenvalues > 0].sum()
    share = (
        f" They hold {percent(eigenvalues[: scree.chosen].sum() / total)} of the variance shown." if total > 0 else ""
    )
    says = f"{scree.chosen} of {len(eigenvalues)} components were kept ({scree.rule})."
    if shown == len(eigenvalues):
        says += share.replace(" shown", "") if (eigenvalues < 0).any() else share
    else:
        says += f" The largest {shown} are drawn."
    negative = int((eigenvalues < 0).sum())
    if negative:
        says += f" {negative} {'is' if negative == 1 else 'are'} negative, which is noise."
    if scree.null is not None and np.size(scree.null):
        says += " The band is what the same data give with random signs, without any structure."
    return says


def _scree_numbers(scree: Scree, top: np.ndarray, band: tuple[np.ndarray, np.ndarray] | None) -> str:
    head = ["component", "eigenvalue", "kept"] + (["random signs, low", "random signs, high"] if band else [])
    cells = []
    for c, value in enumerate(top):
        row = [str(c + 1), number(value), "yes" if c < scree.chosen else "no"]
        if band:
            row += [number(edge[c]) if c < len(edge) else "" for edge in band]
        cells.append(row)
    return unfolding("The numbers", table(head, cells, (0, 1, 3, 4)))
