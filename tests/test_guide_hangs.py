"""docs/guides/hangs.md shows the report that its program prints."""

import re
from pathlib import Path

import pytest

from tests.support.child import run_file
from tests.support.sample_media import put_media
from tests.test_docs import ROOT, blocks_of, program_of

GUIDE = ROOT / "docs" / "guides" / "hangs.md"


def without_times(text: str) -> str:
    """Numbers that differ from run to run are all the same."""
    return re.sub(r"\b\d[\d.]*( (ms|s|us)\b|%|/s|(?= (items|batches)))", "#", re.sub(r"worker-\d+", "worker-#", text))


@pytest.mark.slow
def test_the_report_is_the_one_that_is_printed(tmp_path: Path) -> None:
    """Each line that the guide shows is there, in this order; the guide leaves out others."""
    blocks = blocks_of(GUIDE.read_text(encoding="utf-8"))
    script = tmp_path / "hangs.py"
    script.write_text(program_of(blocks), encoding="utf-8")
    put_media(tmp_path / "reader")
    ended = run_file(script, folder=tmp_path / "reader")
    assert ended.returncode == 0, ended
    printed = iter(without_times(ended.stdout).splitlines())
    shown = next(block for block in blocks if block.info == ("text",))
    for line in without_times(shown.text).splitlines():
        assert line in printed, f"the guide shows a line that is not printed there:\n{line}\n{ended.stdout}"


_CTRL_C = """
import logging

from tests.support.in_child import interrupt_when_blocked


class PressAgain(logging.Handler):
    def emit(self, record):
        print(record.getMessage())
        interrupt_when_blocked()


logging.getLogger("spdl.pipeline").addHandler(PressAgain())
num_good = len(list(Path("photos").iterdir())) - 1
pipeline = builder.build(num_threads=4)
with pipeline.auto_stop():
    for _ in range(num_good // 8):
        pipeline.get_item()
    stage = pipeline.stats().stages[1]
    while (stage.num_calls, stage.num_in_flight) != (num_good, 1):  # time passes by itself
        threading.Event().wait(0.001)
        stage = pipeline.stats().stages[1]
    interrupt_when_blocked()
    pipeline.get_item()
"""


@pytest.mark.slow
def test_the_notice_of_ctrl_c_is_the_one_that_is_printed(tmp_path: Path) -> None:
    """Of the same pipeline; a second Ctrl-C ends it at once."""
    blocks = blocks_of(GUIDE.read_text(encoding="utf-8"))
    script = tmp_path / "ctrl_c.py"
    code = next(block.text for block in blocks if block.info == ("python",))
    script.write_text(f"import threading\n{code}\n{_CTRL_C}", encoding="utf-8")
    put_media(tmp_path / "reader")
    ended = run_file(script, folder=tmp_path / "reader")
    assert ended.returncode == -2, ended
    shown = [block.text for block in blocks if block.info == ("text",)][1]
    assert without_times(ended.stdout).splitlines() == without_times(shown).splitlines(), ended
