"""The page of results: what the paper claims, what was measured, and where it holds and where it does not."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from nanfold.datasets.real import SPECS
from nanfold.paper.compare import NEGLIGIBLE, Difference, difference
from nanfold.paper.propositions import ESTIMATES, GramError, falls_as
from nanfold.paper.protocol import IMPUTATIONS, KMEANS_STARTS, METHODS, VARIANTS, Cell, Result
from nanfold.paper.simulation import size_of
from nanfold.paper.subject import SOFT_PENALTIES, SOFT_RANK
from nanfold.paper.tables import Entries, as_markdown, markdown, summarised, title_of

# Figure 3 as one seed of the authors gave it, at 500, 1000, 2000 and 3000 features; and how near a mean should come.
FIGURE_3 = {
    "complete": (0.96, 1.0, 1.0, 1.0),
    "corrected": (0.81, 0.95, 0.995, 1.0),
    "plain": (0.45, 0.52, 0.52, 0.53),
}
FIGURE_3_SIZES = (500, 1000, 2000, 3000)
NEAR = 0.03
# What the corrected Gram matrix may be off by on the mean, and its error's power of the number of features from -1/2.
BIAS, POWER = 0.02, 0.05
HEAD = """# The paper again: results

Made by `nanfold reproduce simulation` and `nanfold reproduce real`, and not by hand. The paper is Ling, Liu and Xue,
*Dimension Reduction for Data with Heterogeneous Missingness*, UAI 2021. Every number is an adjusted Rand index (ARI) of
k-means with the true number of classes and {starts} starts: 1 if all classes are found again, 0 for chance. ± is the
standard deviation between repetitions. Repetition r has the same holes, dropouts and seeds for everything compared, so
that differences are taken within repetitions. A difference counts as *better* or *worse* if it is larger than both
{negligible} and two of its standard errors, and else as *level*; where there was one repetition, {negligible} alone
decides.
"""
WORDS = """## What is compared

| | |
| --- | --- |
| nothing hidden | the complete data, where there are such |
| zero-filled | zeros in the holes; for expression, the data as they are |
| corrected | the paper's estimator to the letter: `assist=0, observation="rank-one-bounded"`; for expression \
with the dropouts of `rule="vote"` |
| softImpute | imputation by a matrix of rank {rank} at most, the best of {penalties} penalties; for expression, of \
the inferred dropouts |
| ice | imputation by chained equations, in so far as said at the end of this page; for expression, of the same |
| CIDR, scImpute | for expression, each with its own idea of what a dropout is |
| assisted | beside the paper: nanfold's default for holes; for expression, the inferred dropouts taken as holes |
| weighted zeros | beside the paper: nanfold's default for expression, in which every zero has a weight |
| mean fill, KNN | beside the paper: means, or the mean of 5 neighbours, in the holes |

PCA keeps as many components as the scree test (CNG) says on real sets and two on simulated data; the others make two
dimensions. t-SNE and UMAP see all components with non-negative eigenvalues, GPLVM those of them that
stand out of noise."""


def page(results: dict[str, list[Result]], errors: Sequence[GramError] = ()) -> str:
    """The whole page, in Markdown, of what has been done so far."""
    simulated, real = summarised(results["simulation"]), summarised(results["real"])
    parts = [HEAD.format(starts=KMEANS_STARTS, negligible=NEGLIGIBLE)]
    claims = [_unbiased(errors)] if errors else []
    claims += [claim(simulated) for claim in (_figure_3, _figure_2) if simulated]
    claims += [claim(real) for claim in (_improves, _against_imputation, _beyond) if real]
    parts += [f"## Claim {number}: {claim.strip()}" for number, claim in enumerate(claims, 1)]
    parts.append(WORDS.format(rank=SOFT_RANK, penalties=SOFT_PENALTIES))
    if real:
        parts.append("## Every mean: real sets\n\n" + _sets(results["real"]) + "\n\n" + as_markdown(real))
    if simulated:
        parts.append("## Every mean: simulated\n\n" + as_markdown(simulated))
    parts.append(_how([*results["simulation"], *results["real"]]))
    return "\n\n".join(part.strip() for part in parts) + "\n"


def processor_seconds(results: Iterable[Result]) -> float:
    """Processor time of all jobs, what batches share counted once."""
    shared: dict[tuple[str, str, int], float] = {}
    total = 0.0
    for result in results:
        total += result.seconds
        cell = result.cell
        batch = (cell.data, cell.variant, cell.repetition)
        # A batch that was interrupted was prepared twice; the dearer of the two is what it costs.
        shared[batch] = max(shared.get(batch, 0.0), result.shared_seconds)
    return total + sum(shared.values())


def _unbiased(errors: Sequence[GramError]) -> str:
    sizes = sorted({one.n_features for one in errors})
    rows = []
    for variant in ESTIMATES:
        for what in ("slope", "diagonal", "error"):
            means = [
                np.mean([getattr(e, what) for e in errors if (e.variant, e.n_features) == (variant, d)]) for d in sizes
            ]
            rows.append([f"{VARIANTS[variant].title}, {what}", *(f"{mean:.3f}" for mean in means)])
    own = [one for one in errors if one.variant == "corrected"]
    bias = max(
        abs(float(np.mean([getattr(e, what) for e in own if e.n_features == d])) - 1)
        for what in ("slope", "diagonal")
        for d in sizes
    )
    power = {variant: falls_as([*errors], variant) for variant in ESTIMATES}
    holds = bias <= BIAS and abs(power["corrected"] + 0.5) <= POWER
    return f"""zeros in the holes bias the Gram matrix; corrected, it is unbiased, and its error falls with the features

