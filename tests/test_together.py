"""Methods fitted together come out as those fitted alone, and the estimate is made once."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import make_blobs

import nanfold as nf
from nanfold import pca as pca_module
from nanfold.together import Together


@pytest.fixture(scope="module")
def table():
    X, _ = make_blobs(90, 40, centers=3, cluster_std=3.0, random_state=0)
    return nf.datasets.hide(X, random_state=0)


@pytest.fixture(scope="module")
def together(table):
    return Together(table, random_state=3)


@pytest.mark.parametrize("n_components", [3, 0.4, "cng", "signflip", "all"])
def test_pca_is_the_one_fitted_alone(n_components, table, together):
    alone = nf.PCA(n_components, random_state=3)
    expected = alone.fit_transform(table)
    # In any order and again: no fit leaves a trace on the next.
    for _ in range(2):
        model, scores = together.pca(n_components)
        assert_array_equal(scores, expected)
        assert_array_equal(model.components_, alone.components_)
    assert_array_equal(model.transform(table[:5]), alone.transform(table[:5]))
    assert model.get_params() == alone.get_params()


@pytest.mark.parametrize(
    ("name", "quick"),
    [("TSNE", {"n_iter": 50}), ("UMAP", {"n_epochs": 50}), ("GPLVM", {"max_iter": 300, "tol": 1e-4})],
)
def test_other_methods_are_those_fitted_alone(name, quick, table, together):
    alone = getattr(nf, name)(random_state=3, **quick).fit(table)
    shared = together.embed(getattr(nf, name)(**quick))
    assert_array_equal(shared.embedding_, alone.embedding_)
    assert shared.get_params() == alone.get_params()
    assert shared.n_features_in_ == table.shape[1]


def test_the_estimate_and_the_representation_are_made_once(table, monkeypatch):
    made, decomposed = [], []
    corrected_gram, leading = pca_module.corrected_gram, pca_module.leading_components
    monkeypatch.setattr(pca_module, "corrected_gram", lambda *a, **k: made.append(1) or corrected_gram(*a, **k))
    monkeypatch.setattr(pca_module, "leading_components", lambda *a, **k: decomposed.append(1) or leading(*a, **k))
    both = Together(table, random_state=0)
    both.embed(nf.TSNE(n_iter=20))
    both.embed(nf.UMAP(n_epochs=20))
    assert (len(made), len(decomposed)) == (1, 1)


def test_settings_of_the_estimate_reach_the_methods(table):
    plain = Together(table, random_state=0, assist=0, observation="homogeneous")
    model, _ = plain.pca(2)
    assert (model.assist, model.assist_, model.observation) == (0, 0, "homogeneous")
    shared = plain.embed(nf.TSNE(n_iter=20, assist="auto"))
    assert (shared.assist, shared.pca_.assist_, shared.observation) == (0, 0, "homogeneous")
    assert plain.gram is plain.plain


def test_a_representation_of_its_own_is_refused(together):
    with pytest.raises(ValueError, match="representation must be 'auto'"):
        together.embed(nf.TSNE(representation=5))


def test_settings_that_cannot_be_are_refused(together):
    with pytest.raises(ValueError, match="n_neighbors=1000 is out of range"):
        together.embed(nf.UMAP(n_neighbors=1000))


def test_bad_data_are_refused_at_once(table):
    with pytest.raises(ValueError, match="no observed entry"):
        Together(np.vstack([table, np.full(table.shape[1], np.nan)]))
    with pytest.raises(ValueError, match="n_components"):
        Together(table).pca(1000)
