"""What can be asked for, from the words of a command line."""

from dataclasses import dataclass
from typing import Any

from nanfold.inspection.advice import GPLVM_SAMPLES, TSNE_SAMPLES

METHODS = ("pca", "umap", "tsne", "gplvm")
TITLES = {"pca": "PCA", "umap": "UMAP", "tsne": "t-SNE", "gplvm": "GPLVM"}
# Fewer samples than this have no neighbourhoods that an embedding could keep.
FEWEST_EMBEDDED = 6


@dataclass(frozen=True)
class Settings:
    """How a table is studied.

    Attributes
    ----------
    methods : names of `METHODS`, in the order in which they are drawn
    components : of PCA, as `n_components` of :class:`nanfold.PCA`
    assist, observation, seed : as in :class:`nanfold.PCA`
    notes : what was chosen for the user, in sentences
    """

    methods: tuple[str, ...]
    components: Any = "signflip"
    assist: Any = "auto"
    observation: str = "rank-one"
    seed: int = 0
    notes: tuple[str, ...] = ()


def settings_of(methods: str | None, components: str, assist: str, observation: str, seed: int, n: int) -> Settings:
    """The settings for n samples."""
    if seed < 0:
        raise ValueError(f"--seed must be at least 0; it is {seed}.")
    chosen, notes = methods_of(methods, n)
    return Settings(chosen, components_of(components), assist_of(assist), observation, seed, notes)


def methods_of(asked: str | None, n: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The methods, and what to say if some were left out for the number of samples."""
    if asked is not None:
        names = tuple(dict.fromkeys(name.strip().lower().replace("-", "") for name in asked.split(",")))
        wrong = [name for name in names if name not in METHODS]
        if wrong:
            raise ValueError(f"--methods must be among {','.join(METHODS)}, with commas between; {wrong[0]!r} is not.")
        if n < FEWEST_EMBEDDED and names != ("pca",):
            raise ValueError(
                f"{TITLES[next(name for name in names if name != 'pca')]} needs {FEWEST_EMBEDDED} samples at least, "
                f"and there are {n}; use --methods pca."
            )
        return names, ()
    if n < FEWEST_EMBEDDED:
        return ("pca",), (f"Only PCA: the other methods need {FEWEST_EMBEDDED} samples at least.",)
    left = [name for name, most in (("tsne", TSNE_SAMPLES), ("gplvm", GPLVM_SAMPLES)) if n > most]
    if not left:
        return METHODS, ()
    titles = " and ".join(TITLES[name] for name in left)
    note = f"Without {titles}, which would take long with {n} samples; --methods {','.join(METHODS)} has them all."
    return tuple(name for name in METHODS if name not in left), (note,)


def components_of(asked: str) -> Any:
    """A number, a share, or a rule."""
    if asked in ("signflip", "cng", "all"):
        return asked
    try:
        value = float(asked)
    except ValueError:
        value = -1.0
    if asked.isdecimal() and value >= 1:
        return int(asked)
    if 0 < value < 1:
        return value
    raise ValueError(
        f"--components must be a whole number, a share of the variance such as 0.9, 'signflip', 'cng' or 'all'; it is "
        f"{asked!r}."
    )


def assist_of(asked: str) -> Any:
    """A rank, or a rule."""
    if asked in ("auto", "low-rank"):
        return asked
    if asked.isdecimal():
        return int(asked)
    raise ValueError(f"--assist must be 'auto', 'low-rank' or a rank such as 0 or 10; it is {asked!r}.")
