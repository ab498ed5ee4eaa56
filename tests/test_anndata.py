"""nanfold on AnnData: results where scanpy looks for them, on every storage, written and read; and what is refused."""

import warnings

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from scipy import sparse
from sklearn.metrics import adjusted_rand_score
from sklearn.neighbors import NearestNeighbors

import nanfold as nf
from nanfold import pl, pp, tl
from nanfold.dropout import Dropouts
from nanfold.pca import PCA

ad = pytest.importorskip("anndata")
with warnings.catch_warnings():
    # What scanpy and its dependencies say at import is about themselves.
    warnings.simplefilter("ignore")
    sc = pytest.importorskip("scanpy")

pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning:scanpy"),
    pytest.mark.filterwarnings("ignore::FutureWarning:anndata"),
    pytest.mark.filterwarnings("ignore:The set_bad function:PendingDeprecationWarning"),
]

FEW = {"n_clusters": (3, 4)}


@pytest.fixture(autouse=True)
def _no_windows():
    plt.switch_backend("Agg")
    yield
    plt.close("all")


def simulated(storage=sparse.csr_matrix, seed=0, sizes=(40, 30, 30), d=120):
    """Counts of three types of cells, of which 30 % were lost, with depths that differ."""
    rng = np.random.default_rng(seed)
    truth = np.repeat(np.arange(len(sizes)), sizes)
    n = len(truth)
    levels = rng.gamma(0.6, 4.0, (len(sizes), d))
    counts = rng.poisson(levels[truth] * rng.uniform(0.5, 1.5, (n, 1))) * (rng.random((n, d)) < 0.7)
    counts[np.arange(d) % n, np.arange(d)] += 1
    adata = ad.AnnData(
        storage(counts.astype(np.float32)),
        obs=pd.DataFrame({"type": pd.Categorical([f"type {t}" for t in truth])}, index=[f"cell{i}" for i in range(n)]),
        var=pd.DataFrame({"odd": np.arange(d) % 2 == 1}, index=[f"gene{s}" for s in range(d)]),
    )
    adata.layers["counts"] = adata.X.copy()
    return adata


def logged(adata):
    """log(1 + x) of the cells scaled to their median depth, dense."""
    X = np.asarray(adata.layers["counts"].toarray() if sparse.issparse(adata.layers["counts"]) else adata.X)
    depth = X.sum(axis=1, dtype=np.float64)
    return np.log1p(X / (depth / np.median(depth))[:, None])


def assert_same(one, other):
    """Two results of the same pipeline, wherever they are kept."""
    for name in ("obsm", "varm", "obsp"):
        first, second = getattr(one, name), getattr(other, name)
        assert set(first) == set(second)
        for key in first:
            a, b = first[key], second[key]
            if sparse.issparse(a):
                a, b = a.toarray(), b.toarray()
            np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-5, atol=1e-5, err_msg=f"{name}[{key!r}]")
    for key in ("dropouts", "leiden"):
        if key in one.obs:
            assert (one.obs[key].astype(str) == other.obs[key].astype(str)).all()


def pipeline(adata):
    """What an analyst does: dropouts from the counts, everything else on logarithms."""
    pp.dropouts(adata, layer="counts", **FEW)
    adata.layers["log"] = type(adata.X)(logged(adata)) if sparse.issparse(adata.X) else logged(adata)
    tl.pca(adata, 10, layer="log")
    pp.neighbors(adata, layer="log")
    sc.tl.leiden(adata, flavor="igraph", n_iterations=2, directed=False, random_state=0)
    return adata


def test_dropouts_pca_neighbours_leiden_umap_and_pictures():
    adata = pipeline(simulated())
    assert adjusted_rand_score(adata.obs["type"], adata.obs["leiden"]) > 0.9
    sc.tl.umap(adata, random_state=0)
    sc.tl.diffmap(adata)
    sc.pl.pca(adata, color=["leiden", "gene0"], annotate_var_explained=True, show=False)
    sc.pl.umap(adata, color="leiden", show=False)
    sc.pl.pca_variance_ratio(adata, show=False)
    sc.pl.pca_loadings(adata, show=False)


