"""The report in a browser: opened from disk, pointed at, coloured, walked through by keyboard, and saved.

Where Chromium is not installed these tests say so and are skipped; .ci/run installs it.
"""

import json
import time

import numpy as np
import pytest

import browser
from nanfold.report import Colouring, Embedding, ReportContent, theme
from nanfold.report.page import render
from reports import METHODS, full_report

pytestmark = pytest.mark.skipif(
    bool(browser.LACKING), reason=f"not installed here: {' and '.join(browser.LACKING)} (.ci/run does it)"
)

HOVER = "return document.documentElement.dataset.hover"
# What lies on the upper canvas of every plot: how many of its pixels, and where they have their middle.
RINGS = """return [...document.querySelectorAll(".over")].map((canvas) => {
  const { data, width } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  let [n, x, y] = [0, 0, 0];
  for (let k = 0; k < data.length / 4; k++)
    if (data[4 * k + 3]) { n++; x += k % width; y += Math.floor(k / width); }
  return [n, x / n, y / n];
})"""
# The colours on the lower canvas of every plot, as so many pixels of each.
PIXELS = """return [...document.querySelectorAll(".base")].map((canvas) => {
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const out = {};
  for (let k = 0; k < data.length; k += 4) {
    const colour = `${data[k]},${data[k + 1]},${data[k + 2]}`;
    out[colour] = (out[colour] || 0) + 1;
  }
  return out;
})"""
FRAME = "await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
FIELD = """const box = document.querySelectorAll(".field-of-points")[arguments[0]].getBoundingClientRect();
return [box.left, box.top, box.width, box.height]"""


@pytest.fixture(scope="module")
def window():
    with browser.chromium() as started:
        yield started


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(render(full_report()), encoding="utf-8")
    return path


@pytest.fixture
def opened(window, written):
    """The full report, newly opened on a desk in the light."""
    window.size(1440, 900)
    window.dark(False)
    window.open(written)
    return window


def places(e: int, width: float, height: float) -> np.ndarray:
    """Where the samples of an embedding without axes lie in a field of that size."""
    points = full_report().embeddings[e].points
    low, high = points.min(axis=0), points.max(axis=0)
    room = np.array([width - 32, height - 32])
    across = (points - low) * (room / (high - low)).min()
    start = 16 + (room - across.max(axis=0)) / 2
    return np.column_stack([start[0] + across[:, 0], height - start[1] - across[:, 1]])


def colour_by(window, position: int) -> None:
    script = """const choice = document.getElementById("colour"); choice.value = arguments[0];
    choice.dispatchEvent(new Event("change"))"""
    window.run(script, str(position))


def test_it_opens_from_disk_and_asks_for_nothing(opened, written):
    assert opened.requests() == [written.as_uri()]
    assert opened.run("return performance.getEntriesByType('resource').length") == 0
    assert opened.complaints() == []
    assert opened.run("return document.querySelectorAll('.plot').length") == len(METHODS)


def test_the_policy_forbids_scripts_and_requests(opened):
    """The control: what a name could smuggle in would not run, and the browser would complain."""
    opened.run("""const script = document.createElement("script"); script.textContent = "window.ran = true";
    document.body.append(script)""")
    asked = opened.run("return fetch('https://example.org').then(() => 'sent', () => 'refused')")
    assert asked == "refused"
    assert opened.run("return window.ran === undefined")
    assert len(opened.complaints()) >= 2


@pytest.mark.parametrize("word", ["</script><script>document.title = 'taken'</script>", '"><img src=x>'])
def test_names_stay_text(window, tmp_path, word):
    path = tmp_path / "nasty.html"
    path.write_text(render(full_report(word=word)), encoding="utf-8")
    window.open(path)
    assert window.complaints() == []
    assert window.run("return document.title") == f"A report on {word}"
    assert window.run("return document.querySelectorAll('img, script:not([type])').length") == 1
    assert window.run("return document.querySelector('.class .name').textContent") == f"class 0 {word}"
    window.move(*centre_of_sample(window, 1, 7))
    assert window.run("return document.querySelector('#tip .who').textContent") == f"{word} 7"


