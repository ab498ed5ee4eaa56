"""The coordinates of the samples as a table, and back in the h5ad file that they were computed from."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np

from nanfold.io.annotated import load_annotated
from nanfold.io.writing import write_columns
from nanfold.study.fitting import Study

PREFIX = {"pca": "PC", "umap": "UMAP", "tsne": "tSNE", "gplvm": "GPLVM"}


def columns_of(study: Study) -> dict[str, np.ndarray]:
    """The names of the samples, their labels, the share observed, and their coordinates by every method."""
    n, d = study.table.shape
    names = study.table.sample_names or [str(i + 1) for i in range(n)]
    out: dict[str, np.ndarray] = {"sample": np.array(names, dtype=str)}
    for method, points in study.coordinates.items():
        out.update({f"{PREFIX[method]}{a + 1}": points[:, a] for a in range(points.shape[1])})
    out["share_observed"] = np.clip(study.observed.row_counts / d, 0.0, 1.0)
    # Under another name where it is one of ours already.
    for name, values in study.table.labels.items():
        out[name if name not in out else f"label {name}"] = values
    return out


def write_coordinates(path: Path, study: Study) -> None:
    """One line a sample, as the ending of the path says."""
    write_columns(path, columns_of(study))


def write_annotated(path: Path, study: Study) -> None:
    """A copy of the h5ad file that was read, with the coordinates where scanpy looks for them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of formats to come, and of names that repeat
        adata: Any = load_annotated(study.table.source, "h5ad")
        for method, points in study.coordinates.items():
            adata.obsm[f"X_{method}"] = points
        if "pca" in study.models and study.models["pca"].components_.shape[1] == adata.n_vars:
            model = study.models["pca"]
            adata.varm["PCs"] = model.components_.T
            adata.uns["pca"] = {
                "variance": model.explained_variance_,
                "variance_ratio": model.explained_variance_ratio_,
            }
        adata.obs["nanfold_share_observed"] = np.clip(study.observed.row_counts / study.table.shape[1], 0.0, 1.0)
        adata.write_h5ad(path)
