"""Every storage of data with holes against the plain dense arrays that it stands for: one suite for all."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from nanfold import _threads
from nanfold._vectors import LINE, WIDTHS, panel
from nanfold.observed import CountsObserved, DenseObserved, Observed, StructuredMask, UnstoredObserved, observe
from nanfold.observed.stored import _pieces
from storages import STORAGES, build


@pytest.fixture(params=["one block", "many blocks"])
def blocks(request, monkeypatch):
    """Panels of all rows at once, or so small that every loop over blocks goes round several times on 3 threads."""
    if request.param == "many blocks":
        for module in ("contract", "dense", "counts"):
            monkeypatch.setattr(f"nanfold.observed.{module}.PANEL_VALUES", 60)
        monkeypatch.setattr("nanfold.observed.stored.TILE", 1)
        monkeypatch.setattr("nanfold.observed.stored.TILE_ENTRIES", 1)
        monkeypatch.setenv("NANFOLD_THREADS", "3")
    else:
        monkeypatch.setenv("NANFOLD_THREADS", "1")


@pytest.fixture(params=[np.float64, np.float32], ids=["float64", "float32"])
def dtype(request):
    return request.param


@pytest.fixture(params=STORAGES)
def case(request, dtype, blocks):
    return build(request.param, dtype)


def close(case, actual, expected):
    scale = np.max(np.abs(expected))
    assert actual.dtype == np.float64
    assert_allclose(actual, expected, rtol=0, atol=case.rtol * max(scale, 1.0))


def test_shape_dtype_and_counts(case, dtype):
    assert case.observed.shape == case.M.shape
    assert case.observed.dtype == dtype
    close(case, case.observed.row_counts, case.M.sum(axis=1))
    close(case, case.observed.column_counts, case.M.sum(axis=0))
    close(case, case.observed.column_squares, (case.M**2).sum(axis=0))
    assert case.observed.share_observed == pytest.approx(case.M.mean())
    assert case.observed.complete == (case.M.min() == 1)


def test_means_and_row_squares(case):
    close(case, case.observed.mean, case.mean)
    close(case, case.observed.row_squares, (case.Y**2).sum(axis=1))


def test_products(case):
    rng = np.random.default_rng(1)
    n, d = case.Y.shape
    V, U = rng.standard_normal((d, 3)), rng.standard_normal((n, 3))
    close(case, case.observed.matmul(V), case.Y @ V)
    close(case, case.observed.rmatmul(U), case.Y.T @ U)
    close(case, case.observed.mask_matmul(V), case.M @ V)
    close(case, case.observed.mask_rmatmul(U), case.M.T @ U)


def test_adjoint_identity(case):
    rng = np.random.default_rng(2)
    n, d = case.Y.shape
    V, U = rng.standard_normal((d, 2)), rng.standard_normal((n, 2))
    for left, right in (("matmul", "rmatmul"), ("mask_matmul", "mask_rmatmul")):
        one = np.sum(getattr(case.observed, left)(V) * U)
        other = np.sum(V * getattr(case.observed, right)(U))
        # Both use the same stored values, so that float32 has no excuse.
        assert one == pytest.approx(other, rel=1e-11)


@pytest.mark.parametrize("width", [1, 3, 8, 16, 21])
def test_normal_pass(case, width):
    rng = np.random.default_rng(8)
    n, d = case.Y.shape
    W, Q = rng.standard_normal((d, width)), rng.standard_normal((n, width))
    scale, shift = rng.uniform(0.5, 2.0, n), rng.standard_normal(n)
    F = scale[:, None] * case.Y
    for passed in (case.observed.normal_pass, lambda *block: Observed.normal_pass(case.observed, *block)):
        Z, A = passed(W, Q, scale, shift)
        close(case, Z, F @ W + shift[:, None] * Q)
        close(case, A, F.T @ (F @ W + shift[:, None] * Q))
        # With W = F'Q it is a product with FF' + diag(shift), and what it needs for the next one.
        Z, A = passed(F.T @ Q, Q, scale, shift)
        close(case, Z, (F @ F.T + np.diag(shift)) @ Q)
        close(case, A, F.T @ Z)


def test_normal_pass_in_any_memory_order_and_twice_the_same(case):
    rng = np.random.default_rng(9)
    n, d = case.Y.shape
    W, Q = np.asfortranarray(rng.standard_normal((d, 4))), rng.standard_normal((n, 8))[:, ::2]
    scale, shift = rng.uniform(0.5, 2.0, 2 * n)[::2], np.zeros(n)
    Z, A = case.observed.normal_pass(W, Q, scale, shift)
    close(case, Z, scale[:, None] * (case.Y @ W))
    again = case.observed.normal_pass(W, Q, scale, shift)
    assert_array_equal(Z, again[0])
    assert_array_equal(A, again[1])


def test_products_of_more_rows_than_a_block_and_of_unsorted_rows(blocks):
    rng = np.random.default_rng(10)
    X = sparse.random_array((700, 40), density=0.3, format="csr", rng=rng)
    X.data[:] = rng.standard_normal(X.nnz) + 3.0
    shuffled = X.copy()
    for start, stop in itertools.pairwise(X.indptr):
        order = rng.permutation(stop - start)
        shuffled.indices[start:stop] = X.indices[start:stop][order]
        shuffled.data[start:stop] = X.data[start:stop][order]
    shuffled.has_sorted_indices = False
    V, U, scale, shift = (rng.standard_normal(shape) for shape in ((40, 70), (700, 70), 700, 700))
    for missing in ("nan", "unstored"):
        sort, shuffle = (observe(data, missing=missing) for data in (X, shuffled))
        Y = sort.rows(0, 700)[0]
        for observed in (sort, shuffle):
            assert_allclose(observed.matmul(V), Y @ V, atol=1e-10)
            assert_allclose(observed.rmatmul(U), Y.T @ U, atol=1e-10)
            Z, A = observed.normal_pass(V, U, scale, shift)
            assert_allclose(Z, scale[:, None] * (Y @ V) + shift[:, None] * U, atol=1e-10)
            assert_allclose(A, Y.T @ (scale[:, None] * Z), atol=1e-9)


@pytest.mark.parametrize("missing", ["nan", "unstored"])
def test_entries_that_lie_apart_in_memory(missing):
    rng = np.random.default_rng(11)
    X = sparse.random_array((30, 20), density=0.4, format="csr", rng=rng)
    apart = X.copy()
    apart.data, apart.indices = np.repeat(X.data, 2)[::2], np.repeat(X.indices, 2)[::2]
    W, Q, ones = rng.standard_normal((20, 9)), rng.standard_normal((30, 9)), np.ones(30)
    mine, plain = (observe(data, missing=missing).normal_pass(W, Q, ones, ones) for data in (apart, X))
    assert_array_equal(np.vstack(mine), np.vstack(plain))


@pytest.mark.parametrize("width", [1, 8, 9, 16, 17, 24, 25, 32, 33, 41, 50])
def test_pieces_have_room_for_less_than_eight_more(width):
    pieces = list(_pieces(width))
    assert [column for columns, _ in pieces for column in range(width)[columns]] == list(range(width))
    assert sum(len(lanes) for _, lanes in pieces) < width + 8


@pytest.mark.parametrize("width", WIDTHS)
def test_panels_start_with_a_line_of_the_cache(width):
    panels = [panel(rows, width) for rows in (1, 3, 1000, 70_000)]
    assert not any(made.any() or made.ctypes.data % LINE for made in panels)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"W": np.ones((12, 2))}, "block of vectors of 13 rows is needed"),
        ({"Q": np.ones((18, 2))}, "block of vectors of 19 rows is needed"),
        ({"Q": np.ones((19, 3))}, "as many vectors in W as in Q; they are 2 and 3"),
        ({"scale": np.ones(18)}, "19 numbers in scale and in shift"),
        ({"shift": np.ones((19, 1))}, "19 numbers in scale and in shift"),
    ],
)
def test_a_pass_of_a_wrong_shape(case, wrong, message):
    right = {"W": np.ones((13, 2)), "Q": np.ones((19, 2)), "scale": np.ones(19), "shift": np.ones(19)}
    with pytest.raises(ValueError, match=message):
        case.observed.normal_pass(**(right | wrong))


def test_blocks_in_any_memory_order(case):
    V = np.asfortranarray(np.random.default_rng(3).standard_normal((case.Y.shape[1], 4)))
    close(case, case.observed.matmul(V), case.Y @ V)
    close(case, case.observed.matmul(V[:, ::2].astype(np.float32)), case.Y @ V[:, ::2].astype(np.float32))


@pytest.mark.parametrize("method", ["matmul", "rmatmul", "mask_matmul", "mask_rmatmul"])
@pytest.mark.parametrize("shape", [(7, 2), (19,)])
def test_block_of_a_wrong_shape(case, method, shape):
    with pytest.raises(ValueError, match=r"block of vectors of \d+ rows is needed"):
        getattr(case.observed, method)(np.ones(shape))


def test_rows(case):
    Y, M = case.observed.rows(4, 11)
    close(case, Y, case.Y[4:11])
    close(case, M, case.M[4:11])


def test_grams(case):
    close(case, case.observed.gram(), case.Y @ case.Y.T)
    close(case, case.observed.mask_gram(), case.M @ case.M.T)


def test_pair_products(case):
    """Of pairs here and there, a row with itself among them; by the storage's own way and by dense blocks."""
    rows, candidates = np.array([7, 0, 18, 7]), np.array([[7, 3, 11], [18, 0, 1], [2, 2, 18], [12, 6, 0]])
    expected = (case.Y @ case.Y.T)[rows[:, None], candidates]
    close(case, case.observed.pair_products(rows, candidates), expected)
    close(case, case.observed.pair_products(rows.astype(np.int32), candidates[:, ::2]), expected[:, ::2])
    close(case, Observed.pair_products(case.observed, rows, candidates), expected)
    assert case.observed.pair_products(rows[:0], candidates[:0]).shape == (0, 3)


