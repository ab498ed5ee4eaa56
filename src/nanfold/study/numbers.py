"""Every number of a study as plain data: settings, versions, eigenvalues, shares, times."""

import importlib.metadata
import json
import platform
from typing import Any

import numpy as np

from nanfold import __version__
from nanfold.study.fitting import Study
from nanfold.study.settings import TITLES
from nanfold.study.trust import Trust

LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba", "umap-learn", "openTSNE")


def versions() -> dict[str, str]:
    """Of nanfold and what it rests on."""
    out = {"nanfold": __version__, "python": platform.python_version()}
    return out | {name: importlib.metadata.version(name) for name in LIBRARIES}


def numbers_of(study: Study, trust: Trust, overlap: np.ndarray, neighbours: int, command: str) -> dict[str, Any]:
    """Everything, in types that json knows."""
    table, settings, together = study.table, study.settings, study.together
    observed = study.observed
    out: dict[str, Any] = {
        "command": command,
        "file": str(table.source),
        "read": table.summary(),
        "samples": table.shape[0],
        "features": table.shape[1],
        "share_observed": observed.share_observed,
        "labels": list(table.labels),
        "settings": {
            "methods": list(settings.methods),
            "components": study.scree.asked,
            "components_rule": study.scree.rule,
            "missing": "dropouts" if table.dropouts else "unstored" if table.unstored else "nan",
            "observation": settings.observation,
            "assist": settings.assist,
            "seed": settings.seed,
        },
        "notes": study.notes,
        "assist": {"rank": together.gram.rank, "neighbors": together.gram.neighbors},
        "eigenvalues": study.scree.eigenvalues,
        "eigenvalues_random_signs": study.scree.null,
        "methods": {name: _of_method(study, name) for name in settings.methods},
        "agreement": {
            "neighbours": neighbours,
            "methods": [TITLES[name] for name in settings.methods],
            "overlap": overlap,
        },
        "samples_share_observed": trust.share,
        "samples_gram_error": trust.errors,
        "samples_place_error": trust.uncertainty,
        "samples_distrusted": trust.distrusted + 1,
        "seconds": study.seconds,
        "versions": versions(),
    }
    return out


def as_json(numbers: dict[str, Any]) -> str:
    """The text of it."""
    return json.dumps(numbers, indent=1, default=_plain, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"json has no {type(value).__name__}.")


def _of_method(study: Study, name: str) -> dict[str, Any]:
    model = study.models[name]
    out: dict[str, Any] = {"dimensions": study.coordinates[name].shape[1]}
    if name == "pca":
        out["explained_variance"] = model.explained_variance_
        out["explained_variance_ratio"] = model.explained_variance_ratio_
        out["noise_variance"] = float(model.noise_variance_)
    else:
        out["components_seen"] = int(model.pca_.n_components_)
    if name == "umap":
        out["n_neighbors"] = model.n_neighbors
    if name == "tsne":
        out["perplexity"], out["kl_divergence"] = model.perplexity_, model.kl_divergence_
    if name == "gplvm":
        out["inducing"], out["iterations"], out["converged"] = model.inducing, model.n_iter_, bool(model.converged_)
        out["log_likelihood"], out["noise_variance"] = float(model.log_likelihood_), float(model.noise_variance_)
    return out
