"""Means, deviations and differences."""

import csv
import io

import numpy as np
import pytest
from made_up import results

from nanfold.paper.compare import difference
from nanfold.paper.protocol import Cell, Result
from nanfold.paper.tables import as_csv, as_markdown, jobs_as_csv, summarised

FAILED = Result(Cell("wine", "plain", "pca", 3), 3, "x", reason="It broke, badly.")
RESULTS = [*results("yan90", {"corrected": 0.6}), *results("wine", {"plain": 0.4, "corrected": 0.6}), FAILED]


def entry(aris: dict[int, float], variant: str = "plain"):
    made = [Result(Cell("wine", variant, "pca", r), r, "x", ari=ari) for r, ari in aris.items()]
    return summarised(made)["wine", variant, "pca"]


def test_means_and_deviations():
    entries = summarised(reversed(RESULTS))
    assert list(entries) == [("wine", "plain", "pca"), ("wine", "corrected", "pca"), ("yan90", "corrected", "pca")]
    plain = entries["wine", "plain", "pca"]
    assert plain.mean == pytest.approx(0.4)
    assert plain.deviation == pytest.approx(np.std([0.39, 0.40, 0.41], ddof=1))
    assert plain.as_text() == "0.400 ± 0.010 (1 failed)"
    assert entry({0: 0.5}).as_text() == "0.500"
    assert np.isnan(entry({0: 0.5}).deviation)
    assert summarised([FAILED])["wine", "plain", "pca"].as_text() == "failed"


def test_the_tables_hold_every_number():
    entries = summarised(RESULTS)
    rows = list(csv.DictReader(io.StringIO(as_csv(entries))))
    assert [(row["set"], row["variant"], row["mean_ari"]) for row in rows] == [
        ("wine", "plain", "0.400000"),
        ("wine", "corrected", "0.600000"),
        ("yan90", "corrected", "0.600000"),
    ]
    assert (rows[0]["repetitions"], rows[0]["failed"], rows[0]["reason"]) == ("3", "1", "It broke, badly.")
    text = as_markdown(entries)
    assert text.index("### Wine") < text.index("| zero-filled | 0.400") < text.index("### Yan")
    jobs = list(csv.DictReader(io.StringIO(jobs_as_csv(RESULTS))))
    assert len(jobs) == len(RESULTS)
    assert [job["reason"] for job in jobs if not job["ari"]] == ["It broke, badly."]


@pytest.mark.parametrize(
    ("a", "b", "verdict"),
    [
        ((0.60, 0.61, 0.62), (0.50, 0.51, 0.52), "better"),
        ((0.50, 0.51, 0.52), (0.60, 0.61, 0.62), "worse"),
        ((0.60, 0.61, 0.62), (0.59, 0.60, 0.61), "level"),  # sure, but negligible
        ((0.90, 0.10, 0.80), (0.10, 0.80, 0.10), "level"),  # large, but not sure
    ],
)
def test_verdicts(a, b, verdict):
    found = difference(entry(dict(enumerate(a))), entry(dict(enumerate(b))))
    assert found.mean == pytest.approx(np.mean(a) - np.mean(b))
    assert found.error == pytest.approx(np.std(np.subtract(a, b), ddof=1) / np.sqrt(3))
    assert found.verdict == verdict


def test_only_repetitions_that_both_have_are_compared():
    found = difference(entry({0: 0.5, 1: 0.7}), entry({1: 0.6, 2: 0.1}))
    assert (found.n, found.mean) == (1, pytest.approx(0.1))
    assert found.verdict == "better"
    assert difference(entry({0: 0.5}), entry({1: 0.5})) is None
    assert difference(entry({0: 0.5}), None) is None
