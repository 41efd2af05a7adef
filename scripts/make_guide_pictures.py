"""Make the pictures of the guides about slow, hanging and failing pipelines: the graphs of the pipelines shown there.

Each guide's code is run as printed, up to the block named below, and the graph is drawn as HTML reports draw it, with
the numbers of that run. So the pictures differ from run to run, and the tests compare what they say without numbers.

Usage: python scripts/make_guide_pictures.py [--out FOLDER] [GUIDE...]
"""

import argparse
import contextlib
import io
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image

from spdl.pipeline._observe._document import document_of
from spdl.pipeline._observe._html import STYLE, graph

DOCS = Path(__file__).resolve().parent.parent / "docs/guides"
FOLDER = DOCS / "pictures"
#: Number of blocks of each guide to run: after them, ``pipeline`` is what the picture shows.
BLOCKS = {"slow": 1, "hangs": 2, "failures": 1}


def blocks_of(guide: str) -> list[str]:
    """The Python code of a guide."""
    text = (DOCS / f"{guide}.md").read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def picture_of(guide: str) -> str:
    """Run the code of a guide in a folder with photographs, and draw its pipeline."""
    names: dict[str, Any] = {"__name__": "__main__"}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        Path("photos").mkdir()
        for number in range(40):
            Image.linear_gradient("L").convert("RGB").resize((60 + number, 80)).save(f"photos/{number}.jpg")
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            for block in blocks_of(guide)[: BLOCKS[guide]]:
                exec(compile(block, f"{guide}.md", "exec"), names)
        document = document_of(names["pipeline"].stats())
        for path in Path("photos").iterdir():
            if path.is_fifo():  # somebody waits for its writer
                os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK))
    print(printed.getvalue(), file=sys.stderr)
    # In a page the style stands at its top.
    return re.sub(r"(<svg[^>]*>)", rf"\1<style>{STYLE}</style>", graph(document), count=1) + "\n"


def main() -> None:
    """Parse arguments and write the files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("guides", nargs="*", choices=[*BLOCKS, []], metavar="GUIDE", help="slow, hangs, failures")
    parser.add_argument("--out", type=Path, default=FOLDER, help="folder of the pictures")
    options = parser.parse_args()
    for guide in options.guides or BLOCKS:
        (options.out / f"pipeline-{guide}.svg").write_text(picture_of(guide), encoding="utf-8")


if __name__ == "__main__":
    main()
