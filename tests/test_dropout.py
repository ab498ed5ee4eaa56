"""Dropouts against a plain dense implementation, its clusterings, new cells, and what it refuses."""

import pickle
import tracemalloc
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.linalg import eigh
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.cluster import KMeans, SpectralClustering
from sklearn.metrics import adjusted_rand_score

from nanfold._clusterings import cell_space, spectral_embedding
from nanfold.dropout import Dropouts
from nanfold.observed import StructuredMask, observe


def zero_shares(X, labels):
    """For every clustering, cell and gene: the share of zeros for that gene in the cell's cluster."""
    out = np.empty((labels.shape[1], *X.shape))
    for c, column in enumerate(labels.T):
        for a in np.unique(column):
            out[c, column == a] = (X[column == a] == 0).mean(axis=0)
    return out


def plain_weights(X, labels, rule, threshold=0.85, votes=0.5):
    """The weight of every entry, with dense arrays and no thought of memory."""
    shares = zero_shares(X, labels)
    weights = (shares > threshold).mean(axis=0) > votes if rule == "vote" else shares.mean(axis=0)
    if rule == "contrast":
        weights = np.clip(1.5 * weights - 0.5 * (X == 0).mean(axis=0), 0, 1)
    return np.where(X == 0, weights, 1.0)


def dense_weights(X, mask):
    return np.where(X == 0, mask.weights[mask.groups], 1.0)


def counts(seed, n, d, share_zero=0.6):
    """Counts of which no row and no column is zero throughout."""
    rng = np.random.default_rng(seed)
    X = rng.poisson(2.0, (n, d)) * (rng.random((n, d)) > share_zero)
    X[np.arange(n), rng.integers(0, d, n)] = 1 + rng.integers(0, 3, n)
    X[rng.integers(0, n, d), np.arange(d)] = 1
    return X.astype(np.float64)


def groups_of_cells(seed=0, sizes=(60, 40, 30), d=200):
    """Log counts of groups of cells far apart, and the groups."""
    rng = np.random.default_rng(seed)
    truth = np.repeat(np.arange(len(sizes)), sizes)
    levels = rng.gamma(0.6, 4.0, (len(sizes), d))
    return np.log1p(rng.poisson(levels[truth])), truth


def without_empty_genes(X):
    return X[:, (X != 0).any(axis=0)]


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(3, 25),
    d=st.integers(1, 12),
    n_clusterings=st.integers(1, 5),
    rule=st.sampled_from(["contrast", "soft", "vote"]),
    threshold=st.sampled_from([0.0, 0.5, 0.75, 0.85]),
    storage=st.sampled_from(["dense", "csr", "csc", "csr with zeros stored"]),
    dtype=st.sampled_from([np.float64, np.float32, np.int64]),
)
def test_same_weights_as_plain_dense_code(seed, n, d, n_clusterings, rule, threshold, storage, dtype):
    X = counts(seed, n, d)
    labels = np.random.default_rng(seed).integers(0, 4, (n, n_clusterings))
    given_X = X.astype(dtype)
    if storage == "csr with zeros stored":
        given_X = sparse.csr_array(
            (given_X.ravel(), np.tile(np.arange(d), n), np.arange(0, n * d + 1, d)), shape=(n, d)
        )
    elif storage != "dense":
        given_X = sparse.csr_array(given_X).asformat(storage)
    fitted = Dropouts(rule=rule, threshold=threshold).fit(given_X, labels)
    expected = plain_weights(X, labels, rule, threshold)
    assert fitted.mask_.shape == X.shape
    if rule == "vote":
        np.testing.assert_array_equal(dense_weights(X, fitted.mask_), expected)
    else:
        np.testing.assert_allclose(dense_weights(X, fitted.mask_), expected, rtol=0, atol=1e-7)