**{"Holds" if holds else "Does not hold"}** (Propositions 1 and 2). Against the Gram matrix of the complete data, the
corrected one is off by at most {bias:.1%} on the mean, and its error falls as the number of features to the power
{power["corrected"]:.2f}, where independent features give -0.50; that of zeros in the holes, to {power["plain"]:.2f}.

{markdown(["features", *map(str, sizes)], rows)}

Slope: of the entries off the diagonal on those of complete data. Diagonal: its sum over that of complete data. Error:
root mean square off the diagonal, as a share of the mean on it. All are means over draws."""


def _figure_3(entries: Entries) -> str:
    sizes = sorted({size_of(data) for data, _, _ in entries})
    names = {size_of(data): data for data, _, _ in entries}
    rows = []
    for variant in dict.fromkeys(variant for _, variant, _ in entries):
        cells = [entries.get((names[size], variant, "pca")) for size in sizes]
        rows.append([VARIANTS[variant].title, *("" if cell is None else cell.as_text() for cell in cells)])
    table = markdown(["PCA, features", *map(str, sizes)], rows)
    verdict = _rises(entries, names, sizes)
    compared = _beside_figure_3(entries) if tuple(sizes) == FIGURE_3_SIZES else ""
    return f"""with more features, the corrected PCA comes to what complete data give; zeros in the holes do not

{verdict}

![Adjusted Rand index of PCA against the number of features]({_image("features")})

{table}

{compared}"""


def _rises(entries: Entries, names: dict[int, str], sizes: list[int]) -> str:
    last, first = names[sizes[-1]], names[sizes[0]]
    corrected = entries.get((last, "corrected", "pca"))
    against_complete = difference(corrected, entries.get((last, "complete", "pca")))
    against_zeros = difference(corrected, entries.get((last, "plain", "pca")))
    growth = difference(corrected, entries.get((first, "corrected", "pca")))
    if against_complete is None or against_zeros is None or growth is None:
        return "**Not measured**: it takes the variants complete, plain and corrected, by PCA."
    holds = against_complete.verdict != "worse" and against_zeros.verdict == "better" and growth.verdict == "better"
    return (
        f"**{'Holds' if holds else 'Does not hold'}.** At {sizes[-1]} features the corrected PCA lies "
        f"{_signed(against_complete.mean)} from the complete data's and {_signed(against_zeros.mean)} from that of "
        f"zero-filled data; from {sizes[0]} to {sizes[-1]} features it gains {_signed(growth.mean)}."
    )


def _beside_figure_3(entries: Entries) -> str:
    rows, far = [], []
    for variant, theirs in FIGURE_3.items():
        cells = []
        for size, value in zip(FIGURE_3_SIZES, theirs, strict=True):
            entry = entries.get((f"simulated-{size}", variant, "pca"))
            if entry is None:
                cells.append(f"{value:.3g}")
                continue
            cells.append(f"{value:.3g} ({_signed(entry.mean - value)})")
            if abs(entry.mean - value) > NEAR:
                far.append(f"{VARIANTS[variant].title} at {size} features by {_signed(entry.mean - value)}")
        rows.append([VARIANTS[variant].title, *cells])
    table = markdown(["one seed of the authors (ours minus theirs)", *map(str, FIGURE_3_SIZES)], rows)
    if not far:
        return f"{table}\n\nAll means are within {NEAR} of the authors' figures."
    return (
        f"{table}\n\nMeans further than {NEAR} from the authors' figures: {'; '.join(far)}. Theirs are one draw "
        "from one geometry of three centres; ours are means over draws from a geometry whose centres lie about as far "
        "apart, and the standard deviations above are what single draws differ by. Zeros in the holes spend one of "
        "the two components on how much of each sample was observed, because the features have means far from zero; "
        "what the other one shows of three clusters depends on how their centres lie."
    )


def _figure_2(entries: Entries) -> str:
    largest = max((data for data, _, _ in entries), key=size_of)
    rows, lost, far = [], [], []
    for method in METHODS:
        corrected = entries.get((largest, "corrected", method))
        zeros, complete = (entries.get((largest, variant, method)) for variant in ("plain", "complete"))
        gain, rest = difference(corrected, zeros), difference(corrected, complete)
        if gain is None or rest is None:
            continue
        rows.append([METHODS[method], str(gain.n), _shown(gain), _shown(rest)])
        lost += [METHODS[method]] if gain.verdict != "better" else []
        far += [METHODS[method]] if rest.verdict == "worse" else []
    if not rows:
        return "all four methods gain by it\n\n**Not measured**: it takes the variants complete, plain and corrected."
    verdict = "Holds" if not lost and not far else "Holds in part" if len(lost) < len(rows) else "Does not hold"
    said = [f"no gain over zeros in {', '.join(lost)}"] if lost else []
    said += [f"short of the complete data in {', '.join(far)}"] if far else []
    table = markdown(["", "draws", "corrected minus zero-filled", "corrected minus complete"], rows)
    return f"""all four methods gain by it

