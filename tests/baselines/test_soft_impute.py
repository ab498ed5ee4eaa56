"""SoftImpute against plain proximal gradients on dense arrays, its certificate, storages, penalties and refusals."""

import pickle
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import nanfold as nf
from nanfold.baselines import SoftImpute, _nuclear_norm, soft_impute


def low_rank(n=40, d=30, rank=3, noise=0.3, holes=0.4, seed=0):
    """A noisy matrix of low rank, complete and with holes, of which no row and no column is empty."""
    rng = np.random.default_rng(seed)
    complete = rng.standard_normal((n, rank)) @ rng.standard_normal((rank, d)) + noise * rng.standard_normal((n, d))
    complete += rng.normal(0, 2, d)
    hidden = rng.random((n, d)) < holes
    hidden[np.arange(n), rng.integers(0, d, n)] = False
    hidden[rng.integers(0, n, d), np.arange(d)] = False
    return complete, np.where(hidden, np.nan, complete)


def centred(X):
    """The observed entries less their column's mean, zero in the holes, and the mask."""
    seen = ~np.isnan(X)
    return np.where(seen, X - np.nanmean(X, axis=0), 0.0), seen


def shrunk(A, penalty):
    U, s, Vt = np.linalg.svd(A, full_matrices=False)
    return (U * np.maximum(s - penalty, 0)) @ Vt


def objective(Y, seen, M, penalty):
    return np.sum((Y - M)[seen] ** 2) / 2 + penalty * np.linalg.norm(M, "nuc")


def plain_minimum(Y, seen, penalty, tol=1e-11, most=50_000):
    """Proximal gradient steps of length 1 from zero, until one moves next to nothing."""
    M = np.zeros_like(Y)
    for _ in range(most):
        before, M = M, shrunk(np.where(seen, Y, M), penalty)
        if np.linalg.norm(M - before) <= tol * np.linalg.norm(M):
            return M
    raise AssertionError("plain proximal gradients did not converge")


def fitted_matrix(model):
    return model.U_ * model.singular_values_ @ model.components_


# --- the minimum ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("penalty", [0.5, 3.0, 12.0])
@pytest.mark.parametrize("holes", [0.1, 0.6])
def test_the_minimum_is_that_of_plain_proximal_gradients(penalty, holes):
    _, X = low_rank(holes=holes)
    Y, seen = centred(X)
    expected = plain_minimum(Y, seen, penalty)
    model = SoftImpute(penalty, tol=1e-13, max_iter=5000, random_state=0).fit(X)
    assert model.converged_
    error = np.linalg.norm(fitted_matrix(model) - expected) / np.linalg.norm(expected)
    assert error < 1e-6
    assert model.objective_ == pytest.approx(objective(Y, seen, expected, penalty), rel=1e-10)
    assert model.rank_ == np.linalg.matrix_rank(expected, tol=1e-4)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), share=st.floats(0.02, 0.9), tol=st.sampled_from([1e-1, 1e-3, 1e-6]))
def test_the_certificate_bounds_what_is_left_to_gain(seed, share, tol):
    _, X = low_rank(15, 11, seed=seed)
    Y, seen = centred(X)
    penalty = share * np.linalg.norm(Y, 2)
    model = SoftImpute(penalty, tol=tol, random_state=0).fit(X)
    assert model.converged_
    assert model.certificate_ <= tol
    reached = objective(Y, seen, fitted_matrix(model), penalty)
    assert model.objective_ == pytest.approx(reached, rel=1e-9)
    least = objective(Y, seen, plain_minimum(Y, seen, penalty, 1e-7), penalty)
    assert reached - least <= (model.certificate_ + 1e-6) * reached


def test_the_certificate_is_not_small_before_the_minimum_is_reached():
    _, X = low_rank()
    Y, seen = centred(X)
    # The penalties on the way warn as well.
    with pytest.warns(ConvergenceWarning) as warned:
        model = SoftImpute(1.0, max_iter=2, random_state=0).fit(X)
    assert "max_iter=2 steps at penalty 1 and its relative duality gap" in str(warned[-1].message)
    assert not model.converged_
    least = objective(Y, seen, plain_minimum(Y, seen, 1.0, 1e-8), 1.0)
    assert model.certificate_ >= 1 - least / model.objective_ > 1e-6