@pytest.mark.parametrize("rule", ["contrast", "soft", "vote"])
@pytest.mark.parametrize("name", ["pollen_simlr249", "deng231_allelic_total", "cellbench_sc_celseq2"])
def test_same_weights_as_plain_dense_code_on_real_counts(real_data, name, rule):
    if name.startswith("cellbench"):
        X = sparse.csr_array(sparse.load_npz(real_data / f"{name}_X.npz"))
        X = X[:, X.sum(axis=0) > 0]
    else:
        X = np.load(real_data / f"{name}.npz")["X"]
    dense = X.toarray() if sparse.issparse(X) else X
    rng = np.random.default_rng(0)
    labels = np.stack([rng.integers(0, k, len(dense)) for k in (2, 5, 9)], axis=1)
    fitted = Dropouts(rule=rule).fit(X, labels)
    np.testing.assert_allclose(
        dense_weights(dense, fitted.mask_), plain_weights(dense, labels, rule), rtol=0, atol=1e-7
    )


def test_a_share_equal_to_the_threshold_is_a_dropout():
    # 17 of 20 cells have zero for the first gene, 18 for the second; 85 % is not more than 85 %.
    X = np.ones((20, 3))
    X[:17, 0] = 0
    X[:18, 1] = 0
    fitted = Dropouts(rule="vote").fit(X, np.zeros(20, dtype=int))
    np.testing.assert_array_equal(fitted.mask_.weights, [[0, 1, 0]])


def test_half_of_the_votes_are_a_dropout():
    X = np.ones((4, 2))
    X[:3, 0] = 0
    # In the second clustering the last cell, the only one with a count, is by itself.
    labels = np.array([[0, 0], [0, 0], [0, 0], [0, 1]])
    assert Dropouts(rule="vote").fit(X, labels).mask_.weights[0, 0] == 0
    assert Dropouts(rule="vote", votes=0.4).fit(X, labels).mask_.weights[0, 0] == 1


def test_no_more_rows_of_weights_than_tuples():
    X = counts(0, 30, 8)
    labels = np.random.default_rng(0).integers(0, 3, (30, 2))
    fitted = Dropouts().fit(X, labels)
    assert fitted.n_groups_ == len(fitted.mask_.weights) == len(np.unique(labels, axis=0))
    assert fitted.mask_.weights.dtype == np.float32


@pytest.mark.parametrize(
    "labels",
    [
        ["b", "a", "b", "c", "a", "b"],
        pd.Series(pd.Categorical(["b", "a", "b", "c", "a", "b"], categories=["a", "b", "c", "unused"])),
        np.array(["b", 7, "b", None.__class__, 7, "b"], dtype=object),
        pd.DataFrame({"first": pd.Categorical(["b", "a", "b", "c", "a", "b"]), "second": [1, 1, 1, 1, 1, 1]}),
        [2.0, 1.0, 2.0, 3.0, 1.0, 2.0],
    ],
    ids=["strings", "categories", "objects", "table", "floats"],
)
def test_labels_of_any_type(labels):
    X = counts(1, 6, 5)
    fitted = Dropouts(rule="soft").fit(X, labels)
    np.testing.assert_array_equal(fitted.labels_[:, 0], [0, 1, 0, 2, 1, 0])
    np.testing.assert_allclose(dense_weights(X, fitted.mask_), plain_weights(X, fitted.labels_, "soft"), atol=1e-7)


def test_fitted_object_is_a_mask():
    X = counts(2, 12, 9)
    fitted = Dropouts(rule="soft").fit(X, np.arange(12) % 3)
    _, M = observe(sparse.csr_array(X), mask=fitted).rows(0, 12)
    np.testing.assert_allclose(M, plain_weights(X, fitted.labels_, "soft"), atol=1e-7)


# --- clusterings ----------------------------------------------------------------------------------------------------


def test_clusters_are_the_groups():
    X, truth = groups_of_cells()
    fitted = Dropouts(n_clusters=3, random_state=0).fit(X)
    assert fitted.labels_.shape == (len(X), 2)
    assert [adjusted_rand_score(truth, column) for column in fitted.labels_.T] == [1, 1]


