"""The models of the probability of being observed: what they divide by, what noise holes leave, what they refuse."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from nanfold.observation import (
    NAMES,
    Homogeneous,
    Known,
    KnownFactors,
    ObservationModel,
    Pairwise,
    RankOne,
    observation_model,
)
from nanfold.observed import observe
from storages import build


@pytest.fixture
def case():
    return build("dense NaN", np.float64)


def data_under(mask: np.ndarray):
    """Data of ones and twos under a mask; what they are does not matter to a model."""
    X = 1.0 + np.arange(mask.size).reshape(mask.shape) % 2
    return observe(np.where(mask, X, np.nan), center=False)


class TestSums:
    def test_homogeneous(self, case):
        model = Homogeneous().fit(case.observed)
        n, d = case.M.shape
        p = case.M.mean()
        assert_allclose(model.pair_sums(), np.full((n, n), d * p**2))
        assert_allclose(model.row_sums(), np.full(n, d * p))

    def test_rank_one_bounded(self, case):
        """The paper's to the letter: p_is = r_i f_s / kappa, with kappa large enough for p <= 1."""
        model = RankOne(bounded=True).fit(case.observed)
        r, f = case.M.mean(axis=1), case.M.mean(axis=0)
        P = np.outer(r, f) / max(case.M.mean(), r.max() * f.max())
        assert P.max() <= 1
        assert_allclose(model.pair_sums(), P @ P.T)
        assert_allclose(model.row_sums(), P.sum(axis=1))

    def test_rank_one(self, case):
        """By moments: rows sum to their counts, and the columns' second moment is free of its own sampling error."""
        model = RankOne().fit(case.observed)
        n, _ = case.M.shape
        r, count = case.M.mean(axis=1), case.M.sum(axis=0)
        different_rows = (count**2 - count) / (n * (n - 1))
        expected = np.outer(r, r) * different_rows.sum() / case.M.mean() ** 2
        assert_allclose(model.pair_sums(), expected)
        assert_allclose(model.row_sums(), case.M.sum(axis=1))

    def test_rank_one_under_weights(self):
        """Weights count pairs of different rows by the product of their weights."""
        case = build("dense and weights", np.float64)
        model = RankOne().fit(case.observed)
        n, _ = case.M.shape
        shared = case.M.T[:, :, None] * case.M.T[:, None, :]
        different_rows = (shared.sum(axis=(1, 2)) - np.einsum("sii->s", shared)) / (n * (n - 1))
        r = case.M.mean(axis=1)
        assert_allclose(model.pair_sums(), np.outer(r, r) * different_rows.sum() / case.M.mean() ** 2)
        assert_allclose(model.row_sums(), case.M.sum(axis=1))

    def test_the_correction_is_exact(self):
        """Over all masks of one column, the corrected square of its share has the mean p^2; the plain one has not."""
        n, p = 4, 0.3
        corrected = plain = 0.0
        for column in itertools.product((0, 1), repeat=n):
            mask = np.column_stack([column, np.ones(n)]).astype(bool)
            model = RankOne().fit(data_under(mask)) if any(column) else None
            probability = np.prod(np.where(column, p, 1 - p))
            share = np.mean(column)
            # The other column is complete and adds 1; an empty column cannot be fed and its square is 0.
            corrected += probability * (model.g_square_sum_ * model.kappa_**2 - 1.0 if model else 0.0)
            plain += probability * share**2
        assert corrected == pytest.approx(p**2, abs=1e-14)
        assert abs(plain - p**2) > 0.01

    def test_known(self, case):
        P = np.random.default_rng(0).uniform(0.2, 1.0, case.M.shape)
        model = Known(P).fit(case.observed)
        assert_allclose(model.pair_sums(), P @ P.T)
        assert_allclose(model.row_sums(), P.sum(axis=1))

    def test_known_factors_are_the_array(self, case):
        rng = np.random.default_rng(0)
        c, g = rng.uniform(0.2, 1.0, case.M.shape[0]), rng.uniform(0.2, 1.0, case.M.shape[1])
        factors, array = KnownFactors(c, g).fit(case.observed), Known(np.outer(c, g)).fit(case.observed)
        for answer in ("pair_sums", "row_sums", "pair_noise", "row_noise"):
            assert_allclose(getattr(factors, answer)(), getattr(array, answer)(), rtol=1e-12)

    def test_pairwise(self, case):
        model = Pairwise().fit(case.observed)
        assert_allclose(model.pair_sums(), case.M @ case.M.T)
        assert_allclose(model.row_sums(), case.M.sum(axis=1))

    @pytest.mark.parametrize("name", NAMES)
    def test_complete_data(self, name):
        """With nothing missing every model divides by the number of features and knows of no noise."""
        observed = build("dense complete", np.float64).observed
        model = observation_model(name).fit(observed)
        n, d = observed.shape
        assert_allclose(model.pair_sums(), np.full((n, n), d))
        assert_allclose(model.row_sums(), np.full(n, d))
        assert_allclose(model.pair_noise(), 0.0, atol=1e-15)
        assert_allclose(model.row_noise(), 0.0, atol=1e-15)


