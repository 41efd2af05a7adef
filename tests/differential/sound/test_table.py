"""The table of the guide lists what the cells of sound cover, and nothing else."""

import re
import subprocess
from pathlib import Path

from tests.differential.collection import CELLS
from tests.differential.sound.encoders import ENCODERS, LACKING

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "audio.md"


def test_the_guide_lists_the_forms_that_are_tested() -> None:
    """Each container with each of its codecs, by the words of the cells."""
    rows: list[tuple[set[str], set[str]]] = []
    table = GUIDE.read_text().split("| container | codecs", 1)[1].split("\n\n", 1)[0]
    for line in table.splitlines()[2:]:
        cells = line.split("|")
        rows.append((set(re.findall("`([^`]+)`", cells[1])), set(re.findall("`([^`]+)`", cells[2]))))
    forms = {
        cell.form for cell in CELLS if cell.kind == "sound" and not cell.form.startswith(("soundfile ", "encoder "))
    }
    pairs = {(form.split("/")[0].split(" ")[0], form.split("/")[1].removesuffix(" 5.1")) for form in forms}
    for container, codec in pairs:
        assert any(container in containers and codec in codecs for containers, codecs in rows), (container, codec)
    for containers, codecs in rows:
        assert containers == {container for container, codec in pairs if container in containers and codec in codecs}
        assert codecs == {codec for container, codec in pairs if container in containers}


def test_every_encoder_of_the_tool_has_a_cell() -> None:
    """Or a reason why not."""
    listed = subprocess.run(["ffmpeg", "-hide_banner", "-encoders"], capture_output=True, text=True, check=True).stdout
    names = {line.split()[1] for line in listed.split("------")[1].splitlines() if line.strip().startswith("A")}
    assert names <= {*ENCODERS, *LACKING}