def test_methods_and_numbers_of_clusters_in_order():
    X, _ = groups_of_cells()
    fitted = Dropouts(n_clusters=(2, 5), methods=["spectral", "kmeans"], random_state=0).fit(X)
    np.testing.assert_array_equal(fitted.labels_.max(axis=0) + 1, [2, 5, 2, 5])
    alone = Dropouts(n_clusters=(2, 5), methods="spectral", random_state=0).fit(X)
    np.testing.assert_array_equal(fitted.labels_[:, :2], alone.labels_)


def test_all_components_give_the_clusterings_of_scikit_learn_on_all_genes():
    X, _ = groups_of_cells(3, sizes=(25, 20, 20, 15, 10))
    fitted = Dropouts(n_clusters=5, n_components=None, random_state=0).fit(X)
    distances = cdist(X, X)
    h = np.sort(distances, axis=1)[:, 7].mean()
    affinity = np.exp(-(distances**2) / (2 * h**2))
    spectral = SpectralClustering(5, affinity="precomputed", random_state=0).fit_predict(affinity)
    assert adjusted_rand_score(KMeans(5, n_init=10, random_state=0).fit_predict(X), fitted.labels_[:, 0]) == 1
    assert adjusted_rand_score(spectral, fitted.labels_[:, 1]) == 1


def test_spectral_embedding_solves_its_equation():
    X, _ = groups_of_cells(4)
    squares = cdist(X, X, "sqeuclidean")
    h = np.sort(np.sqrt(squares), axis=1)[:, 7].mean()
    A = np.exp(-squares / (2 * h**2))
    np.fill_diagonal(A, 0)
    U = spectral_embedding(squares.copy(), 7, 4, np.random.default_rng(0))
    degree = A.sum(axis=1)
    values = np.sort(eigh(A, np.diag(degree), eigvals_only=True))[::-1][:4]
    np.testing.assert_allclose(U.T @ (degree[:, None] * U), np.eye(4), atol=1e-8)
    np.testing.assert_allclose(A @ U / degree[:, None], U * values, atol=1e-5)


def noisy_cells(seed=0, n=150, d=3000):
    rng = np.random.default_rng(seed)
    truth = np.arange(n) % 3
    levels = rng.gamma(2.0, 1.0, (1, d)) * np.where(rng.random((3, d)) < 0.1, 3.0, 1.0)
    return sparse.csr_array(np.log1p(rng.poisson(levels[truth])).astype(np.float64)), truth


def test_distances_over_all_genes_from_few_components():
    X, _ = noisy_cells()
    expected = cdist(X.toarray(), X.toarray(), "sqeuclidean")
    everyone = np.arange(X.shape[0])
    exact = cell_space(X, None, np.random.default_rng(0)).squared_distances(everyone)
    np.testing.assert_allclose(exact, expected, rtol=1e-9, atol=1e-9)
    space = cell_space(X, 10, np.random.default_rng(0))
    away = ~np.eye(len(everyone), dtype=bool)
    errors = space.squared_distances(everyone)[away] / expected[away] - 1
    assert np.quantile(np.abs(errors), 0.95) < 0.06
    # On the components alone most of the distance is gone.
    assert np.median(cdist(space.scores, space.scores, "sqeuclidean")[away] / expected[away]) < 0.5


def test_spectral_clusters_on_few_components_are_those_on_all_genes(real_data):
    X = sparse.csr_array(np.load(real_data / "pollen_simlr249.npz")["X"].astype(np.float64))
    rng = np.random.default_rng(0)
    few, whole = cell_space(X, 50, rng), cell_space(X, None, rng)
    everyone = np.arange(X.shape[0])

    def clusters(squares):
        U = spectral_embedding(squares, 7, 4, np.random.default_rng(0))
        return KMeans(4, n_init=10, random_state=0).fit_predict(U)

    wanted = clusters(whole.squared_distances(everyone))
    assert adjusted_rand_score(wanted, clusters(few.squared_distances(everyone))) > 0.9
    # The control: distances on the components alone make other clusters.
    assert adjusted_rand_score(wanted, clusters(cdist(few.scores, few.scores, "sqeuclidean"))) < 0.8


