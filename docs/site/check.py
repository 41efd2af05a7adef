"""Look at the built site as readers do: every link leads to something, and every page fits a phone and a desk.

Links are followed in the files. Widths are measured in headless Chromium, where it is installed: each page is put into
a frame of that width, and nothing may reach out of it to the right. Then something is searched for.

Usage: python docs/site/check.py FOLDER
"""

import json
import shutil
import subprocess
import sys
import tempfile
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

__all__ = ["dead_links", "misfits"]

WIDTHS: Final = (390, 1280)  #: pixels: a phone, a desk
_PROBE: Final = """<!doctype html><body><script>
const pages = PAGES, widths = WIDTHS, found = [];
async function look(page, width) {
  const frame = document.createElement("iframe");
  frame.style = `width:${width}px;height:800px;border:0`;
  await new Promise((done) => { frame.onload = done; frame.src = page; document.body.append(frame); });
  const root = frame.contentDocument.documentElement;
  if (root.scrollWidth > width) found.push(`${page} is ${root.scrollWidth} pixels wide at ${width}`);
  if (!frame.contentDocument.querySelector("h1")) found.push(`${page} has no heading`);
  frame.remove();
}
async function search(word) {
  const frame = document.createElement("iframe");
  await new Promise((done) => { frame.onload = done; frame.src = `SEARCH?q=${word}`; document.body.append(frame); });
  for (let tries = 0; tries < 100; tries++) {
    if (frame.contentDocument.querySelector("#search-results li")) return;
    await new Promise((done) => setTimeout(done, 100));
  }
  found.push(`the search finds nothing for ${word}`);
}
(async () => {
  for (const page of pages) for (const width of widths) await look(page, width);
  await search("verdict");
  document.title = "done";
  document.body.innerHTML = `<pre id="result">${JSON.stringify(found)}</pre>`;
})();
</script>"""


class _Page(HTMLParser):
    """The links of a page, and the names in it that links may lead to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.names: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value and (name == "href" or (name == "src" and tag in ("img", "script"))):
                self.links.append(value)
            elif value and name == "id":
                self.names.add(value)


def dead_links(folder: Path) -> list[str]:
    """Links within the site that lead nowhere. Links to other places are not followed."""
    pages = {each: _Page(each.read_text(encoding="utf-8")) for each in sorted(folder.rglob("*.html"))}
    found = []
    for each, page in pages.items():
        if each == folder / "_modules/index.html":
            continue  # Sphinx lists native modules there, which have no source to show
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (each.parent / unquote(parts.path)).resolve() if parts.path else each
            name = unquote(parts.fragment)
            if not target.exists() or (name and target in pages and name not in pages[target].names):
                found.append(f"{each.relative_to(folder)}: {link}")
    return found


def misfits(folder: Path, chromium: str) -> list[str]:
    """Pages that do not fit a phone or a desk, or have no heading; a search that finds nothing."""
    names = [each.relative_to(folder).as_posix() for each in sorted(folder.rglob("*.html"))]
    made = ("_modules", "_static", "genindex", "search")  # by Sphinx alone
    pages = [f"file://{folder / name}" for name in names if not name.startswith(made)]
    with tempfile.TemporaryDirectory() as scratch:
        probe = Path(scratch, "probe.html")
        text = _PROBE.replace("PAGES", json.dumps(pages)).replace("WIDTHS", json.dumps(WIDTHS))
        probe.write_text(text.replace("SEARCH", f"file://{folder}/search.html"), encoding="utf-8")
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files", "--no-first-run"]
        options += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
        options += [f"--user-data-dir={scratch}/profile", "--virtual-time-budget=600000", "--dump-dom"]
        run = subprocess.run(
            [chromium, *options, probe.as_uri()], capture_output=True, text=True, timeout=900, check=True
        )
    _, mark, rest = run.stdout.partition('<pre id="result">')
    if not mark:
        return ["the browser did not get to the end of the pages"]
    result: list[str] = json.loads(rest.partition("</pre>")[0].replace("&amp;", "&"))
    return result


def main(folder: Path) -> int:
    found = dead_links(folder)
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        print("docs: no Chromium: the widths of pages were not looked at", file=sys.stderr)
    else:
        found += misfits(folder, chromium)
    for each in found:
        print(f"docs: {each}", file=sys.stderr)
    return bool(found)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python docs/site/check.py FOLDER")
    sys.exit(main(Path(sys.argv[1]).resolve()))
