"""The README keeps its word: its examples print what it shows, its commands run, its pictures and links exist."""

import re
from pathlib import Path

import pytest

from pages import blocks_of, run_page

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
BLOCKS = blocks_of(README)
SETTING_UP = {"make demo", "make test", "pip install ."}  # .ci/run does the first two


def test_every_block_is_of_a_kind_that_is_tested():
    assert {language for language, _ in BLOCKS} == {"python", "text", "bash"}
    assert {line for language, code in BLOCKS if language == "bash" for line in code.splitlines()} >= SETTING_UP


def test_examples_print_what_is_shown_and_commands_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_page(README)


def test_pictures_are_small_and_described():
    text = README.read_text(encoding="utf-8")
    pictures = re.findall(r'\b(?:src|srcset)="([^"]+)"', text)
    assert pictures
    assert all((ROOT / picture).stat().st_size < 150_000 for picture in pictures)
    assert all(re.search(r'\balt="[^"]{20,}"', tag) for tag in re.findall(r"<img[^>]*>", text))


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


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_and_pictures_exist(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    targets = re.findall(r"\]\(([^)#]+)\)", text) + re.findall(r'\b(?:src|srcset)="([^"]+)"', text)
    missing = [target for target in targets if "://" not in target and not (ROOT / target).exists()]
    assert not missing
