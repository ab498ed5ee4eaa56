"""The report's page: sound HTML, nothing loaded, whatever the names hold, and the numbers that went in."""

import base64
import hashlib
import json
import re
from dataclasses import replace

import numpy as np
import pytest

from checked_html import Page
from nanfold.report import Chart, Colouring, Embedding, Facts, ReportContent, Scree, Series, axes, charts, pack, theme
from nanfold.report.markup import number, percent, text
from nanfold.report.page import render
from reports import METHODS, full_report

NASTY = (
    "</script><script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>' onmouseover='alert(1)",
    "<!--<script>&lt;b&gt;&amp; ]]> {title} {0} %s ${x}",
    "line\u2028separator\u2029, tab\tand\nnewline",
    "עברית ‏ العربية \U0001f9ec e\u0301 \u202ereversed",
    "long " * 2000,
)
SOUND = ("", "a", "b 2", "b 10", "B 3", "é")


@pytest.fixture(scope="module")
def source():
    return render(full_report())


@pytest.fixture(scope="module")
def page(source):
    return Page(source)


def data_of(page: Page) -> dict:
    return json.loads(page.raw["script"][0])


def unpacked(packed: str, kind: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(packed), dtype=kind)


def test_the_page_is_sound_and_loads_nothing(source, page):
    assert page.open == []
    assert len(set(page.ids)) == len(page.ids)
    assert page.loads == ["data:,"]
    assert not re.search(r"https?://|@import|url\(|\bfetch\(|XMLHttpRequest|\son\w+=|\sstyle=", source)
    assert [tag for tag, _ in page.elements].count("h1") == 1
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch(r"h\d", tag)]
    assert max(levels) == 2