def centre_of_sample(window, e: int, i: int) -> tuple[float, float]:
    left, top, width, height = window.run(FIELD, e)
    x, y = places(e, width, height)[i]
    return left + x, top + y


def test_hovering_lights_the_sample_up_in_every_plot(opened):
    content = full_report()
    i = 11
    opened.move(*centre_of_sample(opened, 1, i))
    assert opened.run(HOVER) == str(i)
    for e, (pixels, x, y) in enumerate(opened.run(RINGS)):
        assert pixels > 50
        if e > 0:
            _, _, width, height = opened.run(FIELD, e)
            np.testing.assert_allclose([x, y], places(e, width, height)[i], atol=1.5)
    said = opened.run("return document.getElementById('tip').innerText")
    assert said.startswith(content.names[i])
    assert content.colourings[0].values[i] in said
    assert f"{100 * content.colourings[2].values[i]:.1f} %" in said
    assert "To distrust: thin plain" in said
    opened.move(700, 5)
    assert opened.run(HOVER) == "-1"
    assert [pixels for pixels, _, _ in opened.run(RINGS)] == [0] * len(METHODS)
    assert opened.run("return document.getElementById('tip').hidden")


def test_a_click_keeps_the_sample_and_rings_its_neighbours(opened):
    i = 11
    opened.move(*centre_of_sample(opened, 1, i), press=True)
    opened.move(700, 5)
    assert opened.run("return document.documentElement.dataset.kept") == str(i)
    points = full_report().embeddings[1].points
    near = np.argsort(np.linalg.norm(points - points[i], axis=1))[1:16]
    others = [full_report().embeddings[e].points for e in (0, 2, 3)]
    shared = [len(set(near) & set(np.argsort(np.linalg.norm(p - p[i], axis=1))[1:16])) for p in others]
    said = opened.run("return document.getElementById('chosen').innerText")
    assert f"PCA plain {shared[0]}, t-SNE plain {shared[1]}, GPLVM plain {shared[2]}" in said
    opened.press("Escape")
    assert opened.run("return document.documentElement.dataset.kept === undefined")
    assert opened.run("return document.getElementById('chosen').innerText") == ""


def test_colour_by(opened):
    def classes():
        return opened.run("return [...document.querySelectorAll('#legend .name')].map((name) => name.textContent)")

    seen = opened.run(PIXELS)
    values = full_report().colourings[0].values
    assert classes()[:3] == ["class 0 plain", "class 1 plain", "class 2 plain"]
    assert classes()[-1] == "not known"
    counts = opened.run("return [...document.querySelectorAll('#legend .count')].map((count) => +count.textContent)")
    assert counts == [int(np.sum(values == name)) for name in [*classes()[:-1], ""]]
    colour_by(opened, 1)
    dose = opened.run(PIXELS)
    assert all(a != b for a, b in zip(seen, dose, strict=True))
    assert opened.run("return document.querySelectorAll('#legend .ramp').length") == 1
    assert opened.run("return document.querySelector('#legend .count').textContent") == "9"
    colour_by(opened, 2)
    share = full_report().colourings[2].values
    ends = opened.run("return [...document.querySelectorAll('#legend .ends span')].map((end) => end.textContent)")
    assert ends[::2] == [f"{100 * share.min():.1f} %", f"{100 * share.max():.1f} %"]
    colour_by(opened, 0)
    assert opened.run(PIXELS) == seen


