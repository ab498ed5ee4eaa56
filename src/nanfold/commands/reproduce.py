"""Run the paper's experiments from start to end, and write their figures, tables and a page of results.

What is done is kept in OUT/jobs: killed at any point, the same command goes on from there.
"""

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nanfold.commands._output import OutputFolder
from nanfold.commands._progress import Progress

if TYPE_CHECKING:
    from nanfold.paper.propositions import GramError
    from nanfold.paper.protocol import Result
    from nanfold.paper.running import State

STUDIES = ("simulation", "real")
REPETITIONS = {"simulation": 10, "real": 20}
SAMPLES, FEATURES = 600, 3000
GRAM = "gram.csv"


def configure(parser: argparse.ArgumentParser) -> None:
    """The options of ``nanfold reproduce``."""
    parser.add_argument(
        "study",
        choices=(*STUDIES, "page"),
        help="the simulation (Figures 2 and 3), the real sets, or only the page and figures of what is done already",
    )
    parser.add_argument(
        "--out", metavar="DIR", default="nanfold-paper", help="where everything is written (default: %(default)s)"
    )
    parser.add_argument("--data-dir", metavar="DIR", help="a folder with the real sets; without it they are downloaded")
    parser.add_argument("--cache-dir", metavar="DIR", help="where downloads are kept")
    parser.add_argument(
        "--repetitions", metavar="N", type=int, help="how often all is repeated (default: 10 simulated, 20 real)"
    )
    parser.add_argument("--jobs", metavar="N", type=int, default=2, help="processes at a time (default: %(default)s)")
    parser.add_argument("--sets", metavar="NAME", nargs="+", help="the real sets (default: all that can be had)")
    parser.add_argument("--methods", metavar="NAME", nargs="+", help="among pca, gplvm, tsne, umap (default: all)")
    parser.add_argument("--variants", metavar="NAME", nargs="+", help="the ways of dealing with holes (default: all)")
    parser.add_argument(
        "--limit", metavar="SECONDS", type=float, default=600.0, help="the most that a job may take (default: 600)"
    )
    parser.add_argument("--again", action="store_true", help="do jobs again that failed in an earlier run")
    parser.add_argument("--samples", metavar="N", type=int, help="of the simulation (default: 600)")
    parser.add_argument("--features", metavar="N", type=int, help="of the simulation (default: 3000)")


def run(args: argparse.Namespace) -> int:
    """Do the jobs that are not done and write what they give; 1 if some failed, or a set was not to be had."""
    _check(args)
    # Before the work, or a missing library would be found out only after it.
    from nanfold.paper import figures  # noqa: F401

    results: list[Result] = []
    missing: dict[str, str] = {}
    errors: list[GramError] = _errors_of(Path(args.out))
    if args.study == "simulation":
        results = _simulation(args)
        errors = _measured(args, errors)
    elif args.study == "real":
        results, missing = _real(args)
    pages = _write(Path(args.out), errors)
    failed = [result for result in results if result.ari is None]
    for reason in dict.fromkeys(result.reason for result in failed):
        cells = [result.cell.key for result in failed if result.reason == reason]
        print(f"{len(cells)} failed, {cells[0]} the first: {reason}", file=sys.stderr)
    if results:
        print(f"{len(results)} jobs, {len(failed)} of them failed; {_minutes(results)} min of processor time.")
    for what, where in pages:
        print(f"{what:<10}{where}")
    return 1 if failed or missing else 0


def _check(args: argparse.Namespace) -> None:
    from nanfold.paper.protocol import METHODS, VARIANTS, chosen
    from nanfold.paper.simulation import FEWEST_FEATURES, FEWEST_SAMPLES

    if args.repetitions is None:
        args.repetitions = REPETITIONS.get(args.study, 1)
    for option, value in (("--samples", args.samples), ("--features", args.features)):
        if value is not None and args.study != "simulation":
            raise ValueError(f"{option} is of the simulation; leave it out, or say 'nanfold reproduce simulation'.")
    args.samples = SAMPLES if args.samples is None else args.samples
    args.features = FEATURES if args.features is None else args.features
    for option, value, least in (
        ("--repetitions", args.repetitions, 1),
        ("--jobs", args.jobs, 1),
        ("--samples", args.samples, FEWEST_SAMPLES),
        ("--features", args.features, FEWEST_FEATURES),
    ):
        if value < least:
            raise ValueError(f"{option} must be at least {least}; it is {value}.")
    if not args.limit > 0:
        raise ValueError(f"--limit must be a positive number of seconds; it is {args.limit:g}.")
    if args.sets is not None and args.study != "real":
        raise ValueError("--sets chooses among the real sets; leave it out, or say 'nanfold reproduce real'.")
    args.methods = chosen("--methods", args.methods, METHODS)
    args.all_variants = args.variants is None
    args.variants = chosen("--variants", args.variants, VARIANTS)


