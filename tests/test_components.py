"""How many components: a number, a share, the scree test, sign flips, all; and what cannot be had."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array

import nanfold as nf
from nanfold import components
from nanfold.components import (
    cng,
    leading_components,
    null_eigenvalues,
    share_of_variance,
    signflip_rank,
)
from nanfold.diagonal import ShiftedGram


def planted(rank: int, n: int = 120, d: int = 300, strength: float = 3.0, holes: float = 0.4) -> np.ndarray:
    """Noise of variance 1 and `rank` directions well above it, with holes at random."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    if rank:
        X += strength * rng.standard_normal((n, rank)) @ rng.standard_normal((rank, d)) / np.sqrt(rank)
    X[rng.random((n, d)) < holes] = np.nan
    return X


def gram_of(X: np.ndarray, **options) -> nf.UnbiasedGram:
    return nf.unbiased_gram(X, **options)


def leading(gram, n_components, solver="auto", **options):
    return leading_components(gram, n_components, solver, plain=gram, rng=np.random.default_rng(0), **options)


class TestScreeTest:
    def test_by_hand(self):
        """Slopes -3 and -0.1 on both sides of the third eigenvalue: the first half of that run is kept."""
        assert cng(np.array([10.0, 7.0, 4.0, 1.0, 0.9, 0.8, 0.7, 0.6])) == 3
        assert cng(np.array([10.0, 1.0, 0.9, 0.8, 0.7, 0.6, 0.5])) == 3
        # Slopes of -5 through 11, 8, 1 and of -0.1 behind them: the elbow is the first small one.
        assert cng(np.array([20.0, 17, 14, 11, 8, 1, 0.9, 0.8, 0.7, 0.6])) == 6

    def test_brute_force(self):
        """Against least-squares lines fitted to each half of each run."""
        rng = np.random.default_rng(0)
        for _ in range(30):
            values = np.sort(rng.exponential(size=rng.integers(6, 30)))[::-1]
            x = np.arange(3)
            bends = [
                np.polyfit(x, values[i + 3 : i + 6], 1)[0] - np.polyfit(x, values[i : i + 3], 1)[0]
                for i in range(len(values) - 5)
            ]
            assert cng(values) == int(np.argmax(bends)) + 3

    def test_too_few(self):
        with pytest.raises(ValueError, match="needs at least 6 eigenvalues and there are 5"):
            cng(np.ones(5))

    def test_planted_rank(self):
        """The elbow, be it counted in or out."""
        assert len(leading(gram_of(planted(5, strength=6.0)), "cng").values) in (5, 6)


class TestShareOfVariance:
    def test_the_fewest_that_exceed_it(self):
        values = np.array([5.0, 3.0, 1.0, 1.0])
        shares = (0.01, 0.49, 0.51, 0.79, 0.81, 0.99)
        assert [share_of_variance(values, 10.0, share) for share in shares] == [1, 1, 2, 2, 3, 4]
        # As in scikit-learn, a share that is reached exactly is not yet exceeded.
        assert share_of_variance(values, 10.0, 0.5) == 2
        assert share_of_variance(values, 10.0, 1 - 1e-17) == 4

    @pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
    def test_it_is_reached_and_with_one_less_is_not(self, share):
        gram = gram_of(planted(4))
        values = leading(gram, share).values
        total = gram.diagonal().sum()
        assert values.sum() > share * total >= values[:-1].sum()

    def test_large_matrices_find_as_many_as_it_takes(self, monkeypatch):
        """Without all eigenvalues at hand, twice as many are asked for until the share is reached."""
        gram = gram_of(planted(4))
        expected = leading(gram, 0.99)
        assert len(expected.values) > 8
        monkeypatch.setattr(components, "DENSE_SAMPLES", 10)
        monkeypatch.setattr(components, "SCREE_LENGTH", 2)
        found = leading(gram, 0.99)
        assert_allclose(found.values, expected.values, rtol=1e-6)

    def test_krylov(self):
        gram = gram_of(planted(4))
        assert_allclose(leading(gram, 0.5, "krylov").values, leading(gram, 0.5).values, rtol=1e-6)


class TestSignFlips:
    @pytest.mark.parametrize("rank", [1, 3, 8])
    @pytest.mark.parametrize("holes", [0.0, 0.4, 0.7])
    def test_planted_rank(self, rank, holes):
        pairs = leading(gram_of(planted(rank, d=1200 if holes > 0.5 else 300, holes=holes, strength=4.0)), "signflip")
        assert len(pairs.values) == rank

    def test_nothing_but_noise(self):
        with pytest.raises(ValueError, match="nothing to keep: no component stands out of the sign-flipped data; give"):
            leading(gram_of(planted(0)), "signflip")

    def test_more_than_are_looked_at_first(self, monkeypatch):
        monkeypatch.setattr(components, "SCREE_LENGTH", 2)
        assert len(leading(gram_of(planted(8, strength=5.0)), "signflip").values) == 8

    def test_null_data_keep_sizes_and_lose_covariance(self):
        """The null's eigenvalues are those of noise with the same variances, not those of the data."""
        gram = gram_of(planted(3))
        null = null_eigenvalues(gram, 5, np.random.default_rng(0))
        assert null.shape == (5,)
        assert null.max() < 0.5 * leading(gram, 1).values[0]
        # Flipped, all of the variance is still there: a largest eigenvalue can only be above the mean one.
        assert null.min() > gram.diagonal().sum() / 120

    def test_the_same_generator_gives_the_same_answer(self):
        gram = gram_of(planted(3))
        one, again = (null_eigenvalues(gram, 3, np.random.default_rng(4)) for _ in range(2))
        assert_array_equal(one, again)
        assert signflip_rank(gram, 5, np.random.default_rng(4)) == 3


