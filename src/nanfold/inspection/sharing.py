"""How many features do pairs of samples share, what does that say of the accuracy, and who is too thin to trust?"""

from dataclasses import dataclass

import numpy as np

from nanfold.gram import features_needed, variance_bounds
from nanfold.observed import Observed

QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 1.0)
ACCURACIES = (0.2, 0.1, 0.05, 0.02)
# A sample is too thin if an entry of its row of the Gram matrix, with the sample in the middle, may be off by so much
# of the samples' size (one standard error, in the worst case); a feature if it was seen in fewer samples than this.
THIN_ERROR = 0.35
THIN_SAMPLES = 5


@dataclass(frozen=True)
class Sharing:
    """What pairs of samples share.

    Attributes
    ----------
    quantiles : of the number of features that two samples share, at `QUANTILES`
    none : the share of pairs that share nothing
    n_pairs : how many pairs were looked at
    error : the standard error of an entry of the Gram matrix, as a share of the samples' size, for the pair in the
        middle and in the worst case of Proposition 2
    needed : how many features an accuracy takes for that pair, at `ACCURACIES`
    thin_samples, thin_features : their positions, the thinnest first
    errors : of every sample with the sample in the middle
    """

    quantiles: tuple[float, ...]
    none: float
    n_pairs: int
    error: float
    needed: tuple[int, ...]
    thin_samples: np.ndarray
    thin_features: np.ndarray
    errors: np.ndarray


def sharing(observed: Observed, M: np.ndarray) -> Sharing:
    """Answer for all samples, with the quantiles from the masks M of some of them."""
    d = observed.shape[1]
    seen = (M @ M.T)[np.triu_indices(len(M), 1)]
    middle = max(float(np.median(seen)), 1.0)
    share = min(middle / d, 1.0)
    errors = errors_of(observed)
    thin = np.flatnonzero(errors > THIN_ERROR)
    few = np.flatnonzero(observed.column_counts < min(THIN_SAMPLES, observed.shape[0] / 2))
    return Sharing(
        quantiles=tuple(float(q) for q in np.quantile(seen, QUANTILES)),
        none=float(np.mean(seen < 0.5)),
        n_pairs=len(seen),
        error=float(np.sqrt(variance_bounds(1.0, d, share)[1])),
        needed=tuple(features_needed(accuracy, share) for accuracy in ACCURACIES),
        thin_samples=thin[np.argsort(-errors[thin], kind="stable")],
        thin_features=few[np.argsort(observed.column_counts[few], kind="stable")],
        errors=errors,
    )


def errors_of(observed: Observed) -> np.ndarray:
    """For every sample the worst-case standard error of its entry with the sample in the middle, relative.

    The middle sample is that of median count; what the two share is said by the rank-one model.
    """
    n, d = observed.shape
    columns, counts = observed.column_counts / n, observed.row_counts
    total = float(columns.sum())
    shared = counts * float(np.median(counts)) * float((columns**2).sum()) / total**2
    share = np.clip(shared / d, 1e-12, 1.0)
    return np.sqrt((3.0 / share - 1.0) / d)