@pytest.mark.parametrize("form", ["h5ad", "zarr"])
@pytest.mark.filterwarnings("ignore:Writing zarr v2 data:UserWarning")
def test_written_and_read_back_it_gives_the_same_again(tmp_path, form):
    adata = pipeline(simulated())
    tl.tsne(adata, n_iter=20, early_exaggeration_iter=20)
    tl.umap(adata, n_epochs=20)
    path = tmp_path / f"it.{form}"
    getattr(adata, f"write_{form}")(path)
    again = getattr(ad, f"read_{form}")(path)
    assert_same(adata, again)
    assert adata.uns["pca"]["params"] == again.uns["pca"]["params"]
    assert list(again.uns["dropouts"]["params"]["n_clusters"]) == [3, 4]
    # The stored mask alone gives the same once more, and so does everything from the start.
    tl.pca(again, 10, layer="log")
    pp.neighbors(again, layer="log")
    assert_same(adata, again)
    assert_same(adata, pipeline(again))


@pytest.mark.parametrize("storage", [np.asarray, sparse.csc_matrix, sparse.csr_array])
def test_every_storage_gives_the_same(storage):
    assert_same(pipeline(simulated()), pipeline(simulated(storage)))


@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_matrix, sparse.csc_matrix])
def test_backed_gives_the_same_and_reads_in_blocks(storage, tmp_path, monkeypatch):
    monkeypatch.setattr("nanfold._anndata.BLOCK_VALUES", 1000)
    adata = simulated(storage)
    adata.write_h5ad(tmp_path / "it.h5ad")
    backed = ad.read_h5ad(tmp_path / "it.h5ad", backed="r")
    for each in (adata, backed):
        pp.dropouts(each, mask_var="odd", **FEW)
        tl.pca(each, 10)
        tl.pca(each, 10, mask_var="odd", key_added="on_odd")
        pp.neighbors(each)
    assert_same(adata, backed)
    with pytest.raises(ValueError, match=r"copy=True would need a second file for a backed AnnData; .*to_memory"):
        tl.pca(backed, copy=True)
    with pytest.raises(ValueError, match="view of a backed AnnData"):
        tl.pca(backed[:50])


def test_the_mask_is_that_of_dropouts_on_the_values_that_are_documented():
    adata = simulated()
    pp.dropouts(adata, **FEW)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        alone = Dropouts(random_state=0, **FEW).fit(logged(adata)).mask_
    assert adata.varm["dropouts"].dtype == np.float32
    assert adata.obs["dropouts"].dtype.kind == "i"
    np.testing.assert_allclose(adata.varm["dropouts"].T[adata.obs["dropouts"]], alone.weights[alone.groups], atol=1e-6)
    assert adata.uns["dropouts"]["params"]["values"] == "counts"


