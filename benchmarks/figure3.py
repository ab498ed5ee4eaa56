"""The paper's simulation: how well clusters are found again at more and more features, over several draws.

Prints the mean adjusted Rand index (k-means, 30 starts, on two components) of PCA on the complete data, of PCA on
data with 40 % of holes filled with zeros or means, of pairwise PCA, and of nanfold's, plain and assisted.

    python benchmarks/figure3.py [--draws 10]
"""

import argparse
import time

import numpy as np
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA as CompletePCA  # noqa: N811
from sklearn.metrics import adjusted_rand_score
from threadpoolctl import threadpool_limits

import nanfold as nf
from nanfold.datasets import hide, make_clusters

SIZES = (500, 1000, 2000, 3000)
# The holes behind the paper's figures: b and q as hide() draws them by default, 40 % in all.
METHODS = {
    "complete": lambda X, holes, seed: complete(X, seed),
    "zeros": lambda X, holes, seed: complete(np.nan_to_num(holes), seed),
    "means": lambda X, holes, seed: complete(np.where(np.isnan(holes), np.nanmean(holes, axis=0), holes), seed),
    "pairwise": lambda X, holes, seed: ours(holes, seed, observation="pairwise", assist=0),
    "nanfold, assist=0": lambda X, holes, seed: ours(holes, seed, assist=0),
    "nanfold, bounded": lambda X, holes, seed: ours(holes, seed, assist=0, observation="rank-one-bounded"),
    "nanfold": lambda X, holes, seed: ours(holes, seed),
}


def complete(X: np.ndarray, seed: int) -> np.ndarray:
    return CompletePCA(2, svd_solver="arpack", random_state=seed).fit_transform(X)


def ours(holes: np.ndarray, seed: int, **options: object) -> np.ndarray:
    return nf.PCA(2, random_state=seed, **options).fit_transform(holes)


def found_again(scores: np.ndarray, labels: np.ndarray, seed: int) -> float:
    with threadpool_limits(1):
        found = KMeans(3, n_init=30, random_state=seed).fit_predict(scores)
    return adjusted_rand_score(labels, found)


def study(draws: range, sizes: tuple[int, ...] = SIZES, methods: tuple[str, ...] = tuple(METHODS)) -> np.ndarray:
    """Adjusted Rand indices, (methods, sizes, draws)."""
    out = np.empty((len(methods), len(sizes), len(draws)))
    for r, seed in enumerate(draws):
        X, labels = make_clusters(random_state=seed)
        holes = hide(X, random_state=seed)
        for m, method in enumerate(methods):
            for s, size in enumerate(sizes):
                scores = METHODS[method](X[:, :size], holes[:, :size], seed)
                out[m, s, r] = found_again(scores, labels, seed)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=10)
    draws = range(parser.parse_args().draws)
    start = time.perf_counter()
    ari = study(draws)
    print("features".ljust(20) + "".join(f"{size:>16}" for size in SIZES))
    for method, row in zip(METHODS, ari, strict=True):
        print(method.ljust(20) + "".join(f"{v.mean():8.3f} ±{v.std() / len(v) ** 0.5:5.3f} " for v in row))
    by = dict(zip(METHODS, ari.mean(axis=2), strict=True))
    print()
    print(f"at 3000 features: nanfold {by['nanfold'][-1]:.3f} (wanted: at least 0.99), ", end="")
    print(f"zeros {by['zeros'][-1]:.3f} (wanted: at most 0.65)")
    behind = np.maximum(by["means"], by["pairwise"])[:-1] - by["nanfold"][:-1]
    print("behind the better of means and pairwise, at 500, 1000, 2000:", " ".join(f"{v:.3f}" for v in behind), end=" ")
    print("(wanted: at most 0.02)")
    print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
