"""Dissimilarities in the place of data: a Gram matrix for PCA and GPLVM, distances as they are for t-SNE and UMAP."""

import warnings

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn import decomposition

import nanfold as nf
from nanfold.baselines import CIDR, embed_dissimilarity
from nanfold.baselines.dissimilarity import DissimilarityGram

N, D = 40, 15


@pytest.fixture(scope="module")
def points() -> np.ndarray:
    X, _ = nf.datasets.make_clusters(N, D, random_state=0)
    return X


@pytest.fixture(scope="module")
def bent(points) -> np.ndarray:
    """Dissimilarities that no points have: their doubly centred squares have negative eigenvalues."""
    rng = np.random.default_rng(0)
    noise = rng.uniform(0.7, 1.3, (N, N))
    return cdist(points, points) * (noise + noise.T) / 2


def centred_gram(dissimilarity: np.ndarray) -> np.ndarray:
    H = np.eye(N) - 1 / N
    return H @ (-0.5 * dissimilarity**2) @ H


def test_gram_has_the_distances_it_was_made_from(bent):
    G = DissimilarityGram(bent, D, np.eye(N))
    dense = G.toarray()
    np.testing.assert_allclose(D * dense, centred_gram(bent), rtol=0, atol=1e-12 * bent.max() ** 2)
    np.testing.assert_allclose(D * G.squared_distances(), bent**2, rtol=1e-14)
    around = G.diagonal()[:, None] + G.diagonal() - 2 * dense
    np.testing.assert_allclose(around, G.squared_distances(), atol=1e-13 * bent.max() ** 2)
    V = np.random.default_rng(1).standard_normal((N, 3))
    np.testing.assert_allclose(G @ V, dense @ V, rtol=1e-12)
    np.testing.assert_array_equal(G.rows(3, 7), dense[3:7])
    assert np.linalg.eigvalsh(dense)[0] < -1e-3 * np.trace(dense)


def test_pca_of_euclidean_distances_is_that_of_the_points(points):
    scores = embed_dissimilarity(cdist(points, points), nf.PCA(4), D)
    expected = decomposition.PCA(4).fit_transform(points)
    np.testing.assert_allclose(np.abs(scores), np.abs(expected), atol=1e-9 * np.abs(expected).max())


def test_pca_keeps_the_positive_part(bent):
    scores = embed_dissimilarity(bent, nf.PCA("all"), D)
    values, vectors = np.linalg.eigh(centred_gram(bent))
    positive = (vectors * np.maximum(values, 0)) @ vectors.T
    np.testing.assert_allclose(scores @ scores.T, positive, atol=1e-9 * values[-1])


def test_gplvm_of_euclidean_distances_is_that_of_the_points(points, monkeypatch):
    """The two objectives are the same one; the number of features has its say."""
    models = {}
    kept = nf.GPLVM._embed

    def embed(self, scores, gram):
        kept(self, scores, gram)
        models[gram.n_features] = self

    monkeypatch.setattr(nf.GPLVM, "_embed", embed)
    for n_features in (D, 2 * D):
        embedding = embed_dissimilarity(cdist(points, points), nf.GPLVM(kernel="linear", random_state=0), n_features)
        np.testing.assert_array_equal(embedding, models[n_features].embedding_)
    expected = nf.GPLVM(kernel="linear", random_state=0).fit(points)
    from_distances = models[D]
    assert from_distances.log_likelihood_ == pytest.approx(expected.log_likelihood_, rel=1e-8)
    assert from_distances.noise_variance_ == pytest.approx(expected.noise_variance_, rel=1e-4)
    assert models[2 * D].noise_variance_ == pytest.approx(expected.noise_variance_ / 2, rel=1e-3)


def test_umap_sees_the_dissimilarities_as_they_are(bent, monkeypatch):
    with warnings.catch_warnings():
        # umap-learn says at import that one of its classes, not this one, needs Tensorflow.
        warnings.simplefilter("ignore", ImportWarning)
        import umap

    seen = []
    kept = umap.UMAP.fit
    monkeypatch.setattr(umap.UMAP, "fit", lambda self, X: seen.append((self.metric, X)) or kept(self, X))
    model = nf.UMAP(n_neighbors=5, n_epochs=10, random_state=0)
    embedding = embed_dissimilarity(bent, model, D)
    ((metric, X),) = seen
    assert metric == "precomputed"
    np.testing.assert_allclose(X, bent, rtol=1e-6)
    assert embedding.shape == (N, 2)
    assert not hasattr(model, "embedding_")
    assert model.neighbors == "scores"