@pytest.mark.parametrize("end", [0, -1], ids=["least", "most"])
def test_the_least_and_the_most_have_the_ends_of_the_scale(opened, end):
    colour_by(opened, 2)
    i = int(np.argsort(full_report().colourings[2].values)[end])
    opened.move(*centre_of_sample(opened, 1, i))
    assert opened.run(HOVER) == str(i)
    _, _, width, height = opened.run(FIELD, 1)
    at = places(1, width, height)[i].round().tolist()
    filled = """const over = document.querySelectorAll(".over")[1];
    return [...over.getContext("2d").getImageData(...arguments[0], 1, 1).data].slice(0, 3)"""
    ramp = theme.RAMPS["light"][end]
    assert opened.run(filled, at) == [int(ramp[k : k + 2], 16) for k in (1, 3, 5)]


def test_a_class_can_stand_out(opened):
    before = opened.run(PIXELS)
    opened.run(f"document.querySelector('.class').click(); {FRAME}")
    alone = opened.run(PIXELS)
    assert all(len(b) < len(a) for a, b in zip(before, alone, strict=True))
    # Other colours, the same class.
    opened.dark(True)
    opened.run(FRAME)
    assert opened.run("return document.querySelector('.class').getAttribute('aria-pressed')") == "true"
    opened.dark(False)
    opened.run(FRAME)
    assert opened.run(PIXELS) == alone
    opened.press("Escape")
    opened.run(FRAME)
    assert opened.run(PIXELS) == before


def test_by_keyboard(opened):
    opened.run("document.querySelectorAll('.field-of-points')[1].focus()")
    opened.press("Right")
    frame = "return getComputedStyle(document.activeElement, '::after').borderTopStyle"
    assert opened.run(frame) == "solid"
    first = int(opened.run(HOVER))
    _, _, width, height = opened.run(FIELD, 1)
    at = places(1, width, height)
    assert first == np.argmin(np.linalg.norm(at - [width / 2, height / 2], axis=1))
    opened.press("Right")
    second = int(opened.run(HOVER))
    assert at[second, 0] > at[first, 0]
    opened.press("Up")
    third = int(opened.run(HOVER))
    assert at[third, 1] < at[second, 1]
    said = opened.run("return document.getElementById('live').textContent")
    assert said.startswith(f"plain {third}; kind plain: {full_report().colourings[0].values[third] or 'not known'}")
    opened.press("Enter")
    assert opened.run("return document.documentElement.dataset.kept") == str(third)
    opened.press("Escape")
    assert opened.run(HOVER) == "-1"
    assert opened.run("return document.documentElement.dataset.kept === undefined")
    # Tab goes on: no plot holds the keyboard.
    opened.press("Tab")
    assert opened.run("return document.activeElement.className") == "plain enlarge"


def test_every_sample_can_be_reached_by_keyboard_and_by_name(opened):
    opened.run("document.getElementById('find').focus()")
    opened.press("plain 4", "Enter")
    assert opened.run("return document.documentElement.dataset.kept") == "4"
    assert "1 of 11 that match" in opened.run("return document.getElementById('chosen').innerText")
    opened.press("Enter")
    assert opened.run("return document.documentElement.dataset.kept") == "40"
    opened.press("x", "Enter")
    assert "No sample is called" in opened.run("return document.getElementById('live').textContent")


def test_a_sample_to_distrust_is_shown(opened):
    opened.run("document.querySelectorAll('.sample')[3].click()")
    assert opened.run("return document.documentElement.dataset.kept") == "3"


def test_samples_to_distrust_are_ringed(opened):
    opened.run("document.getElementById('ring').click()")
    some = [pixels for pixels, _, _ in opened.run(RINGS)]
    assert min(some) > 20 * 20
    opened.run("document.getElementById('ring').click()")
    assert [pixels for pixels, _, _ in opened.run(RINGS)] == [0] * len(METHODS)


