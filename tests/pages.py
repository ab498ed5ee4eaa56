"""Run what a page of documentation shows: its python blocks in one namespace, its commands, in the page's order."""

import contextlib
import io
import re
import shlex
from pathlib import Path

from nanfold.cli import main

# What sets an environment up cannot run inside of one.
SETS_UP = re.compile(r"(make|pip|git|cd) ")


def blocks_of(page: Path) -> list[tuple[str, str]]:
    """(language, code) of every fenced block."""
    return re.findall(r"^```(\w+)\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def commands_of(page: Path) -> list[str]:
    """The lines of the page's bash blocks that are commands of ours."""
    lines = [line for language, code in blocks_of(page) if language == "bash" for line in code.splitlines()]
    return [line for line in lines if not SETS_UP.match(line)]


def run_page(page: Path) -> None:
    """Run every block in the working folder; a python block prints what the text block after it shows."""
    blocks = blocks_of(page)
    namespace: dict = {}
    for (language, code), (then, shown) in zip(blocks, [*blocks[1:], ("", "")], strict=True):
        if language == "python":
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(code, page.name, "exec"), namespace)
            assert printed.getvalue() == (shown if then == "text" else ""), code
        elif language == "bash":
            for line in code.splitlines():
                if not SETS_UP.match(line):
                    run_command(line)


def run_command(line: str) -> None:
    """Run one line that begins with nanfold; it must end with exit code 0."""
    program, *arguments = shlex.split(line)
    assert program == "nanfold", line
    try:
        code = main(arguments)
    except SystemExit as end:  # --help
        code = end.code
    assert code == 0, line
