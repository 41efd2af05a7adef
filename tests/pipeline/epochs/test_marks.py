"""Items behind the end of an epoch, at the level of one stage: nothing is started here."""

from typing import Any

import pytest

from spdl.pipeline import PipelineBuilder
from spdl.pipeline._engine._channel import MARK


class _Lane:
    """Records the stages that are offered while they are ready."""

    is_claiming = False

    def __init__(self) -> None:
        self.ready: list[Any] = []

    def offer(self, stage: Any) -> None:
        if stage.ready():
            self.ready.append(stage)

    def cancel_calls(self, stage: Any) -> None:
        """Nothing runs."""


@pytest.mark.parametrize("order", ["completion", "input"])
def test_items_behind_a_mark_are_offered_when_it_is_forwarded(order: Any) -> None:
    """They were not ready when they arrived, and the mark may be forwarded long after the room for it was made."""
    builder = (
        PipelineBuilder().add_source(range(3), continuous=True).pipe(str, concurrency=3, output_order=order).add_sink()
    )
    engine = builder.build(num_threads=1)._engine
    stage: Any = engine.nodes[1]
    stage.lane = lane = _Lane()
    with engine.lock:
        for number in range(stage.out.capacity + 1):
            stage.out.put((number, number), 0.0)
        stage.inbox.put_mark(0.0)
        stage.inbox.put((1, 1), 0.0)
        assert not lane.ready
        engine.turns.is_taken = True  # another node is advancing, so this one has to wait for its turn
        stage.out.take(0.0)
        assert not lane.ready
        engine.advance_rest(0.0)
        assert stage.out.items[-1] is MARK
        assert lane.ready
