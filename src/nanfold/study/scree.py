"""The eigenvalues, those of data with random signs beside them, and how many components are kept."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from nanfold.components import signflip_limit
from nanfold.gram import UnbiasedGram
from nanfold.observed import CountsObserved
from nanfold.spectrum import eigenpairs
from nanfold.together import Together

SHOWN = 30
# How often signs are flipped, up to so many samples, and how many eigenvalues are then found. Of many samples the
# largest hardly varies, and those behind it, each like the next, are slow to find.
DRAWS = ((500, 20, SHOWN), (3000, 10, SHOWN), (np.inf, 5, 6))
FEWEST_DRAWS = 5
# The entries up to which signs of counts are flipped at all; every product then costs what a dense array's would.
MOST_DENSE = 20_000_000
# What is kept where signs are not flipped, and in any case.
WITHOUT_RULE, FEWEST = 20, 2


@dataclass(frozen=True)
class Scree:
    """Eigenvalues of the unbiased Gram matrix.

    Attributes
    ----------
    eigenvalues : the largest ones
    null : (draws, k) of them under random signs; None if they were not drawn
    asked : the `n_components` of PCA that follows
    rule : how that was chosen, in words
    note : a sentence, if something was chosen for the user
    """

    eigenvalues: np.ndarray
    null: np.ndarray | None
    asked: Any
    rule: str
    note: str = ""


def scree_of(together: Together, components: Any, seed: int) -> Scree:
    """The scree, and the components that `components` asks for; sign flips are counted here, once."""
    plain = together.plain
    rng = np.random.default_rng(seed)
    n, d = plain.shape[0], plain.n_features
    most = min(n, d)
    k = min(SHOWN, most)
    values = eigenpairs(plain, k, tol=1e-4, rng=rng).values
    counts = isinstance(plain.observed, CountsObserved)
    flips = not (counts and n * d > MOST_DENSE)
    draws, width = next((draws, width) for samples, draws, width in DRAWS if n <= samples)
    null = null_spectra(plain, min(k, width), FEWEST_DRAWS if counts else draws, rng) if flips else None
    if components != "signflip":
        return Scree(
            values,
            null,
            components,
            RULES.get(components, "asked for")
            if isinstance(components, str)
            else "asked for"
            if isinstance(components, int)
            else f"{100 * components:.0f} % of the variance",
        )
    fewest = min(FEWEST, most)
    if null is None:
        kept = min(WITHOUT_RULE, most)
        note = f"Kept {kept} components: sign flips, which say how many stand out, would take long with so many counts."
        return Scree(values, None, kept, "by size of the data", note)
    found = int(np.sum(values > signflip_limit(null[:, 0])))
    if found < fewest:
        note = f"Only {found or 'no'} component{'' if found == 1 else 's'} of PCA stand{'s' if found == 1 else ''} out "
        note += f"of the data with random signs; {fewest} are kept, for a picture."
        return Scree(values, null, fewest, "two at least", note)
    note = f"At least {found} components stand out; {found} are kept." if found == k < most else ""
    return Scree(values, null, found, RULES["signflip"], note)


RULES = {"signflip": "sign flips", "cng": "scree test", "all": "all that are not negative"}


def null_spectra(plain: UnbiasedGram, k: int, draws: int, rng: np.random.Generator) -> np.ndarray:
    """The k largest eigenvalues of the Gram matrix under random signs, drawn again and again."""
    out = np.empty((draws, k))
    for t in range(draws):
        out[t] = eigenpairs(UnbiasedGram(plain.observed.flipped(rng), plain.model), k, tol=1e-2, rng=rng).values
    return out