def test_all_samples_can_be_read_as_a_table(opened):
    content = full_report()
    opened.run(f"document.querySelector('#samples summary').click(); {FRAME}")
    table = "return [...document.querySelectorAll('#samples tr')].map((r) => [...r.cells].map((c) => c.textContent))"
    head, *rows = opened.run(table)
    assert head == ["sample", "kind plain", "dose plain", "share observed"]
    assert [row[0] for row in rows] == content.names[:50]
    assert [row[1] for row in rows] == [name or "not known" for name in content.colourings[0].values[:50]]
    assert [row[2] == "not known" for row in rows] == list(np.isnan(content.colourings[1].values[:50]))
    opened.run("[...document.querySelectorAll('#samples button')].find((b) => b.textContent === 'Later').click()")
    _, *rows = opened.run(table)
    assert [row[0] for row in rows] == content.names[50:]
    assert opened.run("return document.querySelector('.turns span').textContent") == "51 to 60 of 60"
    opened.run("document.querySelector('#samples tbody button').click()")
    assert opened.run("return document.documentElement.dataset.kept") == "50"


def test_a_plot_can_be_enlarged(opened):
    before, others = opened.run(FIELD, 1), opened.run(FIELD, 2)
    opened.run(f"document.querySelectorAll('.enlarge')[1].click(); {FRAME}; {FRAME}")
    after = opened.run(FIELD, 1)
    assert after[2] > 1.9 * before[2]
    assert opened.run("return document.querySelectorAll('.base')[1].width") == round(after[2])
    assert opened.run(FIELD, 2)[2:] == others[2:]
    opened.run("document.querySelectorAll('.enlarge')[1].click()")
    assert opened.run(FIELD, 1) == before


def test_the_picture_saves(opened):
    opened.run("document.querySelectorAll('.save')[2].click()")
    until = time.monotonic() + 20
    while not (found := list(opened.downloads.glob("*.png"))) and time.monotonic() < until:
        time.sleep(0.05)
    assert [path.name for path in found] == ["t-sne-plain-kind-plain.png"]
    content = found[0].read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    assert content.endswith(b"IEND\xaeB`\x82")
    width, height = (int.from_bytes(content[start : start + 4], "big") for start in (16, 20))
    _, _, shown, tall = opened.run(FIELD, 2)
    assert width == round((shown + 210) * 3)
    assert height >= 3 * (tall + 44) - 2
    assert len(content) > 20_000


def test_dark_and_light(opened):
    paper = "return getComputedStyle(document.body).backgroundColor"
    light, points = opened.run(paper), opened.run(PIXELS)
    opened.dark(True)
    opened.run(FRAME)
    dark = opened.run(paper)
    assert dark != light
    drawn = opened.run(PIXELS)
    assert max(points[1], key=points[1].get) == "255,255,255"
    assert max(drawn[1], key=drawn[1].get) == "26,30,34"
    opened.run("document.getElementById('theme').click()")
    assert opened.run(paper) == light
    assert opened.run(PIXELS) == points
    opened.run("document.getElementById('theme').click()")
    assert opened.run(paper) == dark
    opened.run("localStorage.clear()")


@pytest.mark.parametrize("size", [(1440, 900), (1300, 900)])
def test_no_part_scrolls_by_a_sliver(window, written, size):
    window.size(*size)
    window.open(written)
    slivers = """const parts = (name) => [...document.querySelectorAll(name)];
    const across = parts(".side").filter((part) => getComputedStyle(part).overflowX === "auto");
    const down = parts(".wide").filter((part) => getComputedStyle(part).overflowY === "auto");
    return [...across.map((part) => part.scrollWidth - part.clientWidth),
      ...down.map((part) => part.scrollHeight - part.clientHeight)].filter((left) => left > 0 && left < 20)"""
    assert window.run(slivers) == []


