"""Dask arrays: the storage's contract, agreement with data in memory, determinism, lost workers, and bad input."""

import functools
import itertools
import os
import signal
import sys
from pathlib import Path

import dask
import dask.array as da
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.linalg import subspace_angles
from sklearn.base import clone

import nanfold as nf
from nanfold.chunked import RowBlocks
from nanfold.observed import observe
from storages import CHUNKED, build

# The suite of every storage, for those in chunks too.
from test_observed import (  # noqa: F401
    test_adjoint_identity,
    test_blocks_in_any_memory_order,
    test_flipped_signs,
    test_grams,
    test_means_and_row_squares,
    test_normals,
    test_pair_products,
    test_products,
    test_residual,
    test_rows,
    test_shape_dtype_and_counts,
)

KINDS = ("dense", "unstored", "counts")


@pytest.fixture(params=CHUNKED)
def name(request):
    return request.param


@pytest.fixture
def dtype(name):
    return np.float32 if name in ("Dask and mask", "Dask counts") else np.float64


@pytest.fixture
def case(name, dtype):
    return build(name, dtype)


def in_chunks(X, sizes=(50, 45, 25), make=sparse.csr_array):
    """A Dask array of X, sparse if it is, in chunks of so many rows."""
    edges = np.cumsum((0, *sizes))
    blocks = [X[a:b] if isinstance(X, np.ndarray) else make(X[a:b]) for a, b in itertools.pairwise(edges)]
    meta = X[:0] if isinstance(X, np.ndarray) else sparse.csr_array(X[:0])
    parts = [da.from_delayed(dask.delayed(b), b.shape, X.dtype, meta=meta) for b in blocks]
    return da.concatenate(parts)


