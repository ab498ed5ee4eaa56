"""Neighbours by unbiased distance: the exact way against the dense formula, the way by candidates against the exact."""

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.neighbors import NearestNeighbors

from nanfold import neighbors
from nanfold.assist import AssistedGram, InverseProbabilityGram
from nanfold.correction import unbiased_gram
from nanfold.datasets import hide
from nanfold.diagonal import ShiftedGram
from nanfold.gram import Gram, UnbiasedGram
from nanfold.neighbors import corrected_neighbors, nearest_neighbors
from nanfold.observation import observation_model
from nanfold.observed import StructuredMask, observe
from storages import STORAGES, build


def brute_force(gram: Gram, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k smallest of the dense squared distances per feature, and where they are."""
    squared = gram.squared_distances()
    np.fill_diagonal(squared, np.inf)
    indices = np.argsort(squared, axis=1, kind="stable")[:, :k]
    return indices, np.take_along_axis(squared, indices, axis=1)


def low_rank(n: int, d: int, rank: int = 5, noise: float = 0.5, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, rank)) @ rng.standard_normal((rank, d)) + noise * rng.standard_normal((n, d))


def recall(found: np.ndarray, wanted: np.ndarray) -> float:
    return float(np.mean((found[:, :, None] == wanted[:, None, :]).any(axis=1)))


def grams() -> dict[str, Gram]:
    """One of every kind, over data with holes."""
    X = hide(low_rank(60, 40), random_state=1)
    observed = observe(X)
    rng = np.random.default_rng(2)
    U, V = rng.standard_normal((60, 3)), rng.standard_normal((40, 3))
    plain = {name: UnbiasedGram(observed, observation_model(name).fit(observed)) for name in ("rank-one", "pairwise")}
    known = observation_model(rng.uniform(0.4, 1, (60, 40))).fit(observed)
    return {
        "unbiased": plain["rank-one"],
        "pairwise": plain["pairwise"],
        "assisted": AssistedGram(observed, plain["rank-one"].model, U, V),
        "assisted pairwise": AssistedGram(observed, plain["pairwise"].model, U, V),
        "inverse probability": InverseProbabilityGram(observed, known, U, V),
        "shifted": ShiftedGram(plain["rank-one"], rng.uniform(0.5, 8, 60)),
        "shifted assisted": ShiftedGram(AssistedGram(observed, plain["rank-one"].model, U, V), rng.uniform(0.5, 8, 60)),
    }


GRAMS = grams()


@pytest.fixture(params=GRAMS)
def gram(request):
    return GRAMS[request.param]


@pytest.fixture(params=["one block", "many blocks"])
def blocks(request, monkeypatch):
    monkeypatch.setenv("NANFOLD_THREADS", "1" if request.param == "one block" else "3")
    if request.param == "many blocks":
        monkeypatch.setattr(neighbors, "PANEL_VALUES", 700)


@pytest.fixture
def large(monkeypatch):
    """Few samples are many already, so that neighbours are sought among candidates."""
    monkeypatch.setattr(neighbors, "EXACT_SAMPLES", 100)
    monkeypatch.setattr(neighbors, "EXACT_IF_NEEDED", 100)
    monkeypatch.setenv("NANFOLD_THREADS", "1")


class TestPairs:
    def test_single_pairs_are_entries_of_the_dense_matrix(self, gram):
        rows, candidates = np.array([3, 59, 3]), np.array([[3, 0, 59, 8], [59, 58, 1, 59], [9, 9, 2, 3]])
        assert_allclose(gram.pairs(rows, candidates), gram.toarray()[rows[:, None], candidates], rtol=1e-11, atol=1e-12)

    def test_whatever_the_gram_matrix(self, gram):
        """The way of the base class, which needs rows alone."""
        rows, candidates = np.array([3, 59]), np.array([[0, 59, 8], [58, 1, 2]])
        assert_allclose(Gram._off_diagonal(gram, rows, candidates), gram.pairs(rows, candidates), atol=1e-12)

    def test_pairs_that_cannot_be(self, gram):
        with pytest.raises(ValueError, match="A pair names row 60, but rows are numbered from 0 to 59"):
            gram.pairs(np.array([0]), np.array([[60]]))

    def test_rows_of_a_gram_matrix(self, gram):
        assert_allclose(gram.rows(7, 20), gram.toarray()[7:20], rtol=1e-11, atol=1e-12)


class TestExact:
    @pytest.mark.parametrize("k", [1, 7, 59])
    def test_every_gram_matrix(self, gram, blocks, k):
        indices, distances = corrected_neighbors(gram, k)
        wanted, squared = brute_force(gram, k)
        assert_array_equal(indices, wanted)
        far = squared > 1e-10
        assert_allclose(distances[far], np.sqrt(40 * squared[far]), rtol=1e-9)
        assert indices.dtype == np.intp
        assert not (indices == np.arange(60)[:, None]).any()
        assert (np.diff(distances, axis=1) >= 0).all()

    @pytest.mark.parametrize("storage", STORAGES)
    def test_every_storage(self, storage, blocks):
        gram = UnbiasedGram(*(lambda o: (o, observation_model("rank-one").fit(o)))(build(storage, np.float64).observed))
        indices, _ = corrected_neighbors(gram, 6)
        wanted, squared = brute_force(gram, 6)
        found = np.take_along_axis(gram.squared_distances(), indices, axis=1)
        assert_allclose(found, squared, atol=1e-10)  # whatever the order of ties
        assert (indices == wanted).mean() > 0.9

    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    @pytest.mark.parametrize("center", [True, False])
    def test_complete_data(self, dtype, center):
        """Euclidean neighbours and distances, as scikit-learn finds them."""
        X = low_rank(80, 30).astype(dtype)
        wanted, which = NearestNeighbors(n_neighbors=9).fit(X.astype(float)).kneighbors()
        found = nearest_neighbors(X, 9, center=center)
        assert_array_equal(found.indices, which)
        assert_allclose(found.distances, wanted, rtol=1e-11 if dtype == np.float64 else 1e-5)

    def test_ties_go_to_the_smaller_index(self):
        X = np.zeros((8, 3))
        X[4:] = 1.0
        indices, _ = nearest_neighbors(X, 3, center=False)
        assert_array_equal(indices[0], [1, 2, 3])
        assert_array_equal(indices[2], [0, 1, 3])
        assert_array_equal(indices[7], [4, 5, 6])

    def test_equal_rows_are_at_a_tiny_distance(self):
        """Not at none: a sparse graph would lose it. And their Euclidean distances to others are what they are."""
        X = low_rank(30, 20)
        X[11] = X[4]
        indices, distances = nearest_neighbors(X, 5)
        assert indices[4, 0] == 11
        assert indices[11, 0] == 4
        assert (distances > 0).all()
        assert distances[4, 0] < 1e-6 * distances[4, 1]
        assert distances[4, 1] == pytest.approx(np.linalg.norm(X[4] - X[indices[4, 1]]), rel=1e-10)

    def test_negative_squared_distances(self):
        """Noise makes some: they come first, in their own order, at the smallest distance."""
        gram = unbiased_gram(hide(low_rank(80, 25, rank=1, noise=0.02), 0.5, random_state=3))
        wanted, squared = brute_force(gram, 10)
        assert (squared < 0).sum() > 50
        indices, distances = corrected_neighbors(gram, 10)
        assert_array_equal(indices, wanted)
        assert (distances > 0).all()
        assert (np.diff(distances, axis=1) >= 0).all()
        assert distances[squared < 0].max() < 1e-6 * distances[squared > 1e-6].min() ** 0.5
        assert len(np.unique(distances[squared < 0])) == 1

    def test_no_n_by_n_array(self):
        X = hide(low_rank(3000, 10, rank=2), random_state=0)
        gram = unbiased_gram(X)
        small = 400_000
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(neighbors, "PANEL_VALUES", small)
            tracemalloc.start()
            corrected_neighbors(gram, 5)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        assert peak < 3000 * 3000 * 8 / 3


class TestCandidates:
    def test_all_others_as_candidates(self, gram, blocks):
        """The same as the exact way, by single pairs instead of rows."""
        exact = corrected_neighbors(gram, 7, candidates=None)
        found = corrected_neighbors(gram, 7, candidates=59, random_state=0)
        assert_array_equal(found.indices, exact.indices)
        far = exact.distances > 1e-4
        assert_allclose(found.distances[far], exact.distances[far], rtol=1e-9)

    def test_recall_and_memory(self, large, monkeypatch):
        """Recall, and no n x n array besides the search of pynndescent, which has its own."""
        monkeypatch.setattr(neighbors, "PANEL_VALUES", 300_000)
        gram = unbiased_gram(hide(low_rank(3000, 60, rank=4), random_state=1), assist=4, random_state=0)
        exact = corrected_neighbors(gram, 15, candidates=None)
        searched = []
        search = neighbors._by_scores
        monkeypatch.setattr(neighbors, "_by_scores", lambda *given: searched.append(search(*given)) or searched[0])
        monkeypatch.setattr(neighbors, "_among_all", None)
        found = corrected_neighbors(gram, 15, random_state=0)
        assert recall(found.indices, exact.indices) >= 0.97
        same = found.indices == exact.indices
        assert_allclose(found.distances[same], exact.distances[same], rtol=1e-6)
        monkeypatch.setattr(neighbors, "_by_scores", lambda *given: searched[0])
        tracemalloc.start()
        corrected_neighbors(gram, 15, random_state=0)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 3000 * 3000 * 8 / 3

    def test_reproducible(self, large):
        gram = unbiased_gram(hide(low_rank(800, 60, rank=4), random_state=1))
        one, two = (corrected_neighbors(gram, 5, random_state=3) for _ in range(2))
        assert_array_equal(one.indices, two.indices)
        assert_array_equal(one.distances, two.distances)
        assert (one.indices != corrected_neighbors(gram, 5, candidates=None).indices).mean() < 0.1

    def test_where_scores_say_little_every_pair_is_looked_at(self, large, monkeypatch):
        """Pure noise of 200 features, with 2 scores: 40 candidates hold almost none of the neighbours."""
        X = np.random.default_rng(0).standard_normal((600, 200))
        gram = unbiased_gram(hide(X, random_state=0))
        monkeypatch.setattr(neighbors, "MOST_CANDIDATES", 40)
        scores = np.random.default_rng(1).standard_normal((600, 2))
        exact = corrected_neighbors(gram, 5, candidates=None)
        monkeypatch.setattr(neighbors, "EXACT_IF_NEEDED", 600)
        assert_array_equal(corrected_neighbors(gram, 5, scores=scores, random_state=0).indices, exact.indices)
        monkeypatch.setattr(neighbors, "EXACT_IF_NEEDED", 599)
        with pytest.warns(UserWarning, match=r"0\.\d\d are among 40 candidates \(checked on 200 samples\); give more"):
            found = corrected_neighbors(gram, 5, scores=scores, random_state=0)
        assert recall(found.indices, exact.indices) < 0.5

    def test_more_neighbours_than_candidates_are_worth(self, large, monkeypatch):
        monkeypatch.setattr(neighbors, "MOST_CANDIDATES", 40)
        gram = unbiased_gram(hide(low_rank(200, 30), random_state=0))
        wanted, _ = brute_force(gram, 60)
        assert_array_equal(corrected_neighbors(gram, 60, random_state=0).indices, wanted)

    def test_as_many_candidates_as_asked_for(self, large, monkeypatch):
        asked = []
        search = neighbors._by_scores
        monkeypatch.setattr(
            neighbors, "_by_scores", lambda s, count, seed: asked.append(count) or search(s, count, seed)
        )
        gram = unbiased_gram(hide(low_rank(300, 60, rank=3), random_state=0), assist=3, random_state=0)
        found = corrected_neighbors(gram, 5, candidates=80, random_state=0)
        assert asked == [80]
        assert recall(found.indices, brute_force(gram, 5)[0]) > 0.95

    def test_scores_of_any_size(self, large):
        """Candidates depend on the scores' proportions, and neither on their unit nor on their type."""
        gram = unbiased_gram(hide(low_rank(300, 60, rank=3), random_state=0), assist=3, random_state=0)
        scores = np.linalg.svd(gram.toarray())[0][:, :3]
        wanted = corrected_neighbors(gram, 5, scores=scores, random_state=0)
        for unit in (2.0**-200, 2.0**200):
            found = corrected_neighbors(gram, 5, scores=unit * scores, random_state=0)
            assert_array_equal(found.indices, wanted.indices)
        assert recall(corrected_neighbors(gram, 5, scores=scores.astype("f4")).indices, wanted.indices) > 0.99

    def test_rows_that_the_search_lost(self, large, monkeypatch):
        """Rows with too few candidates are compared with every other."""
        gram = unbiased_gram(hide(low_rank(300, 60, rank=3), random_state=0), assist=3, random_state=0)
        search = neighbors._by_scores

        def lossy(scores, count, seed):
            found = search(scores, count, seed)
            found[17, 2:] = -1
            found[200] = -1
            return found

        monkeypatch.setattr(neighbors, "_by_scores", lossy)
        found = corrected_neighbors(gram, 5, candidates=200, random_state=0)
        wanted, squared = brute_force(gram, 5)
        for i in (17, 200):
            assert_array_equal(found.indices[i], wanted[i])
            assert_allclose(found.distances[i], np.sqrt(60 * squared[i]), rtol=1e-8)

    @pytest.mark.slow
    def test_20000_samples(self, monkeypatch):
        """20,000 x 500 with 40 % holes: 95 % of the exact neighbours, in far less than the 3.2 GB of n x n.

        What pynndescent asks for is not counted: it reserves buffers of up to gigabytes, and hardly touches them.
        """
        rng = np.random.default_rng(0)
        centres = 2 * rng.standard_normal((20, 20))
        latent = (centres[rng.integers(0, 20, 20_000)] + rng.standard_normal((20_000, 20))) * 0.9 ** np.arange(20)
        X = latent @ rng.standard_normal((20, 500)) + rng.standard_normal((20_000, 500))
        gram = unbiased_gram(hide(X, random_state=1), assist=20, random_state=0)
        search, peaks = neighbors._by_scores, []

        def untraced(scores, count, seed):
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
            found = search(scores, count, seed)
            tracemalloc.start()
            return found

        monkeypatch.setattr(neighbors, "_by_scores", untraced)
        tracemalloc.start()
        indices, _ = corrected_neighbors(gram, 15, random_state=0)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert len(peaks) == 2
        assert max(peaks) < 20_000**2 * 8 / 16
        diagonal, start = gram.diagonal(), 9000
        squared = diagonal - 2 * gram.rows(start, start + 400)
        squared[np.arange(400), np.arange(start, start + 400)] = np.inf
        exact = np.argpartition(squared, 15, axis=1)[:, :15]
        assert recall(indices[start : start + 400], exact) >= 0.95


class TestNearestNeighbors:
    def test_it_is_the_corrected_distance(self):
        X = hide(low_rank(90, 50, rank=3), random_state=4)
        for assist in (0, 3):
            found = nearest_neighbors(X, 8, assist=assist, random_state=0)
            wanted = corrected_neighbors(unbiased_gram(X, assist=assist, random_state=0), 8)
            assert_array_equal(found.indices, wanted.indices)
            assert_allclose(found.distances, wanted.distances, rtol=1e-9)
        assert found.indices.shape == found.distances.shape == (90, 8)
        assert nearest_neighbors(X, assist=0).indices.shape == (90, 15)

    def test_options_arrive(self):
        X = hide(low_rank(60, 40) + 3.0, random_state=4)
        for options in ({"observation": "homogeneous"}, {"observation": "pairwise"}, {"center": False}):
            found = nearest_neighbors(X, 8, assist=0, **options)
            assert_array_equal(found.indices, brute_force(unbiased_gram(X, **options), 8)[0])
        few = nearest_neighbors(X, 8, assist=0, candidates=59, random_state=0)
        assert_array_equal(few.indices, nearest_neighbors(X, 8, assist=0).indices)

    def test_storages_agree(self):
        case = build("dense NaN", np.float64, seed=3, n=40, d=60)
        X, M = case.X, case.M > 0
        wanted = nearest_neighbors(np.where(M, X, np.nan), 6, assist=0)
        stored = sparse.csr_array((X[M], np.nonzero(M)), shape=X.shape)
        structured = StructuredMask(np.arange(40), M.astype(float))
        for data, options in (
            (X, {"mask": M}),
            (np.ma.MaskedArray(X, ~M), {}),
            (stored, {"missing": "unstored"}),
            (sparse.csr_array(np.where(M, X, 0.0)), {"mask": structured}),
        ):
            found = nearest_neighbors(data, 6, assist=0, **options)
            assert_array_equal(found.indices, wanted.indices)
            assert_allclose(found.distances, wanted.distances, rtol=1e-9)

    def test_holes_do_not_draw_thin_rows_together(self):
        """Mean-filled rows with many holes come close to one another; corrected ones do not."""
        X = low_rank(120, 300, rank=4)
        rng = np.random.default_rng(1)
        thin = np.arange(120) % 4 == 0
        holed = np.where(rng.random(X.shape) < np.where(thin, 0.8, 0.1)[:, None], np.nan, X)
        truth = nearest_neighbors(X, 10).indices
        corrected = nearest_neighbors(holed, 10, random_state=0).indices
        filled = np.where(np.isnan(holed), np.nanmean(holed, axis=0), holed)
        naive = NearestNeighbors(n_neighbors=10).fit(filled).kneighbors(return_distance=False)
        assert recall(corrected, truth) > recall(naive, truth) + 0.2
        assert thin[corrected[thin]].mean() < 0.5 < thin[naive[thin]].mean()

    def test_reproducible(self):
        X = hide(low_rank(60, 40), random_state=4)
        one, two = (nearest_neighbors(X, 5, random_state=7) for _ in range(2))
        assert_array_equal(one.distances, two.distances)


class TestRefusals:
    X = hide(low_rank(12, 30), random_state=0)

    @pytest.mark.parametrize(
        ("n_neighbors", "message"),
        [
            (0, "n_neighbors must be a whole number of at least 1; it is 0"),
            (-3, "at least 1; it is -3"),
            (2.0, r"whole number of at least 1; it is 2\.0"),
            (True, "it is True"),
            ("15", "it is '15'"),
            (None, "it is None"),
            (12, "n_neighbors=12 is too large: a sample has 11 others among 12; choose at most 11"),
            (500, "n_neighbors=500 is too large"),
        ],
    )
    def test_number_of_neighbours(self, n_neighbors, message):
        with pytest.raises(ValueError, match=message):
            nearest_neighbors(self.X, n_neighbors)
        with pytest.raises(ValueError, match=message):
            corrected_neighbors(unbiased_gram(self.X), n_neighbors)

    @pytest.mark.parametrize("candidates", [4, 12, 5.5, "all", True, -1])
    def test_number_of_candidates(self, candidates):
        message = "candidates must be 'auto', None .* between n_neighbors=5 and n_samples - 1 = 11; it is"
        with pytest.raises(ValueError, match=message):
            nearest_neighbors(self.X, 5, candidates=candidates)
        with pytest.raises(ValueError, match=message):
            corrected_neighbors(unbiased_gram(self.X), 5, candidates=candidates)

    @pytest.mark.parametrize("shape", [(12,), (11, 2), (12, 0), (12, 2, 2)])
    def test_scores(self, shape):
        with pytest.raises(ValueError, match="scores must have one row for each of the 12 samples; their shape is"):
            corrected_neighbors(unbiased_gram(self.X), 5, scores=np.zeros(shape))

    def test_assist_and_observation(self):
        with pytest.raises(ValueError, match="assist must be a rank"):
            nearest_neighbors(self.X, 5, assist="much")
        with pytest.raises(ValueError, match="observation must be one of"):
            nearest_neighbors(self.X, 5, observation="some")

    def test_data_that_do_not_vary(self):
        with pytest.raises(ValueError, match="X does not vary"):
            nearest_neighbors(np.ones((5, 4)), 2)


class TestAloneRows:
    """A row whose features nobody else has is as far from everybody as nobody knows."""

    M = np.array([[1, 1, 0, 0, 0], [1, 0, 1, 0, 0], [0, 0, 0, 1, 1], [0, 1, 1, 0, 0]], dtype=bool)
    X = np.arange(20.0).reshape(4, 5) + 1.0

    def test_every_storage(self):
        structured = StructuredMask(np.arange(4), self.M.astype(float))
        for data, options in (
            (np.where(self.M, self.X, np.nan), {}),
            (self.X, {"mask": self.M}),
            (self.X, {"mask": 0.3 * self.M}),
            (sparse.csr_array(np.where(self.M, self.X, 0)), {"missing": "unstored"}),
            (sparse.csr_array(np.where(self.M, self.X, 0)), {"mask": structured}),
        ):
            with pytest.raises(ValueError, match=r"^Row 2 of X shares no feature with any other row, .* drop it first"):
                nearest_neighbors(data, 2, **options)

    def test_given_a_gram_matrix(self):
        gram = unbiased_gram(np.where(self.M, self.X, np.nan))
        for given in (gram, ShiftedGram(gram, np.ones(4))):
            with pytest.raises(ValueError, match="Row 2 of X shares no feature"):
                corrected_neighbors(given, 2)

    def test_several(self):
        M = np.vstack([self.M, np.zeros(5, dtype=bool)])
        M = np.hstack([M, [[False]] * 4 + [[True]]])
        X = np.where(M, 1.0 + np.arange(30.0).reshape(5, 6), np.nan)
        with pytest.raises(ValueError, match=r"Rows 2, 4 of X share no feature .* to them can be known; drop them"):
            nearest_neighbors(X, 2)

    def test_two_that_have_only_each_other_are_not_alone(self):
        M = self.M.copy()
        M[3] = M[2]
        assert nearest_neighbors(np.where(M, self.X, np.nan), 2, assist=0).indices.shape == (4, 2)