def test_tsne_sees_the_dissimilarities_as_they_are(bent, monkeypatch):
    from openTSNE import nearest_neighbors

    seen = []
    kept = nearest_neighbors.PrecomputedNeighbors
    monkeypatch.setattr(nearest_neighbors, "PrecomputedNeighbors", lambda *own: seen.append(own) or kept(*own))
    embedding = embed_dissimilarity(bent, nf.TSNE(perplexity=4, n_iter=50, n_jobs=1, random_state=0), D)
    ((indices, distances),) = seen
    others = np.where(np.eye(N, dtype=bool), np.inf, bent)
    np.testing.assert_array_equal(indices, np.argsort(others, axis=1)[:, :12])
    np.testing.assert_allclose(distances, np.sort(others, axis=1)[:, :12], rtol=1e-10)
    assert embedding.shape == (N, 2)


@pytest.mark.parametrize(
    "estimator",
    [
        nf.PCA(2),
        nf.GPLVM(kernel="linear", random_state=0),
        nf.TSNE(n_iter=100, n_jobs=1, random_state=0),
        nf.UMAP(random_state=0),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_cidr_goes_into_all_four(counts, estimator):
    """And each keeps the three kinds of cells apart: the nearest other cell is of the same kind."""
    X = np.hstack([counts.X, np.zeros((len(counts.X), 2))])
    model = CIDR().fit(X)
    assert model.n_expressed_ == np.any(X, axis=0).sum() < X.shape[1]
    embedding = model.embed(estimator)
    np.testing.assert_allclose(
        np.abs(embedding), np.abs(embed_dissimilarity(model.dissimilarity_, estimator, model.n_expressed_)), rtol=1e-6
    )
    apart = cdist(embedding, embedding)
    np.fill_diagonal(apart, np.inf)
    assert np.mean(counts.labels[apart.argmin(axis=1)] == counts.labels) > 0.9


def altered(i: int, j: int, value: float) -> np.ndarray:
    wrong = cdist(np.eye(4), np.eye(4))
    wrong[i, j] = value
    return wrong


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (np.zeros((3, 4)), r"square of at least 2 x 2 .* shape is \(3, 4\)"),
        (altered(1, 2, np.nan), "D holds nan between samples 1 and 2"),
        (altered(1, 2, -1.0), "D holds -1 between samples 1 and 2"),
        (altered(3, 0, 2.0), "not symmetric: 1.41421 from sample 0 to 3, and 2 back"),
        (altered(2, 2, 1.0), "D holds 1 between sample 2 and itself"),
        (np.zeros((4, 4)), "nothing to embed"),
    ],
)
def test_refuses_what_is_no_dissimilarity(wrong, message):
    with pytest.raises(ValueError, match=message):
        embed_dissimilarity(wrong, nf.PCA(1), 10)


@pytest.mark.parametrize("estimator", [nf.PCA(2), nf.TSNE(), nf.UMAP(), nf.GPLVM()], ids=lambda e: type(e).__name__)
def test_no_diagonal_to_denoise(bent, estimator):
    with pytest.raises(ValueError, match="diagonal='denoised' would take noise out of data, and a dissimilarity has"):
        embed_dissimilarity(bent, estimator.set_params(diagonal="denoised"), D)


def test_how_data_say_what_is_missing_does_not_matter(bent):
    plain, sparse = (embed_dissimilarity(bent, nf.PCA(2, missing=missing), D) for missing in ("nan", "unstored"))
    np.testing.assert_array_equal(sparse, plain)


def test_refuses_other_estimators_and_numbers_of_features(bent):
    with pytest.raises(TypeError, match=r"PCA, GPLVM, TSNE or UMAP of nanfold; it is of type PCA"):
        embed_dissimilarity(bent, decomposition.PCA(2), D)
    with pytest.raises(ValueError, match="n_features must be a whole number of at least 1; it is 0"):
        embed_dissimilarity(bent, nf.PCA(2), 0)
