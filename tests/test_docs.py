"""The documentation keeps its word: examples run and print what is shown, every public name is there, links lead on."""

import importlib.util
import re
from pathlib import Path

import pytest

import nanfold as nf
from pages import blocks_of, run_page

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGES = sorted(DOCS.glob("*.md"))
NAMES = [page.name for page in PAGES]


# What scanpy and anndata say at import, and at what they write, is about themselves.
@pytest.mark.filterwarnings("ignore::FutureWarning:scanpy", "ignore::FutureWarning:anndata")
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


class TestGallery:
    """The pictures are those that the script draws, and small enough to be kept."""

    @pytest.fixture
    def gallery(self):
        pytest.importorskip("matplotlib")
        spec = importlib.util.spec_from_file_location("gallery", DOCS / "gallery.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    def test_shown_is_what_is_drawn(self, gallery):
        shown = re.findall(r"\(images/gallery/([\w-]+)\.png\)", (DOCS / "gallery.md").read_text(encoding="utf-8"))
        assert sorted(shown) == sorted([*gallery.PICTURES, *(f"{name}-dark" for name in gallery.PICTURES)])
        kept = {picture.stem: picture.stat().st_size for picture in gallery.FOLDER.glob("*")}
        assert sorted(kept) == sorted(shown)
        assert max(kept.values()) < 150_000

    def test_it_draws(self, gallery, tmp_path, monkeypatch):
        monkeypatch.setattr(gallery, "FOLDER", tmp_path / "pictures")
        gallery.main(["wine"])
        assert sorted(picture.name for picture in gallery.FOLDER.iterdir()) == ["wine-dark.png", "wine.png"]
        assert min(picture.stat().st_size for picture in gallery.FOLDER.iterdir()) > 10_000
