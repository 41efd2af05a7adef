"""The ledger: which source positions are consumed, exactly, and in little memory."""

from collections.abc import Sized
from typing import Any

from spdl.pipeline import PipelineBuilder
from spdl.pipeline.batching import LengthBuckets
from tests.contract.running import TIMEOUT


def num_entries(positions: Any) -> int:
    """How many entries the containers of ``positions`` have."""
    found = [getattr(positions, name) for name in type(positions).__slots__]
    return sum(len(each) for each in found if isinstance(each, Sized))


def test_one_held_item_does_not_make_the_ledger_grow() -> None:
    """What passes by while an aggregator holds an item back leaves no trace."""
    items = [1, *[9] * 1600]
    builder = PipelineBuilder().add_source(items).aggregate(LengthBuckets([5], 8, length=int)).add_sink(1)
    pipeline = builder.build(num_threads=2)
    with pipeline.auto_stop():
        found = pipeline.get_iterator(timeout=TIMEOUT)
        for _ in range(190):
            assert next(found) == [9] * 8
        positions = pipeline._engine.ledger.sources[0]
        with pipeline._engine.lock:
            assert not positions.is_consumed(0)
            assert num_entries(positions) < 100
        assert list(found)[-1] == [1]
    assert positions.num_consumed == positions.low == len(items)
