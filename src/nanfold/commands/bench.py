"""Measure time and memory side by side with others, on data made for it, against what this machine can do.

Writes a table, a picture and the numbers.
"""

import argparse

from nanfold.commands._output import OutputFolder
from nanfold.commands._progress import Progress

PARTS = ("counts", "cells", "ratings", "growth")


def configure(parser: argparse.ArgumentParser) -> None:
    """The options of ``nanfold bench``."""
    parser.add_argument(
        "--out", metavar="DIR", default="nanfold-bench", help="where the results are written (default: %(default)s)"
    )
    parser.add_argument(
        "--scale",
        choices=("tiny", "small", "medium", "full"),
        default="small",
        help="how large the data are (default: %(default)s, some minutes; full takes 24 GiB of memory and an hour)",
    )
    parser.add_argument(
        "--part", choices=PARTS, action="append", help="measure only this; may be given several times (default: all)"
    )
    parser.add_argument(
        "--data",
        metavar="DIR",
        help="keep the data that are made here, and use those that are here from another time",
    )
    parser.add_argument("--cmfrec", metavar="PYTHON", help="the Python of an environment that has cmfrec")


def run(args: argparse.Namespace) -> int:
    """Measure, write and say where."""
    with OutputFolder(args.out) as folder, Progress("measuring") as progress:
        from nanfold.bench import machine, page, rows, running

        parts = args.part or PARTS
        found: list[rows.Row] = []
        curves: page.Curves = {}

        def say(what: str) -> None:
            progress.update(progress.share or 0.0, what)

        with running.runner(args.cmfrec, say, args.data) as runner:
            for done, part in enumerate(parts):
                progress.update(done / len(parts))
                if part == "growth":
                    curves = rows.growth(runner, rows.SCALES[args.scale])
                    found += rows.growth_rows(curves)
                else:
                    found += rows.PARTS[part](runner, rows.SCALES[args.scale], rows.COMPONENTS[part])
        described = machine.description()
        table = page.markdown(found, curves, described)
        (folder / "bench.md").write_text(table, encoding="utf-8")
        (folder / "bench.json").write_text(page.as_json(found, curves, described, runner.done), encoding="utf-8")
        page.picture(found, curves, folder)
    print(table)
    out = str(args.out).rstrip("/") or "/"
    print(f"Table    {out}/bench.md\nPicture  {out}/bench.svg (and .png)\nNumbers  {out}/bench.json")
    return 0
