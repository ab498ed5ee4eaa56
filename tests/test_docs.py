"""The documentation keeps its word: examples run and print what is shown, every public name is there, links lead on."""

import re
from pathlib import Path

import pytest

import nanfold as nf
from pages import blocks_of, run_page

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGES = sorted(DOCS.glob("*.md"))
NAMES = [page.name for page in PAGES]


@pytest.mark.parametrize("page", [page for page in PAGES if blocks_of(page)], ids=lambda page: page.name)
def test_examples_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_page(page)


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_links_and_pictures_exist(page):
    targets = re.findall(r"\]\(([^)#\s]+)\)", page.read_text(encoding="utf-8"))
    missing = [target for target in targets if "://" not in target and not (DOCS / target).exists()]
    assert not missing


def test_every_page_is_in_the_contents():
    contents = (DOCS / "index.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^([\w-]+)$", contents, re.MULTILINE))
    assert {page.stem for page in PAGES} - {"index"} <= listed


def test_every_public_name_is_documented():
    text = (DOCS / "api.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"^\.\. auto\w+:: nanfold\.([\w.]+)$", text, re.MULTILINE))
    assert set(nf.__all__) - {"__version__"} <= documented