@pytest.mark.parametrize("lost", ["nothing", "almost a column", "a column", "everything"])
def test_orthonormal_columns_even_where_rank_is_lost(lost):
    W = np.random.default_rng(0).standard_normal((30, 6)) * np.geomspace(1e-3, 1e3, 6)
    if lost == "everything":
        W[:] = 0.0
    elif lost != "nothing":
        W[:, 5] = W[:, :5].sum(axis=1) + (1e-9 * W[:, 5] if lost == "almost a column" else 0.0)
    Q, R = _nuclear_norm._qr(W.copy())
    np.testing.assert_allclose(Q.T @ Q, np.eye(6), rtol=0, atol=1e-14)
    np.testing.assert_allclose(Q @ R, W, rtol=0, atol=1e-14 * np.linalg.norm(W))


def test_complete_data_are_shrunk_once():
    complete, _ = low_rank()
    model = SoftImpute(2.0, tol=1e-12, random_state=0).fit(complete)
    np.testing.assert_allclose(fitted_matrix(model), shrunk(complete - complete.mean(axis=0), 2.0), atol=1e-6)
    np.testing.assert_array_equal(model.transform(complete), complete)


def test_a_large_penalty_shrinks_everything_away():
    _, X = low_rank()
    Y, seen = centred(X)
    model = SoftImpute(1.01 * np.linalg.norm(Y, 2), random_state=0).fit(X)
    assert model.rank_ == 0
    assert model.certificate_ == 0
    assert model.components_.shape == (0, 30)
    np.testing.assert_allclose(model.transform(X)[~seen], np.broadcast_to(np.nanmean(X, axis=0), X.shape)[~seen])
    assert SoftImpute(0.99 * np.linalg.norm(Y, 2), random_state=0).fit(X).rank_ == 1


def test_a_rank_that_binds_is_stationary_and_says_how_far_the_minimum_may_be():
    _, X = low_rank(noise=1.0)
    model = SoftImpute(1.0, rank=2, tol=1e-9, random_state=0).fit(X)
    free = SoftImpute(1.0, tol=1e-9, random_state=0).fit(X)
    assert model.rank_ == 2 < free.rank_
    assert model.converged_
    assert model.certificate_ > 1e-3
    assert free.objective_ >= (1 - model.certificate_) * model.objective_
    Y, seen = centred(X)
    M = fitted_matrix(model)
    U, s, Vt = np.linalg.svd(np.where(seen, Y, M))
    np.testing.assert_allclose((U[:, :2] * (s[:2] - 1.0)) @ Vt[:2], M, atol=1e-3)


# --- penalties ------------------------------------------------------------------------------------------------------


def test_a_path_holds_the_minimum_of_every_penalty():
    _, X = low_rank()
    Y, seen = centred(X)
    model = SoftImpute([1.0, 8.0, 3.0], tol=1e-12, random_state=0).fit(X)
    assert [solution.penalty for solution in model.path_] == [8.0, 3.0, 1.0]
    for solution in model.path_:
        M = solution.U * solution.singular_values @ solution.components
        np.testing.assert_allclose(M, plain_minimum(Y, seen, solution.penalty), atol=1e-4)
    assert model.penalty_ in (1.0, 3.0, 8.0)
    assert model.penalty_ == model.held_out_penalties_[np.argmin(model.held_out_errors_)]


def test_the_penalty_is_chosen_by_entries_held_out():
    complete, X = low_rank(60, 40, noise=1.0)
    holes = np.isnan(X)

    def error(**settings):
        return np.sqrt(np.mean((SoftImpute(random_state=0, **settings).fit_transform(X) - complete)[holes] ** 2))

    model = SoftImpute(random_state=0).fit(X)
    assert len(model.path_) == 1
    assert model.penalty_ in model.held_out_penalties_
    best = min(error(penalty=float(penalty)) for penalty in model.held_out_penalties_[::4])
    assert error() < 1.1 * best
    # The control: neither end of the grid is as good.
    assert error(penalty=float(model.held_out_penalties_[0])) > 1.3 * best
    assert error(penalty=float(model.held_out_penalties_[0]) / 50) > 1.05 * best


