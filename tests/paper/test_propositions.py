"""The Gram matrix itself: its bias, and how its error falls."""

import numpy as np
import pytest

from nanfold.cli import main
from nanfold.paper import claims, propositions
from nanfold.paper.propositions import GramError, as_csv, falls_as, from_csv, gram_errors
from nanfold.paper.simulation import Simulation


@pytest.fixture(scope="module")
def errors():
    return [one for draw in range(3) for one in gram_errors(Simulation(60, 1200), draw)]


def test_only_zeros_in_the_holes_are_biased(errors):
    means = {
        variant: np.mean(
            [(e.slope, e.diagonal) for e in errors if (e.variant, e.n_features) == (variant, 1200)], axis=0
        )
        for variant in propositions.ESTIMATES
    }
    np.testing.assert_allclose(means["corrected"], 1.0, atol=0.04)
    # About 0.6 of the entries are observed, and 0.36 of the products.
    assert means["plain"][0] == pytest.approx(0.36, abs=0.08)
    assert means["plain"][1] > 1.05


def test_zeros_spend_a_component_on_how_much_was_observed():
    """As the page says where it explains what zeros in the holes lose."""
    subject = Simulation(150, 1200).subject("simulated-1200", 0)
    filled = np.nan_to_num(subject.holed)
    U, _, _ = np.linalg.svd(filled - filled.mean(axis=0), full_matrices=False)
    share = (~np.isnan(subject.holed)).mean(axis=1)
    assert max(abs(np.corrcoef(U[:, k], share)[0, 1]) for k in range(2)) > 0.75
    assert abs(np.corrcoef(share, subject.labels)[0, 1]) < 0.2


def test_the_error_falls_with_the_root_of_the_features(errors):
    assert falls_as(errors, "corrected") == pytest.approx(-0.5, abs=0.06)
    made = [GramError("plain", d, 0, 1.0, 1.0, d**-0.25) for d in (100, 400, 900)]
    assert falls_as(made, "plain") == pytest.approx(-0.25)


def test_errors_survive_the_way_through_a_file(errors):
    again = from_csv(as_csv(errors))
    assert [(one.variant, one.n_features, one.draw) for one in again] == [
        (one.variant, one.n_features, one.draw) for one in errors
    ]
    np.testing.assert_allclose([one.slope for one in again], [one.slope for one in errors], atol=1e-6)


def page(slope: float) -> str:
    made = [
        GramError(variant, d, 0, slope if variant == "corrected" else 0.36, 1.0, d**-0.5)
        for variant in propositions.ESTIMATES
        for d in (500, 1000, 3000)
    ]
    return claims.page({"simulation": [], "real": []}, made)


def test_the_claim_follows_the_numbers():
    assert "**Holds** (Propositions 1 and 2)" in page(0.995)
    assert "**Does not hold** (Propositions 1 and 2)" in page(0.9)
    assert "off by at most 10.0%" in page(0.9)


def test_a_damaged_file_is_named(tmp_path, capsys):
    (tmp_path / "gram.csv").write_text("variant,features\nplain,500\n")
    assert main(["reproduce", "page", "--out", str(tmp_path)]) == 2
    assert "gram.csv is damaged; delete it" in capsys.readouterr().err
