"""A folder of results that is written as a whole or not at all."""

import os
import shutil
import tempfile
from pathlib import Path
from types import TracebackType


class OutputFolder:
    """Collects files in a temporary folder on the same disk, and moves them to `path` when all are written.

    Entering it checks that the folder can be written, before any work is done for it, and gives the temporary folder.
    If the body fails, that goes, and `path` is as it was. Files of other names in `path` stay in any case.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def __enter__(self) -> Path:
        # Inside the folder if it exists: it may be a disk of its own, or the only place where we may write.
        home = self.path.absolute()
        while not os.path.lexists(home):
            home = home.parent
        if not home.is_dir():
            raise ValueError(f"Cannot write to {self.path}: {_shown(home)} is not a folder.")
        try:
            self._temporary = Path(tempfile.mkdtemp(prefix=".nanfold-", dir=home))
            # A folder within, because the one around it is closed to everyone else.
            self._files = self._temporary / "files"
            self._files.mkdir()
        except OSError as error:
            raise ValueError(f"Cannot write to {self.path}: {error.strerror}.") from error
        return self._files

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self._publish()
        except OSError as failure:
            error = failure
        finally:
            shutil.rmtree(self._temporary, ignore_errors=True)
        if isinstance(error, OSError):
            raise ValueError(f"Cannot write to {self.path}: {error.strerror or error}.") from error

    def _publish(self) -> None:
        if not self.path.exists():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._files.rename(self.path)
            return
        names = sorted(file.name for file in self._files.iterdir())
        for name in names:
            if (self.path / name).is_dir():
                raise ValueError(f"Cannot write to {self.path}: there is a folder named {name} in it.")
        for name in names:
            (self._files / name).replace(self.path / name)


def _shown(path: Path) -> str:
    return os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)
