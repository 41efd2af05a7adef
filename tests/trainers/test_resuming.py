"""Training runs that are killed in the middle of an epoch, and go on from their last checkpoint."""

import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.timeouts import TIMEOUT

from . import killed
from .sampling import BATCH_SIZE, NUM_BATCHES, order

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

pytestmark = pytest.mark.slow  # each starts a process that imports the trainer


def batches_from(step: int) -> list[list[int]]:
    """All batches of the run from this step on, as without a kill."""
    epochs = [order(epoch) for epoch in range(killed.NUM_EPOCHS)]
    batches = [epoch[start : start + BATCH_SIZE] for epoch in epochs for start in range(0, len(epoch), BATCH_SIZE)]
    assert len(batches) == killed.NUM_EPOCHS * NUM_BATCHES
    return batches[step:]


@pytest.mark.parametrize("kind", ["thread", "forked", "DataLoader"])
def test_a_killed_run_goes_on_with_what_was_left(
    asked: "Connection", kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """From its last checkpoint, to the end of the epoch and of those after it: each batch as without the kill."""
    if (request.node.callspec.params["asked"], kind) == ("transformers", "DataLoader"):
        pytest.skip("Trainer skips batches of a batch sampler, which this has not")
    for resumes, exit_code, batches in (
        (False, -signal.SIGKILL, batches_from(0)[: killed.KILLED_AT]),
        (True, 0, batches_from(killed.SAVED_AT)),
    ):
        run = killed.Run(kind, tmp_path, resumes)
        asked.send(run)
        assert asked.poll(TIMEOUT)
        assert asked.recv() == exit_code, (tmp_path / "stderr").read_text()
        assert run.batches() == batches