def test_only_our_style_and_script_may_run(page):
    policy = next(a["content"] for tag, a in page.elements if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'; ")
    for kind, source in (("style", page.raw["style"][0]), ("script", page.raw["script"][1])):
        digest = base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert "unsafe" not in policy


def test_everything_is_named_for_those_who_do_not_see_it(page):
    by_id = {a["id"] for _, a in page.elements if "id" in a}
    for picture in page.pictures:
        assert picture["role"] == "img"
        assert picture["aria-labelledby"] in by_id
    fields = [a for _, a in page.elements if a.get("role") == "application"]
    assert len(fields) == len(METHODS)
    assert all(a["tabindex"] == "0" and a["aria-label"] and a["aria-describedby"] in by_id for a in fields)
    labelled = {a["for"] for tag, a in page.elements if tag == "label"}
    assert {a["id"] for tag, a in page.elements if tag in ("select", "input")} == labelled
    assert any(a.get("aria-live") == "polite" for _, a in page.elements)
    assert all("aria-label" in a for _, a in page.elements if a.get("role") == "region")


def test_everything_that_was_handed_in_appears(page):
    content = full_report()
    words = page.words
    parts = (
        "A report on, 60 samples, note, because, thin, asked for, rows, columns, blocks, seed, facts, gene, Says, "
        "mark, bars, Look, Detail, table, nanfold embed"
    )
    for part in parts.split(", "):
        assert f"{part} plain" in words
    assert all(name in words for _, name, _, _ in content.distrust.rows)
    # Findings, pictures, what to distrust, tables, facts.
    titles = ("Found plain", "How many", "Fit plain", "Samples to", "Thin plain", "Settings")
    order = [words.index(title) for title in titles]
    assert order == sorted(order)


@pytest.mark.parametrize("word", NASTY, ids=range(len(NASTY)))
def test_no_name_gets_out_of_its_place(word, page):
    source = render(full_report(word=word))
    nasty = Page(source)
    assert [(tag, list(a)) for tag, a in nasty.elements] == [(tag, list(a)) for tag, a in page.elements]
    assert len(nasty.raw["script"]) == 2
    assert nasty.raw["script"][1] == page.raw["script"][1]
    assert data_of(nasty)["names"] == [f"{word} {i}" for i in range(60)]
    assert " ".join(word.split())[:500] in nasty.words
    source.encode("utf-8")


def test_what_no_page_can_hold_is_replaced_and_still_told_apart():
    source = render(full_report(word="a\x00b\udcffc"))
    assert "a\ufffdb\ufffdc" in Page(source).words
    source.encode("utf-8")
    assert data_of(Page(source))["names"][1] == "a\x00b\udcffc 1"


def test_coordinates_are_nearer_than_a_pixel(page):
    packed = data_of(page)
    for given, shown in zip(full_report().embeddings, packed["embeddings"], strict=True):
        steps = unpacked(shown["points"], "<u2").reshape(-1, 2)
        low, high = np.array(shown["low"]), np.array(shown["high"])
        back = low + steps / pack.STEPS * (high - low)
        assert np.all(np.abs(back - given.points) <= 0.51 * (high - low) / pack.STEPS)


def test_colours_come_back(page):
    kind, dose, share = data_of(page)["colourings"]
    given = full_report().colourings
    names = ["", *kind["classes"]]
    assert [names[code] for code in unpacked(kind["values"], "<u4")] == list(given[0].values)
    assert kind["classes"][1:3] == ["class 1 plain", "class 2 plain"]
    np.testing.assert_array_equal(unpacked(dose["values"], "<f4"), given[1].values.astype("f4"))
    np.testing.assert_array_equal(unpacked(share["values"], "<f4"), given[2].values.astype("f4"))


@pytest.mark.parametrize("values", [[1e300, -2.0, np.nan], [0.0, 1e-50], [np.inf, 1.0], [1.5, 16_777_216]])
def test_numbers_of_any_size_come_back(values):
    packed = pack._colouring(Colouring("", np.array(values), "number"))
    assert packed["wide"] == (1e300 in values or 1e-50 in values)
    np.testing.assert_array_equal(unpacked(packed["values"], "<f8" if packed["wide"] else "<f4"), values)


def test_classes_stand_in_the_order_of_people():
    packed = pack._colouring(Colouring("", np.array(SOUND[::-1]), "category"))
    assert packed["classes"] == ["a", "b 2", "B 3", "b 10", "é"]


def test_less_than_everything():
    points = np.random.default_rng(0).normal(size=(5, 2))
    for content in (
        ReportContent("Nothing", ""),
        ReportContent("Facts", "", sections=(Facts("Numbers", [("a", "b")]),)),
        ReportContent("No labels, no names", "", embeddings=(Embedding("PCA", points),)),
        ReportContent("One sample", "", embeddings=(Embedding("PCA", points[:1]),)),
        ReportContent("One line", "", embeddings=(Embedding("PCA", points * [1, 0]),)),
        ReportContent("One eigenvalue", "", scree=Scree(np.ones(1), 1, "asked for", np.ones((20, 1)))),
        ReportContent("Nothing kept", "", scree=Scree(np.array([-1.0, -2.0]), 0, "none stands out", np.zeros((2, 2)))),
    ):
        page = Page(render(content))
        assert page.open == []
        assert content.title in page.words
        assert ("application" in [a.get("role") for _, a in page.elements]) == bool(content.embeddings)


def test_coordinates_of_any_size():
    points = np.array([[-1.7e308, 3e-320], [1.7e308, 0.0], [0.0, 1e-320]])
    packed = json.loads(pack.data(ReportContent("", "", embeddings=(Embedding("far", points),))))
    steps = unpacked(packed["embeddings"][0]["points"], "<u2").reshape(-1, 2)
    np.testing.assert_array_equal(steps[:, 0], [0, 65535, 32768])


def test_the_page_stays_small():
    source = render(full_report(5000))
    assert len(source.encode("utf-8")) < 3_000_000


def test_the_scree_plot_says_what_it_shows():
    scree = Scree(np.concatenate([[20.0, 8.0], np.linspace(1, -1, 100)]), 2, "sign flips", np.ones((20, 102)))
    words = Page(charts.scree_card(scree, "s")).words
    assert "2 of 102 components were kept (sign flips). The largest 30 are drawn. 50 are negative" in words
    assert "random signs" in words
    assert "eigenvalue (logarithmic)" not in words
    steep = Scree(np.array([1000.0, *np.linspace(2, 1, 30)]), 1, "cng")
    words = Page(charts.scree_card(steep, "s")).words
    assert "eigenvalue (logarithmic)" in words
    assert "random signs" not in words


def test_a_chart_says_which_points_it_cannot_draw():
    x = np.array([1.0, 10.0, 0.0, np.nan, 100.0])
    chart = Chart("t", "Seen.", "x", "y", [Series(x, np.ones(5), "dots", "d")], log="x")
    card = charts.chart_card(chart, "c")
    assert "Seen. 2 of its points are not drawn: not finite, or not above zero" in Page(card).words
    assert card.count("h0") == 3
    assert "nan" not in card.lower().replace("not known", "")


def test_predictions_that_agree_lie_on_the_diagonal():
    x = np.array([0.2, 0.5, 0.9])
    chart = Chart("t", "", "x", "y", [Series(x, x), Series(np.array([0.0]), np.array([2.0]))], diagonal=True)
    card = charts.chart_card(chart, "c")
    line = re.search(r'"diagonal" d="([^"]+)"', card)[1]
    (a, b), (c, d) = np.array(re.findall(r"[ML]([\d.]+) ([\d.]+)", line), float)
    for px, py in np.array(re.findall(r"M([\d.]+) ([\d.]+)h0", card), float)[:3]:
        assert py == pytest.approx(b + (px - a) / (c - a) * (d - b), abs=0.1)


def test_bars_stand_on_zero_and_keep_apart():
    chart = Chart("t", "", "x", "y", [Series(np.arange(3), np.array([1.0, 3.0, 2.0]), "bars", n) for n in "ab"])
    card = charts.chart_card(chart, "c")
    zero = float(re.search(r'class="zero" d="M[\d.]+ ([\d.]+)H', card)[1])
    bars = np.array(re.findall(r"M([\d.]+) ([\d.]+)V([\d.]+)h([\d.]+)V", card), float)
    assert np.all(bars[:, 1] == zero)
    np.testing.assert_allclose((zero - bars[:3, 2]) / (zero - bars[0, 2]), [1, 3, 2], rtol=0.01)
    lefts = np.sort(bars[:, 0])
    assert np.all(np.diff(lefts) >= bars[0, 3] - 0.11)


def test_long_series_are_described_in_short():
    x = np.arange(1000.0)
    words = Page(charts.chart_card(Chart("t", "", "x", "y", [Series(x, x)]), "c")).words
    assert "The numbers in short" in words
    assert "1,000 0 250 500 749 999" in words


@pytest.mark.parametrize(
    ("scale", "ticks"),
    [
        (axes.Scale(0.0, 1.0), [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (axes.Scale(-3.0, 17.0), [0.0, 5.0, 10.0, 15.0]),
        (axes.Scale(0.8, 1300.0, True), [1.0, 10.0, 100.0, 1000.0]),
        (axes.Scale(1e-9, 3e-9), [1e-9, 1.5e-9, 2e-9, 2.5e-9, 3e-9]),
    ],
)
def test_ticks_are_round(scale, ticks):
    np.testing.assert_allclose(scale.ticks(), ticks, rtol=1e-12)


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0, "0"), (1234567, "1,234,567"), (-0.04567, "−0.0457"), (1.5e-7, "1.5e−7"), (2.5e12, "2.5e12"), (99.96, "100")],
)
def test_numbers_are_short(value, shown):
    assert number(value) == shown


