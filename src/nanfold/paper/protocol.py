"""What is compared: methods of dimension reduction, ways of dealing with holes, and the jobs that this makes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

METHODS = {"pca": "PCA", "gplvm": "GPLVM", "tsne": "t-SNE", "umap": "UMAP"}
KMEANS_STARTS = 30
# The positions of the samples are kept for the pictures in this repetition.
PICTURED = 0


@dataclass(frozen=True)
class Variant:
    """A way of dealing with holes.

    Attributes
    ----------
    title : what it is called in tables
    of_paper : whether the paper has it, or it stands beside the paper's
    expression, complete : whether it is for expression, and for sets in which entries are hidden
    """

    title: str
    of_paper: bool = True
    expression: bool = True
    complete: bool = True

    def suits(self, expression: bool) -> bool:
        """Whether it can be done on a set that is expression, or is not."""
        return self.expression if expression else self.complete


VARIANTS = {
    "complete": Variant("nothing hidden", expression=False),
    "plain": Variant("zero-filled"),
    "corrected": Variant("corrected"),
    "softimpute": Variant("softImpute"),
    "ice": Variant("ice"),
    "cidr": Variant("CIDR", complete=False),
    "scimpute": Variant("scImpute", complete=False),
    "assisted": Variant("assisted", of_paper=False),
    "weighted": Variant("weighted zeros", of_paper=False, complete=False),
    "mean": Variant("mean fill", of_paper=False),
    "knn": Variant("KNN", of_paper=False),
}
# What the corrected estimate is compared with: everything that fills holes in, or imputes pair by pair.
IMPUTATIONS = ("softimpute", "ice", "cidr", "scimpute", "mean", "knn")


@dataclass(frozen=True, order=True)
class Cell:
    """One job: a method on a set, under a way of dealing with holes, once."""

    data: str
    variant: str
    method: str
    repetition: int

    @property
    def key(self) -> str:
        """A name for files."""
        return f"{self.data}.{self.variant}.{self.method}.{self.repetition:03d}"


@dataclass(frozen=True)
class Batch:
    """The jobs that share a set, a variant and a repetition, and so what is costly to prepare."""

    data: str
    variant: str
    repetition: int
    methods: tuple[str, ...]

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Its jobs."""
        return tuple(Cell(self.data, self.variant, method, self.repetition) for method in self.methods)

    def without(self, done: Iterable[Cell]) -> "Batch":
        """What is left of it."""
        gone = set(done)
        return replace(self, methods=tuple(cell.method for cell in self.cells if cell not in gone))


@dataclass(frozen=True)
class Result:
    """What one job found, or why it did not.

    Attributes
    ----------
    cell, seed : what was done
    fingerprint : of the data that it was done on
    ari : the adjusted Rand index; None if the job failed
    reason : why it failed
    n_components : dimensions that k-means saw
    seconds : processor time of this job alone
    shared_seconds : processor time of what its batch prepared for all of its jobs
    notes : what a reader should know, such as features that were left out
    versions : of the libraries
    positions, labels : of the samples, for the pictures; in one repetition only
    """

    cell: Cell
    seed: int
    fingerprint: str
    ari: float | None = None
    reason: str | None = None
    n_components: int = 0
    seconds: float = 0.0
    shared_seconds: float = 0.0
    notes: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()
    positions: Any = None
    labels: Any = None


def plan(
    sets: Sequence[tuple[str, bool]], variants: Sequence[str], methods: Sequence[str], repetitions: int
) -> list[Batch]:
    """All batches for sets, each with whether it is expression; repetition by repetition, so that each is whole early.

    Within a repetition the batches of a set follow one another, so that workers need not change sets often.
    """
    return [
        Batch(name, variant, r, tuple(methods))
        for r in range(repetitions)
        for name, expression in sets
        for variant in variants
        if VARIANTS[variant].suits(expression)
    ]


def chosen(option: str, names: Sequence[str] | None, there_are: Iterable[str]) -> list[str]:
    """The names that were asked for, or all, in the order in which there are such."""
    known = list(there_are)
    if names is None:
        return known
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise ValueError(f"{option} must be among {', '.join(known)}; there is no {', '.join(unknown) or 'name'}.")
    return [name for name in known if name in set(names)]
