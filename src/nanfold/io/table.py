"""What was read: the values, the names, the label columns, and one line that says so."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse


class FileError(ValueError):
    """A file that cannot be read as a table, in one sentence that names the file, the place and the remedy."""


@dataclass(frozen=True)
class Table:
    """A table read from a file.

    Attributes
    ----------
    X : (n, d) array of floats with NaN in the holes, or a scipy CSR array
    sample_names, feature_names : one name a row and a column, or None where the file has none
    labels : label columns by name: strings ("" where the file has a hole), or floats for a column of numbers that was
        asked for as labels
    source : the file
    kind : its format: a name of `nanfold.io.KINDS`
    unstored : whether what the sparse X does not store is a hole
    dropouts : whether zeros may stand for values that were not measured
    notes : what else should be known of how the file was read, each a clause
    """

    X: Any
    sample_names: list[str] | None
    feature_names: list[str] | None
    labels: dict[str, np.ndarray]
    source: Path
    kind: str
    unstored: bool = False
    dropouts: bool = False
    notes: tuple[str, ...] = field(default=())

    @property
    def shape(self) -> tuple[int, int]:
        """(samples, features)."""
        return self.X.shape

    def share_of_holes(self) -> float:
        """The share of entries that are holes; inferred dropouts are not counted."""
        n, d = self.shape
        if not sparse.issparse(self.X):
            return float(np.count_nonzero(np.isnan(self.X)) / (n * d))
        if self.unstored:
            return 1.0 - self.X.nnz / (n * d)
        return float(np.count_nonzero(np.isnan(self.X.data)) / (n * d))

    def share_of_zeros(self) -> float:
        """The share of entries that are zero, stored or not."""
        n, d = self.shape
        if not sparse.issparse(self.X):
            return float(np.count_nonzero(self.X == 0) / (n * d))
        stored_zeros = np.count_nonzero(self.X.data == 0)
        return float(stored_zeros if self.unstored else n * d - self.X.nnz + stored_zeros) / (n * d)

    def sample(self, i: int) -> str:
        """How row i is called in a sentence."""
        return f"row {i + 1}" if self.sample_names is None else f"sample {self.sample_names[i]!r}"

    def feature(self, s: int) -> str:
        """How column s is called in a sentence."""
        return f"column {s + 1}" if self.feature_names is None else f"feature {self.feature_names[s]!r}"

    def summary(self) -> str:
        """One line: samples x features, share of holes, label columns found."""
        n, d = self.shape
        parts = [f"{n} samples x {d} features", f"{percent(self.share_of_holes())} holes"]
        if self.dropouts or (sparse.issparse(self.X) and not self.unstored):
            parts.append(f"{percent(self.share_of_zeros())} zeros")
        names = listed(list(self.labels), most=6)
        parts.append(f"label column{'' if len(self.labels) == 1 else 's'} {names}" if names else "no label columns")
        return f"{self.source.name}: {', '.join([*parts, *self.notes])}"

    def refuse_unseen(self) -> None:
        """Raise an error that names the samples and features of which nothing is observed, if there are any.

        For counts whose zeros are values there are none.
        """
        if not sparse.issparse(self.X):
            seen = ~np.isnan(self.X)
            in_row, in_column = seen.any(axis=1), seen.any(axis=0)
        elif self.unstored:
            in_row = np.diff(self.X.indptr) > 0
            in_column = np.bincount(self.X.indices, minlength=self.shape[1]) > 0
        else:
            return
        for what, seen, names in (("Sample", in_row, self.sample_names), ("Feature", in_column, self.feature_names)):
            empty = np.flatnonzero(~seen)
            if len(empty):
                shown = [repr(names[i]) for i in empty[:5]] if names else [str(i + 1) for i in empty[:5]]
                more = f" and {len(empty) - 5} more" if len(empty) > 5 else ""
                raise FileError(
                    f"{what}{'s' if len(empty) > 1 else ''} {', '.join(shown)}{more} of {self.source} "
                    f"{'have' if len(empty) > 1 else 'has'} no observed value, so nothing can be said of "
                    f"{'them' if len(empty) > 1 else 'it'}; remove {'them' if len(empty) > 1 else 'it'} from the file."
                )


def percent(share: float) -> str:
    """A share as a percentage, with a decimal only where it says something."""
    value = 100.0 * share
    if value in (0.0, 100.0):
        return f"{value:.0f} %"
    if 0.1 <= value <= 99.9:
        return f"{value:.1f} %"
    return "under 0.1 %" if value < 50 else "over 99.9 %"


def listed(names: Sequence[Any], most: int = 10) -> str:
    """The first few names in quotes, and how many more there are."""
    shown = ", ".join(repr(str(name)) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


@contextmanager
def damaged(path: Path, kind: str, errors: tuple[type[Exception], ...]) -> Iterator[None]:
    """Turn what a library says of a file that it cannot read into one sentence."""
    try:
        yield
    except FileError:
        raise
    except errors as error:
        if isinstance(error, ModuleNotFoundError) or (isinstance(error, OSError) and error.filename is not None):
            raise
        raise FileError(
            f"{path} is not a whole {kind} file: it ends early or is damaged; save or copy it again."
        ) from error
