"""Draw the samples of a table with holes by PCA, UMAP, t-SNE and GPLVM, without filling the holes in.

Writes coordinates, the fitted estimators, all numbers, pictures and a report.
"""

import argparse
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from nanfold.commands._notes import notes
from nanfold.commands._output import OutputFolder
from nanfold.commands._progress import Progress
from nanfold.commands._reading import add_reading_options, read, reading_words

if TYPE_CHECKING:
    from nanfold.io import Table
    from nanfold.study.settings import Settings

EXAMPLES = """\
examples:
  nanfold embed table.csv
  nanfold embed table.csv --label kind --methods pca,umap --out embedded
  nanfold embed table.csv --methods pca --components 5 --coordinates parquet --seed 1

The estimators are those of Python's nanfold: joblib.load("embedded/models.joblib")["umap"].transform(new_rows). For an
.h5ad file the coordinates are also written into a copy of it, as obsm["X_pca"] and so on. Methods that would take long
with many samples are left out, and this is said, unless --methods names them.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """The options of ``nanfold embed``."""
    parser.epilog = EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add_reading_options(parser)
    parser.add_argument("--methods", metavar="LIST", help="of pca,umap,tsne,gplvm (default: all that do not take long)")
    parser.add_argument(
        "--components",
        metavar="K",
        default="signflip",
        help="of PCA: a number, a share of the variance, 'signflip' (those that stand out of data with random signs), "
        "'cng' (scree test) or 'all' (default: %(default)s)",
    )
    parser.add_argument(
        "--observation",
        choices=("rank-one", "rank-one-bounded", "homogeneous", "pairwise"),
        default="rank-one",
        help="the model of which entries are observed (default: %(default)s)",
    )
    parser.add_argument(
        "--assist",
        metavar="A",
        default="auto",
        help="the guess that lowers the variance: 'auto', 'low-rank', a rank, or 0 for none (default: %(default)s)",
    )
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="(default: %(default)s)")
    parser.add_argument(
        "--coordinates", choices=("csv", "parquet"), default="csv", help="how they are written (default: %(default)s)"
    )
    parser.add_argument("--out", metavar="DIR", help="where to write (default: the name of the file, and -embedded)")


def run(args: argparse.Namespace) -> int:
    """Read, fit, write, and say where."""
    table = read(args)
    from nanfold.study.settings import settings_of

    settings = settings_of(args.methods, args.components, args.assist, args.observation, args.seed, table.shape[0])
    out = Path(args.out or f"{table.source.name.split('.')[0] or 'table'}-embedded")
    print(table.summary())
    with OutputFolder(out) as folder, notes("embed"):
        written = _embed(args, table, settings, folder, out)
    for what, name in written:
        print(f"{what:<12}{out / name}")
    return 0


def _embed(
    args: argparse.Namespace, table: "Table", settings: "Settings", folder: Path, out: Path
) -> list[tuple[str, str]]:
    # Before the work, or a missing library would be found out only after it.
    import joblib
    import matplotlib  # noqa: F401

    from nanfold.report.of_study import content_of
    from nanfold.report.page import render
    from nanfold.study.agreement import neighbour_overlap
    from nanfold.study.coordinates import write_annotated, write_coordinates
    from nanfold.study.fitting import study
    from nanfold.study.numbers import as_json, numbers_of
    from nanfold.study.pictures import colour_of, plane_of, save_pictures
    from nanfold.study.trust import trust_of

    with Progress("starting") as progress:
        found = study(table, settings, lambda share, what: progress.update(0.9 * share, what))
        for note in found.notes:
            print(note)
        progress.update(0.9, "the report")
        trust = trust_of(found)
        overlap, neighbours = neighbour_overlap([plane_of(found, name) for name in settings.methods], settings.seed)
        colour = colour_of(found, args.label)
        command = _command(args, found.settings, out)
        content = content_of(found, trust, overlap, neighbours, colour, command)
        (folder / "report.html").write_text(render(content), encoding="utf-8")
        written = [("Report", "report.html")]
        pictures = save_pictures(found, colour, folder)
        written.append(("Pictures", f"{pictures[-1]}.png"))
        write_coordinates(folder / f"coordinates.{args.coordinates}", found)
        written.append(("Coordinates", f"coordinates.{args.coordinates}"))
        if table.kind == "h5ad" and not args.transpose:
            name = f"{table.source.stem}.h5ad"
            write_annotated(folder / name, found)
            written.append(("AnnData", name))
        joblib.dump(found.models, folder / "models.joblib", compress=1)
        written.append(("Estimators", "models.joblib"))
        numbers = numbers_of(found, trust, overlap, neighbours, command)
        (folder / "numbers.json").write_text(as_json(numbers), encoding="utf-8")
        written.append(("Numbers", "numbers.json"))
    return written


def _command(args: argparse.Namespace, settings: "Settings", out: Path) -> str:
    """The command that does the same again, with the methods that were chosen."""
    words = ["nanfold", "embed", args.file, *reading_words(args), "--methods", ",".join(settings.methods)]
    for name in ("components", "observation", "assist", "seed"):
        words += [f"--{name}", str(getattr(args, name))]
    return shlex.join([*words, "--out", str(out)])
