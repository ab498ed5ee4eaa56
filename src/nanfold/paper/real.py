"""The paper's real sets, and those that stand in for some of them."""

import functools
import hashlib
from dataclasses import dataclass, field

import numpy as np

from nanfold.datasets import Dataset, load, preprocess
from nanfold.datasets.dataset import FEWEST_CELLS
from nanfold.datasets.real import PAPER_SETS, SPECS, found_in
from nanfold.paper.protocol import chosen
from nanfold.paper.subject import Subject


@dataclass(frozen=True)
class RealSets:
    """Sets from a folder, or from the cache of downloads.

    Attributes
    ----------
    data_dir, cache_dir : as in ``nanfold.datasets.load``
    fingerprints : of the sets that can be had
    """

    data_dir: str | None = None
    cache_dir: str | None = None
    fingerprints: dict[str, str] = field(default_factory=dict)

    @property
    def names(self) -> list[tuple[str, bool]]:
        """The sets, each with whether it is expression."""
        return [(name, SPECS[name].expression) for name in self.fingerprints]

    def fingerprint(self, name: str) -> str:
        """Its shape, and a checksum of what it holds."""
        return self.fingerprints[name]

    def subject(self, name: str, repetition: int) -> Subject:
        """The set after the paper's preprocessing."""
        X, labels, counts = _prepared(name, self.data_dir, self.cache_dir)
        return Subject(X, labels, repetition, counts)


def gather(
    names: list[str] | None, data_dir: str | None, cache_dir: str | None = None
) -> tuple[RealSets, dict[str, str]]:
    """The sets that can be had, and for each of the others why not.

    With names, one that cannot be had is an error; without, the others go on.
    """
    if names is not None:
        wanted = chosen("--sets", names, SPECS)
    else:
        wanted = found_in(data_dir) if data_dir is not None else list(PAPER_SETS)
    fingerprints, missing = {}, {}
    for name in wanted:
        try:
            fingerprints[name] = _fingerprint(load(name, data_dir, cache_dir=cache_dir))
        except (ValueError, OSError) as error:
            if names is not None:
                raise
            missing[name] = " ".join(str(error).split())
    if not fingerprints:
        raise ValueError(f"There is no set to work on: {' '.join(missing.values())}")
    return RealSets(data_dir, cache_dir, fingerprints), missing


@functools.lru_cache(maxsize=1)
def _prepared(
    name: str, data_dir: str | None, cache_dir: str | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """What the methods see, the classes, and the expression as it was counted."""
    data = load(name, data_dir, cache_dir=cache_dir, progress=None)
    X, linear = preprocess(data)
    if not data.is_expression:
        return X, data.labels, None
    if data.values == "counts":
        linear = data.X[:, np.count_nonzero(data.X, axis=0) >= FEWEST_CELLS].astype(np.float64)
    return X, data.labels, linear


def _fingerprint(data: Dataset) -> str:
    checksum = hashlib.sha256(np.ascontiguousarray(data.X).tobytes())
    checksum.update("\0".join(data.labels.tolist()).encode())
    n, d = data.X.shape
    return f"{n} x {d}, {data.n_classes} classes, {checksum.hexdigest()[:12]}"
