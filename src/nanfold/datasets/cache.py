"""The folder of downloads: fetched whole or not at all, checked, and kept for the next time."""

import hashlib
import http.client
import os
import shutil
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nanfold.datasets.dataset import Dataset

ATTEMPTS = 4
# Seconds before the second attempt; twice as many before each that follows.
FIRST_WAIT = 1.0
TIMEOUT = 60.0
CHUNK = 1 << 18
# Answers of a server that may be others if asked again.
PASSING = {408, 425, 429, 500, 502, 503, 504}

Progress = Callable[[str, int, int | None], None]


@dataclass(frozen=True)
class Source:
    """A file that a set is made from.

    Attributes
    ----------
    name : what it is called in the cache
    url : where it comes from; None if it is put there by hand
    sha256 : its checksum, where one is known. Where none is, that of the first download is written down beside the
        file, and later downloads must agree with it.
    """

    name: str
    url: str | None = None
    sha256: str | None = None


class Cache:
    """Downloads under `raw`, and beside it the sets that were made from them."""

    def __init__(self, path: str | Path | None = None) -> None:
        self.path = Path(path) if path is not None else _default_path()
        self.raw = self.path / "raw"

    def has(self, name: str) -> bool:
        """Whether the set was made before."""
        return (self.path / f"{name}.npz").is_file()

    def kept(self, name: str) -> Dataset | None:
        """The set as it was made before, or None."""
        if not self.has(name):
            return None
        path = self.path / f"{name}.npz"
        try:
            with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as file:
                parts = {key: file[key] for key in file.files}
            return Dataset(
                name,
                parts["X"],
                parts["labels"],
                str(parts["values"]),
                parts.get("features"),
                parts.get("samples"),
                tuple(parts["notes"].tolist()),
            )
        except Exception as error:
            raise ValueError(f"{path} in the cache is damaged; delete it and load {name} again.") from error

    def keep(self, data: Dataset) -> None:
        """Write a set down, whole or not at all."""
        parts = {
            "X": data.X,
            "labels": data.labels,
            "values": np.array(data.values),
            "notes": np.array(data.notes, str),
        }
        parts |= {key: names for key in ("features", "samples") if (names := getattr(data, key)) is not None}
        path = self.path / f"{data.name}.npz"
        part = self.path / f".{data.name}.{os.getpid()}.part"
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            with open(part, "wb") as file:
                np.savez_compressed(file, allow_pickle=False, **parts)
            part.replace(path)
        except OSError as error:
            raise _no_room(error, path) from error
        finally:
            part.unlink(missing_ok=True)

    def fetch(
        self, source: Source, progress: Progress | None = None, wait: Callable[[float], None] = time.sleep
    ) -> Path:
        """The file of this source, downloaded unless it is here already."""
        path = self.raw / source.name
        if path.is_file():
            return path
        if source.url is None:
            raise ValueError(f"{source.name} cannot be downloaded; put it into {self.raw}.")
        part = self.raw / f".{source.name}.part"
        try:
            self.raw.mkdir(parents=True, exist_ok=True)
            _download(source.url, part, lambda done, total: progress and progress(source.name, done, total), wait)
            self._check(source, part)
            part.replace(path)
        except OSError as error:
            raise _no_room(error, path) from error
        finally:
            part.unlink(missing_ok=True)
        return path

    def _check(self, source: Source, part: Path) -> None:
        found = _sha256(part)
        record = self.raw / f"{source.name}.sha256"
        wanted = source.sha256
        if wanted is None and record.is_file():
            wanted = record.read_text(encoding="ascii").strip()
        if wanted is not None and found != wanted:
            raise ValueError(
                f"{source.url} has the SHA-256 {found} where {wanted} was expected, so the file has changed or was "
                "damaged on its way; nothing was kept."
                + ("" if source.sha256 else f" If the change is meant, delete {record}.")
            )
        if source.sha256 is None and not record.is_file():
            record.write_text(f"{found}\n", encoding="ascii")


