"""The command line: what it imports, what it answers, and how it ends."""

import importlib
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

import nanfold
from nanfold import commands
from nanfold.cli import Terminated, main
from nanfold.commands import _progress, demo
from nanfold.commands._output import OutputFolder
from nanfold.commands._progress import Progress

HEAVY = {"numpy", "scipy", "sklearn", "numba", "pandas", "matplotlib", "anndata", "umap", "openTSNE", "dask", "torch"}


def run_python(code: str, *arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=120)


def fails_with(error: BaseException):
    def run(*args, **options):
        raise error

    return run


def one_sentence(text: str) -> bool:
    return text.count("\n") == 1 and text.startswith("nanfold") and "Traceback" not in text


def test_help_imports_nothing_heavy():
    code = """
import sys
from nanfold.cli import main
try:
    main(["--help"])
except SystemExit as end:
    print("code", end.code)
print("modules", *{name.partition(".")[0] for name in sys.modules})
"""
    answer = run_python(code)
    *text, modules = answer.stdout.splitlines()
    assert text[-1] == "code 0"
    assert not HEAVY & set(modules.split())
    assert not answer.stderr


@pytest.mark.parametrize("name", commands.NAMES)
def test_every_command_explains_itself(name, capsys):
    with pytest.raises(SystemExit) as end:
        main([name, "--help"])
    assert end.value.code == 0
    text = capsys.readouterr().out
    module = importlib.import_module(f"nanfold.commands.{name}")
    assert module.__doc__.splitlines()[0] in " ".join(text.split())
    with pytest.raises(SystemExit):
        main(["--help"])
    # A long name has a line of its own.
    assert re.search(rf"\n    {name}\s", capsys.readouterr().out)


def test_every_command_is_named():
    files = {path.stem for path in Path(commands.__file__).parent.glob("*.py") if not path.stem.startswith("_")}
    assert files == set(commands.NAMES)


def test_version(capsys):
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert end.value.code == 0
    assert capsys.readouterr().out == f"nanfold {nanfold.__version__}\n"


def test_the_script_is_installed():
    script = Path(sys.executable).with_name("nanfold")
    if not script.exists():
        pytest.skip("nanfold is on the path and not installed")
    answer = subprocess.run([script, "--version"], capture_output=True, text=True, timeout=60)
    assert (answer.returncode, answer.stdout) == (0, f"nanfold {nanfold.__version__}\n")


def test_without_a_command_it_shows_the_help(capsys):
    assert main([]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("usage: nanfold")
    assert not captured.out


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["dance"], "'dance'"),
        (["--loud"], "--loud"),
        (["demo", "--seed", "x"], "--seed"),
        (["demo", "--seed"], "--seed"),
        (["demo", "--nonsense"], "--nonsense"),
        (["demo", "extra"], "extra"),
    ],
)
def test_bad_usage(argv, says, capsys):
    with pytest.raises(SystemExit) as end:
        main(argv)
    assert end.value.code == 2
    captured = capsys.readouterr()
    assert one_sentence(captured.err)
    assert says in captured.err
    assert "--help" in captured.err


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (ValueError("Row 3 of X has no\n  observed entry."), 2, "Row 3 of X has no observed entry."),
        (FileNotFoundError(2, "No such file or directory", "x.csv"), 2, "No such file or directory: x.csv"),
        (OSError(28, "No space left on device", "out"), 2, "No space left on device: out"),
        (TimeoutError("The disk did not answer."), 2, "The disk did not answer."),
        (ModuleNotFoundError("No module named 'matplotlib'", name="matplotlib"), 1, "pip install 'nanfold[plot]'"),
        (ModuleNotFoundError("No module named 'sesame'", name="sesame"), 1, "ModuleNotFoundError: No module named"),
        (MemoryError(), 1, "ran out of memory"),
        (ZeroDivisionError("division by zero"), 1, "ZeroDivisionError: division by zero; --debug shows where."),
        (KeyboardInterrupt(), 130, "interrupted."),
        (Terminated(), 143, "terminated."),
    ],
)
def test_how_a_command_ends(error, code, says, monkeypatch, capsys):
    monkeypatch.setattr(demo, "run", fails_with(error))
    assert main(["demo"]) == code
    captured = capsys.readouterr()
    assert one_sentence(captured.err)
    assert says in captured.err
    assert not captured.out


@pytest.mark.parametrize("argv", [["--debug", "demo"], ["demo", "--debug"]])
def test_debug_shows_the_traceback(argv, monkeypatch, capsys):
    monkeypatch.setattr(demo, "run", fails_with(ValueError("Row 3 is empty.")))
    assert main(argv) == 2
    error = capsys.readouterr().err
    assert "Traceback" in error
    assert error.endswith("\nnanfold demo: Row 3 is empty.\n")


