"""How far something is, on the terminal, once it has taken longer than two seconds."""

import os
import sys
import threading
import time
from types import TracebackType
from typing import Self

PATIENCE = 2.0
EVERY = 0.2
WIDTH = 24


class Progress:
    """A line on stderr that says what is being done and how far it is; nothing where stderr is no terminal.

    Without a share, the time that has passed is shown. The line is wiped out at the end.
    """

    def __init__(self, what: str) -> None:
        self.what = what
        self.share: float | None = None

    def __enter__(self) -> Self:
        self._begin = time.monotonic()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._show, daemon=True)
        if sys.stderr.isatty():
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._done.set()
        if self._thread.is_alive():
            self._thread.join()

    def update(self, share: float, what: str | None = None) -> None:
        """Say how far it is, from 0 to 1, and what is being done now."""
        self.share = share
        self.what = what or self.what

    def _show(self) -> None:
        shown = 0
        if self._done.wait(PATIENCE):
            return
        while True:
            line = self.line(time.monotonic() - self._begin, _columns())
            sys.stderr.write("\r" + line.ljust(shown))
            sys.stderr.flush()
            shown = len(line)
            if self._done.wait(EVERY):
                break
        sys.stderr.write("\r" + " " * shown + "\r")
        sys.stderr.flush()

    def line(self, seconds: float, columns: int = 80) -> str:
        """The line after so many seconds, in less than so many columns: a longer one could not be wiped out."""
        if self.share is None:
            return f"{self.what} ... {seconds:.0f} s"[: columns - 1]
        left, right = f"{self.what} ", f"{self.share:4.0%} {seconds:.0f} s"
        width = min(WIDTH, columns - len(left) - len(right) - 4)
        full = round(width * min(max(self.share, 0.0), 1.0))
        bar = f"[{'#' * full}{'.' * (width - full)}] " if width > 0 else ""
        return f"{left}{bar}{right}"[: columns - 1]


def _columns() -> int:
    """How wide the terminal is, which may be made narrower at any time."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except (OSError, ValueError):
        return 80
