"""States in torch's distributed checkpoint."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from .checkpointing import SIZE

LOOPBACK = "lo0" if sys.platform == "darwin" else "lo"


@pytest.mark.slow  # imports torch's distributed tensors in a process of its own
def test_saved_by_two_ranks_and_loaded_by_three(tmp_path: Path) -> None:
    """The gathered state is one text, which comes back whole on every rank of another world."""
    pytest.importorskip("torch")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.resume.checkpointing", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=100,
        env={**os.environ, "GLOO_SOCKET_IFNAME": LOOPBACK, "OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    ranks = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    assert [(world, len(taken)) for world, taken in ranks] == [(2, 6)] * 2 + [(3, 8)] * 3
    assert sorted(index for _, taken in ranks for index in taken) == list(range(SIZE))
