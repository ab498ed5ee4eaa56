"""What was found, as sentences: how bad it is, what it is, and what follows from it."""

from typing import Literal, NamedTuple

import numpy as np

from nanfold.inspection.examine import Inspection
from nanfold.inspection.sharing import ACCURACIES, QUANTILES, THIN_ERROR, THIN_SAMPLES
from nanfold.io.table import Table, listed, percent

# Below this a test has found something; a misfit of less than this is of no consequence.
SIGNIFICANT = 0.01
HARMLESS_MISFIT = 0.03
MANY_BEYOND_ONE = 0.02


class Verdict(NamedTuple):
    """One thing found."""

    state: Literal["good", "warn", "bad"]
    says: str
    detail: str = ""


def verdicts(found: Inspection, table: Table) -> list[Verdict]:
    """Everything found, in the order in which one would ask."""
    out = [_spread(found, table)]
    if found.fit is not None:
        out += [_rank_one(found), *_dependence(found)]
    return [*out, _sharing(found), *_thin(found, table)]


def _spread(found: Inspection, table: Table) -> Verdict:
    if found.rows is None or found.columns is None:
        zeros = table.share_of_zeros()
        if zeros > 0.3 and np.min(table.X.data if hasattr(table.X, "indptr") else table.X, initial=0.0) >= 0:
            return Verdict(
                "warn",
                f"There are no holes, and {percent(zeros)} of the values are zero.",
                "If some of the zeros are counts that were missed, say --missing dropouts; if what a sparse file does "
                "not store is not known, say --missing unstored.",
            )
        return Verdict("good", "There are no holes.", "nanfold then gives what PCA of complete data gives.")
    worst = min(found.rows.p_value, found.columns.p_value)
    shares = (
        f"The share observed varies by {percent(found.rows.spread)} between samples and by "
        f"{percent(found.columns.spread)} between features (standard deviations); equally likely holes would make it "
        f"{percent(found.rows.expected)} and {percent(found.columns.expected)}."
    )
    if worst < SIGNIFICANT:
        which = [
            name
            for name, spread in (("samples", found.rows), ("features", found.columns))
            if spread.p_value < SIGNIFICANT
        ]
        return Verdict(
            "warn",
            f"The missingness is heterogeneous: some {' and some '.join(which)} are observed more than others "
            f"({p_value(worst)}).",
            f"{shares} Filling holes with zeros or means distorts distances; that is what nanfold corrects.",
        )
    return Verdict("good", f"The missingness looks homogeneous ({p_value(worst)}).", shares)


def _rank_one(found: Inspection) -> Verdict:
    fit = found.fit
    assert fit is not None
    off = "the number of features that two samples share is what it says"
    if fit.misfit > 0:
        off = f"the number of features that two samples share is off by {percent(fit.misfit)} more than chance makes it"
    if fit.beyond_one > MANY_BEYOND_ONE:
        extra = f" It asks for probabilities above 1 at {percent(fit.beyond_one)} of the entries."
    else:
        extra = ""
    if fit.p_value >= SIGNIFICANT:
        return Verdict("good", f"The rank-one model of holes fits ({p_value(fit.p_value)}).", f"In it, {off}.{extra}")
    if fit.misfit < HARMLESS_MISFIT:
        return Verdict(
            "good",
            f"The rank-one model of holes is not exact ({p_value(fit.p_value)}), but near enough: {off}.",
            extra.strip(),
        )
    return Verdict(
        "bad",
        f"The rank-one model of holes does not fit ({p_value(fit.p_value)}): {off}.",
        "Groups of samples seem to have features of their own; --observation pairwise counts what each pair of samples "
        f"does share, and needs no model.{extra}",
    )


def _dependence(found: Inspection) -> list[Verdict]:
    depends = found.dependence
    assert depends is not None
    out = []
    if depends.correlation_p < SIGNIFICANT:
        out.append(
            Verdict(
                "warn",
                f"Features with {'larger' if depends.correlation > 0 else 'smaller'} values are observed more often "
                f"(rank correlation {depends.correlation:.2f}, {p_value(depends.correlation_p)}).",
                "That alone is allowed for, as the model has a rate for every feature; but it is often a sign that "
                f"{'small' if depends.correlation > 0 else 'large'} values are lost.",
            )
        )
    if depends.rank == 0:
        out.append(
            Verdict(
                "warn",
                "Whether holes depend on the values in them cannot be told: the other entries do not predict them.",
            )
        )
        return out
    times = float(np.exp(depends.log_odds))
    reach = 1.96 * depends.error
    low, high = np.exp(depends.log_odds - reach), np.exp(depends.log_odds + reach)
    effect = (
        f"an entry predicted one standard deviation higher than its sample and feature let expect has {times:.2f} "
        f"times the odds of being observed (95 %: {low:.2f} to {high:.2f}; {p_value(depends.p_value)})"
    )
    if depends.p_value < SIGNIFICANT:
        out.append(
            Verdict(
                "bad" if max(times, 1.0 / times) > 1.25 else "warn",
                f"Holes depend on the values that are missing: {effect}.",
                "Estimates from what is left are biased then, by whatever method; look for a limit of detection.",
            )
        )
    else:
        out.append(
            Verdict(
                "good",
                f"No sign that holes depend on the values in them: {effect}.",
                "Only what the other entries predict of a value can show; what they do not predict stays unseen.",
            )
        )
    return out


def _sharing(found: Inspection) -> Verdict:
    shared = found.sharing
    d = found.shape[1]
    least, middle = shared.quantiles[1], shared.quantiles[QUANTILES.index(0.5)]
    says = (
        f"Two samples share {middle:.0f} of the {d} features (the middle pair; 5 % of pairs share fewer than "
        f"{least:.0f}), so that an entry of the Gram matrix is known to {percent(shared.error)} of the samples' size "
        "or better."
    )
    wanted = ", ".join(
        f"{count} for {100 * accuracy:.0f} %" for accuracy, count in zip(ACCURACIES, shared.needed, strict=True)
    )
    detail = f"At this share, these many features are enough, whatever the data (Proposition 2): {wanted}."
    if shared.none > 0:
        detail += f" {percent(shared.none)} of the pairs share nothing; --observation pairwise cannot be used."
    state: Literal["good", "warn", "bad"] = "good" if shared.error < 0.15 else "warn" if shared.error < 0.5 else "bad"
    return Verdict(state, says, detail)


def _thin(found: Inspection, table: Table) -> list[Verdict]:
    shared = found.sharing
    out = []
    for what, places, names, why in (
        (
            "sample",
            shared.thin_samples,
            table.sample_names,
            f"What they share with the sample in the middle leaves an error above {100 * THIN_ERROR:.0f} %.",
        ),
        (
            "feature",
            shared.thin_features,
            table.feature_names,
            f"They were observed in fewer than {THIN_SAMPLES} samples, too few for a mean.",
        ),
    ):
        if len(places):
            shown = listed([names[i] if names else i + 1 for i in places], most=8)
            total = found.shape[0 if what == "sample" else 1]
            out.append(
                Verdict(
                    "warn" if len(places) < total / 2 else "bad",
                    f"{len(places)} of the {total} {what}s {'is' if len(places) == 1 else 'are'} too thin to trust: "
                    f"{shown}.",
                    why,
                )
            )
    return out


def p_value(p: float) -> str:
    """A p-value as one writes it."""
    return "p < 0.0001" if p < 1e-4 else f"p = {p:.4f}" if p < 0.01 else f"p = {p:.2f}"