**{verdict}**{": " + "; ".join(said) if said else ""}.

{table}

![Simulated clusters as each method shows them]({_image("simulated", "png")})"""


def _improves(entries: Entries) -> str:
    table, counts = _by_method(entries, "corrected", "plain")
    return f"""the correction improves PCA, GPLVM, t-SNE and UMAP on real data

**{_verdict(counts)}**: against zeros in the holes, the corrected estimate is {_counted(counts)} of
{sum(counts.values())} pairs of set and method.

![What the correction gains over zeros in the holes]({_image("differences")})

{table}"""


def _against_imputation(entries: Entries) -> str:
    rows, everything = [], Counter[str]()
    for variant in IMPUTATIONS:
        counts = _counts(entries, "corrected", variant)
        if not counts:
            continue
        everything += counts
        by_method = (_counts(entries, "corrected", variant, method=method) for method in METHODS)
        rows.append([f"corrected against {VARIANTS[variant].title}", *map(_short, by_method), _short(counts)])
    table = markdown(["better / level / worse", *METHODS.values(), "all"], rows)
    own_kind = [_kind(entries, expression) for expression in (True, False)]
    return f"""it does at least as well as imputation

**{_verdict(everything)}**: the corrected estimate is {_counted(everything)} of
{sum(everything.values())} comparisons with imputations. {" ".join(own_kind)}

{table}"""


def _kind(entries: Entries, expression: bool) -> str:
    counts = sum(
        (_counts(entries, "corrected", variant, expression=expression) for variant in IMPUTATIONS),
        Counter[str](),
    )
    what = "On expression" if expression else "Where entries were hidden from complete data"
    return f"{what} it is {_counted(counts)}." if counts else ""


def _beyond(entries: Entries) -> str:
    rows = []
    for variant, other in (("assisted", "corrected"), ("weighted", "corrected"), ("mean", "plain"), ("knn", "plain")):
        for expression in (True, False):
            counts = _counts(entries, variant, other, expression=expression)
            if counts:
                what = "expression" if expression else "hidden entries"
                found = _differences(entries, variant, other, expression=expression)
                gain = float(np.mean([one.mean for one in found]))
                names = f"{VARIANTS[variant].title} against {VARIANTS[other].title}, {what}"
                rows.append([names, _short(counts), _signed(gain)])
    table = markdown(["beside the paper", "better / level / worse", "mean difference"], rows)
    counts = _counts(entries, "assisted", "corrected", expression=False)
    if not counts:
        return f"(ours) a guess of the complete data helps\n\n**Not measured.**\n\n{table}"
    return f"""(ours) a guess of the complete data helps where entries are hidden

**{_verdict(counts)}**: assisted is {_counted(counts)} of {sum(counts.values())} pairs of set and
method, against the paper's estimator on hidden entries.