class TestNoise:
    def test_known_is_exact(self):
        """Over all masks of two rows, weighted by probability: the relative variance of what two share, and one has."""
        P = np.array([[0.3, 0.8, 0.5], [0.6, 0.4, 0.9]])
        shared, own = np.zeros(2), np.zeros(2)
        for bits in itertools.product((0, 1), repeat=P.size):
            mask = np.reshape(bits, P.shape)
            probability = np.prod(np.where(mask, P, 1 - P))
            shared += probability * (mask[0] @ mask[1]) ** np.array([1, 2])
            own += probability * mask[0].sum() ** np.array([1, 2])
        model = Known(P).fit(data_under(np.ones(P.shape, dtype=bool)))
        assert model.pair_noise()[0, 1] == pytest.approx((shared[1] - shared[0] ** 2) / shared[0] ** 2, abs=1e-13)
        assert model.row_noise()[0] == pytest.approx((own[1] - own[0] ** 2) / own[0] ** 2, abs=1e-13)

    def test_estimated_shares_take_part_of_the_noise_with_them(self):
        """Simulated: the spread of N_ij over its estimated denominator, which is less than with p known."""
        rng = np.random.default_rng(0)
        n, d = 80, 300
        c, g = rng.uniform(0.4, 0.8, n), rng.uniform(0.5, 1.0, d)
        off = ~np.eye(n, dtype=bool)
        ratios, noise = [], []
        for _ in range(120):
            mask = rng.random((n, d)) < np.outer(c, g)
            model = RankOne().fit(data_under(mask))
            ratios.append((mask.astype(float) @ mask.T) / model.pair_sums())
            noise.append(model.pair_noise())
        seen = np.var(ratios, axis=0)[off].mean()
        assert np.mean(noise, axis=0)[off].mean() == pytest.approx(seen, rel=0.1)
        known = KnownFactors(c, g).fit(data_under(mask)).pair_noise()[off].mean()
        assert known > 2.0 * seen

    def test_rows_that_are_divided_by_their_count_have_none(self, case):
        for model in (RankOne(), RankOne(bounded=True), Pairwise()):
            assert_array_equal(model.fit(case.observed).row_noise(), 0.0)
        assert_array_equal(Pairwise().fit(case.observed).pair_noise(), 0.0)

    def test_never_negative(self):
        """Shares so uneven that r_i f_s / kappa exceeds 1."""
        rng = np.random.default_rng(1)
        mask = rng.random((20, 40)) < 0.1
        mask[0], mask[:, 0] = True, True
        model = RankOne().fit(data_under(mask))
        assert model.c_.max() * model.g_.max() > 1
        assert model.pair_noise().min() >= 0


