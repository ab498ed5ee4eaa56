"""The options by which every command that takes a file has it read."""

import argparse
from typing import TYPE_CHECKING

from nanfold.commands._progress import Progress

if TYPE_CHECKING:
    from nanfold.io import Table


def add_reading_options(parser: argparse.ArgumentParser) -> None:
    """FILE and how it is read."""
    parser.add_argument("file", metavar="FILE", help="csv, tsv, parquet, feather, npy, npz, mtx, 10x, h5ad or zarr")
    reading = parser.add_argument_group("reading the file")
    reading.add_argument(
        "--label", metavar="COLUMN", action="append", default=[], help="a column of labels; may be given several times"
    )
    reading.add_argument(
        "--missing",
        choices=("nan", "unstored", "dropouts"),
        default="nan",
        help="what is a hole: NaN, what a sparse file does not store, or some of the zeros of counts (default: nan)",
    )
    reading.add_argument("--triplets", action="store_true", help="every line is user, item, rating")
    reading.add_argument("--transpose", action="store_true", help="the file has features in rows")
    reading.add_argument("--layer", metavar="NAME", help="the layer of an h5ad, or the array of an npz, to read")
    reading.add_argument("--format", metavar="NAME", help="the format, if the ending of the file does not say it")
    reading.add_argument("--no-header", action="store_true", help="the first line holds values and not names")
    reading.add_argument("--no-row-names", action="store_true", help="the first column does not name the samples")
    reading.add_argument("--separator", metavar="CHAR", help="what stands between cells, if it is not found out")
    reading.add_argument("--encoding", metavar="NAME", help="of a text file, if it is not UTF-8 (for example latin-1)")


def read(args: argparse.Namespace) -> "Table":
    """The table that the options ask for; samples and features without any value are refused."""
    from nanfold.io import read_table

    if args.separator is not None and len(args.separator) != 1:
        raise ValueError(f"--separator must be one character; it is {args.separator!r}.")
    with Progress(f"reading {args.file}") as progress:
        table = read_table(
            args.file,
            labels=args.label,
            triplets=args.triplets,
            missing=args.missing,
            format=args.format,
            layer=args.layer,
            transpose=args.transpose,
            header=False if args.no_header else None,
            row_names=False if args.no_row_names else None,
            separator=args.separator,
            encoding=args.encoding,
            progress=progress.update,
        )
    table.refuse_unseen()
    return table


def reading_words(args: argparse.Namespace) -> list[str]:
    """The options given, as words of a command, for a command that reads the same file."""
    words = [word for label in args.label for word in ("--label", label)]
    if args.missing != "nan":
        words += ["--missing", args.missing]
    for name in ("triplets", "transpose", "no_header", "no_row_names"):
        if getattr(args, name):
            words.append(f"--{name.replace('_', '-')}")
    for name in ("layer", "format", "separator", "encoding"):
        if getattr(args, name) is not None:
            words += [f"--{name}", getattr(args, name)]
    return words