def low_rank(kind, n=120, d=40, seed=0):
    """X in memory, and how it is to be fitted."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3)) * (9, 6, 4) @ rng.standard_normal((3, d)) + rng.standard_normal((n, d)) + 2.0
    seen = rng.random((n, d)) < np.outer(rng.uniform(0.5, 0.9, n), rng.uniform(0.6, 1.0, d))
    if kind == "dense":
        return np.where(seen, X, np.nan), {}, {}
    if kind == "unstored":
        return sparse.csr_array(np.where(seen, X, 0.0)), {"missing": "unstored"}, {}
    counts = sparse.csr_array(np.where(seen, np.maximum(X, 0.0).round(), 0.0))
    mask = nf.StructuredMask(rng.integers(0, 5, n), rng.integers(0, 9, (5, d)) / 8.0)
    return counts, {}, {"mask": mask}


def same_subspace(one, other, tol=1e-6):
    assert subspace_angles(one.components_.T, other.components_.T).max() < tol
    assert_allclose(one.explained_variance_, other.explained_variance_, rtol=1e-8)


class TestPCA:
    @pytest.mark.parametrize(
        ("kind", "assist", "solver"),
        [("dense", 0, "auto"), ("dense", 2, "krylov"), ("unstored", 0, "krylov"), ("counts", 0, "krylov")],
    )
    def test_agrees_with_data_in_memory(self, kind, assist, solver):
        X, settings, options = low_rank(kind)
        pca = nf.PCA(3, assist=assist, solver=solver, tol=1e-9, random_state=0, **settings)
        here = pca.fit_transform(X, **options)
        in_memory = pca.components_, pca.explained_variance_, pca.transform(X, **options), pca.noise_variance_
        there = pca.fit_transform(in_chunks(X), **options)
        assert isinstance(there, np.ndarray)
        assert_allclose(there, here, atol=1e-6 * np.abs(here).max())
        assert_allclose(pca.components_, in_memory[0], atol=1e-6)
        assert_allclose(pca.explained_variance_, in_memory[1], rtol=1e-9)
        assert pca.noise_variance_ == pytest.approx(in_memory[3])
        new = pca.transform(in_chunks(X), **options)
        assert isinstance(new, da.Array)
        assert new.chunks == ((50, 45, 25), (3,))
        assert_allclose(new.compute(), in_memory[2], atol=1e-6 * np.abs(here).max())

    def test_likelihood_and_reconstruction_are_lazy(self):
        X, _, _ = low_rank("dense")
        pca = nf.PCA(2, assist=0, random_state=0).fit(X)
        chunks = in_chunks(X)
        assert isinstance(pca.score_samples(chunks), da.Array)
        assert_allclose(pca.score_samples(chunks).compute(), pca.score_samples(X))
        assert pca.score(chunks) == pytest.approx(pca.score(X))
        assert_allclose(pca.inverse_transform(pca.transform(chunks)).compute(), pca.inverse_transform(pca.transform(X)))

    def test_complete_counts(self):
        X, _, _ = low_rank("counts")
        same_subspace(*(nf.PCA(3, tol=1e-9, random_state=0).fit(data) for data in (X, in_chunks(X))))

    def test_guess_is_chosen_on_rows_in_memory(self, monkeypatch):
        X, _, _ = low_rank("dense")
        chunks = in_chunks(X)
        everything = nf.PCA(3, random_state=0).fit(chunks)
        assert everything.assist_ >= 2
        assert_array_equal(everything.components_, nf.PCA(3, random_state=0).fit(chunks).components_)
        assert everything.assist_neighbors_ == 0
        monkeypatch.setattr("nanfold.correction.SAMPLE_VALUES", 1500)
        drawn = []
        monkeypatch.setattr(
            "nanfold.assist.HeldOut.draw",
            lambda observed, share, rng: drawn.append(observed) or original(observed, share, rng),
        )
        assert nf.PCA(3, random_state=0).fit(chunks).assist_ >= 1
        (sample,) = drawn
        assert 25 < sample.shape[0] < 80
        rows = np.where(
            sample.rows(0, len(sample.row_counts))[1] > 0, sample.rows(0, sample.shape[0])[0] + sample.mean, np.nan
        )
        # Whole rows of X, each at most once.
        found = [np.flatnonzero(np.all(np.isclose(X, row, equal_nan=True), axis=1)) for row in rows]
        assert all(len(places) == 1 for places in found)
        assert len(np.unique(found)) == len(rows)

    @pytest.mark.parametrize("kind", KINDS)
    def test_two_runs_agree_exactly(self, kind):
        X, settings, options = low_rank(kind)
        chunks = in_chunks(X, (20,) * 6)
        model = nf.PCA(3, solver="krylov", tol=1e-2, assist=0, random_state=0, **settings)
        fits = []
        for scheduler in ("threads", "synchronous"):
            with dask.config.set(scheduler=scheduler):
                fits.append(clone(model).fit(chunks, **options))
        for other in fits[1:]:
            assert_array_equal(fits[0].components_, other.components_)
            assert_array_equal(fits[0].explained_variance_, other.explained_variance_)

    def test_masks_of_every_kind(self):
        X, _, _ = low_rank("dense")
        seen = ~np.isnan(X)
        filled = np.where(seen, X, 99.0)
        expected = nf.PCA(3, assist=0, random_state=0).fit(X)
        masked = da.from_delayed(dask.delayed(np.ma.masked_array)(filled, ~seen), X.shape, X.dtype)
        for data, mask in ((in_chunks(filled), seen), (in_chunks(filled), da.from_array(seen, chunks=30)[:, :])):
            if isinstance(mask, da.Array):
                mask = mask.rechunk({1: -1})
            same_subspace(expected, nf.PCA(3, assist=0, random_state=0).fit(data, mask=mask))
        same_subspace(expected, nf.PCA(3, assist=0, random_state=0).fit(masked))

    def test_a_chunk_without_rows(self):
        X, _, _ = low_rank("dense")
        pca = nf.PCA(2, assist=0, random_state=0)
        same_subspace(pca.fit(in_chunks(X, (0, 60, 0, 60))), nf.PCA(2, assist=0, random_state=0).fit(X))


original = nf.AssistedGram.__init__.__globals__["HeldOut"].draw


class TestGram:
    def test_products(self):
        X, _, _ = low_rank("dense")
        here, there = (nf.unbiased_gram(data) for data in (X, in_chunks(X)))
        V = np.random.default_rng(0).standard_normal((120, 2))
        assert_allclose(there @ V, here @ V, atol=1e-12)
        assert_allclose(there.diagonal(), here.diagonal(), atol=1e-12)
        assert_allclose(there.toarray(), here.toarray(), atol=1e-12)

    def test_no_large_square(self, monkeypatch):
        monkeypatch.setattr("nanfold.observed.chunked.MOST_SQUARE", 100)
        chunks = in_chunks(low_rank("dense")[0])
        with pytest.raises(ValueError, match=r"needs a dense matrix of 120 x 120.*solver='krylov'"):
            nf.unbiased_gram(chunks).toarray()
        with pytest.raises(ValueError, match=r"needs a dense matrix of 120 x 120.*'rank-one'"):
            nf.unbiased_gram(chunks, observation="pairwise")

    def test_complete_data_of_few_features_need_no_square(self, monkeypatch):
        monkeypatch.setattr("nanfold.observed.chunked.MOST_SQUARE", 100)
        X = np.random.default_rng(0).standard_normal((7000, 12)) * np.arange(1, 13)
        chunks = da.from_array(X, chunks=(3000, 12))
        same_subspace(*(nf.PCA(2, tol=1e-8, random_state=0).fit(data) for data in (X, chunks)))

    def test_every_step_reads_a_chunk_once(self):
        """One pass y -> the next W calls each chunk's reader once."""
        X, _, _ = low_rank("counts")
        reads = []

        def read(block):
            reads.append(block.shape[0])
            return block

        chunks = in_chunks(X)
        counted = da.concatenate(
            [
                da.from_delayed(dask.delayed(read, pure=False)(block), (size, 40), X.dtype)
                for block, size in zip(chunks.to_delayed().ravel(), chunks.chunks[0], strict=True)
            ]
        )
        observed = observe(counted, nf.StructuredMask(np.zeros(120, dtype=int), np.ones((1, 40))))
        reads.clear()
        observed.normal_pass(np.ones((40, 2)), np.ones((120, 2)), np.ones(120), np.zeros(120))
        assert sorted(reads) == [25, 45, 50]

    @pytest.mark.parametrize(("holes", "beside_steps"), [(False, 2 + 2 + 1), (True, 2 + 1 + 2 + 6)])
    def test_a_fit_reads_no_more_often_than_documented(self, holes, beside_steps):
        """To survey, before the first step, to check the result, and for the loadings."""
        X = low_rank("dense")[0]
        X = X if holes else np.nan_to_num(X)
        reads = []

        def read():
            reads.append(1)
            return X

        once = da.from_delayed(dask.delayed(read, pure=False)(), X.shape, X.dtype)
        with dask.config.set(scheduler="synchronous"):
            pca = nf.PCA(3, assist=0, solver="krylov", random_state=0).fit(once)
        assert len(reads) <= pca.n_iter_ + beside_steps


