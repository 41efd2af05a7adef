"""Training runs that are killed in the middle of an epoch, and go on from their last checkpoint."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from . import killed
from .sampling import BATCH_SIZE, NUM_BATCHES, order

pytestmark = [
    pytest.mark.slow,  # each starts a process that imports the trainer
    pytest.mark.filterwarnings(r"ignore:`isinstance\(treespec, LeafSpec\)` is deprecated:FutureWarning"),
    pytest.mark.filterwarnings("ignore:.*directory .* exists and is not empty:UserWarning"),
    pytest.mark.filterwarnings("ignore:source EpochSampler has neither .*iterated from its beginning:UserWarning"),
]


def batches_from(step: int) -> list[list[int]]:
    """All batches of the run from this step on, as without a kill."""
    epochs = [order(epoch) for epoch in range(killed.NUM_EPOCHS)]
    batches = [epoch[start : start + BATCH_SIZE] for epoch in epochs for start in range(0, len(epoch), BATCH_SIZE)]
    assert len(batches) == killed.NUM_EPOCHS * NUM_BATCHES
    return batches[step:]


@pytest.fixture(params=["accelerate", "lightning", "transformers"])
def trainer(request: pytest.FixtureRequest) -> str:
    request.getfixturevalue(f"in_{request.param}")  # skips where it is not installed
    name: str = request.param
    return name


@pytest.mark.allow_leaks(
    reason="transformers loads the rest of the epoch with torch's loader, whose workers are its own"
)
@pytest.mark.parametrize("kind", ["thread", "process", "DataLoader"])
def test_a_killed_run_goes_on_with_what_was_left(
    trainer: str, kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """From its last checkpoint, to the end of the epoch and of those after it: each batch as without the kill."""
    if (trainer, kind) == ("transformers", "DataLoader"):
        pytest.skip("Trainer skips batches of a batch sampler, which this has not")
    first = subprocess.run(
        [sys.executable, "-m", "tests.trainers.killed", trainer, kind, str(tmp_path)],
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert first.returncode == -signal.SIGKILL, first.stderr.decode()
    before = [json.loads(line) for line in first.stdout.splitlines() if line.startswith(b"[")]
    assert before == batches_from(0)[: killed.KILLED_AT]
    made: Callable[..., Any] = request.getfixturevalue("loaders")[kind]
    seen: list[list[int]] = []
    killed.TRAINERS[trainer](made(), tmp_path, seen.append, resumes=True)
    assert seen == batches_from(killed.SAVED_AT)