{table}"""


def _by_method(entries: Entries, variant: str, other: str) -> tuple[str, Counter[str]]:
    """Differences of two variants, sets in rows and methods in columns, and how often each verdict was given."""
    counts = _counts(entries, variant, other)
    rows = []
    for data in dict.fromkeys(data for data, _, _ in entries):
        cells = []
        for method in METHODS:
            found = difference(entries.get((data, variant, method)), entries.get((data, other, method)))
            cells.append("" if found is None else _shown(found))
        rows.append([title_of(data), *cells])
    return markdown([f"{VARIANTS[variant].title} minus {VARIANTS[other].title}", *METHODS.values()], rows), counts


def _differences(
    entries: Entries, variant: str, other: str, method: str | None = None, expression: bool | None = None
) -> list[Difference]:
    """Of two variants, for every set and method; for one method, or one kind of sets, if so asked."""
    out = []
    for data, by in dict.fromkeys((data, by) for data, _, by in entries):
        if method not in (None, by) or expression not in (None, SPECS[data].expression):
            continue
        found = difference(entries.get((data, variant, by)), entries.get((data, other, by)))
        if found is not None:
            out.append(found)
    return out


def _counts(entries: Entries, variant: str, other: str, **which: Any) -> Counter[str]:
    return Counter(found.verdict for found in _differences(entries, variant, other, **which))


def _verdict(counts: Counter[str]) -> str:
    """In a word: by how often it is better and how often worse, whatever is level."""
    better, worse = counts["better"], counts["worse"]
    if not counts:
        return "Not measured"
    if not worse:
        return "Holds everywhere" if better == sum(counts.values()) else "Holds, or makes no difference"
    if better > 2 * worse:
        return "Holds mostly"
    return "Mixed" if 2 * better > worse else "Does not hold"


def _counted(counts: Counter[str]) -> str:
    return f"better in {counts['better']}, level in {counts['level']} and worse in {counts['worse']}"


def _short(counts: Counter[str]) -> str:
    return f"{counts['better']} / {counts['level']} / {counts['worse']}" if counts else ""


def _sets(results: list[Result]) -> str:
    prints = {result.cell.data: result.fingerprint for result in results}
    rows = []
    for name, spec in SPECS.items():
        if name in prints:
            shape, classes, checksum = prints[name].split(", ")
            kind = "expression" if spec.expression else "entries hidden"
            paper = "the paper's" if spec.of_paper else "stands in"
            rows.append([spec.title, shape, classes.removesuffix(" classes"), kind, paper, checksum])
    return markdown(["set", "samples x features", "classes", "holes", "whose", "checksum"], rows)


def _how(results: list[Result]) -> str:
    parts = ["## How it was run"]
    for study in ("simulation", "real"):
        own = [result for result in results if _simulated(result.cell) is (study == "simulation")]
        if own:
            counts = Counter((r.cell.data, r.cell.variant, r.cell.method) for r in own).values()
            least, most = min(counts), max(counts)
            repetitions = _many(most, "repetition") if least == most else f"{least} to {most} repetitions"
            parts.append(
                f"`nanfold reproduce {study}`: {len(own)} jobs, {repetitions}, "
                f"{processor_seconds(own) / 60:.1f} minutes of processor time, each job on one thread."
            )
    failed = Counter((result.cell.variant, result.cell.data, result.reason) for result in results if result.ari is None)
    for (variant, data, reason), count in sorted(failed.items(), key=str):
        parts.append(f"- {count} failed: {VARIANTS[variant].title} on {title_of(data)}: {reason}")
    if not failed:
        parts.append("No job failed.")
    notes: dict[str, set[str]] = {}
    for result in results:
        for note in result.notes:
            notes.setdefault(note, set()).add(title_of(result.cell.data))
    parts += [
        f"- {note} ({', '.join(sorted(sets))})." for note, sets in sorted(notes.items()) if note.startswith("ice ")
    ]
    versions = sorted({", ".join(result.versions) for result in results if result.versions})
    if versions:
        parts.append("Versions: " + "; or ".join(versions) + ".")
    return "\n\n".join(parts)


def _simulated(cell: Cell) -> bool:
    return cell.data not in SPECS


def _shown(found: Difference) -> str:
    return f"{_signed(found.mean)} ({found.verdict})"


def _many(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _signed(value: float) -> str:
    return f"{round(value, 3) + 0.0:+.3f}"  # no minus before zero


def _image(name: str, end: str = "svg") -> str:
    return f"images/results-{name}.{end}"
