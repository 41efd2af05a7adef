"""What ``docs/changelog.d`` says, sorted by kind, for the site and for a release."""

from pathlib import Path
from typing import Final

_FOLDER: Final = Path(__file__).resolve().parent.parent / "changelog.d"
#: Headings, by the kinds of the files.
_KINDS: Final = {"added": "Added", "changed": "Changed", "faster": "Faster", "fixed": "Fixed", "removed": "Removed"}


def sections(folder: Path = _FOLDER) -> str:
    """A heading and a list for each kind; links are those of a page in the project's root."""
    found: dict[str, list[str]] = {kind: [] for kind in _KINDS}
    for each in sorted(folder.glob("*.*.md")):
        entry = " ".join(each.read_text(encoding="utf-8").split())
        found[each.name.split(".")[-2]].append(entry.replace("](../", "](docs/"))
    lines: list[str] = []
    for kind, entries in found.items():
        if entries:
            lines += [f"### {_KINDS[kind]}", "", *(f"- {entry}" for entry in entries), ""]
    return "\n".join(lines)