def test_unknown_numbers_are_said_to_be():
    assert number(np.nan) == percent(np.nan) == "not known"
    assert number(-np.inf) == "−∞"
    assert percent(0.4321, 1) == "43.2\u00a0%"
    assert text("<a>\x07") == "&lt;a&gt;\ufffd"


def test_a_report_of_other_numbers_is_another_report():
    content = full_report()
    moved = replace(content.embeddings[0], points=content.embeddings[0].points[::-1])
    assert render(content) == render(full_report())
    assert render(content) != render(replace(content, embeddings=(moved, *content.embeddings[1:])))


# What eyes without one kind of cone see, in linear RGB (Machado, Oliveira and Fernandes, 2009).
EYES = {
    "all cones": np.eye(3),
    "no red": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "no green": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "no blue": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
TO_CONES = [[0.4122, 0.5363, 0.0514], [0.2119, 0.6807, 0.1074], [0.0883, 0.2817, 0.6300]]
TO_LAB = [[0.2105, 0.7936, -0.0041], [1.9780, -2.4286, 0.4506], [0.0259, 0.7828, -0.8087]]


def linear(colours) -> np.ndarray:
    rgb = np.array([[int(c[k : k + 2], 16) for k in (1, 3, 5)] for c in colours]) / 255
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def oklab(rgb) -> np.ndarray:
    return np.cbrt(np.clip(rgb, 0, 1) @ np.transpose(TO_CONES)) @ np.transpose(TO_LAB)


def contrast(colours, paper: str) -> np.ndarray:
    light, ground = linear(colours) @ [0.2126, 0.7152, 0.0722], (linear([paper]) @ [0.2126, 0.7152, 0.0722])[0]
    return (np.maximum(light, ground) + 0.05) / (np.minimum(light, ground) + 0.05)


@pytest.mark.parametrize(("name", "paper"), [("light", theme.LIGHT.paper), ("dark", theme.DARK.paper)])
@pytest.mark.parametrize("eyes", EYES)
def test_colours_differ_to_every_eye(name, paper, eyes):
    seen = oklab(linear(theme.CLASSES[name]) @ np.transpose(EYES[eyes]))
    apart = np.linalg.norm(seen[:, None] - seen, axis=2)[np.triu_indices(len(seen), 1)]
    assert apart.min() > 0.07
    assert contrast(theme.CLASSES[name], paper).min() > 2.6
    # Of numbers, more is further from the paper to every eye.
    steps = np.diff(oklab(linear(theme.RAMPS[name]) @ np.transpose(EYES[eyes]))[:, 0])
    assert np.all(steps < 0) if name == "light" else np.all(steps > 0)


@pytest.mark.parametrize("colours", [theme.LIGHT, theme.DARK], ids=["light", "dark"])
def test_text_can_be_read(colours):
    for words in (colours.ink, colours.quiet, colours.blue, colours.orange, colours.green, colours.red):
        assert contrast([words], colours.paper)[0] > 4.5
        assert contrast([words], colours.desk)[0] > 4.5
