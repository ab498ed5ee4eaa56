"""What the propositions say of the Gram matrix itself, measured: its bias, and how its error falls."""

import csv
import io
from dataclasses import dataclass

import numpy as np

from nanfold.correction import unbiased_gram
from nanfold.paper.simulation import Simulation, size_of

ESTIMATES = ("plain", "corrected")


@dataclass(frozen=True)
class GramError:
    """An estimate of the Gram matrix of complete data, in one draw at one number of features.

    Attributes
    ----------
    slope : of its entries off the diagonal on those of complete data; 1 without bias
    diagonal : the sum of its diagonal over that of complete data; 1 without bias
    error : root mean square of its errors off the diagonal, as a share of the mean on the diagonal of complete data
    """

    variant: str
    n_features: int
    draw: int
    slope: float
    diagonal: float
    error: float


def gram_errors(simulation: Simulation, draw: int) -> list[GramError]:
    """The errors of every estimate at every number of features, in one draw."""
    out = []
    for name in simulation.names:
        subject = simulation.subject(name, draw)
        d = size_of(name)
        complete = _gram(subject.X)
        estimates = {
            "plain": _gram(np.nan_to_num(subject.holed)),
            "corrected": unbiased_gram(subject.holed, observation="rank-one-bounded").toarray(),
        }
        pairs = np.triu_indices(len(complete), 1)
        wanted = complete[pairs]
        for variant in ESTIMATES:
            found = estimates[variant][pairs]
            slope = float(found @ wanted / (wanted @ wanted))
            diagonal = float(np.trace(estimates[variant]) / np.trace(complete))
            error = float(np.sqrt(np.mean((found - wanted) ** 2)) / np.mean(np.diagonal(complete)))
            out.append(GramError(variant, d, draw, slope, diagonal, error))
    return out


def falls_as(errors: list[GramError], variant: str) -> float:
    """The power of the number of features with which the error falls: -1/2 is what Proposition 2 says."""
    own = [one for one in errors if one.variant == variant]
    sizes = np.log([one.n_features for one in own])
    return float(np.polyfit(sizes, np.log([one.error for one in own]), 1)[0])


def as_csv(errors: list[GramError]) -> str:
    """A line for every estimate, number of features and draw."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("variant", "features", "draw", "slope", "diagonal", "error"))
    for one in errors:
        numbers = (f"{value:.6f}" for value in (one.slope, one.diagonal, one.error))
        writer.writerow((one.variant, one.n_features, one.draw, *numbers))
    return out.getvalue()


def from_csv(text: str) -> list[GramError]:
    """What `as_csv` wrote."""
    return [
        GramError(
            row["variant"],
            int(row["features"]),
            int(row["draw"]),
            float(row["slope"]),
            float(row["diagonal"]),
            float(row["error"]),
        )
        for row in csv.DictReader(io.StringIO(text))
    ]


def _gram(X: np.ndarray) -> np.ndarray:
    """Of complete data, centred, per feature."""
    Y = X - X.mean(axis=0)
    return Y @ Y.T / X.shape[1]
