"""What users hand in by mistake gets one sentence with a place and a remedy; what is merely unusual works."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

import nanfold as nf
from nanfold.observed import StructuredMask


def table(n: int = 12, d: int = 8, seed: int = 0) -> np.ndarray:
    """Numbers with a fifth of holes, every row and column seen."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) + 2.0
    X[rng.random((n, d)) < 0.2] = np.nan
    X[np.arange(n), np.arange(n) % d] = 1.5
    X[:, 0] = rng.standard_normal(n)
    X[4:5, 3] = np.nan
    return X


def put(value: object, *where: tuple | slice | int, X: np.ndarray | None = None) -> np.ndarray:
    X = table() if X is None else X
    X[where] = value
    return X


def known() -> np.ndarray:
    return ~np.isnan(table())


def stored() -> sparse.csr_array:
    M = known()
    return sparse.csr_array((table()[M], np.nonzero(M)), shape=M.shape)


def coo(value: float = 1.0, *, twice: bool) -> sparse.coo_array:
    rows, columns = np.nonzero(known())
    rows, columns = np.append(rows, 4), np.append(columns, 0 if twice else 3)
    return sparse.coo_array((np.append(table()[known()], value), (rows, columns)), shape=(12, 8))


def in_format(X: sparse.coo_array, format: str) -> sparse.sparray:
    """As CSR or CSC with what was stored twice still there twice."""
    X = X.T if format == "csc" else X
    order = np.lexsort((X.col, X.row))
    indptr = np.concatenate(([0], np.cumsum(np.bincount(X.row, minlength=X.shape[0]))))
    kind = sparse.csc_array if format == "csc" else sparse.csr_array
    return kind((X.data[order], X.col[order], indptr), shape=(12, 8))


def frame(**columns: object) -> pd.DataFrame:
    return pd.DataFrame({"a": np.arange(12.0), "b": np.arange(12.0) ** 2, "c": np.ones(12)} | columns)


def pca(X: object, mask: object = None, **options: object) -> Callable[[], object]:
    return lambda: nf.PCA(**{"n_components": 2, "random_state": 0} | options).fit(X, mask=mask)


def dropouts(X: object) -> nf.Dropouts:
    return nf.Dropouts().fit(X, np.arange(len(X)) % 3)