@pytest.mark.parametrize(
    ("rows", "candidates", "message"),
    [
        ([0, 1], [[1], [2], [3]], r"rows of shape \(b,\) and candidates of shape \(b, c\); here they are \(2,\) and"),
        ([0, 1], [1, 2], r"here they are \(2,\) and \(2,\)"),
        ([0, 19], [[1], [2]], "A pair names row 19, but rows are numbered from 0 to 18"),
        ([0, 1], [[1], [-1]], "A pair names row -1"),
    ],
)
def test_pairs_that_cannot_be(case, rows, candidates, message):
    for products in (case.observed.pair_products, lambda *pairs: Observed.pair_products(case.observed, *pairs)):
        with pytest.raises(ValueError, match=message):
            products(rows, candidates)


def test_normals(case):
    rng = np.random.default_rng(4)
    n, d = case.Y.shape
    V, U = rng.standard_normal((d, 3)), rng.standard_normal((n, 3))
    close(case, case.observed.row_normals(V, 3, 12), np.einsum("is,sa,sb->iab", case.M[3:12], V, V))
    close(case, case.observed.column_normals(U, 2, 9), np.einsum("is,ia,ib->sab", case.M[:, 2:9], U, U))
    close(case, case.observed.column_normals(U, 0, d), np.einsum("is,ia,ib->sab", case.M, U, U))


