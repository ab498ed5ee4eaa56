"""What each way of dealing with holes shows to the methods."""

import numpy as np
import pytest
from sklearn.decomposition import PCA as CompletePCA  # noqa: N811

import nanfold as nf
from nanfold.baselines import CIDR
from nanfold.datasets import hide
from nanfold.paper.protocol import VARIANTS
from nanfold.paper.subject import ICE_PREDICTORS, VIEWS


def same(A, B):
    signs = np.sign(np.sum(A * B, axis=0))
    np.testing.assert_allclose(A * signs, B, atol=1e-6 * np.abs(B).max())


def test_every_variant_has_a_view():
    assert set(VIEWS) == set(VARIANTS)


def test_inferred_dropouts_are_the_holes_of_expression(cells):
    mask = nf.Dropouts(rule="vote", random_state=0).fit(cells.X).mask_
    dropouts = (cells.X == 0) & (mask.weights[mask.groups] == 0)
    assert 0 < dropouts.sum() < (cells.X == 0).sum()
    assert np.array_equal(np.isnan(cells.holed), dropouts)
    assert np.array_equal(cells.holed[~dropouts], cells.X[~dropouts])


def test_entries_of_complete_data_are_hidden_by_the_papers_mechanism(images):
    np.testing.assert_array_equal(images.holed, hide(images.X, random_state=0))


@pytest.mark.parametrize("subject", ["cells", "images"])
def test_corrected_is_the_paper_to_the_letter(subject, request):
    subject = request.getfixturevalue(subject)
    pca = nf.PCA(3, assist=0, observation="rank-one-bounded", random_state=0)
    mask = None if subject.counts is None else nf.Dropouts(rule="vote", random_state=0).fit(subject.X)
    wanted = pca.fit_transform(subject.holed if mask is None else subject.X, mask=mask)
    subject.n_components = 3
    same(VIEWS["corrected"](subject).embed("pca"), wanted)


def test_what_is_filled_in_is_seen_by_ordinary_pca(cells, images):
    cells.n_components = images.n_components = 2
    holed = images.holed
    for subject, variant, table in (
        (cells, "plain", cells.X),
        (images, "plain", np.nan_to_num(holed)),
        (images, "complete", images.X),
        (images, "mean", np.where(np.isnan(holed), np.nanmean(holed, axis=0), holed)),
    ):
        wanted = CompletePCA(2, svd_solver="full").fit_transform(table)
        same(VIEWS[variant](subject).embed("pca"), wanted)


def test_cidr_is_seen_through_its_dissimilarities(cells):
    cells.n_components = 2
    wanted = CIDR().fit(cells.counts).embed(nf.PCA(2))
    same(VIEWS["cidr"](cells).embed("pca"), wanted)


def test_chained_equations_say_what_they_left_out(cells, monkeypatch):
    monkeypatch.setattr("nanfold.paper.subject.ICE_FEATURES", 30)
    notes = VIEWS["ice"](cells).notes
    assert notes[0] == "ice sees the 30 features of largest variance"
    assert f"from {ICE_PREDICTORS} others" in notes[1]


@pytest.mark.parametrize("variant", [name for name in VARIANTS if name not in ("cidr", "scimpute", "weighted")])
def test_every_view_of_hidden_entries_embeds(variant, images):
    assert VIEWS[variant](images).embed("pca").shape[0] == 60


@pytest.mark.parametrize("variant", [name for name in VARIANTS if name != "complete"])
def test_every_view_of_expression_embeds(variant, cells):
    positions = VIEWS[variant](cells).embed("pca")
    assert positions.shape[0] == 45
    assert np.isfinite(positions).all()


@pytest.mark.parametrize("variant", ["corrected", "cidr"])
@pytest.mark.parametrize("method", ["gplvm", "tsne", pytest.param("umap", marks=pytest.mark.slow)])
def test_every_method_embeds(variant, method, cells):
    view = VIEWS[variant](cells)
    positions = view.embed(method)
    assert positions.shape == (45, 2)
    assert np.array_equal(positions, VIEWS[variant](cells).embed(method))