def _simulation(args: argparse.Namespace) -> "list[Result]":
    from nanfold.paper import simulation

    source = simulation.Simulation(args.samples, args.features)
    variants = [name for name in args.variants if not args.all_variants or name in simulation.VARIANTS]
    return _done(args, source, source.plan(variants, args.methods, args.repetitions))


def _errors_of(out: Path) -> "list[GramError]":
    """The errors of the Gram matrix that were measured before."""
    from nanfold.paper.propositions import from_csv

    path = out / GRAM
    if not path.is_file():
        return []
    try:
        return from_csv(path.read_text(encoding="utf-8"))
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is damaged; delete it, and the simulation measures it again.") from error


def _measured(args: argparse.Namespace, before: "list[GramError]") -> "list[GramError]":
    """The errors of the Gram matrix in every draw."""
    from nanfold.paper.propositions import gram_errors
    from nanfold.paper.simulation import Simulation, size_of

    simulation = Simulation(args.samples, args.features)
    wanted = {(size_of(name), draw) for name in simulation.names for draw in range(args.repetitions)}
    if {(one.n_features, one.draw) for one in before} >= wanted:
        return before
    errors = []
    with Progress("Gram matrices") as bar:
        for draw in range(args.repetitions):
            errors += gram_errors(simulation, draw)
            bar.update((draw + 1) / args.repetitions)
    return errors


def _real(args: argparse.Namespace) -> "tuple[list[Result], dict[str, str]]":
    from nanfold.paper.protocol import plan
    from nanfold.paper.real import gather

    source, missing = gather(args.sets, args.data_dir, args.cache_dir)
    for name, why in missing.items():
        print(f"Without {name}: {why}", file=sys.stderr)
    return _done(args, source, plan(source.names, args.variants, args.methods, args.repetitions)), missing


def _done(args: argparse.Namespace, source: Any, batches: list) -> "list[Result]":
    from nanfold.paper.running import run as run_plan
    from nanfold.paper.store import Store

    if not batches:
        raise ValueError("None of these variants and methods suits the sets; choose others.")
    with Store(_jobs(Path(args.out), args.study)) as store, Progress(args.study) as bar:
        return run_plan(
            store, source, batches, jobs=args.jobs, limit=args.limit, again=args.again, progress=_shown_on(bar)
        )


def _shown_on(bar: Progress) -> "Callable[[State], None]":
    def show(state: "State") -> None:
        failed = f", {state.failed} failed" if state.failed else ""
        left = "" if state.left is None else f", about {_span(state.left)} left"
        bar.update(state.done / state.total, f"{state.done} of {state.total} jobs{failed}{left}")

    return show


def _span(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def _minutes(results: "list[Result]") -> str:
    from nanfold.paper.claims import processor_seconds

    return f"{processor_seconds(results) / 60:.1f}"


def _jobs(out: Path, study: str) -> Path:
    return out / "jobs" / study


def _write(out: Path, errors: "list[GramError]") -> list[tuple[str, Path]]:
    """Figures, tables and page of all that is done, in both studies."""
    from nanfold.paper import claims, figures, propositions, tables
    from nanfold.paper.store import Store

    results = {study: Store(_jobs(out, study)).results() for study in STUDIES}
    everything = [result for study in STUDIES for result in results[study]]
    if not everything:
        raise ValueError(f"There is nothing in {out / 'jobs'} to make a page of; run 'nanfold reproduce simulation'.")
    entries = tables.summarised(everything)
    with OutputFolder(out / "images") as folder, Progress("drawing") as bar:
        figures.save(results, folder, lambda share: bar.update(share))
    with OutputFolder(out) as folder:
        (folder / "results.md").write_text(claims.page(results, errors), encoding="utf-8")
        if errors:
            (folder / GRAM).write_text(propositions.as_csv(errors), encoding="utf-8")
        (folder / "tables.md").write_text(tables.as_markdown(entries) + "\n", encoding="utf-8")
        (folder / "table.csv").write_text(tables.as_csv(entries), encoding="utf-8")
        (folder / "jobs.csv").write_text(tables.jobs_as_csv(everything), encoding="utf-8")
    return [
        ("Results", out / "results.md"),
        ("Figures", Path(os.path.join(out, "images"))),
        ("Numbers", out / "table.csv"),
        ("Jobs", out / "jobs.csv"),
    ]
