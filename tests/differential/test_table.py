"""The table of stills in the guide lists what the cells read: neither more nor less."""

import re
from pathlib import Path

from tests.differential.collection import CELLS

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "images.md"


def test_the_guide_lists_exactly_the_forms_of_the_cells() -> None:
    """Each form has one row."""
    table = GUIDE.read_text().partition("| forms |")[2].partition("\n\n")[0]
    first = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    listed = [name for cell in first for name in re.findall("`([^`]+)`", cell)]
    tried = {cell.form.split("/")[0].lower() for cell in CELLS if cell.kind == "still"} - {"save_image"}
    assert sorted(listed) == sorted(tried)