def test_many_cells_take_mini_batches_and_a_sample():
    X, truth = groups_of_cells(5, sizes=(200, 120, 80))
    fitted = Dropouts(n_clusters=3, max_dense=100, random_state=0).fit(sparse.csr_array(X))
    assert [adjusted_rand_score(truth, column) for column in fitted.labels_.T] == [1, 1]


def test_random_state_decides():
    X, _ = noisy_cells()
    first, second = (Dropouts(random_state=3).fit(X) for _ in range(2))
    np.testing.assert_array_equal(first.labels_, second.labels_)
    np.testing.assert_array_equal(first.mask_.weights, second.mask_.weights)
    assert (Dropouts(random_state=4).fit(X).labels_ != first.labels_).any()


# --- new cells ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["soft", "vote"])
def test_new_cells_of_the_same_groups(rule):
    X, truth = groups_of_cells(6)
    fitted = Dropouts(n_clusters=3, rule=rule, random_state=0).fit(X[::2])
    new = X[1::2]
    mask = fitted.predict(sparse.csr_array(new))
    assert isinstance(mask, StructuredMask)
    assert adjusted_rand_score(truth[1::2], mask.groups) == 1
    shares = np.stack([(X[::2][truth[::2] == a] == 0).mean(axis=0) for a in range(3)])[truth[1::2]]
    expected = shares if rule == "soft" else shares > 0.85
    np.testing.assert_allclose(dense_weights(new, mask), np.where(new == 0, expected, 1), atol=1e-7)


def test_new_tuples_of_clusters_have_their_own_weights():
    # Two clusterings by two sets of genes; the combination (0, 1) occurs in no cell of the fit.
    first = np.array([[9.0, 0, 0], [9, 1, 0], [0, 9, 9], [0, 8, 9]])
    second = np.array([[0.0, 9], [1, 9], [9, 0], [9, 1]])
    X = np.hstack([first, second])
    fitted = Dropouts().fit(X, np.array([[0, 0], [0, 0], [1, 1], [1, 1]]))
    assert fitted.n_groups_ == 2
    # The first cluster differs from the second by the first genes more than by the others, and by these much less.
    nearest = fitted.predict(X)
    np.testing.assert_array_equal(dense_weights(X, nearest), dense_weights(X, fitted.mask_))
    crossed = Dropouts(rule="soft").fit(X, np.array([[0, 0], [0, 1], [1, 0], [1, 1]]))
    new = np.array([[0.0, 9, 9, 9, 0], [9, 0, 0, 0, 9]])
    mask = crossed.predict(new)
    means = [[X[[0, 1]].mean(0), X[[2, 3]].mean(0)], [X[[0, 2]].mean(0), X[[1, 3]].mean(0)]]
    labels = np.stack([np.argmin(cdist(new, np.array(pair)), axis=1) for pair in means], axis=1)
    shares = [
        np.stack([(X[[0, 1]] == 0).mean(0), (X[[2, 3]] == 0).mean(0)])[labels[:, 0]],
        np.stack([(X[[0, 2]] == 0).mean(0), (X[[1, 3]] == 0).mean(0)])[labels[:, 1]],
    ]
    np.testing.assert_allclose(dense_weights(new, mask), np.where(new == 0, np.mean(shares, axis=0), 1), atol=1e-7)


def test_unseen_combination_of_clusters():
    # Gene 0 tells the clusters of the first clustering apart, gene 1 those of the second.
    X = np.array([[10.0, 1, 0], [10, 1, 2], [1, 10, 0], [1, 10, 0], [1, 1, 3]])
    fitted = Dropouts(rule="soft").fit(X, np.array([[0, 0], [0, 0], [1, 1], [1, 1], [1, 0]]))
    new = np.array([[10.0, 10, 0]])
    mask = fitted.predict(new)
    assert len(mask.weights) == 1
    assert (fitted._clusters.nearest(sparse.csr_array(new)) == [0, 1]).all()
    assert not (fitted.labels_ == [0, 1]).all(axis=1).any()
    # Shares of zeros for gene 2: 1/2 in cluster 0 of the first, 1 in cluster 1 of the second.
    assert mask.weights[0, 2] == pytest.approx(0.75)


