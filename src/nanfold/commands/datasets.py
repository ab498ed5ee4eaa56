"""List the paper's data sets: what is at hand, and its shape and classes against the paper's Table 1.

With --fetch, download those that are not.
"""

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nanfold.datasets.real import Spec

SHAPE = "samples x features, classes"


def configure(parser: argparse.ArgumentParser) -> None:
    """The options of ``nanfold datasets``."""
    parser.add_argument("names", metavar="NAME", nargs="*", help="the sets to show (default: all)")
    parser.add_argument("--data-dir", metavar="DIR", help="look into this folder, and not into the cache")
    parser.add_argument("--cache-dir", metavar="DIR", help="where downloads are kept")
    parser.add_argument("--fetch", action="store_true", help="download what is not in the cache")


def run(args: argparse.Namespace) -> int:
    """Print the table; 1 if something could not be downloaded."""
    from nanfold.datasets.real import SPECS, check_folder, found_in, load, shape_of, spec_of

    if args.fetch and args.data_dir is not None:
        raise ValueError("--fetch downloads into the cache, and --data-dir takes sets from a folder; give one of them.")
    specs = [spec_of(name) for name in args.names or SPECS]
    if args.data_dir is not None:
        check_folder(args.data_dir)
    here = set(found_in(args.data_dir)) if args.data_dir is not None else _kept(args.cache_dir)
    failed, notes = [], []
    line = _line([spec.name for spec in specs], [_in_paper(spec) for spec in specs])
    print(line("set", SHAPE, "in the paper", "where"))
    for spec in specs:
        wanted = args.fetch and (spec.parse is not None or spec.name in args.names)
        shape, where = "", "not downloaded" if spec.of_paper else "only from a folder"
        if spec.name in here or wanted:
            try:
                data = load(spec.name, args.data_dir, cache_dir=args.cache_dir)
            except (ValueError, OSError) as error:
                where = "unusable" if spec.name in here else "could not be downloaded"
                failed.append(str(error))
            else:
                shape = _shape(*shape_of(data))
                where = args.data_dir or "cache"
                notes += [f"{spec.name}: {note}" for note in data.notes]
        elif args.data_dir is not None:
            where = "not in the folder"
        print(line(spec.name, shape, _in_paper(spec), where), flush=True)
    for note in notes:
        print(note)
    if failed:
        raise ValueError(" ".join(failed))
    return 0


def _kept(cache_dir: str | None) -> set[str]:
    from nanfold.datasets.cache import Cache
    from nanfold.datasets.real import SPECS

    cache = Cache(cache_dir)
    return {name for name in SPECS if cache.has(name)}


def _line(names: list[str], papers: list[str]) -> Callable[..., str]:
    """Lines of a table whose columns are as wide as the longest of these."""
    widths = [max(map(len, [*names, "set"])), len(SHAPE), max(map(len, [*papers, "in the paper"])), 0]

    def line(*texts: str) -> str:
        return "  ".join(f"{text:<{width}}" for text, width in zip(texts, widths, strict=True)).rstrip()

    return line


def _in_paper(spec: "Spec") -> str:
    paper = _shape(*spec.paper) if spec.of_paper else "not in it"
    return paper if spec.part_of is None else f"{paper}, a part of its {spec.part_of}"


def _shape(samples: Any, features: Any, classes: Any) -> str:
    if samples is features is classes is None:
        return "not known to us"
    return f"{samples or '?'} x {features or '?'}, {classes or '?'}"
