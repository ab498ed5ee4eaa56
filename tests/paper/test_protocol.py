"""The plan: which jobs there are, in which order, and what is left of them."""

import pytest

from nanfold.paper.protocol import METHODS, VARIANTS, Batch, Cell, chosen, plan
from nanfold.paper.simulation import Simulation


def test_every_variant_that_suits_a_set_is_planned():
    batches = plan([("yan90", True), ("wine", False)], list(VARIANTS), list(METHODS), 2)
    of = {name: {batch.variant for batch in batches if batch.data == name} for name in ("yan90", "wine")}
    assert of["yan90"] == set(VARIANTS) - {"complete"}
    assert of["wine"] == set(VARIANTS) - {"cidr", "scimpute", "weighted"}
    assert len(batches) == 2 * (len(of["yan90"]) + len(of["wine"]))
    assert all(batch.methods == tuple(METHODS) for batch in batches)
    # The first repetition is whole before the second begins.
    assert [batch.repetition for batch in batches] == sorted(batch.repetition for batch in batches)


def test_what_is_left_of_a_batch():
    batch = Batch("yan90", "plain", 3, ("pca", "tsne", "umap"))
    left = batch.without([Cell("yan90", "plain", "tsne", 3), Cell("yan90", "plain", "umap", 2)])
    assert left.methods == ("pca", "umap")
    assert [cell.key for cell in left.cells] == ["yan90.plain.pca.003", "yan90.plain.umap.003"]


def test_the_simulation_does_all_methods_at_all_features_in_a_few_draws():
    batches = Simulation().plan(["plain", "corrected"], list(METHODS), 10)
    cells = [cell for batch in batches for cell in batch.cells]
    assert len(cells) == 2 * (4 * 10 + 3 * 3)
    assert {cell.data for cell in cells if cell.method == "umap"} == {"simulated-3000"}
    assert not [batch for batch in Simulation().plan(["plain"], ["umap"], 10) if batch.data != "simulated-3000"]


def test_names_that_are_asked_for():
    assert chosen("--methods", None, METHODS) == list(METHODS)
    assert chosen("--methods", ["umap", "pca"], METHODS) == ["pca", "umap"]
    with pytest.raises(ValueError, match=r"--methods must be among pca, .*; there is no isomap"):
        chosen("--methods", ["isomap"], METHODS)
