"""Leading eigenpairs, exact and by block Krylov: judged by residuals and subspaces, never by sign or order of ties."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.linalg import subspace_angles
from sklearn.exceptions import ConvergenceWarning

import nanfold as nf
from nanfold import _krylov, spectrum
from nanfold.gram import Gram
from nanfold.spectrum import eigenpairs, exact_eigenpairs, krylov_eigenpairs, prefers_exact
from storages import build


class Dense(Gram):
    """A matrix that counts how often it is multiplied."""

    def __init__(self, A: np.ndarray, n_features: int = 10**6) -> None:
        self.A, self.shape, self.n_features, self.products = A, A.shape, n_features, 0

    def __matmul__(self, V):
        self.products += 1
        return self.A @ V

    def diagonal(self):
        return np.diag(self.A).copy()

    def toarray(self):
        return self.A.copy()

    def rows(self, start, stop):
        return self.A[start:stop].copy()


def with_spectrum(values: np.ndarray, seed: int = 0) -> np.ndarray:
    n = len(values)
    Q = np.linalg.qr(np.random.default_rng(seed).standard_normal((n, n)))[0]
    A = (Q * values) @ Q.T
    return (A + A.T) / 2


N = 300
rng = np.random.default_rng(5)
SPECTRA = {
    "geometric": 0.9 ** np.arange(N),
    "slow": 1.0 / np.arange(1, N + 1) ** 0.5,
    "spiked": np.concatenate(([50, 30, 20, 10, 5, 3], rng.uniform(0.5, 1.5, N - 6))),
    "repeated": np.repeat([9.0, 4.0, 1.0], N // 3),
    "multiple of the identity": np.full(N, 2.5),
    "rank 4": np.concatenate((np.arange(4.0, 0, -1), np.zeros(N - 4))),
    "indefinite": np.concatenate((np.linspace(8, 1, 20), rng.uniform(-30, 0.2, N - 20))),
    "negative": -rng.uniform(1, 2, N),
    "zero": np.zeros(N),
    "clustered": np.concatenate((5 + 1e-9 * np.arange(8), rng.uniform(0, 1, N - 8))),
    "tiny": 1e-150 * 0.8 ** np.arange(N),
    "huge": 1e150 * 0.8 ** np.arange(N),
}


def check(A: np.ndarray, pairs: spectrum.Eigenpairs, k: int, tol: float = 1e-8) -> None:
    """Orthonormal vectors, residuals as small as they are said to be, and the k largest eigenvalues."""
    scale = np.abs(np.linalg.eigvalsh(A)).max()
    assert pairs.values.shape == (k,)
    assert pairs.vectors.shape == (len(A), k)
    assert np.all(np.diff(pairs.values) <= 0)
    assert_allclose(pairs.vectors.T @ pairs.vectors, np.eye(k), atol=1e-10)
    norms = np.linalg.norm(A @ pairs.vectors - pairs.vectors * pairs.values, axis=0)
    assert np.all(norms <= np.maximum(tol * np.abs(pairs.values), 1e-13 * scale))
    assert_allclose(pairs.values, np.linalg.eigvalsh(A)[::-1][:k], rtol=1e-9, atol=1e-13 * scale)


@pytest.mark.parametrize("name", SPECTRA)
@pytest.mark.parametrize("k", [1, 3, 12])
def test_both_solvers(name, k):
    A = with_spectrum(SPECTRA[name])
    check(A, exact_eigenpairs(Dense(A), k), k)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check(A, krylov_eigenpairs(A.__matmul__, N, k, tol=1e-9, max_iter=2000), k)


@pytest.mark.parametrize(
    ("name", "k"), [("geometric", 5), ("spiked", 6), ("clustered", 8), ("rank 4", 4), ("repeated", 100)]
)
def test_subspaces_agree_where_they_are_determined(name, k):
    """Where the k-th and the next eigenvalue differ, both span the same space."""
    A = with_spectrum(SPECTRA[name])
    one, other = exact_eigenpairs(Dense(A), k), krylov_eigenpairs(A.__matmul__, N, k, tol=1e-10, max_iter=2000)
    assert subspace_angles(one.vectors, other.vectors).max() < 1e-7


@pytest.mark.parametrize("storage", ["dense NaN", "unstored", "sparse soft counts"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_both_solvers_on_data_with_holes(storage, dtype):
    """The matrix that is only known by its products, as PCA meets it."""
    case = build(storage, dtype, n=200, d=150)
    gram = nf.UnbiasedGram(case.observed, nf.observation.RankOne().fit(case.observed))
    A = gram.toarray()
    pairs = eigenpairs(gram, 6, "krylov", tol=1e-9)
    check((A + A.T) / 2, pairs, 6)
    assert np.all(pairs.residuals <= 1e-8)
    assert subspace_angles(pairs.vectors, eigenpairs(gram, 6, "exact").vectors).max() < 1e-6


class TestCertificates:
    def test_reported_residuals_are_the_true_ones(self):
        A = with_spectrum(SPECTRA["slow"])
        for pairs in (exact_eigenpairs(Dense(A), 7), krylov_eigenpairs(A.__matmul__, N, 7, tol=1e-5, max_iter=500)):
            norms = np.linalg.norm(A @ pairs.vectors - pairs.vectors * pairs.values, axis=0)
            assert_allclose(pairs.residuals, norms / pairs.values, rtol=1e-6, atol=1e-14)
            assert pairs.residuals.max() <= 1e-5 * 1.01

    def test_products_are_counted(self):
        """As many as reported, and one to check the end."""
        gram = Dense(with_spectrum(SPECTRA["geometric"]))
        pairs = krylov_eigenpairs(gram.__matmul__, N, 4)
        assert gram.products == pairs.n_iter + 1
        assert exact_eigenpairs(gram, 4).n_iter == 1

    def test_tighter_tolerances_spend_more_products(self):
        A = with_spectrum(SPECTRA["slow"])
        loose, tight = (krylov_eigenpairs(A.__matmul__, N, 3, tol=tol, max_iter=500) for tol in (1e-2, 1e-10))
        assert loose.n_iter < tight.n_iter
        assert tight.residuals.max() <= 1e-10 * 1.01

    def test_too_few_products_are_told(self):
        A = with_spectrum(SPECTRA["slow"])
        with pytest.warns(ConvergenceWarning, match=r"spent max_iter=4 products and its largest residual is .*e-"):
            pairs = krylov_eigenpairs(A.__matmul__, N, 3, tol=1e-12, max_iter=4)
        assert pairs.n_iter == 4
        norms = np.linalg.norm(A @ pairs.vectors - pairs.vectors * pairs.values, axis=0)
        assert_allclose(pairs.residuals, norms / pairs.values, rtol=1e-6)

    def test_fewer_products_than_components(self):
        A = with_spectrum(SPECTRA["slow"])
        with pytest.raises(ValueError, match="max_iter=1 products cannot give 12 eigenpairs; allow more"):
            krylov_eigenpairs(A.__matmul__, N, 12, max_iter=1)

    def test_vanishing_eigenvalues_have_bounded_residuals(self):
        A = with_spectrum(SPECTRA["rank 4"])
        pairs = krylov_eigenpairs(A.__matmul__, N, 8)
        assert np.all(np.isfinite(pairs.residuals))
        assert_allclose(pairs.values[4:], 0.0, atol=1e-13)


class TestDegenerate:
    def test_more_copies_than_the_block_holds(self):
        """A block of 2 reaches 2 copies of an eigenvalue; fresh blocks must bring the others in."""
        A = with_spectrum(np.repeat([7.0, 3.0, -1.0], (9, 100, N - 109)))
        check(A, krylov_eigenpairs(A.__matmul__, N, 12, block=2, tol=1e-9), 12)

    def test_breakdown(self):
        """A start inside an invariant subspace: the next block is empty, and the best is outside of what it reaches."""
        values = np.linspace(5, 1, N)
        A = np.diag(values)
        start = np.eye(N)[:, 10:14]
        pairs = krylov_eigenpairs(A.__matmul__, N, 3, tol=1e-9, max_iter=1000, start=start)
        check(A, pairs, 3)

    def test_start_wider_than_a_usual_block(self):
        A = with_spectrum(SPECTRA["geometric"])
        start = np.random.default_rng(0).standard_normal((N, 40))
        check(A, krylov_eigenpairs(A.__matmul__, N, 3, tol=1e-9, start=start), 3)

    def test_start_without_full_rank(self):
        A = with_spectrum(SPECTRA["geometric"])
        start = np.ones((N, 4))
        check(A, krylov_eigenpairs(A.__matmul__, N, 3, tol=1e-9, start=start), 3)

    @pytest.mark.parametrize(("n", "k"), [(1, 1), (2, 1), (2, 2), (9, 8), (30, 29), (60, 30), (300, 290), (300, 300)])
    def test_k_near_n(self, n, k):
        A = with_spectrum(np.linspace(3, -1, n))
        check(A, krylov_eigenpairs(A.__matmul__, n, k, tol=1e-9), k)
        check(A, exact_eigenpairs(Dense(A), k), k)

    def test_largest_and_not_largest_in_magnitude(self):
        A = with_spectrum(SPECTRA["indefinite"])
        assert krylov_eigenpairs(A.__matmul__, N, 3, max_iter=1000).values.min() > 0
        assert exact_eigenpairs(Dense(A), 3).values.min() > 0

    def test_all_of_them(self):
        A = with_spectrum(SPECTRA["indefinite"])
        check(A, exact_eigenpairs(Dense(A)), N)


class TestImages:
    """One pass a step: the image F'N is carried along with N, and must stay what it is said to be."""

    @pytest.mark.parametrize("storage", ["dense NaN", "unstored", "sparse soft counts"])
    def test_the_data_are_read_once_a_step(self, storage, monkeypatch):
        case = build(storage, np.float64, n=200, d=150)
        gram = nf.UnbiasedGram(case.observed, nf.observation.RankOne().fit(case.observed))
        passes = count_calls(monkeypatch, type(case.observed), "normal_pass")
        products = count_calls(monkeypatch, type(case.observed), "rmatmul")
        pairs = krylov_eigenpairs(gram, 200, 6, tol=1e-9)
        assert len(passes) == pairs.n_iter
        # The start, the check at the end, and where rounding had cost too much.
        assert len(products) <= pairs.n_iter // 4
        check(gram.toarray(), pairs, 6)

    def test_images_that_rounding_has_spoilt_are_made_again(self, monkeypatch):
        """With no tolerance for their error, all are; the answer is the same."""
        case = build("unstored", np.float64, n=200, d=150)
        gram = nf.UnbiasedGram(case.observed, nf.observation.RankOne().fit(case.observed))
        carried = krylov_eigenpairs(gram, 200, 6, tol=1e-9)
        monkeypatch.setattr(_krylov, "IMAGE_ERROR", dict.fromkeys(_krylov.IMAGE_ERROR, 0.0))
        products = count_calls(monkeypatch, type(case.observed), "rmatmul")
        fresh = krylov_eigenpairs(gram, 200, 6, tol=1e-9)
        assert len(products) >= fresh.n_iter
        assert_allclose(fresh.values, carried.values, rtol=1e-12)

    @pytest.mark.parametrize("tol", [1e-1, 1e-2, 1e-3])
    def test_a_basis_in_single_precision(self, tol):
        """Converges as one in double precision, and is as far off as it says."""
        case = build("unstored", np.float32, n=300, d=200)
        gram = nf.UnbiasedGram(case.observed, nf.observation.RankOne().fit(case.observed))
        double, single = (krylov_eigenpairs(gram, 300, 6, tol=tol, dtype=dtype) for dtype in (np.float64, np.float32))
        assert single.vectors.dtype == np.float64
        assert single.n_iter == double.n_iter
        assert single.residuals.max() <= 1.01 * tol
        assert_allclose(single.values, double.values, rtol=1e-5)
        assert_allclose(single.vectors.T @ single.vectors, np.eye(6), atol=1e-5)
        norms = np.linalg.norm(gram.toarray() @ single.vectors - single.vectors * single.values, axis=0)
        assert_allclose(norms / single.values, single.residuals, rtol=1e-6)

    def test_single_precision_where_the_basis_is_large(self, monkeypatch):
        case = build("unstored", np.float32, n=300, d=200)
        gram = nf.UnbiasedGram(case.observed, nf.observation.RankOne().fit(case.observed))
        kept = []

        def solve(*args, **options):
            kept.append(options.get("dtype", np.float64))
            return krylov_eigenpairs(*args, **options)

        monkeypatch.setattr(spectrum, "krylov_eigenpairs", solve)
        for most, tol in ((10_000, 1e-2), (10_000, 1e-3), (5_000, 1e-3), (5_000, 1e-2)):
            monkeypatch.setattr(spectrum, "SMALL_BASIS", most)
            eigenpairs(gram, 6, "krylov", tol=tol)
        assert kept == [np.float64, np.float64, np.float64, np.float32]

    def test_a_shift_of_the_diagonal(self):
        """What is multiplied with another diagonal is its image, too."""
        case = build("unstored", np.float64, n=60, d=50)
        gram = nf.UnbiasedGram(case.observed, nf.observation.RankOne().fit(case.observed))
        generator = np.random.default_rng(0)
        N, shift = generator.standard_normal((60, 4)), generator.standard_normal(60)
        Z, image = gram.step(N, gram.image(N), shift)
        assert_allclose(Z, gram @ N + shift[:, None] * N, rtol=1e-12, atol=1e-12)
        assert_allclose(image, gram.image(Z), rtol=1e-10, atol=1e-12)