def counts_of_types(n=150, d=40):
    """Counts of three types of cells, and the types."""
    rng = np.random.default_rng(0)
    types = np.repeat(list("abc"), n // 3)
    counts = rng.poisson(6 * np.exp(rng.normal(size=(3, d)))[np.repeat([0, 1, 2], n // 3)])
    counts = np.where(rng.random(counts.shape) < 0.3, 0, counts)
    counts[:, 0] += 1
    return counts.astype(np.float32), types


class TestDropouts:
    @pytest.mark.parametrize("make", [sparse.csr_matrix, sparse.csc_array, np.asarray])
    def test_agrees_with_data_in_memory(self, make):
        X = np.log1p(counts_of_types()[0])
        chunks = (
            in_chunks(X, (70, 50, 30)) if make is np.asarray else in_chunks(sparse.csr_array(X), (70, 50, 30), make)
        )
        model = nf.Dropouts((3,), n_components=3, random_state=0)
        here, there = clone(model).fit(sparse.csr_array(X)), clone(model).fit(chunks)
        weights = [fitted.mask_.weights[fitted.mask_.groups] for fitted in (here, there)]
        assert_allclose(weights[1], weights[0], atol=1e-6)
        new = [fitted.predict(data) for fitted, data in ((here, X[:80]), (there, chunks[:80]))]
        assert_allclose(new[1].weights[new[1].groups], new[0].weights[new[0].groups], atol=1e-6)
        scores = [nf.PCA(3, random_state=0).fit_transform(*pair) for pair in ((X, None, here), (chunks, None, there))]
        assert_allclose(scores[1], scores[0], atol=1e-3)

    def test_warnings_and_refusals(self):
        X, _ = counts_of_types()
        deep = X * np.where(np.arange(150) < 75, 1, 9)[:, None].astype(np.float32)
        with pytest.warns(UserWarning, match="X holds raw counts, and the depth of the cells varies"):
            nf.Dropouts((3,), methods="kmeans", n_components=3).fit(in_chunks(sparse.csr_array(deep), (80, 70)))
        empty = np.log1p(X)
        empty[:, 5] = 0
        with pytest.warns(UserWarning, match="All entries of column 5 of X are zero"):
            nf.Dropouts().fit(in_chunks(empty, (80, 70)), labels=np.arange(150) % 3)
        for at, value, message in (
            ((90, 4), -1.0, "X holds -1 at row 90, column 4"),
            (100, 0.0, "row 100 of X are zero"),
        ):
            wrong = X.copy()
            wrong[at] = value
            with pytest.raises(ValueError, match=message):
                nf.Dropouts((3,)).fit(in_chunks(wrong, (80, 70)))

    def test_centred_values_are_refused(self):
        X = np.log1p(counts_of_types()[0])
        fitted = nf.Dropouts().fit(X, np.arange(150) % 3)
        X[100, 7] = -1.0
        with pytest.raises(ValueError, match=r"from row 80 on.*X holds -1 at row 20, column 7: after centring"):
            nf.PCA(2).fit(in_chunks(X, (80, 70)), mask=fitted)


@pytest.mark.filterwarnings("ignore:Writing zarr v2 data")
class TestAnnData:
    @pytest.fixture(params=["h5ad", "zarr"])
    def pair(self, request, tmp_path):
        """The same counts in memory, and lazily from a file."""
        import h5py
        import zarr
        from anndata import AnnData
        from anndata.experimental import read_elem_lazy

        counts, types = counts_of_types()
        adata = AnnData(sparse.csr_matrix(counts))
        adata.obs["type"] = types
        adata.var["highly_variable"] = np.arange(40) % 2 == 0
        path = tmp_path / f"cells.{request.param}"
        (adata.write_h5ad if request.param == "h5ad" else adata.write_zarr)(path)
        stored = h5py.File(path) if request.param == "h5ad" else zarr.open(str(path), mode="r")
        lazy = AnnData(read_elem_lazy(stored["X"], chunks=(60, 40)), obs=adata.obs.copy(), var=adata.var.copy())
        yield adata, lazy
        if request.param == "h5ad":
            stored.close()

    @pytest.mark.parametrize("options", [{"labels": "type"}, {"n_clusters": (3,), "n_components": 3}])
    def test_dropouts_and_pca(self, pair, options):
        for adata in pair:
            nf.pp.dropouts(adata, **options)
            nf.tl.pca(adata, 4)
            nf.tl.pca(adata, 4, mask_var=None, dropouts=None, key_added="complete")
        here, there = pair
        assert isinstance(there.X, da.Array)
        weights = [adata.varm["dropouts"][:, adata.obs["dropouts"]] for adata in pair]
        assert_allclose(weights[1], weights[0], atol=1e-6)
        for key in ("X_pca", "complete"):
            assert_allclose(there.obsm[key], here.obsm[key], atol=1e-3)
            assert isinstance(there.obsm[key], np.ndarray)
        assert_allclose(there.varm["PCs"], here.varm["PCs"], atol=1e-4)

    def test_names_of_what_is_wrong(self, pair):
        _, lazy = pair
        lazy.layers["scaled"] = lazy.X.map_blocks(lambda block: block * -1)
        with pytest.raises(ValueError, match=r"Cell '\d+' has -\d+ for gene '\d+'; counts"):
            nf.pp.dropouts(lazy, layer="scaled")
        nf.pp.dropouts(lazy, labels="type")
        with pytest.raises(ValueError, match=r"Cell '\d+' has -\d+ for gene '\d+': after centring"):
            nf.tl.pca(lazy, 2, layer="scaled")
        lazy.layers["empty"] = lazy.X.map_blocks(lambda block: block * 0)
        with pytest.raises(ValueError, match="Only zeros in cells 0, 1, 2, 3, 4 and 145 more"):
            nf.pp.dropouts(lazy, layer="empty")

    def test_genes_without_counts(self, pair):
        for adata in pair:
            factors = np.where(np.arange(40) == 7, 0, 1).astype(np.float32)
            scale = sparse.diags_array(factors).tocsr()
            X = adata.X
            lazy = isinstance(X, da.Array)
            adata.layers["x"] = X.map_blocks(lambda b, by=scale: b @ by, meta=X._meta) if lazy else X @ scale
            with pytest.warns(UserWarning, match="No cell has a count for 1 of 40 genes"):
                nf.pp.dropouts(adata, layer="x", n_clusters=(3,), n_components=3)
        weights = [adata.varm["dropouts"][:, adata.obs["dropouts"]] for adata in pair]
        assert_allclose(weights[1], weights[0], atol=1e-6)
        assert (weights[1][7] == 1).all()

    def test_read_lazy(self, pair, tmp_path):
        pytest.importorskip("xarray")
        import h5py
        from anndata.experimental import read_lazy

        here, _ = pair
        here.write_h5ad(tmp_path / "again.h5ad")
        nf.tl.pca(here, 3)
        with h5py.File(tmp_path / "again.h5ad") as stored:
            lazy = read_lazy(stored)
            nf.tl.pca(lazy, 3)
            assert_allclose(lazy.obsm["X_pca"], here.obsm["X_pca"], atol=1e-3)


class TestRowBlocks:
    def test_sums_are_made_in_the_same_order_whatever_runs_first(self):
        values = [1e16, 1.0, -1e16, 1.0, 3.0, 1e-3, 7.0]
        blocks = RowBlocks(da.from_array(np.array(values)[:, None], chunks=(1, 1)))
        totals = set()
        for scheduler in ("threads", "synchronous"):
            with dask.config.set(scheduler=scheduler):
                rows, (total,) = blocks.map_add(lambda block, *_: ((block,), (block.copy(),)))
            assert_array_equal(rows[0][:, 0], values)
            totals.add(float(total[0, 0]))
        tree = (((values[0] + values[1]) + values[2]) + values[3]) + ((values[4] + values[5]) + values[6])
        assert totals == {tree}

    def test_what_is_added_is_not_written_to(self):
        kept = np.ones((2, 3))
        blocks = RowBlocks(da.from_array(np.zeros((4, 1)), chunks=(2, 1)))
        _, (total,) = blocks.map_add(lambda *_: ((), (kept,)))
        assert_array_equal(total, 2 * np.ones((2, 3)))
        assert_array_equal(kept, 1)

    def test_each_block_gets_its_rows_and_goes_through_the_steps(self):
        blocks = RowBlocks(da.from_array(np.arange(10.0)[:, None], chunks=((4, 6), (1,))))
        doubled = blocks.then(
            lambda block, start, by_row, shared: by_row[0] * block * shared[0], [np.full((10, 1), 2.0)], [3.0]
        )
        (rows,), _ = doubled.map_add(lambda block, start, by_row, shared: ((block + start,), ()))
        assert_array_equal(rows[:, 0], 6 * np.arange(10) + np.repeat([0, 4], [4, 6]))


def _bad(X=None, **options):
    settings = {name: options.pop(name) for name in ("missing", "n_components") if name in options}
    return lambda: nf.PCA(**{"n_components": 2, **settings}).fit(X, **options)


def _frame():
    import dask.dataframe as dd
    import pandas as pd

    return dd.from_pandas(pd.DataFrame(np.eye(6)), npartitions=2)


def _replaced(at, value, sizes=(50, 45, 25)):
    X = low_rank("dense")[0].copy()
    X[at] = value
    return in_chunks(X, sizes)


DENSE = da.from_array(low_rank("dense")[0], chunks=(50, 40))
UNKNOWN = DENSE[da.from_array(np.arange(120) > 3, chunks=50)]
BAD = {
    "columns in chunks": (_bad(DENSE.rechunk({1: 10})), "columns of X are split into 4 chunks.*X.rechunk"),
    "unknown sizes": (_bad(UNKNOWN), r"chunks of unknown size; call X.compute_chunk_sizes\(\) first"),
    "mixed": (
        _bad(da.concatenate([DENSE[:50], in_chunks(low_rank("counts")[0])[50:]])),
        "chunk of X from row 50 on is sparse, and the first is a NumPy array; make all of one kind",
    ),
    "another format": (
        _bad(in_chunks(low_rank("counts")[0], make=sparse.coo_array)),
        r"chunk of X from row \d+ on is of the kind SciPy's COO",
    ),
    "no arrays": (_bad(DENSE[:100].map_blocks(lambda block: _Odd(), meta=np.zeros((0, 0)))), "is of the kind _Odd"),
    "a chunk that is not as long as it says": (
        _bad(DENSE.map_blocks(lambda block: block[:-1], chunks=DENSE.chunks)),
        r"chunk of X from row .* on has the shape \((49|19), 40\) in place of \((50|20), 40\)",
    ),
    "a chunk that is not as wide as it says": (
        _bad(DENSE.map_blocks(lambda block: block[:, :30], chunks=DENSE.chunks)),
        r"chunk of X from row .* on has the shape \((50|20), 30\) in place of \((50|20), 40\)",
    ),
    "chunks of complex numbers that say otherwise": (
        _bad(DENSE.map_blocks(lambda block: block + 1j, meta=np.zeros((0, 0)))),
        "chunk of X from row .* on is of type complex128, which holds no real numbers",
    ),
    "chunks of text that say otherwise": (
        _bad(DENSE.map_blocks(lambda block: block.astype(str), meta=np.zeros((0, 0)))),
        "chunk of X from row .* on is of type <U32, which holds no real numbers",
    ),
    "no dimension": (_bad(da.ones(())), "X is a single number and needs two dimensions"),
    "infinity": (_bad(_replaced((60, 7), np.inf)), "chunk of X from row 50 on.*infinity at row 10, column 7"),
    "an empty row": (_bad(_replaced(70, np.nan)), "Row 70 of X has no observed entry"),
    "an empty column": (_bad(_replaced(np.s_[:, 3], np.nan)), "Column 3 of X has no observed entry"),
    "large values": (_bad(_replaced((80, 2), 1e200)), r"X holds 1e\+200 at row 80, column 2, whose square overflows"),
    "unstored of dense": (_bad(DENSE, missing="unstored"), "missing='unstored' needs a sparse array"),
    "too many components": (_bad(DENSE, n_components=41), "n_components=41 must lie between 1 and.*40"),
    "one row": (_bad(DENSE[:1]), "X has 1 samples and 40 features; at least 2 samples"),
    "one dimension": (_bad(DENSE[:, 0]), "one dimension and needs two"),
    "complex": (_bad(DENSE.astype(complex)), "Complex data not supported"),
    "text": (_bad(DENSE.astype(str)), "holds no numbers"),
    "a mask of another shape": (_bad(DENSE, mask=np.ones((3, 40), bool)), r"mask has shape \(3, 40\)"),
    "a Dask mask of another shape": (_bad(DENSE, mask=da.ones((3, 40))), r"mask has shape \(3, 40\)"),
    "a mask with its columns in chunks": (
        _bad(DENSE, mask=da.ones((120, 40), chunks=20)),
        r"columns of mask are split into 2 chunks.*call mask\.rechunk",
    ),
}


class _Odd:
    shape = (50, 40)
    ndim = 2
    dtype = np.dtype(float)


@pytest.mark.parametrize("name", BAD)
def test_bad_input(name):
    call, message = BAD[name]
    with pytest.raises(ValueError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_options_are_refused_before_anything_is_read():
    def read(block):
        raise AssertionError("it was read")

    chunks = DENSE.map_blocks(read, meta=np.zeros((0, 0)))
    with pytest.raises(ValueError, match="solver must be 'auto'"):
        nf.PCA(2, solver="magic").fit(chunks)
    with pytest.raises(ValueError, match="tol must be a number of at least 0; it is nan"):
        nf.PCA(2, tol=np.nan).fit(chunks)


def test_what_is_no_array_yet():
    with pytest.raises(TypeError, match=r"X is a Dask Delayed, whose shape is not known; make it .*from_delayed\(X, "):
        nf.PCA(2).fit(dask.delayed(np.eye)(4))


@pytest.mark.parametrize("make", [sparse.csr_array, sparse.csc_matrix])
def test_single_cell_baselines_take_chunks_into_memory(make):
    counts = np.random.default_rng(0).poisson(np.exp(np.arange(30) % 3 * 0.4 + 1.0)[:, None], (30, 40)).astype(float)
    chunks = in_chunks(sparse.csr_array(counts), (20, 10), make)
    expected = nf.baselines.CIDR(n_clusters=3).fit(counts).dissimilarity_
    assert_array_equal(nf.baselines.CIDR(n_clusters=3).fit(chunks).dissimilarity_, expected)


def test_new_counts_without_their_mask():
    """Refused at once, and not when what is lazy is computed."""
    X, _, options = low_rank("counts")
    pca = nf.PCA(2, random_state=0).fit(X, **options)
    for lazy in (pca.transform, pca.score_samples):
        with pytest.raises(
            ValueError, match=r"fitted to counts with a mask of dropouts; give the mask of the new rows"
        ):
            lazy(in_chunks(X))


def test_scores_of_another_width():
    pca = nf.PCA(2, assist=0).fit(low_rank("dense")[0])
    with pytest.raises(ValueError, match="X has 40 scores a row, but this PCA has 2 components"):
        pca.inverse_transform(DENSE)


class _Client:
    """What we ask of a client of Dask: its workers, and to compute."""

    def __init__(self, answers):
        self.answers, self.asked = answers, 0

    def run(self, function, *args):
        self.asked += 1
        return {address: answer or function(*args) for address, answer in self.answers.items()}

    def get(self, graph, keys, **kwargs):
        return dask.get(graph, keys)


def test_workers_without_nanfold(monkeypatch):
    """Dask itself would wait for them for ever."""
    client = _Client({"tcp://one": None, "tcp://two": None})
    with dask.config.set(scheduler=client.get):
        pca = nf.PCA(2, assist=0).fit(DENSE)
        pca.transform(DENSE).compute()
    assert client.asked == 1
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    says = "Dask's worker tcp://two has no nanfold; install it, in the same version as here"
    for call in (nf.PCA(2, assist=0).fit, pca.transform):
        client = _Client({"tcp://one": "there", "tcp://two": None})
        with dask.config.set(scheduler=client.get), pytest.raises(RuntimeError, match=says):
            call(DENSE)


def test_a_scheduler_without_nanfold():
    def get(graph, keys, **kwargs):
        raise RuntimeError("Error during deserialization\nof the graph") from ModuleNotFoundError("no", name="nanfold")

    with dask.config.set(scheduler=get), pytest.raises(RuntimeError, match="Dask's scheduler has no nanfold; install"):
        nf.PCA(2, assist=0).fit(DENSE)


def test_tables_are_refused():
    with pytest.raises(TypeError, match=r"X is a Dask DataFrame.*to_dask_array\(lengths=True\)"):
        nf.PCA(2).fit(_frame())


def test_new_rows_with_other_features():
    pca = nf.PCA(2, assist=0).fit(low_rank("dense")[0])
    with pytest.raises(ValueError, match="expecting 40 features"):
        pca.transform(DENSE[:, :30])


def test_what_was_persisted_elsewhere_is_gone():
    """A graph that refers to what no scheduler has, as after the client that persisted it was closed."""
    lost = dask.delayed(np.ones)((4, 2))
    lost = type(lost)(lost.key, {lost.key: ("gone",), "other": 1})
    broken = da.from_delayed(lost, (4, 2), float)
    blocks = RowBlocks(broken)
    with dask.config.set(scheduler=_closed), pytest.raises(RuntimeError, match=r"Dask's scheduler.*is gone; connect"):
        blocks.map_add(lambda *_: ((), ()))


def _closed(graph, keys, **kwargs):
    from concurrent.futures import CancelledError

    raise CancelledError("key")


def test_an_interrupted_fit_leaves_nothing_behind(tmp_path, monkeypatch):
    """Not a file, whichever pass is interrupted."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    X, _, _ = low_rank("counts")
    passes = []

    def read(block):
        passes.append(block.shape)
        if len(passes) == 5:
            raise KeyboardInterrupt
        return block

    chunks = da.from_delayed(dask.delayed(read, pure=False)(X), X.shape, X.dtype)
    with dask.config.set(scheduler="synchronous"), pytest.raises(KeyboardInterrupt):
        nf.PCA(2, solver="krylov", random_state=0).fit(chunks)
    assert len(passes) == 5
    assert list(tmp_path.iterdir()) == []


@functools.cache
def _limits():
    return {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}


def _read(block, folder, start, size):
    """Rows of the data; the third time that the second chunk is read, the worker that does so is killed."""
    if start:
        seen = len(os.listdir(folder))
        Path(folder, str(seen)).touch()
        if seen == 3:
            os.kill(os.getpid(), signal.SIGKILL)
    return block


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_a_worker_killed_in_the_middle_of_a_fit(tmp_path):
    from distributed import Client, LocalCluster

    X, settings, options = low_rank("counts")
    reads, scratch = tmp_path / "reads", tmp_path / "scratch"
    reads.mkdir()
    model = functools.partial(nf.PCA, 3, solver="krylov", tol=1e-9, random_state=0, **settings)
    expected = model().fit(in_chunks(X, (60, 60)), **options)
    blocks = [
        da.from_delayed(dask.delayed(_read, pure=False)(X[a : a + 60], str(reads), a, 60), (60, 40), X.dtype)
        for a in (0, 60)
    ]
    with LocalCluster(**_limits(), local_directory=str(scratch), silence_logs=50) as cluster, Client(cluster) as client:
        before = {worker["pid"] for worker in client.run(lambda: {"pid": os.getpid()}).values()}
        fitted = model().fit(da.concatenate(blocks), **options)
        new = fitted.transform(in_chunks(X, (60, 60)), **options).compute()
        client.wait_for_workers(2)
        after = {worker["pid"] for worker in client.run(lambda: {"pid": os.getpid()}).values()}
    assert len(os.listdir(reads)) > 4
    assert len(before & after) == 1
    assert_array_equal(fitted.components_, expected.components_)
    assert_allclose(new, expected.transform(X, **options), atol=1e-9)


@pytest.mark.slow
def test_persisted_by_a_client_that_is_closed(tmp_path):
    from distributed import Client, LocalCluster

    X, _, _ = low_rank("dense")
    with LocalCluster(**_limits(), local_directory=str(tmp_path), silence_logs=50) as cluster, Client(cluster):
        chunks = in_chunks(X).persist()
        same_subspace(nf.PCA(2, assist=0).fit(chunks), nf.PCA(2, assist=0).fit(X))
    with pytest.raises(RuntimeError, match="is gone; connect a new Client"):
        nf.PCA(2).fit(chunks)
