"""The denoised diagonal on the paper's simulation at 500 features, where noise is largest against the signal.

Twice: as the paper has it, with noise that is the same for all samples; and with more on top whose size differs between
samples, for which the denoised diagonal is made. Run from the root of a checkout:

    python benchmarks/denoised_diagonal.py [--seeds 8]
"""

import argparse

import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

import nanfold as nf


def simulated(seed: int, uneven: bool) -> tuple[np.ndarray, np.ndarray]:
    X, labels = nf.datasets.make_clusters(random_state=seed)
    if uneven:
        rng = np.random.default_rng(seed)
        X += rng.uniform(0.0, 4.0, size=(len(X), 1)) * rng.standard_normal(X.shape)
    return nf.datasets.hide(X, random_state=seed)[:, :500], labels


def ari(H: np.ndarray, labels: np.ndarray, **settings: object) -> float:
    scores = nf.PCA(2, random_state=0, **settings).fit_transform(H)
    return adjusted_rand_score(labels, KMeans(3, n_init=30, random_state=0).fit_predict(scores))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=8)
    seeds = range(parser.parse_args().seeds)
    for uneven in (False, True):
        data = [simulated(seed, uneven) for seed in seeds]
        print(f"noise {'differs between samples' if uneven else 'the same for all samples'}, {len(seeds)} seeds")
        for assist in (0, "auto"):
            plain, better = (
                np.array([ari(H, labels, assist=assist, diagonal=diagonal) for H, labels in data])
                for diagonal in ("unbiased", "denoised")
            )
            gain = better - plain
            error = gain.std(ddof=1) / np.sqrt(len(gain))
            print(
                f"  assist={assist!r:6} mean ARI {plain.mean():.3f} -> {better.mean():.3f}, by {gain.mean():+.3f} "
                f"+- {error:.3f} (wanted: above 0), better in {np.sum(gain > 0)} of {len(gain)}",
                flush=True,
            )


if __name__ == "__main__":
    main()
