"""The denoised diagonal on the paper's simulation at 500 features, where noise is largest against the signal.

python benchmarks/denoised_diagonal.py [--seeds 8]
"""

import argparse

import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

import nanfold as nf


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=8)
    seeds = parser.parse_args().seeds
    for assist in (0, "auto"):
        for diagonal in ("unbiased", "denoised"):
            scores = []
            for seed in range(seeds):
                X, labels = nf.datasets.make_clusters(random_state=seed)
                H = nf.datasets.hide(X, random_state=seed)[:, :500]
                Z = nf.PCA(2, diagonal=diagonal, assist=assist, random_state=0).fit_transform(H)
                clusters = KMeans(3, n_init=30, random_state=0).fit_predict(Z)
                scores.append(adjusted_rand_score(labels, clusters))
            print(f"assist={assist!r:6} diagonal={diagonal!r:10} mean ARI {np.mean(scores):.3f}", flush=True)


if __name__ == "__main__":
    main()