def draw_bar(name: str, done: int, total: int | None) -> None:
    """A line on standard error about a download, if a person may be looking."""
    if not sys.stderr.isatty():
        return
    shown = f"{done / 1e6:.1f} MB" if total is None else f"{done / 1e6:.1f} of {total / 1e6:.1f} MB"
    # A line longer than the terminal is wide would be drawn below and not over itself.
    width = max(5, min(30, shutil.get_terminal_size().columns - len(name) - len(shown) - 5))
    filled = 0 if not total else int(width * done / total)
    # Back at the start of the line, whatever is said next is written over it.
    end = "\n" if total is not None and done >= total else "\r"
    print(f"{name} [{'#' * filled}{'.' * (width - filled)}] {shown}", end=end, file=sys.stderr, flush=True)


class _PassingError(Exception):
    """Something that may go better next time."""


def _download(
    url: str, part: Path, progress: Callable[[int, int | None], object], wait: Callable[[float], None]
) -> None:
    """Fetch the url into `part`, carrying on where an attempt broke off if the server can."""
    if part.is_file():
        part.unlink()  # what an earlier run that was killed has left
    for attempt in range(ATTEMPTS):
        try:
            _attempt(url, part, progress)
            return
        except _PassingError as error:
            if attempt == ATTEMPTS - 1:
                raise ValueError(
                    f"{url} could not be downloaded in {ATTEMPTS} attempts, the last of which ended with: {error}. Try "
                    "again later, or name a folder that holds the set."
                ) from error
            wait(FIRST_WAIT * 2**attempt)


def _attempt(url: str, part: Path, progress: Callable[[int, int | None], object]) -> None:
    start = part.stat().st_size if part.is_file() else 0
    request = urllib.request.Request(url, headers={"User-Agent": "nanfold"})
    if start:
        request.add_header("Range", f"bytes={start}-")
    try:
        answer = urllib.request.urlopen(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416 and start:
            part.unlink()
            raise _PassingError("the server could not carry on where it broke off") from error
        if error.code in PASSING:
            raise _PassingError(f"the server answered {error.code} {error.reason}") from error
        raise ValueError(
            f"{url} cannot be downloaded: the server answered {error.code} {error.reason}. Name a folder that holds "
            "the set instead."
        ) from error
    except (urllib.error.URLError, TimeoutError, ConnectionError, http.client.HTTPException) as error:
        raise _PassingError(str(getattr(error, "reason", error)) or type(error).__name__) from error
    with answer:
        done = start if answer.status == 206 else 0
        length = answer.headers.get("Content-Length")
        total = done + int(length) if length is not None else None
        # Unbuffered, so that a full disk is found out here and not when the file is closed.
        with open(part, "ab" if done else "wb", buffering=0) as file:
            done = _copy(answer, file, done, total, progress)
    if total is not None and done < total:
        raise _PassingError(f"only {done} of {total} bytes came")


def _copy(answer: http.client.HTTPResponse, file: object, done: int, total: int | None, progress: Callable) -> int:
    """Write what comes; how many bytes there are at the end, or when it breaks off."""
    while True:
        try:
            chunk = answer.read(CHUNK)
        except http.client.IncompleteRead as error:
            chunk = error.partial
            if not chunk:
                raise _PassingError(f"it broke off after {done} bytes") from error
        except (TimeoutError, ConnectionError, http.client.HTTPException) as error:
            raise _PassingError(f"it broke off after {done} bytes") from error
        if not chunk:
            return done
        view = memoryview(chunk)
        while view:
            view = view[file.write(view) :]  # type: ignore[attr-defined]
        done += len(chunk)
        progress(done, total)


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _no_room(error: OSError, path: Path) -> ValueError:
    return ValueError(
        f"Cannot write {path}: {error.strerror or error}. Make room, or choose another folder with cache_dir "
        "(--cache-dir); nothing was kept."
    )


def _default_path() -> Path:
    named = os.environ.get("NANFOLD_CACHE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "nanfold"