# --- the estimator --------------------------------------------------------------------------------------------------


def test_clone_pickle_and_names():
    X = pd.DataFrame(np.log1p(counts(7, 10, 4)), columns=list("wxyz"))
    estimator = Dropouts(n_clusters=2, rule="vote", random_state=1)
    fitted = clone(estimator).fit(X)
    assert fitted.get_params() == estimator.get_params()
    assert list(fitted.feature_names_in_) == list("wxyz")
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict(X).weights, fitted.predict(X).weights)
    with pytest.raises(ValueError, match="feature names"):
        fitted.predict(X[list("xwyz")])


def test_nothing_dense_is_made():
    n, d = 3000, 20000
    X = sparse.random_array((n, d), density=0.003, format="csr", rng=np.random.default_rng(0), dtype=np.float64)
    X = (X + sparse.coo_array((np.ones(d), (np.arange(d) % n, np.arange(d))), shape=(n, d))).tocsr()
    labels = np.stack([np.arange(n) % 3, np.arange(n) % 4], axis=1)
    tracemalloc.start()
    try:
        fitted = Dropouts().fit(X, labels)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert fitted.n_groups_ == 12
    assert peak < n * d  # bytes: an eighth of a dense array


@pytest.mark.parametrize("stored", ["dense", "sparse"])
@pytest.mark.parametrize(
    ("value", "message"),
    [(-1.0, "holds -1 at row 2, column 3"), (np.nan, "holds nan at row 2, column 3"), (np.inf, "holds inf at row 2")],
)
def test_refuses_what_is_no_expression(value, message, stored):
    X = counts(8, 6, 5)
    X[2, 3] = value
    X = sparse.csc_array(X) if stored == "sparse" else X
    with pytest.raises(ValueError, match=message):
        Dropouts().fit(X, np.zeros(6))


def test_refuses_masked_entries():
    X = np.ma.array(counts(8, 6, 5), mask=False)
    Dropouts().fit(X, np.zeros(6))
    X[1, 1] = np.ma.masked
    with pytest.raises(ValueError, match="nan at row 1, column 1"):
        Dropouts().fit(X, np.zeros(6))


def test_refuses_cells_without_counts():
    X = counts(9, 8, 5)
    X[[1, 6]] = 0
    with pytest.raises(ValueError, match="rows 1, 6 of X are zero"):
        Dropouts().fit(X, np.zeros(8))
    fitted = Dropouts().fit(X[[0, 2, 3, 4, 5, 7]], np.zeros(6))
    with pytest.raises(ValueError, match="row 1 of X are zero"):
        fitted.predict(X[:3])


def test_warns_of_genes_without_counts():
    X = counts(10, 8, 9)
    X[:, [2, 5]] = 0
    with pytest.warns(UserWarning, match="columns 2, 5 of X are zero"):
        fitted = Dropouts().fit(X, np.zeros(8))
    np.testing.assert_array_equal(fitted.mask_.weights[:, [2, 5]], 1)
    with pytest.warns(UserWarning, match="columns c, f of X are zero"):
        Dropouts().fit(pd.DataFrame(X, columns=list("abcdefghi")), np.zeros(8))
    with pytest.warns(UserWarning, match="columns 0, 1, 2, 3, 4 and 3 more of X are zero"):
        Dropouts().fit(np.hstack([np.zeros((8, 8)), np.ones((8, 1))]), np.zeros(8))


