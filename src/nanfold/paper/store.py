"""What is done: one small file a job, whole or not there, so that a run can be killed at any point and go on."""

import contextlib
import json
import os
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from nanfold.paper.protocol import Cell, Result

LOCK = ".lock"


class Store:
    """A folder of results, to which one run at a time may add."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def __enter__(self) -> Self:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = open(self.folder / LOCK, "w")  # held for as long as the run lasts
        except OSError as error:
            raise ValueError(f"Cannot write to {self.folder}: {error.strerror}.") from error
        if not _locked(self._lock):
            self._lock.close()
            raise ValueError(f"Another run writes to {self.folder}; wait for it, or name another --out.")
        # Nobody else is writing, so these are of a run that was killed.
        for part in self.folder.glob(".*.part"):
            part.unlink()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._lock.close()

    def keep(self, result: Result) -> None:
        """Write a result down."""
        path = self.folder / f"{result.cell.key}.json"
        part = self.folder / f".{result.cell.key}.part"
        try:
            with open(part, "w", encoding="utf-8") as file:
                json.dump(asdict(result), file)
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
        except OSError as error:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)
            raise ValueError(
                f"Cannot write {path}: {error.strerror or error}; what was done before is kept, and the same command "
                "goes on from there."
            ) from error

    def results(self) -> list[Result]:
        """All that was written down, in order."""
        return sorted((_read(path) for path in self.folder.glob("*.json")), key=lambda result: result.cell)


def check_same_data(results: list[Result], fingerprints: dict[str, str], folder: Path) -> None:
    """Results of other data must not be mixed with new ones."""
    for result in results:
        name = result.cell.data
        if name in fingerprints and result.fingerprint != fingerprints[name]:
            raise ValueError(
                f"{folder} holds results of another {name} than this one; name another --out, or delete them."
            )


def _read(path: Path) -> Result:
    try:
        fields: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        cell = Cell(**fields.pop("cell"))
        fields |= {key: tuple(fields[key]) for key in ("notes", "versions")}
        return Result(cell, **fields)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is damaged; delete it, and the job is done again.") from error


def _locked(file: Any) -> bool:
    """Whether we have the file to ourselves; always, where there are no such locks."""
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
