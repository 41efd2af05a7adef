"""The ledger: which source positions are consumed, exactly, and in little memory."""

from collections.abc import AsyncIterator, Iterator, Sized
from typing import Any

import pytest

from spdl.pipeline import PipelineBuilder
from spdl.pipeline._engine import _origin
from spdl.pipeline._engine._engine import END, EPOCH
from spdl.pipeline.batching import LengthBuckets, PackSequences
from spdl.pipeline.defs import Aggregator
from tests.support.running import TIMEOUT


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


def test_positions_belong_to_epochs() -> None:
    """A position is numbered inside its epoch, and an epoch is live until its end has been read."""
    builder = PipelineBuilder().add_source([0, 1, 2], continuous=True).add_sink(8)
    pipeline = builder.build(num_threads=2, resumable=True)
    positions = pipeline._engine.ledger.sources[0]
    with pipeline.auto_stop():
        for epoch in range(3):
            found = pipeline.get_iterator(timeout=TIMEOUT)
            for position in range(3):
                with pipeline._engine.lock:
                    assert positions.epoch == epoch
                    assert positions.place(positions.starts[0] + position) == (epoch, position)
                assert next(found) == position
            assert positions.epoch == epoch
            assert list(found) == []
        assert positions.epoch == 3
        with pipeline._engine.lock:
            assert len(positions.starts) <= 4  # the sink holds three epochs at most


def test_what_was_taken_is_pending_until_it_is_committed() -> None:
    """For those who pass items on and know only later that the user has received them."""
    builder = PipelineBuilder().add_source([10, 11], continuous=True).add_sink(8)
    pipeline = builder.build(num_threads=2, resumable=True)
    engine = pipeline._engine
    positions = engine.ledger.sources[0]
    with pipeline.auto_stop():
        taken = [engine.take(TIMEOUT) for _ in range(4)]
        assert taken[:2] == [(10, 0), (11, 1)]
        assert taken[2] is EPOCH
        assert not any(positions.is_consumed(index) for index in range(3))
        engine.commit(taken[1])
        assert [positions.is_consumed(index) for index in range(2)] == [False, True]
        engine.commit(taken[0])
        assert (positions.is_consumed(0), positions.epoch) == (True, 0)
        engine.commit(taken[2])
        assert (positions.is_consumed(2), positions.epoch) == (False, 1)


def test_the_end_is_committed_too() -> None:
    """So that a state taken before it resumes to an empty rest, not to the next epoch."""
    pipeline = PipelineBuilder().add_source([10]).add_sink(2).build(num_threads=2)
    engine = pipeline._engine
    with pipeline.auto_stop():
        engine.commit(engine.take(TIMEOUT))
        end = engine.take(TIMEOUT)
        assert end is END
        assert not engine.was_end_read
        engine.commit(end)
        assert engine.was_end_read


def test_a_call_knows_which_of_its_outputs_are_consumed() -> None:
    """Not only how many: a resumed run must not repeat those, and must make the others."""

    async def later(item: int) -> AsyncIterator[int]:
        for part in range(3):
            yield item + part

    def tens(item: int) -> Iterator[int]:
        yield from (10 * item, 100 * item)

    builder = PipelineBuilder().add_source([1, 2]).pipe(later).pipe(tens).add_sink(1)
    pipeline = builder.build(num_threads=2)
    ledger = pipeline._engine.ledger
    ledger.track()
    seen = []
    with pipeline.auto_stop():
        for _ in pipeline.get_iterator(timeout=TIMEOUT):
            with pipeline._engine.lock:
                seen.append({path: done for path, done in ledger.done_parts().items() if path[1] == 0})
    assert seen[0] == {(0, 0, 0): [(0, 1)]}
    assert seen[2] == {(0, 0): [(0, 1)], (0, 0, 1): [(0, 1)]}
    assert seen[3] in (
        {(0, 0): [(0, 2)]},
        {(0, 0): [(0, 1)], (0, 0, 1): [(0, 2)]},
    )  # the second call may not have ended
    assert seen[6:] == [{}] * 6
    assert ledger.branches == set()


def test_a_sequence_that_was_split_is_consumed_piece_by_piece() -> None:
    """Each piece is a part of its position, also of the output of a generator."""

    def twice(item: list[int]) -> Iterator[list[int]]:
        yield from (item, item)

    packing = PackSequences(2, too_long="split")
    builder = PipelineBuilder().add_source([[1, 2, 3, 4, 5], [6]]).pipe(twice).aggregate(packing).add_sink(1)
    pipeline = builder.build(num_threads=2)
    ledger = pipeline._engine.ledger
    ledger.track()
    with pipeline.auto_stop():
        found = pipeline.get_iterator(timeout=TIMEOUT)
        assert [next(found).tokens for _ in range(2)] == [[1, 2], [3, 4]]
        with pipeline._engine.lock:
            assert ledger.done_parts() == {(0, 0, 0): [(0, 2)]}
        assert [row.tokens for row in found] == [[1, 2], [3, 4], [5, 5], [6, 6]]
    assert (ledger.done_parts(), ledger.sources[0].pending) == ({}, set())


class Changes(Aggregator[int, list[int]]):
    """Lists of equal items. An item that differs is kept for the next list, which its return value does not say."""

    def __init__(self) -> None:
        self.kept: list[int] = []

    def accumulate(self, item: int) -> list[int] | None:
        given, self.kept = self.kept, [item]
        if given and given[0] != item:
            return given
        self.kept = given + self.kept
        return None

    def flush(self) -> list[int] | None:
        given, self.kept = self.kept, []
        return given or None


def test_an_item_that_an_aggregator_may_have_kept_is_pending() -> None:
    """Until the next output was read, where the aggregator does not declare that it keeps nothing."""
    builder = PipelineBuilder().add_source([7, 8, 8, 9]).aggregate(Changes()).add_sink(1)
    pipeline = builder.build(num_threads=2)
    stage = pipeline._engine.nodes[1]
    stage.may_keep_newest = True  # type: ignore[attr-defined] # as a resumable build sets it
    positions = pipeline._engine.ledger.sources[0]
    with pipeline.auto_stop():
        found = pipeline.get_iterator(timeout=TIMEOUT)
        for batch, pending in [([7], {1, 2, 3}), ([8, 8], {3}), ([9], set())]:
            assert next(found) == batch
            with pipeline._engine.lock:
                assert {index for index in range(4) if not positions.is_consumed(index)} == pending
        assert list(found) == []
    assert pipeline.stats().stages[1].num_dropped == 0


def test_epochs_whose_ends_nobody_reads_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """A merge op may keep the marks; the starts of epochs do not pile up."""
    monkeypatch.setattr(_origin, "_MOST_EPOCHS", 10)
    positions = _origin.Positions()
    for number in range(100):
        positions.pending.add(positions.next_index)
        positions.next_index += 1
        if number > 2:
            positions.consume(number - 3)
        positions.begin_epoch()
        assert len(positions.starts) <= 11
    assert positions.place(99) == (99, 0)