def test_a_warm_start_takes_fewer_steps():
    _, X = low_rank(holes=0.5)
    alone = SoftImpute(2.0, random_state=0).fit(X)
    warm = SoftImpute([2.0, 2.05], random_state=0).fit(X)
    assert warm.path_[1].n_iter < alone.n_iter_


# --- completing -----------------------------------------------------------------------------------------------------


def storages_of(X):
    """The same entries: NaN, a mask, a masked array, a table, sparse with NaN, sparse with holes unstored."""
    seen = ~np.isnan(X)
    zero = np.where(seen, X, 0.0)
    rows, columns = np.nonzero(seen)
    stored = sparse.coo_array((X[seen], (rows, columns)), shape=X.shape)
    yield "mask", zero, seen, {}
    yield "masked", np.ma.array(zero, mask=~seen), None, {}
    yield "table", pd.DataFrame(X), None, {}
    yield "sparse with nan", sparse.csr_array(X), None, {}
    yield "unstored", stored.tocsr(), None, {"missing": "unstored"}
    yield "unstored csc", stored.tocsc(), None, {"missing": "unstored"}


def test_every_storage_gives_the_same():
    _, X = low_rank()
    expected = SoftImpute(2.0, tol=1e-12, random_state=0).fit_transform(X)
    for name, given_X, mask, settings_ in storages_of(X):
        model = SoftImpute(2.0, tol=1e-12, random_state=0, **settings_)
        filled = model.fit_transform(given_X, mask=mask)
        assert sparse.issparse(filled) == (name == "sparse with nan")
        filled = filled.toarray() if sparse.issparse(filled) else filled
        np.testing.assert_allclose(filled, expected, atol=1e-5, err_msg=name)
        again = model.transform(given_X, mask=mask)
        again = again.toarray() if sparse.issparse(again) else again
        np.testing.assert_allclose(again, expected, atol=1e-4, err_msg=name)


def test_observed_entries_are_kept_and_single_ones_predicted():
    _, X = low_rank()
    model = SoftImpute(2.0, random_state=0)
    filled = model.fit_transform(X)
    holes = np.isnan(X)
    np.testing.assert_array_equal(filled[~holes], X[~holes])
    i, s = np.nonzero(holes)
    np.testing.assert_allclose(model.predict_entries(i, s), filled[holes], rtol=1e-12)
    table = model.predict_entries(np.arange(3)[:, None], np.arange(30))
    np.testing.assert_allclose(table, (fitted_matrix(model) + model.mean_)[:3], rtol=1e-12)
    with pytest.raises(ValueError, match="columns must lie between 0 and 29; it holds 30"):
        model.predict_entries(0, 30)
    with pytest.raises(ValueError, match="rows must hold integers; its type is float64"):
        model.predict_entries([0.5], [1])


def test_new_rows_solve_the_problem_that_is_documented():
    complete, X = low_rank(60, 30)
    model = SoftImpute(2.0, random_state=0).fit(X[:50])
    new = X[50:]
    V, s, seen = model.components_.T, model.singular_values_, ~np.isnan(new)
    filled = model.transform(new)
    for row, out, there in zip(new, filled, seen, strict=True):
        z = np.linalg.solve(V[there].T @ V[there] + np.diag(2.0 / s), V[there].T @ (row[there] - model.mean_[there]))
        np.testing.assert_allclose(out[~there], V[~there] @ z + model.mean_[~there], rtol=1e-9)
    mean = np.broadcast_to(model.mean_, new.shape)
    assert np.mean((filled - complete[50:])[~seen] ** 2) < 0.3 * np.mean((mean - complete[50:])[~seen] ** 2)


def test_pca_takes_what_is_completed():
    _, X = low_rank()
    scores = nf.PCA(2, random_state=0).fit_transform(SoftImpute(2.0, random_state=0).fit_transform(X))
    assert scores.shape == (40, 2)
    assert np.isfinite(scores).all()


