"""Simulate clusters, hide 40 % of the entries, and compare ways of doing PCA on what is left.

Writes a report, pictures and the numbers.
"""

import argparse
import sys

from nanfold.commands._output import OutputFolder

FEWEST_SAMPLES, FEWEST_FEATURES = 30, 60


def configure(parser: argparse.ArgumentParser) -> None:
    """The options of ``nanfold demo``."""
    parser.add_argument(
        "--out", metavar="DIR", default="nanfold-demo", help="where the results are written (default: %(default)s)"
    )
    parser.add_argument(
        "--samples", metavar="N", type=int, default=600, help="number of samples (default: %(default)s)"
    )
    parser.add_argument(
        "--features", metavar="N", type=int, default=3000, help="number of features (default: %(default)s)"
    )
    parser.add_argument(
        "--draws", metavar="N", type=int, default=10, help="how often all is repeated (default: %(default)s)"
    )
    parser.add_argument(
        "--seed", metavar="N", type=int, default=0, help="seed of the first draw (default: %(default)s)"
    )


def run(args: argparse.Namespace) -> int:
    """Compare, write and say where."""
    for option, value, least in (
        ("--samples", args.samples, FEWEST_SAMPLES),
        ("--features", args.features, FEWEST_FEATURES),
        ("--draws", args.draws, 1),
        ("--seed", args.seed, 0),
    ):
        if value < least:
            raise ValueError(f"{option} must be at least {least}; it is {value}.")
    with OutputFolder(args.out) as folder:
        # Before the work, or a missing library would be found out only after it.
        from nanfold.demo import comparison, page, pictures

        found = comparison.compare(args.samples, args.features, args.draws, args.seed, progress=_progress)
        pictures.save(found, folder)
        (folder / "ari.csv").write_text(found.as_csv(), encoding="utf-8")
        (folder / "report.html").write_text(page.render(found), encoding="utf-8")
    print(found.as_text())
    out = str(args.out).rstrip("/") or "/"
    print(f"\nReport    {out}/report.html")
    print(f"Pictures  {out}/clusters.png, {out}/features.png (and .svg)")
    print(f"Numbers   {out}/ari.csv")
    return 0


def _progress(done: int, total: int) -> None:
    if sys.stderr.isatty():
        print(f"\rdraw {done} of {total}", end="\n" if done == total else "", file=sys.stderr, flush=True)
