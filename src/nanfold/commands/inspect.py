"""Look at a table with holes: where they are, whether they can be modelled, what can be trusted, and what to run.

Nothing is fitted and nothing is changed; with --out a report is written.
"""

import argparse
import shlex
import textwrap
from typing import TYPE_CHECKING

from nanfold.commands._notes import notes
from nanfold.commands._output import OutputFolder
from nanfold.commands._progress import Progress
from nanfold.commands._reading import add_reading_options, read, reading_words

if TYPE_CHECKING:
    from pathlib import Path

    from nanfold.inspection.words import Verdict
    from nanfold.io import Table

EXAMPLES = """\
examples:
  nanfold inspect table.csv
  nanfold inspect table.csv --label kind --out inspected

Every line begins with good, look or bad. Tests are called significant below p = 0.01. Of a large table, the tests look
at 600 samples and 1000 features.
"""
MARKS = {"good": "good", "warn": "look", "bad": "bad "}


def configure(parser: argparse.ArgumentParser) -> None:
    """The options of ``nanfold inspect``."""
    parser.epilog = EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add_reading_options(parser)
    parser.add_argument("--out", metavar="DIR", help="also write a report to DIR/report.html, and the numbers")
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="of what is drawn (default: %(default)s)")


def run(args: argparse.Namespace) -> int:
    """Read, look, print, and write the report if there is to be one."""
    if args.seed < 0:
        raise ValueError(f"--seed must be at least 0; it is {args.seed}.")
    table = read(args)
    print(table.summary())
    if args.out is None:
        _inspect(args, table, None)
    else:
        with OutputFolder(args.out) as folder:
            _inspect(args, table, folder)
        out = str(args.out).rstrip("/") or "/"
        print(f"\nReport   {out}/report.html\nNumbers  {out}/inspection.json")
    return 0


def _inspect(args: argparse.Namespace, table: "Table", folder: "Path | None") -> None:
    from nanfold.inspection.advice import command_for
    from nanfold.inspection.examine import examine
    from nanfold.inspection.words import Verdict, verdicts

    found = None
    with notes("inspect"):
        if table.dropouts:
            said = [
                Verdict(
                    "warn",
                    "Which zeros are dropouts is inferred from the values, so tests of where holes are say nothing.",
                    "nanfold embed weighs every zero by how many of the cells like it have zero there too.",
                )
            ]
        else:
            with Progress("looking at the holes") as progress:
                found = examine(table, args.seed, progress.update)
            said = verdicts(found, table)
    command = command_for(table, found, reading_words(args), args.file)
    print()
    for verdict in said:
        print(_paragraph(verdict))
    print(f"\nWhat to run\n  {command}")
    if folder is not None:
        from nanfold.report.of_inspection import content_of, numbers_of
        from nanfold.report.page import render

        own = shlex.join(["nanfold", "inspect", args.file, *reading_words(args), "--out", str(args.out)])
        content = content_of(table, found, said, command, own)
        (folder / "report.html").write_text(render(content), encoding="utf-8")
        (folder / "inspection.json").write_text(numbers_of(table, found, said, command), encoding="utf-8")


def _paragraph(verdict: "Verdict") -> str:
    text = " ".join(part for part in (verdict.says, verdict.detail) if part)
    return textwrap.fill(text, 100, initial_indent=f"{MARKS[verdict.state]}  ", subsequent_indent="      ")