def test_pca_is_that_of_the_estimator_on_the_chosen_genes():
    adata = simulated()
    pp.dropouts(adata, **FEW)
    adata.layers["log"] = logged(adata)
    tl.pca(adata, 5, layer="log", mask_var="odd", observation="homogeneous")
    odd = adata.var["odd"].to_numpy()
    model = Dropouts(random_state=0, **FEW).fit(logged(adata))
    mask = type(model.mask_)(model.mask_.groups, model.mask_.weights[:, odd])
    alone = PCA(5, observation="homogeneous", random_state=0)
    scores = alone.fit_transform(logged(adata)[:, odd], mask=mask)
    np.testing.assert_allclose(adata.obsm["X_pca"], scores, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(adata.varm["PCs"][odd], alone.components_.T, atol=1e-8)
    assert not adata.varm["PCs"][~odd].any()
    np.testing.assert_allclose(adata.uns["pca"]["variance"], alone.explained_variance_)
    np.testing.assert_allclose(adata.uns["pca"]["variance_ratio"], alone.explained_variance_ratio_)


def test_without_a_mask_pca_is_scanpys():
    adata = simulated(np.asarray)
    adata.X = logged(adata)
    ours = tl.pca(adata, 10, copy=True)
    sc.pp.pca(adata, 10, svd_solver="full")
    for part, key in (("obsm", "X_pca"), ("varm", "PCs")):
        a, b = getattr(ours, part)[key], getattr(adata, part)[key]
        np.testing.assert_allclose(a * np.sign((a * b).sum(axis=0)), b, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(ours.uns["pca"]["variance_ratio"], adata.uns["pca"]["variance_ratio"], rtol=1e-4)


def test_the_mask_and_the_highly_variable_genes_are_used_unless_told_otherwise():
    adata = simulated()
    pp.dropouts(adata, **FEW)
    masked = tl.pca(adata, 5, copy=True)
    assert masked.uns["pca"]["params"]["dropouts"] == "dropouts"
    plain = tl.pca(adata, 5, dropouts=None, copy=True)
    assert "dropouts" not in plain.uns["pca"]["params"]
    assert not np.allclose(masked.obsm["X_pca"], plain.obsm["X_pca"], rtol=0.01)
    adata.var["highly_variable"] = adata.var["odd"]
    chosen = tl.pca(adata, 5, copy=True)
    assert chosen.uns["pca"]["params"]["use_highly_variable"]
    assert not chosen.varm["PCs"][~adata.var["odd"].to_numpy()].any()
    np.testing.assert_array_equal(tl.pca(adata, 5, mask_var=None, copy=True).obsm["X_pca"], masked.obsm["X_pca"])
    by_array = tl.pca(adata, 5, mask_var=adata.var["odd"].to_numpy(), copy=True)
    np.testing.assert_array_equal(by_array.obsm["X_pca"], chosen.obsm["X_pca"])


def test_the_mask_goes_with_cells_and_genes_that_are_kept():
    adata = simulated()
    pp.dropouts(adata, **FEW)
    part = adata[np.arange(0, 100, 2), adata.var["odd"]].copy()
    tl.pca(part, 5)
    weights = adata.varm["dropouts"].T[adata.obs["dropouts"]]
    dense = np.where(adata.X.toarray() == 0, weights, 1.0)[::2, adata.var["odd"]]
    alone = PCA(5, random_state=0, assist=0).fit_transform(part.X.toarray(), mask=dense)
    np.testing.assert_allclose(part.obsm["X_pca"], alone, rtol=1e-4, atol=1e-3)


def test_labels_of_the_users_own():
    adata = simulated()
    adata.obs["parity"] = np.arange(adata.n_obs) % 2
    pp.dropouts(adata, labels=["type", "parity"], rule="soft")
    X = adata.X.toarray()
    for i, s in ((0, 3), (57, 11), (99, 100)):
        same = [adata.obs[name] == adata.obs[name].iloc[i] for name in ("type", "parity")]
        share = np.mean([(X[group.to_numpy(), s] == 0).mean() for group in same])
        assert adata.varm["dropouts"][s, adata.obs["dropouts"].iloc[i]] == pytest.approx(share, rel=1e-6)
    assert list(adata.uns["dropouts"]["params"]["labels"]) == ["type", "parity"]
    assert "values" not in adata.uns["dropouts"]["params"]
    with pytest.raises(ValueError, match=r"labels names 'sort', which is not a column of adata.obs"):
        pp.dropouts(adata, labels="sort")
    with pytest.raises(ValueError, match="leave one of them out"):
        pp.dropouts(adata, labels="type", mask_var="odd")
    adata.obs["type"] = adata.obs["type"].where(np.arange(adata.n_obs) != 7)
    with pytest.raises(ValueError, match=r"adata.obs\['type'\] has no label for cell7"):
        pp.dropouts(adata, labels="type")


def test_neighbours_are_those_of_the_scores_as_scanpy_keeps_them():
    adata = simulated()
    pp.dropouts(adata, **FEW)
    assert pp.neighbors(adata, 10) is None
    scores = PCA("all", random_state=0).fit_transform(
        adata.X.toarray().astype(np.float64), mask=Dropouts(random_state=0, **FEW).fit(logged(adata))
    )
    distances, indices = NearestNeighbors(n_neighbors=9).fit(scores).kneighbors()
    stored = adata.obsp["distances"]
    found = np.sort(stored.indices.reshape(-1, 9), axis=1)
    assert np.mean(found == np.sort(indices, axis=1)) > 0.99
    np.testing.assert_allclose(np.sort(stored.data.reshape(-1, 9), axis=1), distances, rtol=1e-3)
    connectivities = adata.obsp["connectivities"]
    assert abs(connectivities - connectivities.T).max() < 1e-6
    # From our distances scanpy makes the same graph.
    knn_indices = np.hstack([np.arange(100)[:, None], stored.indices.reshape(-1, 9)])
    knn_dists = np.hstack([np.zeros((100, 1)), stored.data.reshape(-1, 9)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = sc.neighbors._connectivity.umap(knn_indices, knn_dists, n_obs=100, n_neighbors=10)
    assert abs(connectivities - theirs).max() < 1e-6
    adata.obsm.clear()
    pp.neighbors(adata, 10, key_added="ours")
    assert adata.uns["ours"]["connectivities_key"] == "ours_connectivities"
    assert adata.uns["ours"]["params"]["use_rep"] == "X_ours"
    sc.tl.umap(adata, neighbors_key="ours", maxiter=10)
    # scanpy found what it wanted, and did not make components of its own.
    assert set(adata.obsm) == {"X_ours", "X_umap"}


def test_equal_cells_stay_neighbours():
    adata = simulated(np.asarray)
    adata.X[:4] = adata.X[0]
    pp.neighbors(adata, 8)
    stored = adata.obsp["distances"]
    assert stored.nnz == 7 * adata.n_obs
    assert (stored.data > 0).all()
    for i in range(4):
        nearest = stored.indices[stored.indptr[i] : stored.indptr[i + 1]][:3]
        assert set(nearest) == {0, 1, 2, 3} - {i}


@pytest.mark.slow
def test_many_cells_have_approximate_neighbours(monkeypatch):
    adata = simulated(sizes=(100, 100, 100))
    exact = pp.neighbors(adata, 10, copy=True, n_components=20)
    monkeypatch.setattr(pp, "ALL_COMPONENTS_SAMPLES", 100)
    pp.neighbors(adata, 10, n_components=20)
    one, other = (a.obsp["distances"] != 0 for a in (exact, adata))
    assert adata.obsp["distances"].nnz == 9 * adata.n_obs
    assert not adata.obsp["distances"].diagonal().any()
    assert one.multiply(other).sum() > 0.98 * one.sum()


def test_neighbours_by_corrected_distances():
    adata = simulated()
    pp.dropouts(adata, **FEW)
    adata.X = sparse.csr_matrix(logged(adata))
    pp.neighbors(adata, use="corrected")
    sc.tl.leiden(adata, flavor="igraph", n_iterations=2, directed=False, random_state=0)
    assert adjusted_rand_score(adata.obs["type"], adata.obs["leiden"]) > 0.9
    with pytest.raises(ValueError, match="use must be 'scores' or 'corrected'; it is 'both'"):
        pp.neighbors(adata, use="both")


@pytest.mark.parametrize(
    ("basis", "settings"),
    [
        ("tsne", {"n_iter": 20, "early_exaggeration_iter": 20}),
        ("umap", {"n_epochs": 20, "n_neighbors": 10}),
        ("gplvm", {"tol": 1e-3}),
    ],
)
def test_embeddings(basis, settings):
    adata = simulated()
    pp.dropouts(adata, **FEW)
    function = getattr(tl, basis)
    assert function(adata, **settings) is None
    model = getattr(nf, basis.upper())(random_state=0, **settings)
    alone = model.fit_transform(adata.X, mask=Dropouts(random_state=0, **FEW).fit(logged(adata)))
    np.testing.assert_allclose(adata.obsm[f"X_{basis}"], alone, rtol=1e-3, atol=1e-3)
    assert adata.uns[basis]["params"]["function"] == f"nanfold.tl.{basis}"
    function(adata, key_added="mine", dropouts=None, mask_var="odd", **settings)
    assert adata.obsm["mine"].shape == (100, 2)
    assert adata.uns["mine"]["params"]["mask_var"] == "odd"
    with pytest.raises(TypeError, match="perplexty"):
        function(adata, perplexty=3)


def test_copies_leave_the_original_alone():
    adata = simulated()
    for function, settings in ((pp.dropouts, FEW), (tl.pca, {}), (pp.neighbors, {})):
        before = (set(adata.obs), set(adata.obsm), set(adata.varm), set(adata.obsp), set(adata.uns))
        copied = function(adata, copy=True, **settings)
        assert isinstance(copied, ad.AnnData)
        assert (set(adata.obs), set(adata.obsm), set(adata.varm), set(adata.obsp), set(adata.uns)) == before
        assert set(copied.uns) - set(adata.uns)
        assert function(adata, **settings) is None


def test_settings_of_every_kind_can_be_written(tmp_path):
    adata = simulated()
    rng = np.random.RandomState(3)
    shares = (np.full(100, 0.7), np.ones(120))
    tl.pca(adata, 3, observation=shares, random_state=rng, assist=0, mask_var=np.ones(120, dtype=bool))
    pp.dropouts(adata, n_clusters=3, methods="kmeans", n_components=None)
    adata.write_h5ad(tmp_path / "it.h5ad")
    params = ad.read_h5ad(tmp_path / "it.h5ad").uns["pca"]["params"]
    assert params["random_state"] == "RandomState"
    assert params["mask_var"].all()


@pytest.mark.filterwarnings("ignore:Trying to modify attribute")
def test_a_view_becomes_an_actual_part():
    adata = simulated()
    part = adata[:50]
    pp.dropouts(part, **FEW)
    tl.pca(part, 3)
    pp.neighbors(part)
    assert not part.is_view
    assert part.obsm["X_pca"].shape == (50, 3)
    assert "dropouts" not in adata.obs
    assert not adata.uns


def test_holes_of_a_dense_matrix_need_no_mask():
    adata = simulated(np.asarray)
    X = logged(adata)
    X[np.random.default_rng(1).random(X.shape) < 0.2] = np.nan
    adata.X = X
    tl.pca(adata, 4)
    np.testing.assert_allclose(adata.obsm["X_pca"], PCA(4, random_state=0).fit_transform(X), rtol=1e-6)
    assert tl.pca(adata, copy=True).obsm["X_pca"].shape[1] <= 50
    adata.X[:, 17] = np.nan
    with pytest.raises(ValueError, match="Gene gene17 has no observed entry; drop it first"):
        tl.pca(adata, 4)
    tl.pca(adata, 4, mask_var=np.arange(120) != 17)
    adata.X[[3, 5]] = np.nan
    with pytest.raises(ValueError, match="Cells cell3, cell5 have no observed entry; drop them first"):
        tl.pca(adata, 4)


# ---------------------------------------------------------------------------------------------- what the values are


def test_logged_values_are_noticed_and_taken_as_they_are():
    adata = simulated()
    pp.dropouts(adata, **FEW)
    adata.X = sparse.csr_matrix(logged(adata))
    with pytest.warns(UserWarning, match=r"adata.X looks logged already, for it has fractions and its largest value"):
        pp.dropouts(adata, key_added="guessed", **FEW)
    pp.dropouts(adata, key_added="told", values="log", **FEW)
    pp.dropouts(adata, key_added="of counts", layer="counts", **FEW)
    by_cell = {key: adata.varm[key].T[adata.obs[key]] for key in ("dropouts", "guessed", "told", "of counts")}
    for key in ("guessed", "told", "of counts"):
        np.testing.assert_allclose(by_cell[key], by_cell["dropouts"], atol=1e-6)
    assert adata.uns["guessed"]["params"]["values"] == "log"
    with pytest.warns(UserWarning, match=r"looks logged already.*logarithms twice"):
        pp.dropouts(adata, values="counts", **FEW)
    with pytest.raises(ValueError, match="values must be one of 'auto', 'counts', 'log'; it is 'tpm'"):
        pp.dropouts(adata, values="tpm")


def test_fractions_beyond_logarithms_are_taken_for_counts():
    adata = simulated()
    adata.X = adata.X * 37.3
    pp.dropouts(adata, **FEW)
    assert adata.uns["dropouts"]["params"]["values"] == "counts"


# ------------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize("value", [-2.0, np.nan, np.inf])
@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_matrix])
def test_what_is_no_count_is_refused_by_name(storage, value):
    X = simulated(np.asarray).X
    X[31, 45] = value
    adata = simulated(storage)
    adata.X = storage(X)
    with pytest.raises(ValueError, match=rf"Cell 'cell31' has {value:.6g} for gene 'gene45'; counts"):
        pp.dropouts(adata)


def test_empty_cells_are_refused_and_empty_genes_named():
    adata = simulated(np.asarray)
    adata.X[:, [4, 8]] = 0
    with pytest.warns(UserWarning, match=r"No cell has a count for 2 of 120 genes \(gene4, gene8\)") as caught:
        pp.dropouts(adata, **FEW)
    assert len(caught) == 1
    assert (adata.varm["dropouts"][[4, 8]] == 1).all()
    adata.X[[2, 3]] = 0
    with pytest.raises(ValueError, match="Only zeros in cells cell2, cell3; drop such cells first"):
        pp.dropouts(adata)
    adata = simulated(np.asarray)
    adata.X[6, adata.var["odd"]] = 0
    with pytest.raises(ValueError, match="Only zeros in cell cell6 among the genes of mask_var; choose more genes"):
        pp.dropouts(adata, mask_var="odd", **FEW)


def test_fewer_cells_than_clusters_are_refused():
    with pytest.raises(ValueError, match="n_clusters=12 needs at least as many cells, and X has 9"):
        pp.dropouts(simulated()[:9, :40].copy()[:, np.arange(9)].copy())


def test_unknown_layers_genes_and_keys_are_refused():
    adata = simulated()
    for function in (pp.dropouts, pp.neighbors, tl.pca):
        with pytest.raises(ValueError, match=r"There is no layer 'raw'; adata.layers has 'counts'"):
            function(adata, layer="raw")
        with pytest.raises(ValueError, match=r"mask_var='hvg' is not in adata.var, which has 'odd'"):
            function(adata, mask_var="hvg")
        with pytest.raises(ValueError, match=r"The array mask_var must hold True or False for each of the 120 genes"):
            function(adata, mask_var=[True, False])
    adata.var["name"] = "x"
    with pytest.raises(ValueError, match=r"adata.var\['name'\] must hold True or False"):
        tl.pca(adata, mask_var="name")
    adata.var["none"] = False
    with pytest.raises(ValueError, match=r"adata.var\['none'\] is False for all genes"):
        tl.pca(adata, mask_var="none")
    adata.var["some"] = pd.array([True, None] * 60, dtype="boolean")
    with pytest.raises(ValueError, match=r"adata.var\['some'\] is missing for 60 genes"):
        tl.pca(adata, mask_var="some")
    with pytest.raises(ValueError, match=r"no mask of dropouts under 'other'; call nanfold.pp.dropouts"):
        tl.pca(adata, dropouts="other")
    with pytest.raises(ValueError, match=r"n_neighbors=101 must be a whole number between 2 and .* 100"):
        pp.neighbors(adata, 101)
    with pytest.raises(TypeError, match="adata must be an AnnData; it is of type ndarray"):
        tl.pca(np.ones((3, 3)))
    del adata.X
    with pytest.raises(ValueError, match=r"adata.X is empty; name one of its layers, which are 'counts'"):
        tl.pca(adata)


@pytest.mark.parametrize(
    ("call", "name", "estimator"),
    [
        (pp.dropouts, "pp.dropouts", "Dropouts"),
        (pp.neighbors, "pp.neighbors", "PCA"),
        (tl.pca, "tl.pca", "PCA"),
        (tl.tsne, "tl.tsne", "TSNE"),
        (tl.umap, "tl.umap", "UMAP"),
        (tl.gplvm, "tl.gplvm", "GPLVM"),
    ],
)
def test_settings_that_there_are_not(call, name, estimator):
    message = rf"nanfold.{name} has no parameter 'n_pcs'; .* those of nanfold.{estimator}: n_\w+, .*random_state"
    with pytest.raises(TypeError, match=message):
        call(simulated(), n_pcs=5)


def test_settings_that_cannot_be():
    adata = simulated()
    with pytest.raises(TypeError, match=r"tl.pca calls the number of components n_comps, as scanpy does"):
        tl.pca(adata, n_components=5)
    for n_comps in (0, 101, "most"):
        with pytest.raises(ValueError, match=r"^n_comps(=| must be)"):
            tl.pca(adata, n_comps)
    with pytest.raises(ValueError, match="leave whiten out"):
        pp.neighbors(adata, whiten=True)
    for labels in ([], np.arange(100) % 3):
        with pytest.raises(ValueError, match=r"labels must name one column of adata.obs, or several; it is"):
            pp.dropouts(adata, labels=labels)


def test_keys_of_others_are_not_overwritten_and_our_own_are():
    adata = simulated()
    with pytest.raises(ValueError, match=r"overwrite adata.obs\['type'\], which nanfold.pp.dropouts did not write"):
        pp.dropouts(adata, key_added="type")
    adata.obsm["X_pca"] = np.zeros((100, 2))
    with pytest.raises(ValueError, match=r"overwrite adata.obsm\['X_pca'\], which nanfold.tl.pca did not write"):
        tl.pca(adata, key_added="X_pca")
    adata.uns["graph"] = {}
    with pytest.raises(ValueError, match=r"overwrite adata.uns\['graph'\]"):
        pp.neighbors(adata, key_added="graph")
    pp.dropouts(adata, **FEW)
    with pytest.raises(ValueError, match=r"overwrite adata.varm\['dropouts'\], which nanfold.tl.pca"):
        tl.pca(adata, key_added="dropouts")
    with pytest.raises(ValueError, match=r"overwrite adata.uns\['dropouts'\], which nanfold.tl.umap"):
        tl.umap(adata, key_added="dropouts")
    # As in scanpy, what the same function wrote is written anew, and so are the usual places.
    pp.dropouts(adata, **FEW)
    tl.pca(adata, 3)
    for _ in range(2):
        tl.pca(adata, 4, key_added="again")
    assert adata.obsm["X_pca"].shape[1] == 3
    assert adata.varm["again"].shape == (120, 4)
    adata.obsp["mine_connectivities"] = sparse.eye(100, format="csr")
    with pytest.raises(ValueError, match=r"overwrite adata.obsp\['mine_connectivities'\]"):
        pp.neighbors(adata, key_added="mine")
    for key in ("", 3):
        with pytest.raises(ValueError, match=f"key_added must be a string that is not empty; it is {key!r}"):
            pp.dropouts(adata, key_added=key, **FEW)
    adata.obs["clusters"] = 1.5
    with pytest.raises(ValueError, match=r"overwrite adata.obs\['clusters'\]"):
        pp.dropouts(adata, key_added="clusters")


def test_a_mask_that_lost_a_part_is_refused():
    adata = simulated()
    pp.dropouts(adata, **FEW)
    joined = ad.concat([adata, adata], index_unique="-")
    with pytest.raises(ValueError, match=r"under 'dropouts' in adata.obs is not a whole mask .*pass dropouts=None"):
        tl.pca(joined)
    tl.pca(joined, 3, dropouts=None)
    adata.obs["dropouts"] += 1000
    with pytest.raises(ValueError, match=r"adata.obs\['dropouts'\] names group \d+, but adata.varm\['dropouts'\] has"):
        tl.pca(adata)


def test_a_mask_of_zeros_that_are_gone_is_refused():
    adata = simulated(np.asarray)
    pp.dropouts(adata, **FEW)
    adata.X = adata.X - adata.X.mean(axis=0)
    with pytest.raises(ValueError, match=r"Cell 'cell0' has -\S+ for gene 'gene\d+': after centring or scaling"):
        tl.pca(adata)
    tl.pca(adata, layer="counts")


def test_without_anndata_one_sentence_names_the_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "anndata", None)
    with pytest.raises(ImportError, match=r"pip install 'nanfold\[anndata\]'"):
        tl.pca(None)


# --------------------------------------------------------------------------------------------------------- pictures


def test_embedding_draws_categories_numbers_and_genes():
    adata = simulated()
    tl.pca(adata, 4)
    adata.obs["type"] = adata.obs["type"].where(np.arange(100) != 7)
    adata.obs["depth"] = adata.X.sum(axis=1)
    ax = pl.embedding(adata, "pca", "type")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["missing", "type 0", "type 1", "type 2"]
    assert sum(len(drawn.get_offsets()) for drawn in ax.collections) == 100
    several = pl.embedding(adata, "pca", np.array(["depth", "gene3"]), components=(3, 2), layer="counts")
    assert [place.get_title(loc="left") for place in several] == ["depth", "gene3"]
    assert several[0].get_xlabel() == "PC3"
    drawn = several[1].collections[0]
    order = np.argsort(adata.X.toarray()[:, 3], kind="stable")
    np.testing.assert_allclose(drawn.get_array(), adata.X.toarray()[order, 3])
    np.testing.assert_allclose(drawn.get_offsets(), adata.obsm["X_pca"][order][:, [2, 1]], rtol=1e-6)
    _, mine = plt.subplots()
    assert pl.embedding(adata, "X_pca", ax=mine) is mine
    for wrong, message in (
        ({"basis": "umap"}, r"no embedding 'umap' in adata.obsm, which has 'pca'"),
        ({"basis": "pca", "color": "kind"}, "color='kind' is neither a column of adata.obs nor a gene"),
        ({"basis": "pca", "components": (1, 5)}, "must be two of the dimensions 1 to 4"),
        ({"basis": "pca", "color": "gene3", "layer": "raw"}, "no layer 'raw'"),
        ({"basis": "pca", "color": ["type", "depth"], "ax": mine}, "call once for each"),
    ):
        with pytest.raises(ValueError, match=message):
            pl.embedding(adata, **wrong)
    adata.obs["own"] = adata.obs_names
    with pytest.raises(ValueError, match="'own' has 100 categories"):
        pl.embedding(adata, "pca", "own")


def test_embedding_shows_every_cell_and_every_name():
    adata = simulated()
    tl.pca(adata, 2)
    adata.obs["place"] = ["_left", "right"] * 50
    ax = pl.embedding(adata, "pca", "place")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["_left", "right"]
    adata.obs["ratio"] = np.where(np.arange(100) < 3, np.inf, np.arange(100.0))
    grey, drawn = pl.embedding(adata, "pca", "ratio").collections[:2]
    assert (len(grey.get_offsets()), len(drawn.get_offsets())) == (3, 97)
    assert np.isfinite(drawn.get_array()).all()
    adata.obs["whole"] = pd.array([None, *range(99)], dtype="Int64")
    grey, drawn = pl.embedding(adata, "pca", "whole").collections[:2]
    assert (len(grey.get_offsets()), len(drawn.get_offsets())) == (1, 99)


def test_what_cannot_be_drawn():
    adata = simulated()
    tl.pca(adata, 2)
    for components in (5, (1.5, 2), (1,)):
        with pytest.raises(ValueError, match="must be two of the dimensions 1 to 2"):
            pl.embedding(adata, "pca", components=components)
    with pytest.raises(TypeError, match=r"color must be a column of adata.obs, a gene, or a sequence of such names"):
        pl.embedding(adata, "pca", 3)
    adata.var_names = ["gene0", *adata.var_names[:-1]]
    with pytest.raises(ValueError, match=r"'gene0' is the name of several genes; call adata.var_names_make_unique"):
        pl.embedding(adata, "pca", "gene0")
    _, one = plt.subplots()
    with pytest.raises(ValueError, match="axes must be two places to draw; there are 1"):
        pl.missingness(adata, axes=one)


def test_many_categories_differ_in_colour_or_shape():
    adata = simulated()
    tl.pca(adata, 2)
    adata.obs["batch"] = [f"batch {i % 20}" for i in range(100)]
    ax = pl.embedding(adata, "pca", "batch")
    looks = {(tuple(c.get_facecolor()[0]), c.get_paths()[0].vertices.tobytes()) for c in ax.collections}
    assert len(looks) == 20


def test_missingness_draws_the_shares():
    adata = simulated()
    pp.dropouts(adata, **FEW)
    cells, genes = pl.missingness(adata)
    X = adata.X.toarray()
    weights = np.where(X == 0, adata.varm["dropouts"].T[adata.obs["dropouts"]], 1.0)
    observed, zero = genes.collections[1].get_offsets().data, genes.collections[0].get_offsets().data
    np.testing.assert_allclose(observed[:, 1], weights.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(zero[:, 1], (X != 0).mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(observed[:, 0], (weights * X).sum(axis=0) / weights.sum(axis=0), rtol=1e-5)
    assert sum(bar.get_height() for bar in cells.patches) == 2 * adata.n_obs
    assert len(pl.missingness(adata, dropouts=None)[1].collections) == 1
    with pytest.raises(ValueError, match="axes must be two places to draw; there are 1"):
        pl.missingness(adata, axes=[cells])