def test_on_a_phone(window, written):
    window.size(390, 844)
    window.dark(False)
    window.open(written)
    wide = "return document.documentElement.scrollWidth"
    assert window.run(wide) == 390
    # Nothing but what scrolls on its own reaches beyond the screen.
    beyond = """return [...document.querySelectorAll("body *")].filter((e) => !e.closest(".wide, .unseen, .classes")
      && e.getBoundingClientRect().right > 390.5).map((e) => e.outerHTML.slice(0, 80))"""
    assert window.run(beyond) == []
    window.run("for (const unfolding of document.querySelectorAll('details')) unfolding.open = true")
    assert window.run(wide) == 390
    small = """return [...document.querySelectorAll("body *")].filter((e) => e.innerText && !e.children.length
      && parseFloat(getComputedStyle(e).fontSize) < 11).map((e) => e.outerHTML.slice(0, 80))"""
    assert window.run(small) == []
    assert window.complaints() == []


@pytest.mark.parametrize(
    "points",
    [np.zeros((1, 2)), np.zeros((3, 2)), np.arange(8.0).reshape(4, 2) * [1, 0], [[-1e308, 0.0], [1e308, 1e-300]]],
    ids=["one sample", "all in one place", "one component", "of any size"],
)
def test_few_samples_without_names_and_labels(window, tmp_path, points):
    path = tmp_path / "bare.html"
    points = np.asarray(points)
    path.write_text(
        render(ReportContent("Bare", "", embeddings=(Embedding("PCA", points, ("a", "b")),))), encoding="utf-8"
    )
    window.size(1440, 900)
    window.dark(False)
    window.open(path)
    window.run("document.querySelector('.field-of-points').focus()")
    window.press("Right", "Right", "Enter")
    assert int(window.run(HOVER)) in range(len(points))
    assert "0,114,178" in " ".join(window.run(PIXELS)[0]) or window.run(RINGS)[0][0] > 50
    assert window.complaints() == []


def test_numbers_of_any_size_are_coloured(window, tmp_path):
    path = tmp_path / "numbers.html"
    points = np.random.default_rng(0).normal(size=(40, 2))
    spread = 1.7e308 * np.linspace(-1, 1, 40)
    outlying = np.where(np.arange(40) == 7, 1e6, np.linspace(0, 1, 40))
    few = np.array([np.nan] * 38 + [np.inf, 3.0])
    colourings = tuple(Colouring(f"c{c}", v, "number") for c, v in enumerate((spread, outlying, few, few * np.nan)))
    path.write_text(render(ReportContent("", "", None, (Embedding("PCA", points),), colourings)), encoding="utf-8")
    window.open(path)
    shown = []
    for c in range(4):
        colour_by(window, c)
        shown.append(window.run("return document.getElementById('legend').innerText").replace("\n", " "))
    assert shown == ["−1.7e+308 0 1.7e+308", "0 0.5 ≥ 1", "3 3 ≥ 3 not known 38", "not known 40"]
    assert window.complaints() == []


def test_without_any_embedding(window, tmp_path):
    path = tmp_path / "empty.html"
    path.write_text(render(ReportContent("Nothing to draw", "")), encoding="utf-8")
    window.open(path)
    window.press("Escape")
    assert window.complaints() == []
    assert window.run("return document.documentElement.dataset.readyMs !== undefined")


def test_fifty_thousand_points_are_drawn(window, tmp_path):
    """How long that takes is for benchmarks/report_draw.py to say; here they must all be there."""
    path = tmp_path / "large.html"
    path.write_text(render(full_report(50_000)), encoding="utf-8")
    window.size(1440, 900)
    window.dark(False)
    window.open(path)
    assert window.complaints() == []
    times = window.run("return {...document.documentElement.dataset}")
    print(json.dumps(times))
    assert float(times["drawMs"]) > 0
    for seen in window.run(PIXELS):
        assert sum(n for colour, n in seen.items() if colour != "255,255,255") > 20_000
    window.move(*centre_of_point(window, 2))
    assert int(window.run(HOVER)) >= 0
    assert all(pixels > 50 for pixels, _, _ in window.run(RINGS))


def centre_of_point(window, e: int) -> tuple[float, float]:
    left, top, width, height = window.run(FIELD, e)
    return left + width / 2, top + height / 2
