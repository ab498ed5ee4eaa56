"""One measurement in a process of its own: ``python job.py JOB.json``; prints a line of json.

It is run by its path, so that a rival's environment needs nothing of nanfold. Before the clock starts everything is
imported and run once on a small piece, so that kernels are compiled; then the data are read; then the fit is timed.
"""

import contextlib
import json
import os
import sys
import warnings
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
from scipy import sparse


def read(folder: Path) -> tuple[sparse.csr_array, dict[str, np.ndarray]]:
    """A sparse array and what belongs to it."""
    arrays = {file.stem: np.load(file) for file in sorted(folder.glob("*.npy"))}
    parts = [arrays.pop(name) for name in ("data", "indices", "indptr")]
    return sparse.csr_array(tuple(parts), shape=tuple(int(length) for length in arrays.pop("shape"))), arrays


def nanfold(X: sparse.csr_array, k: int, options: dict) -> dict[str, Any]:
    """Principal components, or ratings if `missing` says so."""
    import nanfold as nf

    model = nf.PCA(k, random_state=0, **options).fit(X)
    found = {"components": model.components_, "mean": model.mean_, "products": model.n_iter_}
    if options.get("missing") == "unstored":
        found["scores"] = model.transform(X)
    return found


def arpack(X: sparse.csr_array, k: int, options: dict) -> dict[str, Any]:
    """scikit-learn's PCA."""
    from sklearn.decomposition import PCA

    model = PCA(k, svd_solver="arpack", random_state=0, **options).fit(X)
    return {"components": model.components_, "mean": model.mean_}


def randomized(X: sparse.csr_array, k: int, options: dict) -> dict[str, Any]:
    """scikit-learn's TruncatedSVD, which does not centre."""
    from sklearn.decomposition import TruncatedSVD

    model = TruncatedSVD(k, algorithm="randomized", random_state=0, **options).fit(X)
    return {"components": model.components_, "mean": np.zeros(X.shape[1])}


def scanpy(X: sparse.csr_array, k: int, options: dict) -> dict[str, Any]:
    """scanpy's PCA with its defaults."""
    import anndata
    import scanpy as sc

    adata = anndata.AnnData(sparse.csr_matrix(X))
    sc.pp.pca(adata, n_comps=k, **options)
    return {"components": adata.varm["PCs"].T, "mean": np.asarray(X.mean(axis=0)).ravel()}


def cmfrec(X: sparse.csr_array, k: int, options: dict) -> dict[str, Any]:
    """cmfrec's factorisation by alternating least squares."""
    from cmfrec import CMF

    model = CMF(k=k, verbose=False, nthreads=int(os.environ["OMP_NUM_THREADS"]), **options)
    model.fit(sparse.coo_matrix(X))
    return {"components": model.B_[:, -k:].T, "scores": model.A_[:, -k:], "mean": _bias(model, X.shape[1])} | (
        {"user_bias": model.user_bias_} if model.user_bias else {}
    )


def _bias(model: Any, d: int) -> np.ndarray:
    return model.glob_mean_ + (model.item_bias_ if model.item_bias else np.zeros(d))


METHODS = {f.__name__: f for f in (nanfold, arpack, randomized, scanpy, cmfrec)}


def residuals(X: sparse.csr_array, components: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """|C v - lambda v| / lambda of each component v, with C = Y'Y of the centred Y and lambda = v'C v."""
    V = np.linalg.qr(components.T.astype(np.float64))[0]
    scores = np.empty((X.shape[0], V.shape[1]))
    image = np.zeros(V.shape)
    for start in range(0, X.shape[0], 20000):
        part = X[start : start + 20000].astype(np.float64)
        scores = part @ V - mean @ V
        image += part.T @ scores - np.outer(mean, scores.sum(axis=0))
    values, turn = np.linalg.eigh(V.T @ image)
    return np.linalg.norm(image @ turn - (V @ turn) * values, axis=0) / values


def held_out_error(found: dict[str, Any], held: dict[str, np.ndarray]) -> float:
    """The root mean squared error of the ratings that were held out."""
    users, items = held["users"], held["items"]
    total = 0.0
    for start in range(0, len(users), 500_000):
        u, i = users[start : start + 500_000], items[start : start + 500_000]
        guess = found["mean"][i] + np.einsum("pa,ap->p", found["scores"][u], found["components"][:, i])
        if "user_bias" in found:
            guess = guess + found["user_bias"][u]
        total += float(((guess - held["values"][start : start + 500_000]) ** 2).sum())
    return float(np.sqrt(total / len(users)))


def memory(name: str) -> int:
    """What Linux tells of the memory of this process, in bytes: VmRSS now, VmHWM at the most; 0 where it does not."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:")), 0)


def forget_peak() -> None:
    """Let the most memory so far be what is held now: compiling kernels may have taken more than the fit will."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def main() -> None:
    """Measure what the job says."""
    warnings.simplefilter("ignore")
    job = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    method, k, options = METHODS[job["method"]], job["k"], job["options"]
    method(read(Path(job["warm_up"]))[0], min(k, 8), options)
    forget_peak()
    before = memory("VmRSS")
    X, held = read(Path(job["data"]))
    wall, cpu = perf_counter(), process_time()
    found = method(X, k, options)
    result: dict[str, Any] = {"seconds": perf_counter() - wall, "cpu_seconds": process_time() - cpu}
    result["peak_bytes"] = memory("VmHWM") - before
    result["data_bytes"] = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    result["products"] = found.get("products")
    if job.get("residuals"):
        sizes = residuals(X, found["components"], found["mean"])
        result["residual"], result["median_residual"] = float(sizes.max()), float(np.median(sizes))
    if held:
        result["error"] = held_out_error(found, held)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
