"""The page says what the numbers say, and the figures are drawn."""

import re
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
from made_up import results

from nanfold.paper import claims, figures, tables
from nanfold.paper.protocol import METHODS, Cell, Result

SIZES = (500, 1000, 2000, 3000)


def simulated(corrected: Sequence[float], plain: float = 0.5) -> list[Result]:
    out = []
    for size, value in zip(SIZES, corrected, strict=True):
        out += results(f"simulated-{size}", {"complete": 1.0, "plain": plain, "corrected": value})
    means = {"complete": 1.0, "plain": plain, "corrected": corrected[-1]}
    return out + results("simulated-3000", means, ("gplvm", "tsne", "umap"))


def real(**means: float) -> list[Result]:
    return results("yan90", means, tuple(METHODS)) + results("wine", means, tuple(METHODS))


def claim(page: str, words: str) -> str:
    """The section whose title has these words."""
    (section,) = (part for part in re.split(r"^## ", page, flags=re.MULTILINE) if words in part.splitlines()[0])
    return section


def test_a_claim_that_holds():
    page = claims.page({"simulation": simulated((0.8, 0.95, 0.99, 1.0)), "real": []})
    assert "**Holds.** At 3000 features the corrected PCA lies +0.000 from the complete" in claim(page, "more features")
    assert "**Holds**." in claim(page, "all four methods")
    assert "+0.500 (better)" in claim(page, "all four methods")
    assert "on real data" not in page


def test_a_claim_that_does_not_hold():
    page = claims.page({"simulation": simulated((0.5, 0.5, 0.5, 0.5)), "real": real(plain=0.6, corrected=0.5)})
    assert "**Does not hold.**" in claim(page, "more features")
    assert "short of the complete data in PCA, GPLVM, t-SNE, UMAP" in claim(page, "all four methods")
    section = claim(page, "on real data")
    assert "**Does not hold**" in section
    assert "better in 0, level in 0 and worse in 8" in section
    assert "| Yan | -0.100 (worse)" in section


def test_means_beside_those_of_figure_3():
    near = claims.page({"simulation": simulated((0.81, 0.95, 0.995, 1.0), 0.505), "real": []})
    assert "corrected | 0.81 (+0.000) | 0.95 (+0.000)" in near
    assert "zero-filled at 500 features by +0.055" in near
    assert "corrected at" not in near


def test_imputation_is_compared_variant_by_variant():
    page = claims.page({"simulation": [], "real": real(plain=0.3, corrected=0.5, knn=0.7, mean=0.5, assisted=0.6)})
    section = claim(page, "as well as imputation")
    assert "| corrected against KNN | 0 / 0 / 2 | 0 / 0 / 2 | 0 / 0 / 2 | 0 / 0 / 2 | 0 / 0 / 8 |" in section
    assert "| corrected against mean fill |" in section
    assert "better in 0, level in 8 and worse in 8 of\n16 comparisons" in section
    assert "| assisted against corrected, hidden entries | 4 / 0 / 0 | +0.100 |" in claim(page, "a guess")


def test_failures_and_notes_are_told():
    failed = Result(Cell("wine", "knn", "pca", 0), 0, "178 x 13, 3 classes, abc", reason="took longer than 5 s")
    noted = [replace(result, notes=("ice sees few",)) for result in results("yan90", {"ice": 0.1})]
    page = claims.page({"simulation": [], "real": [failed, *noted]})
    assert "- 1 failed: KNN on Wine: took longer than 5 s" in page
    assert "4 jobs, 1 to 3 repetitions, " in page
    assert "- ice sees few (Yan)." in page
    assert "| Wine | 178 x 13 | 3 | entries hidden | the paper's | abc |" in page


def test_where_every_process_was_lost():
    """None of them could tell what it ran on."""
    lost = [replace(result, ari=None, reason="Lost.", versions=()) for result in results("wine", {"plain": 0.5})]
    page = claims.page({"simulation": [], "real": lost})
    assert "- 3 failed: zero-filled on Wine: Lost." in page
    assert "Versions" not in page


def test_time_that_is_shared_counts_once():
    found = results("yan90", {"plain": 0.5}, ("pca", "umap"), repetitions=2)
    assert claims.processor_seconds(found) == 4 * 1.0 + 2 * 2.0


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """Everything in figures, drawn once."""
    tmp_path = tmp_path_factory.mktemp("drawn")
    everything = {"simulation": simulated((0.8, 0.9, 1.0, 1.0)), "real": real(plain=0.3, corrected=0.5, cidr=0.4)}
    everything["real"] = [
        replace(r, ari=None, reason="No.", positions=None) if (r.cell.variant, r.cell.method) == ("cidr", "umap") else r
        for r in everything["real"]
    ]
    figures.save(everything, tmp_path)
    return everything, tmp_path


def test_figures_are_drawn_in_every_format(drawn):
    everything, folder = drawn
    names = {path.name for path in folder.iterdir()}
    wanted = {"features", "simulated", "differences", "box-yan90", "box-wine", "scatter-yan90", "scatter-wine"}
    assert names == {f"results-{name}.{end}" for name in wanted for end in ("svg", "pdf", "png")}
    for path in folder.glob("*.svg"):
        assert ET.parse(path).getroot().tag.endswith("svg")
    linked = re.findall(r"\]\(images/([^)]+)\)", claims.page(everything))
    assert len(linked) == 3
    assert set(linked) <= names


def test_nothing_is_cut_off_or_hidden_in_the_curves():
    """Neither indices below zero nor what lies where a legend might."""
    entries = tables.summarised(simulated((0.3, 0.2, 0.1, 0.1), plain=-0.1))
    figure = figures.features(entries)
    figure.draw_without_rendering()
    (axes,), (legend,) = figure.axes, figure.legends
    assert axes.get_ylim()[0] < -0.1
    assert not legend.get_window_extent().overlaps(axes.get_window_extent())
    assert legend.get_window_extent().x1 <= figure.bbox.x1


def test_figures_are_the_same_every_time(drawn, tmp_path_factory):
    everything, folder = drawn
    again = tmp_path_factory.mktemp("again")
    figures.save({"simulation": everything["simulation"], "real": []}, again)
    for path in again.glob("*.svg"):
        assert path.read_bytes() == (folder / path.name).read_bytes()


@pytest.mark.parametrize(
    ("better", "level", "worse", "verdict"),
    [
        (4, 0, 0, "Holds everywhere"),
        (3, 1, 0, "Holds, or makes no difference"),
        (5, 0, 2, "Holds mostly"),
        (4, 9, 4, "Mixed"),
        (2, 0, 4, "Does not hold"),
    ],
)
def test_verdicts_over_many_pairs(better, level, worse, verdict):
    assert claims._verdict(Counter(better=better, level=level, worse=worse)) == verdict
