"""Chained equations: scikit-learn's answer where there are few features, and the same checks of data as elsewhere."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer
from sklearn.linear_model import Ridge

import nanfold as nf
from nanfold.baselines import ChainedEquations, chained_equations


def low_rank(n: int, d: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A matrix of rank 3 with some noise, and the same with a fifth of it missing."""
    rng = np.random.default_rng(seed)
    complete = rng.standard_normal((n, 3)) @ rng.standard_normal((3, d)) + 0.1 * rng.standard_normal((n, d))
    return complete, np.where(rng.random((n, d)) < 0.2, np.nan, complete)


def error(filled: np.ndarray, complete: np.ndarray, holes: np.ndarray) -> float:
    return float(np.sqrt(np.mean((filled - complete)[holes] ** 2)))


def test_few_features_give_the_answer_of_scikit_learn():
    _, X = low_rank(80, 8)
    model = ChainedEquations(max_iter=40)
    filled = model.fit_transform(X)
    expected = IterativeImputer(max_iter=40).fit_transform(X)
    np.testing.assert_array_equal(filled, expected)
    np.testing.assert_array_equal(filled[~np.isnan(X)], X[~np.isnan(X)])
    assert model.n_iter_ < 40
    assert model.n_nearest_features_ == 7
    np.testing.assert_allclose(model.transform(X[:5]), expected[:5], atol=0.05)


def test_wide_tables_are_predicted_by_some_features(monkeypatch):
    monkeypatch.setattr(chained_equations, "NEAREST", 12)
    complete, X = low_rank(60, 40)
    model = ChainedEquations(max_iter=5, random_state=0)
    filled = model.fit_transform(X)
    assert model.n_nearest_features_ == 12
    assert {len(step.neighbor_feat_idx) for step in model.imputer_.imputation_sequence_} == {12}
    assert model.n_iter_ == 5
    holes = np.isnan(X)
    mean = np.where(holes, np.nanmean(X, axis=0), X)
    assert error(filled, complete, holes) < 0.2 * error(mean, complete, holes)
    np.testing.assert_array_equal(clone(model).fit_transform(X), filled)


def test_own_regressor_bounds_and_order():
    _, X = low_rank(50, 6)
    settings = {"estimator": Ridge(), "min_value": -1.0, "max_value": 1.0, "imputation_order": "roman", "max_iter": 30}
    filled = ChainedEquations(initial_strategy="median", **settings).fit_transform(X)
    np.testing.assert_array_equal(filled, IterativeImputer(initial_strategy="median", **settings).fit_transform(X))
    assert np.abs(filled[np.isnan(X)]).max() <= 1


@pytest.mark.parametrize("form", ["mask", "masked array", "table", "unstored", "sparse with NaN"])
def test_every_way_of_showing_holes(form):
    _, X = low_rank(50, 6)
    known = ~np.isnan(X)
    settings, mask, given = {}, None, X
    if form == "mask":
        given, mask = np.where(known, X, 99.0), known
    elif form == "masked array":
        given = np.ma.array(np.where(known, X, 99.0), mask=~known)
    elif form == "table":
        given = pd.DataFrame(X, columns=list("abcdef"))
    elif form == "unstored":
        rows, columns = np.nonzero(known)
        given = sparse.csr_array((X[known], (rows, columns)), shape=X.shape)
        settings["missing"] = "unstored"
    else:
        given = sparse.csr_array(X)
    model = ChainedEquations(max_iter=30, **settings)
    filled = model.fit_transform(given, mask=mask)
    np.testing.assert_allclose(filled, ChainedEquations(max_iter=30).fit_transform(X), rtol=1e-12)
    assert isinstance(filled, np.ndarray)
    if form == "table":
        assert list(model.get_feature_names_out()) == list("abcdef")


def test_float32_is_kept():
    _, X = low_rank(50, 6)
    assert ChainedEquations(max_iter=30).fit_transform(X.astype(np.float32)).dtype == np.float32


def test_says_when_it_has_not_settled():
    _, X = low_rank(50, 6)
    with pytest.warns(ConvergenceWarning, match="max_iter=1 rounds .* more than tol=0.001"):
        ChainedEquations(max_iter=1).fit(X)


def test_no_rounds_leave_what_the_holes_hold_at_first():
    _, X = low_rank(50, 6)
    filled = ChainedEquations(max_iter=0).fit_transform(X)
    np.testing.assert_allclose(filled, np.where(np.isnan(X), np.nanmean(X, axis=0), X))


@pytest.mark.parametrize(
    ("settings", "X", "message"),
    [
        ({"n_nearest_features": 0}, low_rank(20, 4)[1], "n_nearest_features must be 'auto', None or an int .* it is 0"),
        ({"missing": "none"}, low_rank(20, 4)[1], "missing must be one of 'nan', 'unstored'"),
        ({}, np.column_stack([np.arange(5.0), np.full(5, np.nan)]), "Column 1 of X has no observed entry"),
        ({}, sparse.csr_array((2**14, 2**13)), "16384 x 8192 entries would take 1.1 GB; give fewer rows"),
    ],
)
def test_refuses_in_one_sentence(settings, X, message):
    with pytest.raises(ValueError, match=message):
        ChainedEquations(**settings).fit(X)


def test_refuses_weights_and_too_many_features(monkeypatch):
    X = np.ones((3, 4)) + np.eye(3, 4)
    with pytest.raises(ValueError, match="ChainedEquations needs entries that are observed or not"):
        ChainedEquations().fit(X, mask=np.full(X.shape, 0.5))
    monkeypatch.setattr(chained_equations, "WIDEST", 30)
    with pytest.raises(ValueError, match="X has 40 features, and the correlations between more than 30"):
        ChainedEquations(n_nearest_features=5).fit(low_rank(20, 40)[1])


@pytest.mark.parametrize(
    "estimator",
    [
        nf.PCA(2),
        nf.GPLVM(kernel="linear", random_state=0),
        nf.TSNE(perplexity=5, n_iter=50, n_jobs=1, random_state=0),
        nf.UMAP(n_epochs=20, random_state=0),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
@pytest.mark.parametrize("method", ["chained", "soft", "scimpute"])
def test_imputed_matrices_go_into_all_four(method, estimator, counts):
    if method == "scimpute":
        filled = np.log2(1 + nf.baselines.ScImpute(n_clusters=3, random_state=0).fit(counts.X[:, :60]).imputed_)
    else:
        imputer = ChainedEquations(max_iter=50) if method == "chained" else nf.baselines.SoftImpute(1.0)
        filled = imputer.fit_transform(low_rank(60, 10)[1])
    embedding = clone(estimator).fit_transform(filled)
    assert embedding.shape == (60, 2)
    assert np.all(np.isfinite(embedding))
