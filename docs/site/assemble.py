"""Assemble the source of the site: the pages of docs/, what lies beside them, and a page for each public module.

Pages may link to any file of the repository, as readers on a code host expect. Here links between pages are made right
for where the pages are in the site, and other files are copied, so that no link leads out of it. The files that the
code of pages reads are in archives, to which these pages have links.

Usage: PYTHONPATH=. python docs/site/assemble.py FOLDER, at the root of the repository
"""

import inspect
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Container
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Final

from docs.site.changes import sections

__all__ = ["assemble"]

ROOT: Final = Path(__file__).resolve().parent.parent.parent
#: The public modules, in the order in which names that several have get their page.
MODULES: Final = (
    "spdl.pipeline",
    "spdl.pipeline.defs",
    "spdl.pipeline.batching",
    "spdl.pipeline.config",
    "spdl.io",
    "spdl.io.utils",
    "spdl.source",
    "spdl.source.utils",
    "spdl.source.imagenet",
    "spdl.source.local_directory",
    "spdl.dataloader",
    "spdl.resume",
    "spdl.remote",
    "spdl.metrics",
    "spdl.ray",
    "spdl.debug",
)
_LINK: Final = re.compile(r"(?P<open>\]\()(?P<target>[^)\s]+)(?P<close>[^)]*\))")
_FENCE: Final = re.compile(r"^ *(```+|~~~+)")
#: A block of code that opens files of ``photos/`` or ``clips/``.
_READER: Final = re.compile(
    r"^```python(?! no-run)[^\n]*\n(?:(?!```)[^\n]*\n)*?(?!```)[^\n]*\"(photos|clips)\b", re.MULTILINE
)
_SAMPLES: Final = """\
:::{{admonition}} Files to try it with
The code on this page is one program, from top to bottom. It reads files in the folders `photos` and `clips`: unpack
[{name}]({link}) where you run it, or put files of yours there.
:::

"""
_RECIPE_FILES: Final = """\
:::{{admonition}} Files to try it with
Unpack [{name}]({link}) where you run the script; then it prints what is shown behind it.{more}
:::

"""


@dataclass(frozen=True, slots=True)
class Page:
    """A page that exists: its file, relative to the repository, and where it goes in the site."""

    origin: Path
    place: Path


def _pages() -> list[Page]:
    found = [
        Page(Path("README.md"), Path("index.md")),
        Page(Path("CONTRIBUTING.md"), Path("contributing.md")),
        Page(Path("CHANGELOG.md"), Path("changelog.md")),
        Page(Path("examples/README.md"), Path("examples.md")),
        Page(Path("benchmarks/README.md"), Path("benchmarking/index.md")),
    ]
    for each in sorted((ROOT / "benchmarks").glob("*/README.md")):
        found.append(Page(each.relative_to(ROOT), Path("benchmarking", f"{each.parent.name}.md")))
    found.append(Page(Path("native/README.md"), Path("architecture/media.md")))
    for each in sorted((ROOT / "src/spdl").rglob("README.md")):
        found.append(Page(each.relative_to(ROOT), Path("architecture", f"{each.parent.name.lstrip('_')}.md")))
    for each in sorted((ROOT / "docs").rglob("*.md")):
        origin = each.relative_to(ROOT)
        if not {"changelog.d", "site"} & set(origin.parts):
            found.append(Page(origin, origin.relative_to("docs")))
    return found


class _Links:
    """Rewrites the links of a page, and copies the files that they lead to."""

    def __init__(self, pages: list[Page], folder: Path) -> None:
        self._places = {page.origin: page.place for page in pages}
        self._folder = folder

    def rewritten(self, text: str, page: Page) -> str:
        lines, fence = [], ""
        for line in text.splitlines():
            match = _FENCE.match(line)
            if match and not fence:
                fence = match[1]
            elif match and line.strip().startswith(fence):
                fence = ""
            lines.append(line if fence or match else _LINK.sub(lambda link: self._link(link, page), line))
        return "\n".join(lines) + "\n"

    def _link(self, link: re.Match[str], page: Page) -> str:
        path, mark, fragment = link["target"].partition("#")
        if "://" in path or path.startswith("mailto:") or not path:
            return link[0]
        origin = Path(os.path.normpath(page.origin.parent / path))
        if (ROOT / origin).is_dir() and (origin / "README.md") in self._places:
            origin /= "README.md"
        place = self._places.get(origin) or self._copied(origin, page)
        target = Path(os.path.relpath(place, page.place.parent)).as_posix()
        return f"{link['open']}{target}{mark}{fragment}{link['close']}"

    def _copied(self, origin: Path, page: Page) -> Path:
        """Copy a file that is no page. A folder leads to the list of its files."""
        source = ROOT / origin
        if not source.exists():
            raise FileNotFoundError(f"{page.origin} links to {origin}, which does not exist")
        if source.suffix in (".svg", ".png", ".jpg"):
            place = Path("pictures", origin)
            (self._folder / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, self._folder / place)
            return place
        place = Path("files", f"{origin}.txt")  # browsers show text, and save what ends in .py
        target = self._folder / place
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            names = sorted(each.name for each in source.iterdir() if each.name != "__pycache__")
            target.write_text("\n".join(names) + "\n", encoding="utf-8")
        else:
            shutil.copyfile(source, target)
        return place