def test_residual(case):
    rng = np.random.default_rng(5)
    n, d = case.Y.shape
    U, V = rng.standard_normal((n, 2)), rng.standard_normal((d, 2))
    before = case.observed.gram()
    residual = case.observed.residual(U, V)
    expected = case.Y - case.M * (U @ V.T)
    close(case, residual.rows(0, n)[0], expected)
    close(case, residual.matmul(V), expected @ V)
    close(case, residual.rmatmul(U), expected.T @ U)
    close(case, residual.row_squares, (expected**2).sum(axis=1))
    close(case, residual.mask_matmul(V), case.M @ V)
    close(case, residual.column_normals(U, 0, d), np.einsum("is,ia,ib->sab", case.M, U, U))
    assert_array_equal(residual.row_counts, case.observed.row_counts)
    assert residual.dtype == case.observed.dtype
    assert_array_equal(before, case.observed.gram())


def test_flipped_signs(case):
    n = len(case.Y)
    before = case.observed.gram()
    flipped = case.observed.flipped(np.random.default_rng(6))
    Y, M = flipped.rows(0, n)
    close(case, np.abs(Y), np.abs(case.Y))
    close(case, M, case.M)
    seen = np.abs(case.Y) > 1e-6
    changed = np.sign(Y[seen]) != np.sign(case.Y[seen])
    assert 0.3 < changed.mean() < 0.7
    # The same signs whenever they are looked at, in whatever blocks.
    close(case, flipped.rows(5, 9)[0], Y[5:9])
    close(case, flipped.gram(), Y @ Y.T)
    close(case, flipped.row_squares, (case.Y**2).sum(axis=1))
    again, other = (case.observed.flipped(np.random.default_rng(seed)).rows(0, n)[0] for seed in (6, 7))
    assert_array_equal(again, Y)
    assert (other != Y).any()
    assert_array_equal(before, case.observed.gram())


def test_no_centring(dtype, blocks):
    for name in STORAGES:
        case = build(name, dtype, center=False)
        assert_array_equal(case.observed.mean, 0.0)
        close(case, case.observed.gram(), case.Y @ case.Y.T)