class TestAll:
    @pytest.mark.parametrize("n_components", ["all", None])
    def test_every_eigenvalue_that_is_not_negative(self, n_components):
        gram = gram_of(planted(3, holes=0.6))
        values = np.linalg.eigvalsh(gram.toarray())
        assert values[0] < -0.01
        pairs = leading(gram, n_components)
        assert len(pairs.values) == np.sum(values > -1e-12)
        assert pairs.values.min() >= 0

    def test_tables_with_more_rows_than_columns(self):
        assert len(leading(gram_of(planted(2, n=50, d=12)), None).values) <= 12

    def test_large_matrices(self, monkeypatch):
        gram = gram_of(planted(3))
        with pytest.raises(ValueError, match=r"n_components='all' needs every eigenvalue, which solver='krylov'"):
            leading(gram, "all", "krylov")
        monkeypatch.setattr(components, "DENSE_SAMPLES", 10)
        with pytest.raises(ValueError, match=r"n_components=None needs every eigenvalue.*solver='exact'"):
            leading(gram, None)
        assert len(leading(gram, None, "exact").values) > 50


class TestNumbers:
    @pytest.mark.parametrize("solver", ["auto", "exact", "krylov"])
    def test_as_many_as_asked_for(self, solver):
        gram = gram_of(planted(3))
        values = np.linalg.eigvalsh(gram.toarray())[::-1]
        assert_allclose(leading(gram, 7, solver).values, values[:7], rtol=1e-6)
        assert_allclose(leading(gram, np.int64(2), solver).values, values[:2], rtol=1e-6)

    def test_more_than_are_not_negative(self):
        gram = gram_of(planted(3, holes=0.6))
        most = len(leading(gram, "all").values)
        assert len(leading(gram, most).values) == most
        with pytest.raises(ValueError, match=rf"n_components={most + 1} .* choose at most {most}"):
            leading(gram, most + 1)

    @pytest.mark.parametrize("n_components", [1, 0.5, "cng", "all", None])
    def test_every_eigenvalue_is_negative(self, n_components):
        gram = ShiftedGram(gram_of(planted(3)), np.full(120, -1e4))
        with pytest.raises(ValueError, match=r"nothing to keep: every eigenvalue .* is negative; more of X must"):
            leading(gram, n_components)

    @pytest.mark.parametrize("sparse", [False, True])
    def test_components_without_variance_are_zero_and_not_an_error(self, sparse):
        """Centred, n rows have n - 1 directions; the last eigenvalue is zero up to rounding, of either sign."""
        X = np.random.default_rng(0).standard_normal((40, 2)) @ np.ones((2, 500)) + 3.0
        for k in (3, 40):
            values = leading(gram_of(csr_array(X) if sparse else X), k).values
            assert len(values) == k
            assert_allclose(values[2:], 0.0, atol=1e-11 * values[0])
            assert values.min() >= 0

    @pytest.mark.parametrize(
        ("n_components", "message"),
        [
            (0, r"n_components=0 must lie between 1 and min\(n_samples, n_features\)=120; choose fewer"),
            (121, r"n_components=121 must lie between 1 and min\(n_samples, n_features\)=120"),
            (-3, "n_components=-3 must lie between"),
            (0.0, r"n_components=0\.0 as a share of the variance must lie between 0 and 1"),
            (1.0, r"n_components=1\.0 as a share"),
            (1.5, r"n_components=1\.5 as a share"),
            (np.nan, "n_components=nan as a share"),
            ("mle", "a whole number, a share in .*it is 'mle'"),
            (True, "a whole number, a share in .*it is True"),
            ([3], r"a whole number, a share in .*it is \[3\]"),
        ],
    )
    def test_refusals(self, n_components, message):
        with pytest.raises(ValueError, match=message):
            leading(gram_of(planted(3)), n_components)

    @pytest.mark.parametrize("n_components", [2, 0.5, None, "cng", "signflip"])
    def test_unknown_solver(self, n_components):
        with pytest.raises(ValueError, match="solver must be 'auto', 'exact' or 'krylov'; it is 'arpack'"):
            leading(gram_of(planted(3)), n_components, "arpack")