def _with_samples(text: str, page: Page, recipes: dict[str, str]) -> str:
    """The page, and before its first block of code where the files are that the code reads.

    ``recipes``: the pages of the cookbook that have files of their own, and what more there is to say of these.
    """
    if page.place.parent == Path("cookbook") and page.place.stem in recipes:
        name = f"{page.place.stem}.zip"
        note = _RECIPE_FILES.format(name=name, link=name, more=recipes[page.place.stem])
    elif _READER.search(text):
        link = Path(os.path.relpath("samples.zip", page.place.parent)).as_posix()
        note = _SAMPLES.format(name="samples.zip", link=link)
    else:
        return text
    start = re.search(r"^```python", text, re.MULTILINE)
    assert start is not None
    return text[: start.start()] + note + text[start.start() :]


def _archive(put: Callable[[Path], None], target: Path) -> None:
    """Write an archive of what ``put`` puts into a folder."""
    with tempfile.TemporaryDirectory() as scratch:
        put(Path(scratch))
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.make_archive(str(target.with_suffix("")), "zip", scratch)


def _put_samples(folder: Path, lacking: Container[str]) -> dict[str, str]:
    """Write ``samples.zip`` and an archive for each page of the cookbook: what the tests of these pages have.

    Returns the pages of the cookbook, and what more there is to say of the files of each.
    """
    from tests.cookbook import data
    from tests.support.sample_media import put_media

    _archive(put_media, folder / "samples.zip")
    more = {
        "downloads": " In another terminal, `python server.py` writes `urls.txt` and serves its files.",
        "webdataset": f" The shards are in a folder, so replace `{data.BUCKET}` by `{data.LOCAL}`.",
    }
    found = {}
    for page in data.PAGES:
        try:
            _archive(partial(data.put, page), folder / "cookbook" / f"{page}.zip")
        except ModuleNotFoundError as error:
            if error.name not in lacking:
                raise
        else:
            found[page] = more.get(page, "")
    return found


def _changelog(text: str) -> str:
    """The changelog with what has changed since the last release."""
    if not (new := sections()):
        return text
    head, mark, rest = text.partition("\n## ")
    return f"{head}\n## Since the last release\n\n{new}{mark}{rest}"


def _kind_of(thing: object) -> str:
    if inspect.ismodule(thing):
        return "module"
    if inspect.isclass(thing):
        return "exception" if issubclass(thing, BaseException) else "class"
    return "function" if callable(thing) else "data"


_HEADINGS: Final = {"class": "Classes", "function": "Functions", "exception": "Errors", "data": "Values"}


def _reference(module: str, homes: dict[int, str]) -> str:
    """The page of a module: its docstring, a list of its names, and each name with its docstring.

    What an earlier page has already is a link to it: ``homes`` has the names of these objects, by their ``id``.
    """
    found = import_module(module)
    by_kind: dict[str, list[str]] = {kind: [] for kind in _HEADINGS}
    for name in sorted(found.__all__, key=str.lower):
        kind = _kind_of(getattr(found, name))
        if kind != "module" and not name.startswith("__"):
            by_kind[kind].append(name)
    lines = [f"# {module}", "", "```{eval-rst}", f".. automodule:: {module}", "   :no-members:", "", "```", ""]
    for kind, names in by_kind.items():
        if not names:
            continue
        lines += [f"## {_HEADINGS[kind]}", ""]
        for name in names:
            thing = getattr(found, name)
            home = homes.setdefault(id(thing), f"{module}.{name}") if kind != "data" else f"{module}.{name}"
            if home != f"{module}.{name}":
                lines += [f"### {name}", "", f"The same as {{py:obj}}`{home}`.", ""]
                continue
            lines += [f"### {name}", "", "```{eval-rst}", f".. auto{kind}:: {module}.{name}"]
            if kind in ("class", "exception"):
                lines += ["   :members:", "   :member-order: bysource"]
            lines += ["```", ""]
    return "\n".join(lines)


def assemble(folder: Path, say: Callable[[str], None] = print, *, lacking: Container[str] = ()) -> None:
    """Write the source of the site into an empty ``folder``.

    ``lacking``: packages that need not be there. Pages whose files are written with them come without these files.
    """
    pages = _pages()
    recipes = _put_samples(folder, lacking)
    links = _Links(pages, folder)
    for page in pages:
        text = (ROOT / page.origin).read_text(encoding="utf-8")
        if page.origin.name == "CHANGELOG.md":
            text = _changelog(text)
        if page.place == Path("index.md"):
            text += "\n" + (ROOT / "docs/site/contents.md").read_text(encoding="utf-8")
        if page.place == Path("benchmarking/index.md"):
            text += "\n```{toctree}\n:hidden:\n:glob:\n\n*\n```\n"
        target = folder / page.place
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(_with_samples(links.rewritten(text, page), page, recipes), encoding="utf-8")
    shutil.copyfile(ROOT / "docs/site/conf.py", folder / "conf.py")
    (folder / "_static").mkdir()
    shutil.copyfile(ROOT / "docs/site/narrow.css", folder / "_static/narrow.css")
    (folder / "api").mkdir()
    homes: dict[int, str] = {}
    for module in MODULES:
        (folder / "api" / f"{module}.md").write_text(_reference(module, homes), encoding="utf-8")
    say(f"assembled {len(pages)} pages and {len(MODULES)} modules")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python docs/site/assemble.py FOLDER")
    assemble(Path(sys.argv[1]))