def test_a_large_sparse_array_is_never_dense():
    n, d = 3000, 2000
    X = sparse.random_array((n, d), density=0.01, format="csr", rng=np.random.default_rng(0), dtype=np.float64)
    ones = sparse.coo_array((np.ones(n), (np.arange(n), np.arange(n) % d)), shape=(n, d))
    X = (X + ones).tocsr()
    tracemalloc.start()
    try:
        model = SoftImpute(2.0, rank=3, missing="unstored", tol=0.01, random_state=0).fit(X)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert model.converged_
    assert model.rank_ > 0
    assert peak < 2 * n * d  # bytes: a quarter of a dense array
    rows = X[:3]
    np.testing.assert_array_equal(model.transform(rows)[rows.toarray() != 0], rows.data)


def test_large_sparse_rows_are_not_completed_at_once(monkeypatch):
    monkeypatch.setattr(soft_impute, "DENSE_VALUES", 1000)
    _, X = low_rank()
    X = sparse.csr_array(np.nan_to_num(X))
    with pytest.raises(ValueError, match=r"40 x 30 entries would take 0.0 GB; use fit, .* at most 33 rows at once"):
        SoftImpute(2.0, missing="unstored", random_state=0).fit_transform(X)


# --- the estimator --------------------------------------------------------------------------------------------------


def test_the_estimator_keeps_scikit_learns_contract():
    _, X = low_rank()
    table = pd.DataFrame(X, columns=[f"f{s}" for s in range(30)])
    model = SoftImpute(2.0, random_state=3).set_output(transform="pandas")
    filled = clone(model).fit_transform(table)
    assert list(filled.columns) == list(table.columns)
    fitted = model.fit(table)
    assert list(fitted.get_feature_names_out()) == list(table.columns)
    again = pickle.loads(pickle.dumps(fitted)).transform(table)
    pd.testing.assert_frame_equal(again, fitted.transform(table))
    with pytest.raises(ValueError, match="feature names"):
        fitted.transform(table[table.columns[::-1]])


def test_float32_is_kept():
    _, X = low_rank()
    single = SoftImpute(2.0, random_state=0).fit(X.astype(np.float32))
    assert single.transform(X.astype(np.float32)).dtype == single.U_.dtype == np.float32
    double = SoftImpute(2.0, random_state=0).fit(X)
    np.testing.assert_allclose(fitted_matrix(single), fitted_matrix(double), atol=0.02)


def test_random_state_decides_what_is_held_out():
    _, X = low_rank()
    first, second, third = (SoftImpute(random_state=seed).fit(X) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.held_out_errors_, second.held_out_errors_)
    np.testing.assert_array_equal(first.U_, second.U_)
    assert first.held_out_errors_[0] != third.held_out_errors_[0]


@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        ({"penalty": 0}, "penalty must be above 0; it is 0"),
        ({"penalty": [1.0, np.nan]}, "penalty must be a positive number"),
        ({"penalty": "large"}, "penalty must be a positive number"),
        ({"rank": 0}, r"rank must be None or an int from 1 to min\(n_samples, n_features\) = 30; it is 0"),
        ({"rank": 31}, "rank must be None or an int"),
        ({"n_penalties": 1}, "n_penalties must be an int of at least 2; it is 1"),
        ({"max_iter": 0}, "max_iter must be an int of at least 1"),
        ({"tol": 0}, "tol must be a positive number; it is 0"),
        ({"missing": "zeros"}, "missing"),
    ],
)
def test_refuses_wrong_settings(settings_, message):
    _, X = low_rank()
    with pytest.raises(ValueError, match=message):
        SoftImpute(**{"penalty": 2.0, **settings_}).fit(X)


def test_refuses_what_cannot_be_completed():
    complete, X = low_rank()
    with pytest.raises(ValueError, match="weights between 0 and 1"):
        SoftImpute(2.0).fit(complete, mask=np.full(complete.shape, 0.5))
    with pytest.raises(ValueError, match="X does not vary"):
        SoftImpute(random_state=0).fit(np.where(np.isnan(X), np.nan, 3.0))
    few = np.where(np.eye(4, dtype=bool), 1.0, np.nan)
    with pytest.raises(ValueError, match="too few observed entries to hold some of them out; give penalty"):
        SoftImpute(random_state=0).fit(few)
    empty = X.copy()
    empty[:, 4] = np.nan
    with pytest.raises(ValueError, match=r"[Cc]olumn 4"):
        SoftImpute(2.0).fit(empty)
