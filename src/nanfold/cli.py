"""The command line: ``nanfold COMMAND``. Nothing heavy is imported before a command runs."""

import argparse
import importlib
import io
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NoReturn

from nanfold import __version__
from nanfold.commands import NAMES

DONE, FAILED, REFUSED, INTERRUPTED, TERMINATED = 0, 1, 2, 130, 143

# What a command may need beyond the core, and the extra that brings it.
EXTRAS = {
    "anndata": "anndata",
    "dask": "dask",
    "distributed": "dask",
    "h5py": "io",
    "matplotlib": "plot",
    "pandas": "io",
    "pyarrow": "io",
    "torch": "torch",
    "zarr": "anndata",
}


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one sentence."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and where the options are explained, and exit."""
        self.exit(REFUSED, f"{self.prog}: {message}; see '{self.prog} --help'.\n")


def build_parser() -> Parser:
    """The parser of everything, with one subparser a command."""
    parser = Parser(
        prog="nanfold",
        description="Dimension reduction for data with holes, without filling them in.",
        epilog="exit codes: 0 done, 1 failed, 2 bad usage or input, 130 interrupted, 143 terminated",
    )
    parser.add_argument("--version", action="version", version=f"nanfold {__version__}")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    commands = parser.add_subparsers(title="commands", dest="command", metavar="COMMAND")
    for name in NAMES:
        module = importlib.import_module(f"nanfold.commands.{name}")
        summary = (module.__doc__ or name).splitlines()[0]
        command = commands.add_parser(name, help=summary.replace("%", "%%"), description=summary)
        # Suppressed, or the default here would overwrite a --debug given before the command.
        command.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
        module.configure(command)
        command.set_defaults(run=module.run)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code is 0 done, 1 failed, 2 bad usage or input, 130 on Ctrl-C, 143 on SIGTERM."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a file name need not be printable
    parser = build_parser()
    args = parser.parse_args(argv)
    if args.command is None:
        parser.print_help(sys.stderr)
        return REFUSED
    try:
        with _ended_in_order():
            code = args.run(args)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # Whoever read our output has gone; keep the interpreter's last flush from failing too.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except (Exception, KeyboardInterrupt, Terminated) as error:
        if args.debug:
            importlib.import_module("traceback").print_exc()
        code, sentence = explain(error)
        print(f"nanfold {args.command}: {sentence}", file=sys.stderr)
        return code


class Terminated(BaseException):
    """SIGTERM came."""


@contextmanager
def _ended_in_order() -> Iterator[None]:
    """SIGTERM ends a command as Ctrl-C does, by an exception, so that processes and temporary files go with it."""
    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _terminate(number: int, frame: object) -> NoReturn:
    raise Terminated


def explain(error: BaseException) -> tuple[int, str]:
    """The exit code and the sentence for whatever ended a command."""
    message = " ".join(str(error).split())
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED, "interrupted."
    if isinstance(error, Terminated):
        return TERMINATED, "terminated."
    if isinstance(error, ModuleNotFoundError) and error.name in EXTRAS:
        return FAILED, f"needs {error.name}, which is not installed; pip install 'nanfold[{EXTRAS[error.name]}]'."
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return REFUSED, f"{error.strerror}: {error.filename}"
    if isinstance(error, OSError | ValueError) and message:
        return REFUSED, message
    if isinstance(error, MemoryError):
        return FAILED, "ran out of memory."
    return FAILED, f"failed with {type(error).__name__}: {message}; --debug shows where."


if __name__ == "__main__":
    sys.exit(main())
