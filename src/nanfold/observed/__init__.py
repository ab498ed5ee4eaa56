"""What was seen: data with holes in its several storages, behind one contract. No statistics here."""

from nanfold.chunked import is_dask
from nanfold.observed.contract import Observed
from nanfold.observed.counts import CountsObserved, StructuredMask
from nanfold.observed.dense import DenseObserved
from nanfold.observed.opening import apply_to_chunks
from nanfold.observed.reading import observe
from nanfold.observed.unstored import UnstoredObserved

__all__ = [
    "CountsObserved",
    "DenseObserved",
    "Observed",
    "StructuredMask",
    "UnstoredObserved",
    "apply_to_chunks",
    "is_dask",
    "observe",
]