def test_means_that_are_given():
    case = build("dense NaN", np.float64)
    mean = np.arange(13.0)
    X = np.where(case.M > 0, case.X, np.nan)
    for data in (X, sparse.csr_array(X)):
        observed = observe(data, center=mean, reset=False)
        assert_array_equal(observed.mean, mean)
        assert_allclose(observed.rows(0, 19)[0], case.M * (case.X - mean), atol=1e-12)


def test_the_data_are_not_written_to():
    for name, kind in (("dense NaN", DenseObserved), ("unstored", UnstoredObserved), ("sparse counts", CountsObserved)):
        case = build(name, np.float64)
        if kind is DenseObserved:
            data = np.where(case.M > 0, case.X, np.nan)
            before = data.copy()
            observed = observe(data)
            observed.flipped(np.random.default_rng(0))
            observed.residual(np.ones((19, 1)), np.ones((13, 1)))
            assert_array_equal(data, before)
        else:
            data = sparse.csr_array(case.X)
            before = data.copy()
            observed = observe(data, missing="unstored") if kind is UnstoredObserved else observe(data)
            observed.flipped(np.random.default_rng(0)).gram()
            observed.residual(np.ones((19, 1)), np.ones((13, 1))).gram()
            assert_array_equal(data.data, before.data)
            assert_array_equal(data.indices, before.indices)
        assert isinstance(observed, kind)


def test_the_mask_is_not_written_to():
    mask = sparse.csr_array(np.ones((6, 5), dtype=bool))
    mask.data[::4] = False
    before = mask.copy()
    X = np.random.default_rng(0).standard_normal((6, 5))
    observed = observe(sparse.csr_array(X), mask)
    assert_array_equal(mask.indptr, before.indptr)
    assert_array_equal(mask.data, before.data)
    assert_array_equal(observed.mask_gram(), before.toarray().astype(float) @ before.toarray().T)


def test_sparse_data_are_not_copied():
    """The arrays of a CSR input are the very ones that the products read."""
    X = sparse.csr_array(build("unstored", np.float64).X)
    for options in ({"missing": "unstored"}, {}):
        assert np.shares_memory(observe(X, **options)._X.data, X.data)


@pytest.mark.parametrize("format", ["csc", "coo", "lil", "dok"])
def test_other_sparse_formats(format):
    case = build("unstored", np.float64)
    stored = sparse.coo_array((case.X[case.M > 0], np.nonzero(case.M)), shape=case.X.shape)
    if format in ("lil", "dok"):  # which need not keep zeros that are stored
        stored = sparse.csr_array(stored + 1.0 * sparse.coo_array(case.M * (case.X == 0)))
        case = build("unstored", np.float64)
        case.X[(case.M > 0) & (case.X == 0)] = 1.0
    expected = observe(np.where(case.M > 0, case.X, np.nan))
    for index in (np.int32, np.int64):
        other = stored.asformat(format)
        if format == "csc":
            other.indices, other.indptr = other.indices.astype(index), other.indptr.astype(index)
        observed = observe(other, missing="unstored")
        assert_allclose(observed.gram(), expected.gram(), atol=1e-12)


def test_sums_of_float32_are_made_in_float64():
    """So many values that float32 would be off in the fourth digit."""
    X = np.full((2, 200_000), 0.1, dtype=np.float32)
    X[1] = np.float32(0.3)
    exact = float(np.float32(0.1)) ** 2 * 200_000
    for data in (X, sparse.csr_array(X)):
        assert observe(data, center=False).row_squares[0] == pytest.approx(exact, rel=1e-10)
        gram = observe(data, center=False).gram()
        assert gram[0, 0] == pytest.approx(exact, rel=1e-10)


class TestStructuredMask:
    def test_shape_and_types(self):
        mask = StructuredMask(np.array([0, 1, 1], dtype=np.int8), np.array([[0, 1], [1, 1]]))
        assert mask.shape == (3, 2)
        assert mask.groups.dtype == np.int64
        assert mask.weights.dtype == np.float32

    @pytest.mark.parametrize(
        ("groups", "weights", "message"),
        [
            ([0.0, 1.0], np.ones((2, 3)), "whole numbers"),
            ([[0, 1]], np.ones((2, 3)), "whole numbers"),
            ([0, 1], np.ones(3), "groups x features"),
            ([0, 2], np.ones((2, 3)), r"lie in 0 \.\. 1"),
            ([0, -1], np.ones((2, 3)), r"lie in 0 \.\. 1"),
            ([0, 1], np.full((2, 3), 1.5), "between 0 and 1"),
            ([0, 1], np.full((2, 3), -0.1), "between 0 and 1"),
            ([0, 1], np.full((2, 3), np.nan), "between 0 and 1"),
        ],
    )
    def test_refusals(self, groups, weights, message):
        with pytest.raises(ValueError, match=message):
            StructuredMask(np.array(groups), weights)

    def test_nothing_of_the_size_of_the_data_is_kept(self):
        """Counts under a structured mask hold the stored entries and groups x features, and nothing n x d."""
        X = sparse.random_array((400, 300), density=0.02, rng=np.random.default_rng(0), format="csr")
        mask = StructuredMask(np.arange(400) % 3, np.ones((3, 300), dtype=np.float32))
        observed = observe(X, mask)
        sizes = [np.size(value) for value in vars(observed).values() if isinstance(value, np.ndarray)]
        assert max(sizes) <= 400


