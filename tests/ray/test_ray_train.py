"""The examples of Ray Train, each in a process and a Ray of its own."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.child import environment

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

_FOLDER = Path(__file__).parents[2] / "examples" / "on_ray"
#: Each starts Ray and a dozen processes that import torch: half a minute on two idle cores.
_TIMEOUT = 600.0


def run(name: str, folder: Path) -> str:
    """Return the last line of what an example prints; what Ray prints may follow it on stderr only."""
    for package in ("ray", "torch", "pandas", "pyarrow", "pydantic"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    command = [sys.executable, str(_FOLDER / name)]
    ended = subprocess.run(
        command, capture_output=True, text=True, cwd=folder, env=environment(), timeout=_TIMEOUT, check=False
    )
    assert ended.returncode == 0, f"{ended.stdout[-4000:]}\n{ended.stderr[-8000:]}"
    return next(line for line in reversed(ended.stdout.splitlines()) if line.startswith("2 ranks"))


def test_two_ranks_of_ray_train_are_fed_by_four_actors(tmp_path: Path) -> None:
    """The ranks make the same steps, one is killed, and each image is read once in an epoch all the same."""
    line = run("train.py", tmp_path)
    found = re.fullmatch(
        r"2 ranks, 4 actors: 18 steps, resumed after step (\d+), loss (\d\.\d\d), "
        r"192 images in the last epoch, each once: True",
        line,
    )
    assert found is not None, line
    assert int(found[1]) in (4, 6, 8)
    assert float(found[2]) < 0.6


def test_ranks_of_ray_train_share_a_dataset(tmp_path: Path) -> None:
    """Each gets the same number of rows, and together they get each row once."""
    line = run("train_on_dataset.py", tmp_path)
    found = re.fullmatch(r"2 ranks: loss (\d\.\d\d), \[96, 96\] images in the last epoch, each once: True", line)
    assert found is not None, line
    assert float(found[1]) < 0.6
