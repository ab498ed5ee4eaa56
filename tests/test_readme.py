"""The README keeps its word: its examples print what it shows, its commands run, its pictures and links exist."""

import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest

from nanfold.cli import main

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
# What sets an environment up cannot run inside of one; .ci/run does the first two.
SETTING_UP = {"make demo", "make test", "pip install ."}


def commands():
    lines = [line for language, code in BLOCKS if language == "bash" for line in code.splitlines()]
    return [line for line in lines if line not in SETTING_UP]


def test_every_block_is_of_a_kind_that_is_tested():
    assert {language for language, _ in BLOCKS} == {"python", "text", "bash"}
    assert {line for language, code in BLOCKS if language == "bash" for line in code.splitlines()} >= SETTING_UP


def test_python_examples_print_what_is_shown(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace: dict = {}
    following = [*BLOCKS[1:], ("", "")]
    for (language, code), (then, shown) in zip(BLOCKS, following, strict=True):
        if language != "python":
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "README.md", "exec"), namespace)
        assert printed.getvalue() == (shown if then == "text" else ""), code


@pytest.mark.parametrize("line", commands())
def test_commands_run(line, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    program, *arguments = shlex.split(line)
    assert program == "nanfold"
    try:
        code = main(arguments)
    except SystemExit as end:  # --help
        code = end.code
    assert code == 0
    assert capsys.readouterr().out


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_and_pictures_exist(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    targets = re.findall(r"\]\(([^)#]+)\)", text) + re.findall(r'\b(?:src|srcset)="([^"]+)"', text)
    missing = [target for target in targets if "://" not in target and not (ROOT / target).exists()]
    assert not missing


def test_pictures_are_small_and_described():
    pictures = re.findall(r'\b(?:src|srcset)="([^"]+)"', README)
    assert pictures
    assert all((ROOT / picture).stat().st_size < 150_000 for picture in pictures)
    assert all(re.search(r'\balt="[^"]{20,}"', tag) for tag in re.findall(r"<img[^>]*>", README))


def test_files_named_in_the_guide_exist():
    guide = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = re.findall(r"^\| `([^`]+)`", guide, re.MULTILINE)
    assert len(named) > 10
    assert not [path for path in named if not (ROOT / path).exists()]


def test_makefile_targets_that_are_named_exist():
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for name in ("README.md", "CONTRIBUTING.md", ".ci/run"):
        text = (ROOT / name).read_text(encoding="utf-8")
        assert set(re.findall(r"^(?:step \"[^\"]+\" )?make ([\w-]+)", text, re.MULTILINE)) <= targets
