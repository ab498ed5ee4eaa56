"""What to run: one command, by what was found."""

import shlex

from nanfold.inspection.examine import Inspection
from nanfold.inspection.words import HARMLESS_MISFIT, SIGNIFICANT
from nanfold.io.table import Table

# Beyond these many samples a GPLVM, and then t-SNE, takes longer than one waits for.
GPLVM_SAMPLES, TSNE_SAMPLES, PAIRWISE_SAMPLES = 20_000, 200_000, 6000


def sensible_methods(n: int) -> tuple[str, ...]:
    """The methods for so many samples."""
    if n > TSNE_SAMPLES:
        return ("pca", "umap")
    return ("pca", "umap", "tsne", "gplvm") if n <= GPLVM_SAMPLES else ("pca", "umap", "tsne")


def pairwise_is_better(found: Inspection) -> bool:
    """Whether the rank-one model is off by more than chance, and every pair of samples shares something."""
    if found.fit is None or found.sharing.none > 0:
        return False
    return found.fit.p_value < SIGNIFICANT and found.fit.misfit >= HARMLESS_MISFIT


def command_for(table: Table, found: Inspection | None, options: list[str], file: str) -> str:
    """The embed command for this table.

    Parameters
    ----------
    table : the table
    found : what was found about it, None where holes are inferred
    options : how the file was read, to be repeated
    file : how the file was named
    """
    n = table.shape[0]
    words = ["nanfold", "embed", file, *options, "--methods", ",".join(sensible_methods(n))]
    if found is not None and n <= PAIRWISE_SAMPLES and pairwise_is_better(found):
        words += ["--observation", "pairwise"]
    return shlex.join([*words, "--out", f"{table.source.name.split('.')[0]}-embedded"])