def count_calls(monkeypatch, owner, name):
    """A list that grows by one at every call of a method."""
    calls, method = [], getattr(owner, name)

    def counted(*args, **kwargs):
        calls.append(name)
        return method(*args, **kwargs)

    monkeypatch.setattr(owner, name, counted)
    return calls


class TestByFeatures:
    """Complete sparse data are decomposed on the side of the features, which is the shorter one."""

    @pytest.mark.parametrize("k", [3, 40])
    def test_the_same_as_the_dense_matrix(self, k):
        X = sparse.random_array((900, 300), density=0.2, rng=np.random.default_rng(0), format="csr")
        gram = nf.unbiased_gram(X)
        check(gram.toarray(), eigenpairs(gram, k, "krylov", tol=1e-9), k)

    def test_residuals_are_those_of_the_samples(self):
        X = sparse.random_array((900, 300), density=0.2, rng=np.random.default_rng(0), format="csr")
        gram = nf.unbiased_gram(X)
        pairs = eigenpairs(gram, 4, "krylov", tol=1e-2)
        norms = np.linalg.norm(gram @ pairs.vectors - pairs.vectors * pairs.values, axis=0)
        assert_allclose(pairs.residuals, norms / pairs.values, rtol=1e-8)

    def test_more_than_the_rank(self):
        """Eigenvalues that vanish have no vectors on the other side, so that all is done on the side of the samples."""
        generator = np.random.default_rng(0)
        X = sparse.csr_array(generator.standard_normal((900, 5)) @ generator.standard_normal((5, 300)))
        gram = nf.unbiased_gram(X)
        check(gram.toarray(), eigenpairs(gram, 8, "krylov"), 8, tol=1e-5)


