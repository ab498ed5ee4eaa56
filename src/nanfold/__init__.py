"""Dimension reduction for data with holes, without filling them in.

The public names are imported when they are first used, so that ``import nanfold`` costs next to nothing.
"""

import importlib
from typing import Any

__version__ = "0.1.0"

_HOME = {
    "AssistedGram": "nanfold.assist",
    "Dropouts": "nanfold.dropout",
    "GPLVM": "nanfold.gplvm",
    "PCA": "nanfold.pca",
    "SmoothedGram": "nanfold.smoothing",
    "StructuredMask": "nanfold.observed",
    "TSNE": "nanfold.tsne",
    "UMAP": "nanfold.umap",
    "UnbiasedGram": "nanfold.gram",
    "corrected_neighbors": "nanfold.neighbors",
    "features_needed": "nanfold.gram",
    "nearest_neighbors": "nanfold.neighbors",
    "unbiased_gram": "nanfold.correction",
    "variance_bounds": "nanfold.gram",
}
_MODULES = ("baselines", "datasets", "observation", "pl", "pp", "tl")

__all__ = ["__version__", *_HOME, *_MODULES]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(_HOME[name]), name)
    elif name in _MODULES:
        value = importlib.import_module(f"nanfold.{name}")
    else:
        raise AttributeError(f"module 'nanfold' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
