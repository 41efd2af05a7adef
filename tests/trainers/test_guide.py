"""The code of ``docs/guides/trainers.md`` runs: what all trainers share, then the blocks of one, as one program."""

from pathlib import Path
from typing import Any

import pytest

from tests.test_docs import ROOT, blocks_of

GUIDE = ROOT / "docs/guides/trainers.md"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings(
        "ignore"
    ),  # a reader's program has the trainers' own warnings too; not what is asked here
]


@pytest.mark.parametrize("trainer", ["lightning", "transformers", "accelerate"])
def test_code_of_the_guide_runs(
    trainer: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In an empty folder, with nothing left behind."""
    request.getfixturevalue(f"in_{trainer}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tqdm.tqdm.monitor_interval", 0)  # progress bars would start a thread that stays
    lines: list[str] = []
    for block in blocks_of(GUIDE.read_text(encoding="utf-8")):
        if block.info[:2] == ("python", "no-run") and block.info[2:] in ((), (trainer,)):
            lines += [""] * (block.line - 1 - len(lines))
            lines += block.text.splitlines()
    namespace: dict[str, Any] = {"__name__": "guide"}
    exec(compile("\n".join(lines), str(GUIDE), "exec"), namespace)
