"""Which samples to distrust: seen too little, sharing too little with the others, or placed with too large an error."""

from dataclasses import dataclass

import numpy as np

from nanfold._threads import even_blocks
from nanfold.inspection.sharing import THIN_ERROR, errors_of
from nanfold.observed.contract import PANEL_VALUES
from nanfold.pca import PCA
from nanfold.study.fitting import Study

# A score is uncertain if its standard error is this share of the spread of the scores; a sample is seen little if it
# has this share of what the sample in the middle has.
UNCERTAIN = 0.4
LITTLE = 0.25
COMPONENTS = 20


@dataclass(frozen=True)
class Trust:
    """How far each sample can be trusted.

    Attributes
    ----------
    share : observed of each sample
    errors : of the Gram matrix with the sample in the middle, relative, in the worst case
    uncertainty : standard error of the place on the first two components, over the spread of the samples there
    distrusted : positions of the samples to distrust, the worst first
    reasons : why, for each of these
    """

    share: np.ndarray
    errors: np.ndarray
    uncertainty: np.ndarray
    distrusted: np.ndarray
    reasons: list[str]


def trust_of(study: Study) -> Trust:
    """How far each sample can be trusted."""
    observed = study.observed
    n, d = observed.shape
    share = np.clip(observed.row_counts / d, 0.0, 1.0)
    if observed.complete:
        return Trust(share, np.zeros(n), np.zeros(n), np.empty(0, dtype=np.intp), [])
    errors = errors_of(observed)
    uncertainty = score_uncertainty(study)
    middle = float(np.median(share))
    # Where all are thin, that is a matter of the table and not of the sample.
    thin = errors > max(THIN_ERROR, 1.5 * float(np.median(errors)))
    wrong = np.stack([share < LITTLE * middle, thin, uncertainty > UNCERTAIN])
    found = np.flatnonzero(wrong.any(axis=0))
    found = found[np.lexsort((-uncertainty[found], -errors[found]))]
    reasons = []
    for i in found:
        says = (
            f"{observed.row_counts[i]:.0f} of {d} features observed",
            f"entries of the Gram matrix off by {100 * errors[i]:.0f} %",
            f"place off by {100 * uncertainty[i]:.0f} % of the spread",
        )
        reasons.append(", ".join(reason for reason, holds in zip(says, wrong[:, i], strict=True) if holds))
    return Trust(share, errors, uncertainty, found, reasons)


def score_uncertainty(study: Study) -> np.ndarray:
    """The standard error of every sample's place on the first two components, over the spread of the samples.

    From the posterior of the scores under probabilistic PCA, C_i = (I + W_o' W_o / noise)^-1 in units of the scores'
    own standard deviations, o being what the sample has.
    """
    observed = study.observed
    model, _ = study.together.pca(_leading(study))
    W = model.components_.T.astype(np.float64) * np.sqrt(model.explained_variance_.astype(np.float64))
    W /= np.sqrt(max(float(model.residual_variance_), np.finfo(np.float64).tiny))
    n, k = observed.shape[0], W.shape[1]
    out = np.empty(n)
    for start, stop in even_blocks(n, max(1, PANEL_VALUES // k**2)):
        A = observed.row_normals(W, start, stop)
        A[:, np.arange(k), np.arange(k)] += 1.0
        C = np.linalg.inv(A)
        out[start:stop] = np.sqrt(np.einsum("iaa->ia", C)[:, :2].mean(axis=1))
    return out


def _leading(study: Study) -> int:
    kept = study.models.get("pca")
    count = kept.n_components_ if isinstance(kept, PCA) else int(np.sum(study.scree.eigenvalues > 0))
    return max(1, min(count, COMPONENTS))