# Each kind of bad input, and what its sentence must say: where it is, and what to do.
BAD: dict[str, tuple[Callable[[], object], str]] = {
    "row of NaN": (pca(put(np.nan, 3)), r"^Row 3 of X has no observed entry; drop it first\.$"),
    "rows of NaN": (pca(put(np.nan, [1, 3])), r"^Rows 1, 3 of X have no observed entry; drop them first\.$"),
    "column of NaN": (pca(put(np.nan, slice(None), 5)), r"^Column 5 of X has no observed entry; drop it first\.$"),
    "named column of NaN": (pca(frame(c=np.nan)), r"^Column 'c' of X has no observed entry; drop it first\.$"),
    "nothing but NaN": (pca(np.full((9, 4), np.nan)), r"^Rows 0, 1, 2, 3, 4 and 4 more of X have no observed entry"),
    "nothing but constants": (pca(np.ones((5, 4))), "X does not vary: every observed entry equals the mean of its"),
    "one sample": (pca(table()[:1, :1]), r"1 sample\(s\).*minimum of 2 is required"),
    "no samples": (pca(np.empty((0, 5))), r"0 sample\(s\).*minimum of 2 is required"),
    "no features": (pca(np.empty((5, 0))), r"0 feature\(s\).*minimum of 1 is required"),
    "infinity": (pca(put(np.inf, 4, 2)), r"infinity at row 4, column 2; replace it by NaN if it stands for a hole"),
    "minus infinity": (pca(put(-np.inf, 11, 7)), "infinity at row 11, column 7"),
    "infinity in a sparse array": (
        pca(coo(np.inf, twice=False), missing="unstored"),
        "stores infinity at row 4, column 3; .*remove it from the sparse array",
    ),
    "infinity in sparse counts": (pca(coo(np.inf, twice=False)), "infinity at row 4, column 3; replace it by NaN"),
    "NaN in a sparse array of what is known": (
        pca(coo(np.nan, twice=False), missing="unstored"),
        "stores NaN at row 4, column 3; with missing='unstored' a hole is an entry that is not stored",
    ),
    "NaN in a sparse array with a mask": (
        pca(sparse.csr_array(table()), known()),
        "sparse X with a mask must not hold NaN; let the mask alone say where the holes are",
    ),
    "text": (pca(np.array([["a", "1"], ["2", "3"]])), r"^Column 0 of X holds 'a' in row 0, which is not a number"),
    "text in a list": (pca([[1, 2], [3, "much"]]), r"^Column 1 of X holds 'much' in row 1, which is not a number"),
    "text in an array of objects": (
        pca(np.array([[1.0, 2.0], [None, "x"]], dtype=object)),
        r"^Column 1 of X holds 'x' in row 1.*drop the column or turn it into numbers",
    ),
    "text in a table": (
        pca(frame(sex=list("mf" * 6))),
        r"^Column 'sex' of X holds 'm' in row 0, which is not a number",
    ),
    "categories in a table": (
        pca(frame(sex=pd.Categorical(list("mf" * 6)))),
        r"^Column 'sex' of X holds 'm' in row 0, which is not a number",
    ),
    "dates in a table": (
        pca(frame(day=pd.date_range("2020-01-01", periods=12))),
        r"^Column 'day' of X holds dates or durations; drop it or turn it into numbers\.$",
    ),
    "dates": (pca(np.full((4, 3), np.datetime64("2020-01-01"))), r"^Column 0 of X holds dates or durations"),
    "rows of different lengths": (pca([[1, 2, 3], [4, 5]]), "rows of X have different lengths; write NaN where"),
    "complex numbers": (pca(table() + 1j), r"Complex data not supported: X must hold real numbers; give X\.real"),
    "complex numbers in a sparse array": (pca(stored() * 1j, missing="unstored"), "Complex data not supported"),
    "one dimension": (pca(table()[0]), r"X has one dimension and needs two.*Reshape your data: X\.reshape\(1, -1\)"),
    "three dimensions": (pca(table()[None]), r"X has 3 dimensions and needs two.*X\.reshape\(len\(X\), -1\)"),
    "no dimension": (pca(3.0), "Expected 2D array, got scalar array instead"),
    "huge values": (
        pca(put(1e300, 2, 6)),
        r"X holds 1e\+300 at row 2, column 6, whose square overflows in float64;",
    ),
    "huge values in a sparse array": (
        pca(coo(-1e200, twice=False), missing="unstored"),
        r"X holds -1e\+200 at row 4, column 3, whose square overflows",
    ),
    "huge values for float32": (
        pca((table() * 1e25).astype(np.float32)),
        r"X holds .*e\+25 at row .*overflows in float32; divide X by a constant first",
    ),
    "tiny values": (
        pca(table() * 1e-300),
        r"largest value of X, .*e-300 at row .*vanishes in float64; multiply X",
    ),
    "tiny values for float32": (pca((table() * 1e-25).astype(np.float32)), "square vanishes in float32; multiply X by"),
    "duplicates in COO": (
        pca(coo(twice=True), missing="unstored"),
        r"stores row 4, column 0 more than once; call X\.sum_duplicates\(\) if",
    ),
    "duplicates in CSR": (pca(in_format(coo(twice=True), "csr")), "stores row 4, column 0 more than once"),
    "duplicates in CSC": (pca(in_format(coo(twice=True), "csc")), "stores row 4, column 0 more than once"),
    "DIA as what is known": (
        pca(stored().todia(), missing="unstored"),
        "X is in DIA format; build it as COO, CSR",
    ),
    "BSR as what is known": (
        pca(stored().tobsr(), missing="unstored"),
        "X is in BSR format; build it as COO, CSR",
    ),
    "dense array of what is known": (
        pca(table(), missing="unstored"),
        "missing='unstored' needs a sparse array; for a dense one use missing='nan'",
    ),
    "unknown kind of hole": (pca(table(), missing="zero"), "missing must be one of 'nan', 'unstored'; it is 'zero'"),
    "mask of another shape": (
        pca(table(), known()[:, :7]),
        r"mask has shape \(12, 7\), but X has shape \(12, 8\); they must be the same",
    ),
    "mask of another length": (pca(table(), known()[:, 0]), r"mask has shape \(12,\), but X has shape \(12, 8\)"),
    "structured mask of another shape": (
        pca(stored(), StructuredMask(np.zeros(12, dtype=int), np.ones((1, 7)))),
        r"mask has shape \(12, 7\), but X has shape \(12, 8\)",
    ),
    "mask that is not fitted": (pca(np.eye(9), nf.Dropouts()), "The mask is a Dropouts that is not fitted; fit it to"),
    "class for a mask": (pca(np.eye(9), nf.Dropouts), "The mask is a Dropouts that is not fitted; fit it to"),
    "centred values under a mask of dropouts": (
        lambda: pca(np.eye(9) - np.arange(9) / 9, dropouts(np.eye(9)))(),
        r"X holds -0.111111 at row 0, column 1: after centring or scaling, zeros are no longer .* values from before",
    ),
    "sparse values below zero under a mask of dropouts": (
        lambda: pca(sparse.csr_array(-2 * np.eye(9)), dropouts(np.eye(9)))(),
        "X holds -2 at row 0, column 0: after centring or scaling",
    ),
    "mask without an observed entry": (
        pca(table(), np.zeros((12, 8), dtype=bool)),
        "mask has no observed entry: it is True .* where a value is known",
    ),
    "mask that leaves a row empty": (
        pca(np.ones((4, 3)), np.arange(4)[:, None] * [1, 1, 1] != 2),
        "Row 2 of X has no obs",
    ),
    "mask over NaN": (pca(table(), np.ones((12, 8))), r"mask says that row 1, column \d is observed, but X holds NaN"),
    "mask over NaN in a table": (
        pca(frame(b=[np.nan] + [1.0] * 11), np.ones((12, 3))),
        "mask says that row 0, column 'b' is observed, but X holds NaN there; correct the mask",
    ),
    "mask of text": (
        pca(table(), np.full((12, 8), "yes")),
        "mask must hold True where observed, .*type is <U3",
    ),
    "mask of large numbers": (
        pca(table(), put(3.0, 5, 2, X=known().astype(float))),
        r"mask must hold True where observed, or weights in \[0, 1\]; it holds 3 at row 5, column 2",
    ),
    "mask of negative numbers": (pca(table(), put(-1, 5, 2, X=known().astype(int))), "it holds -1 at row 5, column 2"),
    "mask of NaN": (pca(table(), put(np.nan, 5, 2, X=known().astype(float))), "it holds nan at row 5, column 2"),
    "sparse mask of large numbers": (
        pca(stored(), sparse.csr_array(put(2.0, 5, 2, X=known().astype(float)))),
        "it holds 2 at row 5, column 2",
    ),
    "weights for a sparse array": (
        pca(sparse.csr_array(np.nan_to_num(table())), known() * 0.5),
        "sparse X takes a mask of True and False, or a structured mask; weights need a dense X",
    ),
    "mask beside what is stored": (
        pca(stored(), known(), missing="unstored"),
        "stored entries are the mask; leave mask out",
    ),
    "masked array and a mask": (
        pca(np.ma.masked_invalid(table()), known()),
        "X is a masked array and mask is given too; give the mask once",
    ),
    "too many components": (
        pca(table(), n_components=9),
        r"n_components=9 must lie between 1 and min\(.*\)=8; choose",
    ),
    "no components": (pca(table(), n_components=0), "n_components=0 must lie between 1 and"),
    "share of more than everything": (pca(table(), n_components=1.5), "n_components=1.5 as a share .*between 0 and 1"),
    "share of everything": (pca(table(), n_components=1.0), "n_components=1.0 as a share .* must lie between 0 and 1"),
    "share of nothing": (pca(table(), n_components=0.0), "n_components=0.0 as a share .* must lie between 0 and 1"),
    "components by an unknown rule": (pca(table(), n_components="kaiser"), "n_components must be .* it is 'kaiser'"),
    "more components than the scree test has eigenvalues": (
        pca(table()[:5], n_components="cng"),
        "'cng' needs at least 6 eigenvalues and there are 5; give a number",
    ),
    "probability of zero": (
        pca(table(), observation=put(0.0, 2, 3, X=np.ones((12, 8)))),
        r"probability of row 2, column 3 is 0; probabilities of being observed must lie in \(0, 1\]",
    ),
    "negative probability": (
        pca(table(), observation=put(-0.5, 2, 3, X=np.ones((12, 8)))),
        "probability of row 2, column 3 is -0.5",
    ),
    "probability above one": (pca(table(), observation=np.full((12, 8), 2.0)), "probability of row 0, column 0 is 2"),
    "probability of NaN": (pca(table(), observation=np.full((12, 8), np.nan)), "probability of row 0, column 0 is nan"),
    "probabilities of another shape": (
        pca(table(), observation=np.ones((8, 12))),
        r"probabilities have shape \(8, 12\), but X has shape \(12, 8\)",
    ),
    "factor of zero": (
        pca(table(), observation=(put(0.0, 4, X=np.ones(12)), np.ones(8))),
        "factor c is 0 at row 4; it must be above 0",
    ),
    "negative factor": (
        pca(table(), observation=(np.ones(12), put(-1.0, 6, X=np.ones(8)))),
        "factor g is -1 at column 6; it must be above 0",
    ),
    "factors the wrong way round": (
        pca(table(), observation=(np.ones(8), np.ones(12))),
        r"factor c has shape \(8,\); one number a row is needed: \(12,\)",
    ),
    "factors beyond one": (
        pca(table(), observation=(np.full(12, 2.0), np.ones(8))),
        "probability of row 0, column 0 is 2; probabilities of being observed must lie in",
    ),
    "unknown model": (pca(table(), observation="random"), "observation must be one of 'rank-one', .*it is 'random'"),
    "samples that share nothing": (
        pca(np.array([[1, 2, np.nan, np.nan], [np.nan, np.nan, 3, 4], [1, 3, 2, 5]]), observation="pairwise"),
        r"Rows 0 and 1 share no feature .*use observation='rank-one', or drop the thinnest rows",
    ),
    "no column with two samples": (pca(np.where(np.eye(4), 1.0, np.nan)), "No column of X is observed in two rows"),
    "unknown solver": (pca(table(), solver="lanczos"), "solver must be 'auto', 'exact' or 'krylov'; it is 'lanczos'"),
    "unknown solver for all components": (pca(table(), n_components=None, solver="qr"), "solver must be .* it is 'qr'"),
    "too large an assist": (pca(table(), assist=8), r"assist=8 must lie between 0 and .* = 7"),
    "unknown assist": (pca(table(), assist="much"), "assist must be a rank, 0 .* 'auto' or 'low-rank'; it is 'much'"),
    "no products at all": (pca(table(40, 30), max_iter=0), "max_iter must be a whole number of at least 1; it is 0"),
    "half a product": (pca(table(40, 30), max_iter=2.5), "max_iter must be a whole number of at least 1; it is 2.5"),
    "a tolerance below zero": (pca(table(40, 30), tol=-1e-3), "tol must be a number of at least 0; it is -0.001"),
    "a tolerance without end": (pca(table(40, 30), tol=np.inf), "tol must be a number of at least 0; it is inf"),
    "a tolerance in words": (pca(table(40, 30), tol="low"), "tol must be a number of at least 0; it is 'low'"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input(name):
    call, message = BAD[name]
    with pytest.raises(ValueError, match=message) as caught:
        call()
    text = str(caught.value)
    # One sentence, short enough to read, and never the array itself.
    assert "\n" not in text or name == "no dimension"
    assert len(text) < 300


@pytest.mark.parametrize(
    "name", [name for name, (_, message) in BAD.items() if "of X" in message or "holds" in message]
)
def test_unbiased_gram_says_the_same(name, monkeypatch):
    """The other front door checks its input in the same place."""
    call, message = BAD[name]

    def fit(self, X, y=None, mask=None):
        return nf.unbiased_gram(X, mask, self.missing, self.observation, assist=self.assist)

    monkeypatch.setattr(nf.PCA, "fit", fit)
    with pytest.raises(ValueError, match=message):
        call()


class TestNewRows:
    """Rows for a fitted PCA are checked like those it was fitted to, but need not have every column."""

    @pytest.fixture
    def fitted(self):
        return nf.PCA(2, random_state=0).fit(table())

    @pytest.mark.parametrize(
        ("X", "message"),
        [
            (np.full((2, 8), np.nan), "Rows 0, 1 of X have no observed entry"),
            (np.full((2, 8), np.inf), "infinity at row 0, column 0"),
            (np.ones((2, 7)), "X has 7 features, but PCA is expecting 8 features"),
            (np.ones(8), "X has one dimension and needs two"),
            (np.full((2, 8), "x"), "Column 0 of X holds 'x' in row 0"),
            (np.ones((2, 8)) * 1e300, "whose square overflows"),
        ],
    )
    def test_bad(self, fitted, X, message):
        for method in ("transform", "score_samples", "score"):
            with pytest.raises(ValueError, match=message):
                getattr(fitted, method)(X)

    def test_one_row_and_missing_columns_are_fine(self, fitted):
        row = table()[:1]
        row[0, 3:] = np.nan
        assert fitted.transform(row).shape == (1, 2)


class TestGoodInput:
    """Unusual, and the same as the plain array of floats."""

    @pytest.fixture
    def whole(self):
        return np.round(np.random.default_rng(1).standard_normal((12, 8)) * 10)

    @staticmethod
    def scores(X, mask=None, **options):
        return nf.PCA(2, assist=0, **options).fit_transform(X, mask=mask)

    def test_integers(self, whole):
        for dtype in (np.int8, np.int64, np.uint8, ">i4"):
            X = np.abs(whole)
            assert_allclose(self.scores(X.astype(dtype)), self.scores(X))

    def test_booleans(self, whole):
        assert_allclose(self.scores(whole > 0), self.scores((whole > 0).astype(float)))

    def test_other_floats(self, whole):
        for dtype in (np.float16, np.longdouble, ">f8"):
            scores = self.scores(whole.astype(dtype))
            assert scores.dtype == np.float64
            assert_allclose(scores, self.scores(whole))

    def test_memory_orders(self):
        X, expected = table(), self.scores(table())
        wide = np.full((24, 24), np.nan)
        wide[::2, ::3] = X
        read_only = X.copy()
        read_only.setflags(write=False)
        backwards = X[::-1].copy()[::-1]
        for form in (np.asfortranarray(X), wide[::2, ::3], read_only, backwards, X.T.copy().T):
            before = np.array(form)
            assert_allclose(self.scores(form), expected)
            assert_allclose(form, before)

    def test_read_only_sparse_arrays(self):
        X = stored()
        expected = self.scores(X, missing="unstored")
        for array in (X.data, X.indices, X.indptr):
            array.setflags(write=False)
        assert_allclose(self.scores(X, missing="unstored"), expected)
        assert_allclose(expected, self.scores(table()))

    def test_lists_and_objects(self):
        """None is a hole, and a list of lists is a table."""
        X = table()
        objects = X.astype(object)
        objects[np.isnan(X)] = None
        for form in (X.tolist(), tuple(map(tuple, X.tolist())), objects):
            assert_allclose(self.scores(form), self.scores(X))

    def test_pandas(self):
        X = table()
        frame = pd.DataFrame(X).rename(columns=str)
        assert_allclose(self.scores(frame), self.scores(X))
        frame["3"] = pd.array([pd.NA if np.isnan(x) else x for x in X[:, 3]], dtype="Float64")
        frame["4"] = X[:, 4].astype(object)
        assert_allclose(self.scores(frame), self.scores(X))

    def test_masked_arrays(self):
        """What lies under the mask is never looked at, be it NaN, infinite or huge."""
        X = table()
        for junk in (np.nan, np.inf, 1e300, 0.0):
            masked = np.ma.MaskedArray(np.where(known(), X, junk), ~known())
            assert_allclose(self.scores(masked), self.scores(X))
        whole = np.ma.MaskedArray(np.nan_to_num(X))  # nothing is masked
        assert_allclose(self.scores(whole), self.scores(np.nan_to_num(X)))

    def test_masks_in_any_form(self):
        X = np.nan_to_num(table())
        expected = self.scores(table())
        for mask in (known(), known().astype(int), known().astype(np.float32), known().tolist(), pd.DataFrame(known())):
            assert_allclose(self.scores(X, mask), expected)
        for mask in (sparse.csr_array(known()), sparse.coo_array(known().astype(float)), sparse.csc_array(known())):
            assert_allclose(self.scores(X, mask), expected)
            assert_allclose(self.scores(sparse.csr_array(X), mask), expected)
        assert_allclose(self.scores(table(), known()), expected)  # NaN in the holes is no contradiction

    def test_constant_columns(self):
        """They add nothing, whatever their value."""
        X = table()
        wider = np.column_stack([X, np.full(12, 7.0)])
        gram, other = nf.unbiased_gram(X, observation="pairwise"), nf.unbiased_gram(wider, observation="pairwise")
        shared = gram.model.shared_
        off = ~np.eye(12, dtype=bool)
        assert_allclose((other.toarray() * (shared + 1))[off], (gram.toarray() * shared)[off], atol=1e-12)
        assert self.scores(wider).shape == (12, 2)

    def test_one_feature(self):
        x = table()[:, :1]
        assert_allclose(nf.PCA().fit_transform(x), x - x.mean())

    def test_two_samples(self):
        X = np.array([[1.0, 2.0, np.nan], [3.0, 2.5, 1.0]])
        assert nf.PCA(1).fit_transform(X).shape == (2, 1)

    def test_large_and_small_values(self):
        """Far beyond what anybody measures, scores are those of the same table in other units."""
        for scale in (1e-100, 1e100):
            assert_allclose(self.scores(table() * scale), self.scores(table()) * scale, rtol=1e-9)
            assert np.isfinite(nf.unbiased_gram(table() * scale).toarray()).all()
        for scale in (np.float32(1e-12), np.float32(1e12)):
            X = table().astype(np.float32)
            assert_allclose(self.scores(X * scale), self.scores(X) * scale, rtol=1e-4)
