"""The graphs in docs/guides are those of the pipelines shown there."""

import re
from pathlib import Path

import pytest

from tests.support.child import run_child
from tests.test_docs import ROOT

PICTURES = ROOT / "docs/guides/pictures"
SCRIPT = ROOT / "scripts/make_guide_pictures.py"


def words(path: Path) -> list[str]:
    """What is written in a picture, in order; numbers, which differ from run to run, are all the same."""
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", path.read_text(encoding="utf-8"))
    found = [re.sub(r"\d[\d.]*(e[+-]?\d+)?( (us|ms|s|min) each)?", "#", text) for text in texts]
    return [text.removesuffix(", #") for text in found]


@pytest.mark.slow
@pytest.mark.parametrize("guide", ["hangs", "failures"])
def test_the_picture_is_that_of_the_code(guide: str, tmp_path: Path) -> None:
    """The code is run again, and the same stages, losses and calls that still run are drawn.

    Not for the guide about slow pipelines: its code runs for six seconds.
    """
    arguments = [str(SCRIPT), guide, "--out", str(tmp_path)]
    ended = run_child(f"""
        import runpy
        import sys

        sys.argv = {arguments!r}
        runpy.run_path({str(SCRIPT)!r}, run_name="__main__")
        """)
    assert ended.returncode == 0, ended
    name = f"pipeline-{guide}.svg"
    assert words(tmp_path / name) == words(PICTURES / name)


@pytest.mark.parametrize("guide", ["slow", "hangs", "failures"])
def test_pictures_name_the_stages_of_the_code(guide: str) -> None:
    """In the order of the pipeline."""
    code = (ROOT / f"docs/guides/{guide}.md").read_text(encoding="utf-8").partition(".add_source(")[2]
    stages = re.findall(r"\.(?:pipe\((\w+)|(aggregate)\()", code.partition(".add_sink(")[0])
    drawn = re.findall(r'class="bold">(\w+)', (PICTURES / f"pipeline-{guide}.svg").read_text(encoding="utf-8"))
    assert drawn == ["src", *(op or kind for op, kind in stages), "sink"]
