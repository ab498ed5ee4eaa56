"""The paper's simulated clusters, and hiding entries: what is drawn, at what rates, and seeded."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.stats import kstest, norm

from nanfold.datasets import hide, make_clusters
from nanfold.datasets.simulate import GEOMETRY


class TestClusters:
    def test_sizes(self):
        X, labels = make_clusters(random_state=0)
        assert X.shape == (600, 3000)
        assert X.dtype == np.float64
        assert_array_equal(np.bincount(labels), [200, 200, 200])
        X, labels = make_clusters(11, 7, n_clusters=4, latent_dim=5, random_state=0)
        assert X.shape == (11, 7)
        assert_array_equal(np.bincount(labels), [3, 3, 3, 2])

    def test_seeds(self):
        one, again, other = (make_clusters(30, 20, random_state=seed)[0] for seed in (1, 1, 2))
        assert_array_equal(one, again)
        assert not np.array_equal(one, other)

    def test_the_model(self):
        """X = latent W + means + noise: each of these as the paper draws it."""
        X, labels = make_clusters(n_samples=3000, n_features=800, random_state=0)
        means = np.array([X[labels == c].mean(axis=0) for c in range(3)])
        within = np.vstack([X[labels == c] - means[c] for c in range(3)])
        # Noise of uniform standard deviations on [1.8, 2.2], and 0.01 |w|^2 from within the clusters.
        spread = within.std(axis=0)
        assert 1.75 < spread.min() < 1.85
        assert 2.15 < spread.max() < 2.27
        assert kstest((spread - 1.8) / 0.4, "uniform").statistic < 0.08
        assert kstest(within[:, 3] / spread[3], norm.cdf).pvalue > 0.001
        # The centres span a plane: three means differ in two directions, up to the noise in a mean.
        centred = means - means.mean(axis=0)
        noise = 2.0 * np.sqrt(800 / 1000)
        sigma = np.linalg.svd(centred, compute_uv=False)
        assert sigma[1] > 2 * noise
        # Columns' means: uniform on [2.7, 3.3] plus centre and loading.
        rng = np.random.RandomState(GEOMETRY)
        centres = 5 * (rng.uniform(size=(3, 2)) - 0.5)
        loadings, *_ = np.linalg.lstsq(centres - centres.mean(axis=0), centred, rcond=None)
        assert np.abs(loadings).max() < 0.75
        assert loadings.std() == pytest.approx(np.sqrt(1 / 12), rel=0.1)
        offset = means.mean(axis=0) - centres.mean(axis=0) @ loadings
        assert offset.mean() == pytest.approx(3.0, abs=0.02)
        assert 0.15 < offset.std() < 0.21

    def test_geometry_is_apart_from_everything_else(self):
        """Different seeds draw from the same three clusters, unless the centres are to be drawn too."""

        def distances(**options):
            X, labels = make_clusters(600, 4000, **options)
            centres = np.array([X[labels == c].mean(axis=0) for c in range(3)])
            gaps = ((centres[:, None] - centres[None]) ** 2).sum(axis=-1) / 4000
            return gaps[np.triu_indices(3, 1)]

        one, other = distances(random_state=1), distances(random_state=2)
        assert_allclose(one, other, rtol=0.1)
        assert not np.allclose(distances(random_state=1, geometry=None), one, rtol=0.1)
        assert not np.allclose(distances(random_state=1, geometry=3), one, rtol=0.1)
        assert_array_equal(distances(random_state=1, geometry=GEOMETRY), one)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"n_samples": 2}, "n_samples must be at least 3; it is 2"),
            ({"n_features": 0}, "n_features must be at least 1; it is 0"),
            ({"n_clusters": 0}, "n_clusters must be at least 1; it is 0"),
            ({"latent_dim": 0}, "latent_dim must be at least 1; it is 0"),
        ],
    )
    def test_refusals(self, options, message):
        with pytest.raises(ValueError, match=message):
            make_clusters(**options)


class TestHiding:
    @pytest.fixture
    def X(self):
        return np.random.default_rng(0).standard_normal((400, 300)) + 5.0

    @pytest.mark.parametrize("mechanism", ["rank-one", "mcar", "by-value"])
    @pytest.mark.parametrize("share", [0.1, 0.4, 0.7])
    def test_share(self, X, mechanism, share):
        hidden = np.isnan(hide(X, share, mechanism=mechanism, random_state=0))
        assert hidden.mean() == pytest.approx(share, abs=0.005)

    @pytest.mark.parametrize("mechanism", ["rank-one", "mcar", "by-value"])
    def test_seeded_and_not_in_place(self, X, mechanism):
        before = X.copy()
        one, again, other = (hide(X, mechanism=mechanism, random_state=seed) for seed in (1, 1, 2))
        assert_array_equal(one, again)
        assert not np.array_equal(np.isnan(one), np.isnan(other))
        assert_array_equal(X, before)
        assert_array_equal(one[~np.isnan(one)], X[~np.isnan(one)])
        assert np.isnan(one).mean() == pytest.approx(0.4, abs=0.01)

    def test_rank_one_is_a_product(self, X):
        """P(hole) = b_i q_j: the shares of rows and columns spread as b and q do, and nothing else is left."""
        H = np.isnan(hide(X, random_state=0)).astype(float)
        b, q = H.mean(axis=1) / 0.8, H.mean(axis=0) / 0.5
        assert b.mean() == pytest.approx(0.5, abs=0.02)
        assert b.std() == pytest.approx(np.sqrt(0.2**2 / 12 + 0.4 * 0.6 / 300 / 0.64), rel=0.1)
        assert q.std() == pytest.approx(np.sqrt(0.2**2 / 12 + 0.4 * 0.6 / 400 / 0.25), rel=0.1)
        left = H - np.outer(b, q) * H.mean() / np.outer(b, q).mean()
        # What a product leaves is the noise of coin tosses, whose largest singular value is known.
        assert np.linalg.norm(left, 2) < 1.05 * 0.49 * (np.sqrt(400) + np.sqrt(300))

    def test_ranges(self, X):
        hidden = np.isnan(hide(X, row_range=(0.2, 0.2), column_range=(0.5, 0.5), random_state=0))
        assert hidden.mean() == pytest.approx(0.1, abs=0.005)
        rows = np.isnan(hide(X, row_range=(0.0, 1.0), column_range=(1.0, 1.0), random_state=0)).mean(axis=1)
        assert rows.min() < 0.02
        assert rows.max() > 0.98

    def test_completely_at_random(self, X):
        hidden = np.isnan(hide(X, 0.4, mechanism="mcar", random_state=0))
        assert hidden.mean(axis=1).std() == pytest.approx(np.sqrt(0.24 / 300), rel=0.1)
        assert X[hidden].mean() == pytest.approx(X[~hidden].mean(), abs=0.02)

    def test_by_value(self, X):
        """Larger values are more often observed, in columns of any size."""
        X = X * np.linspace(0.1, 30, 300)
        hidden = np.isnan(hide(X, 0.4, mechanism="by-value", random_state=0))
        rank = X.argsort(axis=0).argsort(axis=0) / 400
        shares = [hidden[(rank >= low) & (rank < low + 0.25)].mean() for low in (0.0, 0.25, 0.5, 0.75)]
        assert np.all(np.diff(shares) < -0.1)
        assert hidden.mean(axis=0).std() < 0.05

    def test_the_seed_of_the_data_does_not_tie_the_holes_to_them(self):
        X, _ = make_clusters(200, 300, random_state=5)
        hidden = np.isnan(hide(X, 0.4, mechanism="mcar", random_state=5))
        correlation = np.corrcoef((X - X.mean(axis=0)).ravel(), hidden.ravel())[0, 1]
        assert abs(correlation) < 4 / np.sqrt(X.size)

    def test_types(self, X):
        assert hide(X.astype(np.float32), random_state=0).dtype == np.float32
        assert hide(np.round(X).astype(int), random_state=0).dtype == np.float64
        assert hide(X[:20].tolist(), random_state=0).shape == (20, 300)

    def test_holes_that_are_there_stay(self, X):
        X[3, 4] = np.nan
        for mechanism in ("rank-one", "mcar", "by-value"):
            assert np.isnan(hide(X, mechanism=mechanism, random_state=0)[3, 4])

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"share": 0}, "share must lie between 0 and 1; it is 0"),
            ({"share": 1.0}, r"share must lie between 0 and 1; it is 1\.0"),
            ({"share": np.nan}, "share must lie between 0 and 1"),
            ({"mechanism": "mnar"}, "mechanism must be 'rank-one', 'mcar' or 'by-value'; it is 'mnar'"),
            ({"row_range": (0.6, 0.4)}, r"row_range must lie within \[0, 1\], lower end first; it is \(0\.6, 0\.4\)"),
            ({"column_range": (0.5, 1.4)}, r"column_range must lie within \[0, 1\]"),
            ({"share": 0.95}, r"share=0\.95 asks for probabilities of a hole above 1"),
        ],
    )
    def test_refusals(self, X, options, message):
        with pytest.raises(ValueError, match=message):
            hide(X, random_state=0, **options)

    def test_what_is_no_table_of_numbers(self, X):
        with pytest.raises(ValueError, match="X must have two dimensions; it has 1"):
            hide(X[0])
        for wrong in (np.full((3, 2), "x"), sparse.csr_array(X), X + 1j):
            with pytest.raises(ValueError, match="X must be a dense array of real numbers; its type is"):
                hide(wrong)
