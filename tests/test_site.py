"""The site: assembled from the pages of the tree, with a page for each public module. Sphinx is not needed here."""

import importlib.util
import pkgutil
import re
import sys
import zipfile
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import spdl

pytestmark = pytest.mark.tree

ROOT = Path(__file__).resolve().parent.parent
#: Packages that write the files of some pages. Where the site is built, they are there.
OPTIONAL = ("pyarrow", "tokenizers")


def load(path: str) -> ModuleType:
    """A script of the repository as a module."""
    spec = importlib.util.spec_from_file_location(f"site_{Path(path).stem}", ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its data classes look for it
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    load("docs/site/assemble.py").assemble(folder, say=lambda text: None, lacking=OPTIONAL)
    return folder


def test_every_link_leads_to_a_page_or_a_file(pages: Path) -> None:
    """Of all pages in their new places; what lies outside of docs/ is there too."""
    dead = []
    for page in sorted(pages.rglob("*.md")):
        text = re.sub(r"^ *(```+|~~~+).*?^ *\1", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        for target in re.findall(r"\]\(([^)#\s]+)", text):
            if "://" not in target and not (page.parent / target).exists():
                dead.append(f"{page.relative_to(pages)}: {target}")
    assert dead == []
    assert (pages / "benchmarking/engine.md").exists() or (pages / "benchmarking/images.md").exists()
    assert (pages / "files/examples/epochs.py.txt").exists()


def test_pages_whose_code_reads_files_have_these_files(pages: Path) -> None:
    """In an archive that readers can fetch: no page needs another one, or our tests, to run its code."""
    with zipfile.ZipFile(pages / "samples.zip") as archive:
        assert {"photos/0.jpg", "clips/video.mp4", "clips/speech.wav", "clips/music.flac"} < set(archive.namelist())
    lacking = []
    for page in sorted(pages.rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        blocks = re.findall(r"^```python(?! no-run)[^\n]*\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
        if any(re.search(r'"(photos|clips)\b', block) for block in blocks) and "samples.zip](" not in text:
            lacking.append(page.relative_to(pages).as_posix())
    assert lacking == []
    assert "samples.zip](../samples.zip)" in (pages / "guides/video.md").read_text(encoding="utf-8")
    assert "samples.zip" not in (pages / "guides/batching.md").read_text(encoding="utf-8")


def test_pages_of_the_cookbook_have_the_files_of_their_script(pages: Path) -> None:
    """Each page has its own, which are those that its test has."""
    may_lack = {"hugging-face", "text"} if any(importlib.util.find_spec(name) is None for name in OPTIONAL) else set()
    for page in sorted((pages / "cookbook").glob("*.md")):
        text = page.read_text(encoding="utf-8")
        if "```python script" not in text or page.stem in may_lack:
            continue
        before, link, _ = text.partition(f"[{page.stem}.zip]({page.stem}.zip)")
        assert link, page.stem
        assert "```python" not in before, page.stem
    with zipfile.ZipFile(pages / "cookbook/images.zip") as archive:
        assert len([name for name in archive.namelist() if name.endswith(".jpg")]) == 160
    with zipfile.ZipFile(pages / "cookbook/webdataset.zip") as archive:
        assert "train/train-000003.tar" in archive.namelist()
    with zipfile.ZipFile(pages / "cookbook/downloads.zip") as archive:
        assert archive.namelist() == ["server.py"]


def test_every_page_is_in_the_contents(pages: Path) -> None:
    """A page that nobody put into the contents is not found by those who browse."""
    listed: set[str] = set()
    for entry in re.findall(r"^([\w./*-]+)$", (ROOT / "docs/site/contents.md").read_text(), flags=re.MULTILINE):
        listed |= {each.relative_to(pages).as_posix() for each in pages.glob(f"{entry}.md")}
    found = {each.relative_to(pages).as_posix() for each in pages.rglob("*.md")}
    assert {name for name in found - listed if not name.startswith("benchmarking/")} == {"index.md"}


def test_every_public_module_has_a_page(pages: Path) -> None:
    """Those with names for all: not the command line, and not what begins with an underscore."""
    public = set()
    for info in pkgutil.walk_packages(spdl.__path__, "spdl."):
        if not any(part.startswith("_") for part in info.name.split(".")) and not info.name.endswith(".lib"):
            public.add(info.name)
    assert public == set(load("docs/site/assemble.py").MODULES)
    text = (pages / "api/spdl.dataloader.md").read_text(encoding="utf-8")
    names = [name for name in import_module("spdl.dataloader").__all__ if f"### {name}\n" not in text]
    assert names == []
    assert "The same as {py:obj}`spdl.pipeline.PipelineBuilder`" in text


def test_the_changelog_has_what_is_new(tmp_path: Path) -> None:
    """Sorted by kind, before the releases; without changes it has no such section."""
    changes = load("docs/site/changes.py")
    (tmp_path / "b.fixed.md").write_text("Two,\nsee [it](../guides/it.md).\n")
    (tmp_path / "a.added.md").write_text("One.\n")
    assert changes.sections(tmp_path) == "### Added\n\n- One.\n\n### Fixed\n\n- Two, see [it](docs/guides/it.md).\n"
    assert changes.sections(tmp_path / "none") == ""


def test_dead_links_of_a_built_site_are_found(tmp_path: Path) -> None:
    """Files that are missing, and names in pages that are."""
    (tmp_path / "a.html").write_text(
        '<p id="here"><a href="b.html#there">1</a><a href="#here">2</a><a href="c.html">3</a>'
    )
    (tmp_path / "b.html").write_text(
        '<a href="a.html#gone">4</a><a href="https://example.org/x">5</a><img src="d.png">'
    )
    dead = load("docs/site/check.py").dead_links(tmp_path)
    assert dead == ["a.html: b.html#there", "a.html: c.html", "b.html: a.html#gone", "b.html: d.png"]


def test_the_pictures_of_the_concepts_are_those_of_their_script() -> None:
    """They are drawn, not edited."""
    assert load("scripts/make_concept_pictures.py").main(["--check"]) == 0
