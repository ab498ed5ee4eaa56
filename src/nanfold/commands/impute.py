"""Fill the holes of a table with a low-rank reconstruction, and say how sure each filled value is.

What was observed stays exactly as it is.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from nanfold.commands._notes import notes
from nanfold.commands._output import OutputFolder
from nanfold.commands._progress import Progress
from nanfold.commands._reading import add_reading_options, read

if TYPE_CHECKING:
    from nanfold.imputation import HeldOutCheck

EXAMPLES = """\
examples:
  nanfold impute table.csv --out filled.csv
  nanfold impute table.csv --out filled.parquet --rank 3 --seed 1

The standard deviations of the filled values are written beside it, to filled.sd.csv (0 where observed); an .npz file
holds them as its array "sd", an .h5ad file as its layer "sd".
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """The options of ``nanfold impute``."""
    parser.epilog = EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add_reading_options(parser)
    parser.add_argument(
        "--out", metavar="FILE", required=True, help="csv, tsv (.gz may follow), parquet, feather, npy, npz or h5ad"
    )
    parser.add_argument(
        "--rank", metavar="K", default="auto", help="components (default: what predicts held-out entries best)"
    )
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="(default: %(default)s)")


def run(args: argparse.Namespace) -> int:
    """Read, fill, check on held-out entries, write."""
    out = Path(args.out)
    _check_options(args, out)
    table = read(args)
    if table.dropouts:
        raise ValueError(
            "With --missing dropouts no zero is known to be a hole, so there is nothing to fill; give the holes as NaN."
        )
    if table.share_of_holes() == 0:
        raise ValueError(f"{args.file} has no holes; there is nothing to fill.")
    print(table.summary())
    with OutputFolder(out.parent) as folder, notes("impute"):
        import numpy as np

        from nanfold.imputation import check_on_held_out, fill, held_out_rank
        from nanfold.imputation.writing import write_filled
        from nanfold.observed import observe

        observed = observe(table.X, None, "unstored" if table.unstored else "nan")
        rank = _rank(args.rank, observed.shape)
        with Progress("choosing the rank") as progress:
            rank = rank or held_out_rank(observed, np.random.default_rng(args.seed))
            progress.update(0.2, "checking on held-out entries")
            check = check_on_held_out(observed, rank, np.random.default_rng(args.seed))
            progress.update(0.6, "filling")
            filled = fill(
                table.X, observed, rank, np.random.default_rng(args.seed), lambda s: progress.update(0.6 + 0.3 * s)
            )
            progress.update(0.9, "writing")
            written = write_filled(folder / out.name, table, filled, args.layer)
    holes = filled.deviation > 0
    print(f"Filled {int(holes.sum())} holes with {rank} component{'' if rank == 1 else 's'}.")
    if check is not None:
        print(_said(check))
    for name, what in written.items():
        print(f"{what:<21}{out.parent / name}")
    return 0


def _check_options(args: argparse.Namespace, out: Path) -> None:
    from nanfold.io.writing import ending_of

    ending_of(out)
    if args.seed < 0:
        raise ValueError(f"--seed must be at least 0; it is {args.seed}.")
    if out.is_dir():
        raise ValueError(f"--out {out} is a folder; name a file in it.")
    if out.exists() and Path(args.file).exists() and out.samefile(args.file):
        raise ValueError(f"--out {out} is the file that is read; name another one.")


def _rank(asked: str, shape: tuple[int, int]) -> int:
    """The rank asked for, or 0 for "auto"."""
    if asked == "auto":
        return 0
    most = min(shape) - 1
    if not asked.isdecimal() or not 1 <= int(asked) <= most:
        raise ValueError(f"--rank must be 'auto' or a whole number from 1 to {most}; it is {asked!r}.")
    return int(asked)


def _said(check: "HeldOutCheck") -> str:
    return (
        f"Of {check.n_entries} entries that were held out, {100 * check.within_one:.0f} % lie within one standard "
        f"deviation and {100 * check.within_two:.0f} % within 1.96 (68 % and 95 % are wanted); the error is "
        f"{check.error:.4g}, that of means {check.error_of_means:.4g}."
    )