class TestThreads:
    def test_setting(self, monkeypatch):
        monkeypatch.setenv("NANFOLD_THREADS", "5")
        assert _threads.n_threads() == 5
        for bad in ("0", "-1", "two", "1.5", ""):
            monkeypatch.setenv("NANFOLD_THREADS", bad)
            with pytest.raises(ValueError, match="NANFOLD_THREADS must be a positive whole number"):
                _threads.n_threads()

    def test_blocks_cover_all_rows_once(self):
        rng = np.random.default_rng(0)
        for n, parts in ((1, 4), (7, 3), (50, 8), (3, 3)):
            indptr = np.concatenate(([0], np.cumsum(rng.integers(0, 30, n))))
            edges = _threads.balanced_blocks(indptr, parts)
            assert len(edges) <= parts
            assert [row for a, b in edges for row in range(a, b)] == list(range(n))
        assert _threads.even_blocks(7, 3) == [(0, 3), (3, 6), (6, 7)]

    def test_balance(self):
        """One heavy row does not drag the rest with it."""
        for sizes, expected in (([5000] + [10] * 100, 1), ([10] * 100 + [5000], 100), ([10] * 100, 50)):
            (_, cut), *_ = _threads.balanced_blocks(np.concatenate(([0], np.cumsum(sizes))), 2)
            assert cut == expected

    def test_results_keep_their_order_and_errors_come_out(self, monkeypatch):
        monkeypatch.setenv("NANFOLD_THREADS", "3")
        blocks = _threads.even_blocks(20, 4)
        assert _threads.run_blocks(lambda a, b: (a, b), blocks) == blocks

        def fail(start, stop):
            raise ValueError(f"block {start}")

        with pytest.raises(ValueError, match="block 0"):
            _threads.run_blocks(fail, blocks)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_dense_blocks_on_threads(dtype, monkeypatch):
    """Blocks of few rows, on three threads, and with more vectors than the blocks are cut for."""
    monkeypatch.setenv("NANFOLD_THREADS", "3")
    for name, value in (("WORTH_THREADS", 0), ("CACHED_VALUES", 20), ("LEAST_ROWS", 2), ("NARROW", 4)):
        monkeypatch.setattr(f"nanfold.observed.dense.{name}", value)
    case = build("dense NaN", dtype)
    n, d = case.Y.shape
    rng = np.random.default_rng(0)
    for k in (2, 5):
        U, V = rng.standard_normal((n, k)), rng.standard_normal((d, k))
        scale, shift = rng.standard_normal(n), rng.standard_normal(n)
        Z = scale[:, None] * (case.Y @ V) + shift[:, None] * U
        found, image = case.observed.normal_pass(V, U, scale, shift)
        tolerance = {"rtol": 10 * case.rtol, "atol": 1e4 * case.rtol}
        assert_allclose(case.observed.matmul(V), case.Y @ V, **tolerance)
        assert_allclose(case.observed.rmatmul(U), case.Y.T @ U, **tolerance)
        assert_allclose(case.observed.mask_rmatmul(U), case.M.T @ U, **tolerance)
        assert_allclose(found, Z, **tolerance)
        assert_allclose(image, case.Y.T @ (scale[:, None] * Z), **tolerance)
        assert_allclose(case.observed.row_normals(V, 3, n), np.einsum("is,sa,sb->iab", case.M[3:], V, V), **tolerance)
        expected = np.einsum("is,ia,ib->sab", case.M[:, 2:], U, U)
        assert_allclose(case.observed.column_normals(U, 2, d), expected, **tolerance)
        assert_allclose(case.observed.residual(U, V).rows(0, n)[0], case.Y - case.M * (U @ V.T), **tolerance)
