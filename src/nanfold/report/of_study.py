"""A study as a report."""

from collections.abc import Iterator, Sequence

import numpy as np

from nanfold.gram import Gram
from nanfold.report.content import (
    Agreement,
    Colouring,
    Distrust,
    Embedding,
    Facts,
    Finding,
    Findings,
    ReportContent,
    Scree,
    Section,
    Table,
)
from nanfold.report.holes import holes_of
from nanfold.study.fitting import Study
from nanfold.study.numbers import versions
from nanfold.study.pictures import Colour, axes_of, plane_of
from nanfold.study.settings import TITLES
from nanfold.study.trust import LITTLE, UNCERTAIN, Trust

MOST_DISTRUSTED = 200
# A label with more classes than this is a name, and no colouring.
MOST_CLASSES = 200
# Below this share of common neighbours two pictures tell different stories.
DISAGREE = 0.3


def content_of(
    study: Study, trust: Trust, overlap: np.ndarray, neighbours: int, first: Colour, command: str
) -> ReportContent:
    """The report; the points are coloured by `first` when it opens."""
    table, methods = study.table, study.settings.methods
    colourings, left = _colourings(study, trust, first)
    return ReportContent(
        title=f"The shape of {table.source.name}",
        summary=f"{table.summary()}. {', '.join(TITLES[name] for name in methods)}, without filling the holes in.",
        names=table.sample_names,
        embeddings=tuple(
            # The axes of the others have no unit and no order.
            Embedding(
                TITLES[name],
                plane_of(study, name),
                axes_of(study, name) if name == "pca" else ("", ""),
                _note(study, name),
            )
            for name in methods
        ),
        colourings=colourings,
        scree=Scree(study.scree.eigenvalues, _kept(study), study.scree.rule, study.scree.null),
        holes=holes_of(study.observed),
        agreement=Agreement(tuple(TITLES[name] for name in methods), overlap, neighbours) if len(methods) > 1 else None,
        distrust=_distrust(study, trust),
        sections=tuple(_sections(study, trust, overlap, left)),
        command=command,
    )


def _kept(study: Study) -> int:
    if "pca" in study.models:
        return int(study.models["pca"].n_components_)
    return study.scree.asked if isinstance(study.scree.asked, int) else 0


def _colourings(study: Study, trust: Trust, first: Colour) -> tuple[tuple[Colouring, ...], list[str]]:
    out, left = [], []
    for name, values in study.table.labels.items():
        if values.dtype.kind == "f":
            out.append(Colouring(name, values, "number"))
        elif len(set(values.tolist())) <= MOST_CLASSES:
            out.append(Colouring(name, values.astype(str), "category"))
        else:
            left.append(name)
    out.append(Colouring("share observed", trust.share, "share"))
    if trust.uncertainty.any():
        note = "standard error of the place, over the spread of the samples"
        out.append(Colouring("uncertainty", trust.uncertainty, "number", note))
    return tuple(sorted(out, key=lambda colouring: colouring.name != first.name)), left


def _note(study: Study, name: str) -> str:
    model = study.models[name]
    if name == "pca":
        return f"{model.n_components_} components kept"
    seen = f"from {model.pca_.n_components_} components"
    if name == "umap":
        return f"{model.n_neighbors} neighbours, {seen}"
    if name == "tsne":
        return f"perplexity {model.perplexity_:.3g}, {seen}"
    return f"{model.inducing} inducing inputs, {seen}" if model.inducing else f"exact, {seen}"


def _distrust(study: Study, trust: Trust) -> Distrust | None:
    if not len(trust.distrusted):
        return None
    names = study.table.sample_names or [str(i + 1) for i in range(study.table.shape[0])]
    rows = [
        (int(i), names[i], float(trust.share[i]), reason)
        for i, reason in zip(trust.distrusted[:MOST_DISTRUSTED], trust.reasons, strict=False)
    ]
    note = (
        f"Samples with less than {100 * LITTLE:.0f} % of what the sample in the middle has, with entries of the Gram "
        f"matrix far less certain than others', or whose place is uncertain by more than {100 * UNCERTAIN:.0f} % of "
        "the spread."
    )
    if len(trust.distrusted) > MOST_DISTRUSTED:
        note += f" The first {MOST_DISTRUSTED} of {len(trust.distrusted)}."
    return Distrust(rows, note)


def _sections(study: Study, trust: Trust, overlap: np.ndarray, left: list[str]) -> list[Section]:
    observed, gram = study.observed, study.together.gram
    out: list[Section] = []
    found = _findings(study, trust, overlap)
    if found:
        out.append(Findings("What to know", found))
    out.append(_times(study))
    settings = study.settings
    items = [
        ("methods", ", ".join(settings.methods)),
        ("holes", "dropouts" if study.table.dropouts else "not stored" if study.table.unstored else "NaN"),
        ("observed", f"{100 * observed.share_observed:.1f} %"),
        ("model of holes", settings.observation),
        ("assist", f"{settings.assist} ({_guess(gram)})"),
        ("components", f"{_kept(study)} ({study.scree.rule})"),
        ("seed", str(settings.seed)),
    ]
    note = f"Labels with too many classes to colour by: {', '.join(left)}." if left else ""
    out.append(Facts("Settings", items, note))
    out.append(Facts("Versions", list(versions().items())))
    return out


def _guess(gram: Gram) -> str:
    """What assists the Gram matrix."""
    parts = [f"rank {gram.rank}"] if gram.rank else []
    parts += [f"averages over {gram.neighbors} neighbours"] if gram.neighbors else []
    return " and ".join(parts) or "no guess"


def _findings(study: Study, trust: Trust, overlap: np.ndarray) -> list[Finding]:
    out = [Finding("warn", note) for note in study.notes]
    count = len(trust.distrusted)
    if count:
        total = study.table.shape[0]
        says = f"{count} of the {total} samples {'is' if count == 1 else 'are'} to be distrusted."
        out.append(Finding("warn" if count < total / 4 else "bad", says, "They are listed below."))
    out.extend(_disagreement(study.settings.methods, overlap))
    return out


def _disagreement(methods: Sequence[str], overlap: np.ndarray) -> Iterator[Finding]:
    """One finding for all pairs of pictures that share few neighbours."""
    apart = [(overlap[a, b], b, a) for a in range(len(methods)) for b in range(a) if overlap[a, b] < DISAGREE]
    if not apart:
        return
    share, b, a = min(apart)
    pair = f"{TITLES[methods[b]]} and {TITLES[methods[a]]}"
    if len(apart) == 1:
        says = f"{pair} share {100 * share:.0f} % of near neighbours."
    else:
        says = f"{len(apart)} pairs of pictures share few near neighbours, least {pair}: {100 * share:.0f} %."
    yield Finding("warn", says, "What only one of them shows is not to be relied upon.")


def _times(study: Study) -> Table:
    rows = [[TITLES.get(name, name), f"{seconds:.1f}"] for name, seconds in study.seconds.items() if seconds >= 0.05]
    return Table("Time", ["step", "seconds"], rows, numbers=(1,))
