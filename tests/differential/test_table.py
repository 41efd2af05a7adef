"""The tables of stills and videos in the guides list what the cells read: neither more nor less."""

import re
from pathlib import Path

from tests.differential.collection import CELLS

GUIDES = Path(__file__).parents[2] / "docs" / "guides"
#: Of forms of animations: who wrote them, or how. All others are codecs.
NO_CODECS = {"", "Pillow", "lossless", "lossy", "mixed"}


def test_the_guide_lists_exactly_the_forms_of_the_cells() -> None:
    """Each form has one row."""
    table = (GUIDES / "images.md").read_text().partition("| forms |")[2].partition("\n\n")[0]
    first = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    listed = [name for cell in first for name in re.findall("`([^`]+)`", cell)]
    tried = {cell.form.split("/")[0].lower() for cell in CELLS if cell.kind == "still"} - {"save_image"}
    assert sorted(listed) == sorted(tried)


def test_the_guide_lists_exactly_the_containers_and_codecs_of_the_cells() -> None:
    """Each container has one row, with its codecs."""
    table = (GUIDES / "video.md").read_text().partition("| containers |")[2].partition("\n\n")[0]
    rows = [line.split("|") for line in table.splitlines() if line.startswith("| `")]
    listed = [name for row in rows for name in re.findall("`([^`]+)`", row[1])]
    pairs = {(row[1].strip(" `"), codec) for row in rows for codec in re.findall("`([^`]+)`", row[2])}
    tried = {(form[0], form[2]) for cell in CELLS if cell.kind == "video" for form in [cell.form.partition("/")]}
    assert sorted(listed) == sorted({container for container, _ in tried})
    assert pairs == {(container, codec) for container, codec in tried if codec not in NO_CODECS}
