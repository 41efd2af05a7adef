"""Type checkers as judges of test files."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .running import TIMEOUT

__all__ = ["assert_pyright_agrees"]


def assert_pyright_agrees(file: str) -> None:
    """Check that pyright finds an error in each line of a file with a ``type: ignore`` for mypy, and in no other.

    Skips the test where it is not installed, beside this Python or on ``PATH``.
    """
    # pyright itself would hide what it finds in lines with ``type: ignore``.
    command = shutil.which("basedpyright", path=Path(sys.executable).parent) or shutil.which("basedpyright")
    if command is None:
        pytest.skip("needs basedpyright: pip install basedpyright")
    run = subprocess.run(
        [command, "--pythonpath", sys.executable, "--level", "error", "--outputjson", file],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    found = {each["range"]["start"]["line"] for each in json.loads(run.stdout)["generalDiagnostics"]}
    lines = Path(file).read_text(encoding="utf-8").splitlines()
    assert found == {number for number, line in enumerate(lines) if re.search(r"# type: ignore\[\w", line)}