class TestFrontDoor:
    def test_names(self):
        kinds = [type(observation_model(name)) for name in NAMES]
        assert kinds == [RankOne, RankOne, Homogeneous, Pairwise]
        assert not observation_model("rank-one").bounded
        assert observation_model("rank-one-bounded").bounded

    def test_objects(self):
        model = Pairwise()
        assert observation_model(model) is model
        assert isinstance(observation_model(np.ones((2, 3))), Known)
        assert isinstance(observation_model((np.ones(2), np.ones(3))), KnownFactors)

    @pytest.mark.parametrize("model", [Homogeneous(), RankOne(), Known(np.ones((19, 13))), Pairwise()])
    def test_fitting_leaves_the_model_as_it_was(self, case, model):
        before = dict(vars(model))
        fitted = model.fit(case.observed)
        assert isinstance(fitted, ObservationModel)
        assert fitted is not model
        assert vars(model).keys() == before.keys()
        assert repr(fitted) == repr(model)

    @pytest.mark.parametrize("wrong", ["rank one", 3, None, np.ones(4), np.ones((2, 2, 2))])
    def test_what_is_none_of_these(self, wrong):
        with pytest.raises(ValueError, match="observation must be one of 'rank-one'"):
            observation_model(wrong)


class TestRefusals:
    @pytest.mark.parametrize("value", [0.0, -0.1, 1.01, np.nan, np.inf])
    def test_probabilities(self, case, value):
        P = np.full(case.M.shape, 0.5)
        P[3, 7] = value
        with pytest.raises(ValueError, match=r"probability of row 3, column 7 is .*must lie in \(0, 1\]"):
            Known(P).fit(case.observed)

    @pytest.mark.parametrize("value", [0.0, -0.1, np.nan])
    def test_factors(self, case, value):
        n, d = case.M.shape
        c, g = np.full(n, 0.5), np.full(d, 0.5)
        g[7] = value
        with pytest.raises(ValueError, match=r"factor g is .* at column 7; it must be above 0"):
            KnownFactors(c, g).fit(case.observed)
        with pytest.raises(ValueError, match=r"factor c is .* at row 7; it must be above 0"):
            KnownFactors(np.where(np.arange(n) == 7, value, c), np.full(d, 0.5)).fit(case.observed)

    def test_factors_whose_product_is_no_probability(self, case):
        n, d = case.M.shape
        c, g = np.full(n, 0.5), np.full(d, 0.5)
        c[2], g[4] = 2.0, 0.75
        with pytest.raises(ValueError, match=r"probability of row 2, column 4 is 1\.5"):
            KnownFactors(c, g).fit(case.observed)
        g[4] = 0.5  # c may exceed 1 as long as no probability does
        KnownFactors(c, g).fit(case.observed)

    def test_shapes(self, case):
        n, d = case.M.shape
        with pytest.raises(ValueError, match=r"probabilities have shape \(19, 12\), but X has shape \(19, 13\)"):
            Known(np.ones((n, d - 1))).fit(case.observed)
        with pytest.raises(ValueError, match=r"factor c has shape \(13,\); one number a row is needed: \(19,\)"):
            KnownFactors(np.ones(d), np.ones(d)).fit(case.observed)
        with pytest.raises(ValueError, match=r"factor g has shape \(19,\); one number a column is needed: \(13,\)"):
            KnownFactors(np.ones(n), np.ones(n)).fit(case.observed)

    def test_samples_that_share_nothing(self):
        mask = np.array([[1, 1, 0, 0], [0, 0, 1, 1], [1, 1, 1, 1]], dtype=bool)
        with pytest.raises(ValueError, match=r"Rows 0 and 1 share no feature \(1 such pairs in all\)"):
            Pairwise().fit(data_under(mask))
        RankOne().fit(data_under(mask))

    def test_no_column_with_two_rows(self):
        with pytest.raises(ValueError, match="No column of X is observed in two rows"):
            RankOne().fit(data_under(np.eye(4, dtype=bool)))
