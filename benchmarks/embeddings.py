"""t-SNE and UMAP with holes beside the same methods on complete or mean-filled data.

SCoPE2 peptides (52 % NaN, three classes): mean ARI over seeds against mean fill. Olivetti and Fashion-MNIST with 40 %
hidden: ARI and trustworthiness (against the complete data) beside those of the same method on the complete data.
Run from the root of a checkout:

    python benchmarks/embeddings.py --data ../shared/data [--seeds 10] [--sets scope2,olivetti,fashion]
"""

import argparse
from pathlib import Path

import numpy as np
from neighbour_recall import load
from sklearn.cluster import KMeans
from sklearn.manifold import trustworthiness
from sklearn.metrics import adjusted_rand_score

import nanfold as nf

METHODS = ("TSNE", "UMAP")


def ari(embedding: np.ndarray, labels: np.ndarray) -> float:
    clusters = KMeans(len(np.unique(labels)), n_init=30, random_state=0).fit_predict(embedding)
    return adjusted_rand_score(labels, clusters)


def mean_filled(X: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(X), np.nanmean(X, axis=0), X)


def scope2(folder: Path, seeds: int) -> None:
    data = np.load(folder / "scope2_protocol_sc_peptides.npz")
    X, labels = data["X"].astype(np.float64), data["labels"]
    X = X[:, np.isfinite(X).any(axis=0)]
    print(f"SCoPE2 peptides: {X.shape[0]} x {X.shape[1]}, {np.isnan(X).mean():.0%} holes, mean ARI over {seeds} seeds")
    for method in METHODS:
        cells = []
        for table in (X, mean_filled(X)):
            values = [ari(getattr(nf, method)(random_state=seed).fit_transform(table), labels) for seed in range(seeds)]
            cells.append(f"{np.mean(values):.3f} +- {np.std(values):.3f}")
        print(f"  {method}: corrected {cells[0]} (wanted: at least .65), mean fill {cells[1]}", flush=True)


def labels_of(name: str, folder: Path) -> np.ndarray:
    if name == "olivetti":
        return np.load(folder / "olivetti_faces.npz")["labels"]
    labels = np.load(folder / "fashion_mnist_test.npz")["labels"]
    return labels[np.sort(np.concatenate([np.flatnonzero(labels == c)[:100] for c in np.unique(labels)]))]


def hidden(name: str, folder: Path, seeds: int) -> None:
    X, labels = load(name, folder), labels_of(name, folder)
    print(f"{name}: {X.shape[0]} x {X.shape[1]}, 40 % hidden, means over {seeds} seeds (ARI, trustworthiness)")
    for method in METHODS:
        rows: dict[str, list[tuple[float, float]]] = {}
        for seed in range(seeds):
            H = nf.datasets.hide(X, random_state=seed)
            H = H[:, np.isfinite(H).any(axis=0)]
            for what, table in (("complete", X), ("corrected", H), ("mean fill", mean_filled(H))):
                embedding = getattr(nf, method)(random_state=seed).fit_transform(table)
                rows.setdefault(what, []).append(
                    (ari(embedding, labels), trustworthiness(X, embedding, n_neighbors=15))
                )
        means = {what: np.mean(values, axis=0) for what, values in rows.items()}
        for what, (score, trust) in means.items():
            print(f"  {method} {what:10s} {score:.3f}  {trust:.3f}", flush=True)
        score, trust = means["corrected"] / means["complete"]
        print(f"  {method} corrected over complete: {score:.3f}  {trust:.3f} (wanted: at least .95)", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--sets", default="scope2,olivetti,fashion")
    arguments = parser.parse_args()
    for name in arguments.sets.split(","):
        if name == "scope2":
            scope2(arguments.data, arguments.seeds)
        else:
            hidden(name, arguments.data, arguments.seeds)


if __name__ == "__main__":
    main()