def test_warns_of_raw_counts_of_different_depth():
    X, _ = groups_of_cells(11)
    raw = np.round(np.expm1(without_empty_genes(X)))
    deep = raw * np.where(np.arange(len(raw)) % 2, 1, 5)[:, None]
    with pytest.warns(UserWarning, match="clusters will follow depth"):
        Dropouts(n_clusters=3).fit(deep)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Dropouts(n_clusters=3).fit(np.log1p(deep))
        Dropouts(n_clusters=3).fit(deep / 7)
        Dropouts().fit(deep, np.arange(len(deep)) % 3)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_clusters": (4, 1)}, "n_clusters must be whole numbers from 2 on"),
        ({"n_clusters": ()}, "n_clusters must be whole"),
        ({"n_clusters": 2.5}, "n_clusters must be whole"),
        ({"n_clusters": 9}, "n_clusters=9 needs at least as many cells, and X has 8"),
        ({"methods": ("kmeans", "dbscan")}, "methods must be among 'kmeans', 'spectral'"),
        ({"methods": ()}, "methods must be among"),
        ({"methods": None}, "methods must be among 'kmeans', 'spectral'; it is None"),
        ({"rule": "hard"}, "rule must be one of 'contrast', 'soft', 'vote'; it is 'hard'"),
        ({"threshold": 1.0}, "threshold must be at least 0 and below 1; it is 1.0"),
        ({"threshold": "most"}, "threshold must be at least 0 and below 1; it is 'most'"),
        ({"votes": -0.1}, "votes must be at least 0 and below 1"),
        ({"votes": None}, "votes must be at least 0 and below 1; it is None"),
        ({"n_components": 0}, "n_components must be a whole number of at least 1"),
        ({"n_neighbors": 1.5}, "n_neighbors must be a whole number"),
        ({"max_dense": 10}, "max_dense must be a whole number of at least 100"),
    ],
)
def test_refuses_wrong_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        Dropouts(**{"n_clusters": 2, **settings}).fit(counts(12, 8, 5))


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.zeros(5), "one row for each of the 8 cells"),
        (np.zeros((2, 8)), "one row for each of the 8 cells"),
        (np.zeros((8, 0)), "one column for each clustering"),
        (["a"] * 7 + [None], "label of cell 7 is missing in clustering 0"),
        (np.array([[0.0, 0.0]] * 7 + [[0.0, np.nan]]), "label of cell 7 is missing in clustering 1"),
        (pd.array(["a"] * 7 + [None], dtype="string"), "label of cell 7 is missing"),
        (["a"] * 7 + [np.nan], "label of cell 7 is missing in clustering 0"),
        ([("a", 1.0)] * 7 + [("b", np.nan)], "label of cell 7 is missing in clustering 1"),
    ],
)
def test_refuses_wrong_labels(labels, message):
    with pytest.raises(ValueError, match=message):
        Dropouts().fit(counts(13, 8, 5), labels)


@pytest.mark.parametrize("methods", ["kmeans", "spectral"])
def test_refuses_cells_that_are_all_equal(methods):
    X = np.repeat(np.log1p(counts(14, 2, 30)[:1]), 12, axis=0)
    with pytest.raises(ValueError, match="All cells are equal, so there are no clusters to find"):
        Dropouts(n_clusters=3, methods=methods).fit(without_empty_genes(X))


def test_clusters_without_cells_do_not_count(monkeypatch):
    """Mini-batches leave such clusters; new cells must not be given to them, nor shares of zeros be 0 / 0."""
    X, truth = groups_of_cells(15)
    X = without_empty_genes(X)
    monkeypatch.setattr("nanfold._clusterings.kmeans_labels", lambda scores, k, *others: 2 * truth)
    fitted = Dropouts(n_clusters=6, methods="kmeans").fit(X)
    np.testing.assert_array_equal(fitted.labels_[:, 0], truth)
    assert dense_weights(X, fitted.predict(X)).tolist() == dense_weights(X, fitted.mask_).tolist()


def test_refuses_cells_that_are_all_repeated():
    X = np.repeat(np.log1p(counts(14, 5, 30)), 12, axis=0)
    with pytest.raises(ValueError, match="has 7 others equal to it"):
        Dropouts(n_clusters=3).fit(X)
