"""The paper's simulation at 3000 features with 40 % of holes: the clusters are found again, and not by zero-filling."""

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA as CompletePCA  # noqa: N811
from sklearn.metrics import adjusted_rand_score
from threadpoolctl import threadpool_limits

import nanfold as nf
from nanfold.datasets import hide, make_clusters


def found_again(scores: np.ndarray, labels: np.ndarray) -> float:
    with threadpool_limits(1):
        return adjusted_rand_score(labels, KMeans(3, n_init=30, random_state=0).fit_predict(scores))


def mean_ari(draws: range, n_features: int = 3000) -> dict[str, float]:
    ari: dict[str, list[float]] = {"zeros": [], "means": [], "pairwise": [], "nanfold": [], "paper": []}
    for seed in draws:
        X, labels = make_clusters(random_state=seed)
        X = hide(X, random_state=seed)[:, :n_features]
        means = np.where(np.isnan(X), np.nanmean(X, axis=0), X)
        pca = CompletePCA(2, svd_solver="arpack", random_state=0)
        ari["zeros"].append(found_again(pca.fit_transform(np.nan_to_num(X)), labels))
        ari["means"].append(found_again(pca.fit_transform(means), labels))
        for name, options in (
            ("nanfold", {}),
            ("paper", {"assist": 0, "observation": "rank-one-bounded"}),
            ("pairwise", {"assist": 0, "observation": "pairwise"}),
        ):
            ari[name].append(found_again(nf.PCA(2, random_state=0, **options).fit_transform(X), labels))
    return {name: float(np.mean(values)) for name, values in ari.items()}


@pytest.mark.parametrize("draws", [range(2), pytest.param(range(10), marks=pytest.mark.slow)], ids=len)
def test_all_features(draws):
    ari = mean_ari(draws)
    assert ari["nanfold"] >= 0.99
    assert ari["paper"] >= 0.99
    assert ari["zeros"] <= 0.65


@pytest.mark.parametrize(
    ("n_features", "draws"),
    [
        (500, range(10)),
        (1000, range(4)),
        (2000, range(2)),
        pytest.param(1000, range(10), marks=pytest.mark.slow),
        pytest.param(2000, range(10), marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_fewer_features(n_features, draws):
    """Filling with means is good at this task; nanfold stays with it, and with pairwise PCA."""
    ari = mean_ari(draws, n_features)
    for ours in ("nanfold", "paper"):
        assert ari[ours] >= max(ari["means"], ari["pairwise"]) - 0.02
        assert ari[ours] > ari["zeros"] + 0.2