def test_nobody_reads_the_output():
    code = """
import sys
from nanfold import cli
from nanfold.commands import demo
demo.run = lambda args: print("x" * 1_000_000) or 0
sys.exit(cli.main(["demo"]))
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    assert process.wait(timeout=60) == 1
    assert process.stderr.read() == b""
    process.stderr.close()


@pytest.mark.skipif(sys.platform == "win32", reason="sends signals")
@pytest.mark.parametrize(
    ("number", "code", "says"), [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")]
)
def test_ended_it_leaves_nothing(tmp_path, number, code, says):
    program = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever we were started with
signal.signal(signal.SIGTERM, signal.SIG_DFL)
from nanfold.cli import main
import nanfold.demo.pictures
sys.exit(main(["demo", "--draws", "1000000", "--samples", "30", "--features", "60", "--out", sys.argv[1]]))
"""
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "out")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    until = time.monotonic() + 60
    while not any(tmp_path.iterdir()) and process.poll() is None and time.monotonic() < until:
        time.sleep(0.05)
    process.send_signal(number)
    out, error = process.communicate(timeout=60)
    assert (process.returncode, out, error) == (code, "", f"nanfold demo: {says}.\n")
    assert not any(tmp_path.iterdir())


def test_who_ignores_sigterm_or_handles_it_goes_on_doing_so(monkeypatch):
    before = signal.getsignal(signal.SIGTERM)
    seen = []
    monkeypatch.setattr(demo, "run", lambda args: seen.append(signal.getsignal(signal.SIGTERM)) or 0)
    try:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        assert main(["demo"]) == 0
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        assert main(["demo"]) == 0
        assert seen[0] == signal.SIG_IGN
        assert seen[1] not in (signal.SIG_IGN, signal.SIG_DFL)
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize("columns", [10, 40, 60, 80, 200])
def test_progress_stays_on_one_line_of_the_terminal(columns, monkeypatch):
    bar = Progress("real")
    assert bar.line(3.0, columns) == "real ... 3 s"[: columns - 1]
    bar.update(0.5, "1000 of 2000 jobs, 12 failed, about 90 min left")
    line = bar.line(5400.0, columns)
    assert len(line) < columns
    assert line.startswith(bar.what[: columns - 1])
    if columns >= 80:
        assert line.endswith(" 50% 5400 s")
    assert ("[############............]" in line) == (columns == 200)
    # Where standard error is no terminal there is a width all the same.
    assert _progress._columns() >= 1


def write(out: Path, *names: str, error: BaseException | type[BaseException] | None = None) -> None:
    with OutputFolder(out) as folder:
        for name in names:
            (folder / name).write_text("new")
        if error is not None:
            raise error


class TestOutputFolder:
    def test_new_folder_with_parents(self, tmp_path):
        with OutputFolder(tmp_path / "a" / "b") as folder:
            (folder / "x.txt").write_text("x")
            assert not (tmp_path / "a").exists()
        assert [path.name for path in (tmp_path / "a" / "b").iterdir()] == ["x.txt"]
        assert [path.name for path in tmp_path.iterdir()] == ["a"]
        # As open to others as a folder that mkdir makes.
        (tmp_path / "plain").mkdir()
        assert (tmp_path / "a" / "b").stat().st_mode == (tmp_path / "plain").stat().st_mode

    def test_existing_folder_keeps_its_other_files(self, tmp_path):
        (tmp_path / "mine.txt").write_text("mine")
        (tmp_path / "x.txt").write_text("old")
        with OutputFolder(tmp_path) as folder:
            (folder / "x.txt").write_text("new")
            assert (tmp_path / "x.txt").read_text() == "old"
        assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"mine.txt": "mine", "x.txt": "new"}

    def test_a_relative_path(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        with OutputFolder("out") as folder:
            (folder / "x.txt").write_text("x")
        assert (tmp_path / "out" / "x.txt").read_text() == "x"

    @pytest.mark.parametrize("there", [False, True])
    @pytest.mark.parametrize(
        ("error", "raised"), [(ZeroDivisionError, ZeroDivisionError), (OSError(28, "No space left"), ValueError)]
    )
    def test_failure_leaves_nothing(self, there, error, raised, tmp_path):
        out = tmp_path / "a" / "b"
        if there:
            out.mkdir(parents=True)
            (out / "x.txt").write_text("old")
        before = sorted(tmp_path.rglob("*"))
        with pytest.raises(raised) as caught:
            write(out, "x.txt", error=error)
        assert sorted(tmp_path.rglob("*")) == before
        assert not there or (out / "x.txt").read_text() == "old"
        if raised is ValueError:
            assert str(caught.value) == f"Cannot write to {out}: No space left."

    def test_a_file_in_the_way(self, tmp_path):
        (tmp_path / "file").write_text("")
        for out in (tmp_path / "file", tmp_path / "file" / "below"):
            with pytest.raises(ValueError, match=r"Cannot write to .*file is not a folder\."):
                write(out, "x.txt")
        assert [path.name for path in tmp_path.iterdir()] == ["file"]

    def test_a_folder_in_the_place_of_a_file(self, tmp_path):
        (tmp_path / "b.txt").mkdir()
        with pytest.raises(ValueError, match=r"there is a folder named b\.txt in it"):
            write(tmp_path, "a.txt", "b.txt")
        assert [path.name for path in tmp_path.iterdir()] == ["b.txt"]

    def test_no_permission(self, tmp_path, monkeypatch):
        monkeypatch.setattr(tempfile, "mkdtemp", fails_with(PermissionError(13, "Permission denied")))
        with pytest.raises(ValueError, match=r"Cannot write to .*out: Permission denied\."):
            write(tmp_path / "out", "x.txt")
        assert not any(tmp_path.iterdir())

    def test_a_name_too_long(self, tmp_path):
        with pytest.raises((ValueError, OSError), match="too long"):
            write(tmp_path / ("x" * 300), "x.txt")
        assert not any(tmp_path.iterdir())