class TestCompleteData:
    def test_small_eigenvalues_keep_their_digits(self):
        """Singular values down to 1e-6, whose squares an n x n matrix would lose."""
        sigma = np.logspace(0, -6, 20)
        generator = np.random.default_rng(0)
        U, V = (np.linalg.qr(generator.standard_normal((m, 20)))[0] for m in (40, 70))
        gram = nf.unbiased_gram((U * sigma) @ V.T, center=False)
        pairs = exact_eigenpairs(gram, 20)
        assert_allclose(pairs.values * 70, sigma**2, rtol=1e-8)
        assert pairs.residuals.max() < 1e-8

    @pytest.mark.parametrize("shape", [(30, 80), (80, 30)])
    def test_as_many_as_the_smaller_side(self, shape):
        X = np.random.default_rng(0).standard_normal(shape)
        assert len(exact_eigenpairs(nf.unbiased_gram(X)).values) == 30


class TestChoosing:
    def test_unknown_solver(self):
        with pytest.raises(ValueError, match="solver must be 'auto', 'exact' or 'krylov'; it is 'lanczos'"):
            eigenpairs(Dense(np.eye(5)), 2, "lanczos")

    def test_auto(self):
        """Small matrices, and many of the eigenpairs, are for the exact solver."""
        small, large = Dense(np.zeros((700, 700))), Dense(np.zeros((1000, 1000)))
        assert prefers_exact(small, 5)
        assert not prefers_exact(large, 5)
        assert prefers_exact(large, 300)

    def test_auto_uses_what_it_prefers(self, monkeypatch):
        gram = Dense(with_spectrum(SPECTRA["geometric"]), n_features=10)
        assert eigenpairs(gram, 3).n_iter == 1
        assert gram.products == 0
        monkeypatch.setattr(spectrum, "EXACT_SAMPLES", 100)
        assert eigenpairs(gram, 3).n_iter > 1
        assert gram.products > 1

    def test_wide_data_are_multiplied_as_a_dense_matrix(self):
        """Where n < d the n x n matrix is the cheaper one to multiply by."""
        gram = Dense(with_spectrum(SPECTRA["geometric"]))
        eigenpairs(gram, 3, "krylov")
        assert gram.products == 0


def test_the_same_generator_gives_the_same_answer():
    A = with_spectrum(SPECTRA["slow"])
    one, again, other = (krylov_eigenpairs(A.__matmul__, N, 3, rng=np.random.default_rng(s)) for s in (1, 1, 2))
    assert_array_equal(one.vectors, again.vectors)
    assert not np.array_equal(one.vectors, other.vectors)
    assert_allclose(one.values, other.values, rtol=1e-9)
