"""A pipeline whose sampler refills gives as many items as were planned, whatever fails."""

import re
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl import resume
from spdl.dataloader import DataLoader
from spdl.pipeline import Pipeline, PipelineBuilder, PipelineFailure, build_pipeline
from spdl.pipeline.defs import (
    MAIN_PROCESS,
    Aggregate,
    Merge,
    PathVariants,
    Pipe,
    PipelineConfig,
    SinkConfig,
    SourceConfig,
)
from spdl.resume import ResumeError
from spdl.source import DistributedKeyedSampler
from tests.pipeline.regions.threads import ThreadWorkersConfig
from tests.strategies.profiles import cases
from tests.strategies.watch import nothing_left
from tests.support.running import TIMEOUT

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")


class Unreadable(Exception):
    """What the ops here raise."""


def fifth_fails(item: int) -> int:
    if item % 5 == 0:
        raise Unreadable(item)
    return item


def fifth_dropped(item: int) -> int | None:
    return item if item % 5 else None


async def fifth_fails_async(item: int) -> int:
    return fifth_fails(item)


def fifth_gives_nothing(item: int) -> Iterator[int]:
    if item % 5:
        yield item


def sampler(n: int = 60, **options: Any) -> DistributedKeyedSampler:
    return DistributedKeyedSampler(n, refill=True, **options)


def read(builder: PipelineBuilder[Any, Any], **options: Any) -> list[Any]:
    pipeline = builder.build(num_threads=2, **options)
    with pipeline.auto_stop(timeout=TIMEOUT):
        return list(pipeline.get_iterator(timeout=TIMEOUT))


def test_all_ranks_make_the_same_number_of_full_batches() -> None:
    """Eight of them, with a fifth of the items unreadable."""
    for rank in range(8):
        source = sampler(400, rank=rank, world_size=8)
        batches = read(PipelineBuilder().add_source(source).pipe(fifth_fails, concurrency=3).aggregate(10).add_sink(2))
        assert [len(batch) for batch in batches] == [10] * 5
        assert all(item % 5 for batch in batches for item in batch)


def test_loaders_refill() -> None:
    """``DataLoader`` has a pipeline inside."""
    loader: Any = DataLoader(sampler(), preprocessor=fifth_fails, batch_size=6, num_threads=2)
    for _ in range(2):
        assert [len(batch) for batch in loader] == [6] * 10


STAGES: dict[str, Callable[[PipelineBuilder[Any, Any]], Any]] = {
    "dropped": lambda builder: builder.pipe(fifth_dropped),
    "async": lambda builder: builder.pipe(fifth_fails_async, concurrency=3),
    "generator": lambda builder: builder.pipe(fifth_gives_nothing),
    "in order": lambda builder: builder.pipe(fifth_fails, concurrency=3, output_order="input"),
    "twice": lambda builder: builder.pipe(fifth_fails).pipe(lambda item: None if item % 7 == 0 else item),
    "region": lambda builder: builder.to(ThreadWorkersConfig(2)).pipe(fifth_fails).to(MAIN_PROCESS),
    "path variants": lambda builder: builder.path_variants(
        lambda item: item % 2, [[Pipe(fifth_fails)], [Pipe(fifth_dropped)]]
    ),
}


@pytest.mark.parametrize("name", [*STAGES])
def test_what_is_lost_anywhere_is_replaced(name: str) -> None:
    """By failing or being dropped, on any kind of stage."""
    builder: Any = PipelineBuilder().add_source(sampler())
    assert len(read(STAGES[name](builder).add_sink(2))) == 60


def test_nothing_is_replaced_where_nothing_is_lost() -> None:
    """The sampler's own items come, in its order."""
    assert read(PipelineBuilder().add_source(sampler()).pipe(abs).add_sink()) == list(sampler())


def test_every_epoch_is_refilled() -> None:
    """With other replacements in each."""
    builder = PipelineBuilder().add_source(sampler(), continuous=True).pipe(fifth_fails, concurrency=2).add_sink(2)
    pipeline = builder.build(num_threads=2)
    with pipeline.auto_stop(timeout=TIMEOUT):
        epochs = [sorted(pipeline.get_iterator(timeout=TIMEOUT)) for _ in range(4)]
    assert [len(epoch) for epoch in epochs] == [60] * 4
    assert all(one != other for one, other in pairwise(epochs))


def test_replacements_are_a_function_of_seed_epoch_and_position() -> None:
    """The same on every machine, for every rank; and evenly distributed."""
    one, other = sampler(1000, seed=3), sampler(1000, seed=3, rank=1, world_size=4)
    found = [one.replacement(position) for position in range(1000, 21000)]
    assert found[:5] == [other.replacement(position) for position in range(1000, 1005)]
    assert [one.at_global(position) for position in range(1000, 1005)] == found[:5]
    assert found[:5] == [one.at_global(1000 + k) for k in range(5)]
    counts = Counter(found)
    assert sum((counts[item] - 20) ** 2 / 20 for item in range(1000)) < 1200  # chi-square, p = 4e-6
    assert [sampler(1000, seed=3, epoch=1).replacement(position) for position in range(1000, 1005)] != found[:5]


def test_a_data_set_that_cannot_be_read_is_an_error() -> None:
    """After as many losses as the epoch has items, and at least a hundred."""

    def fail(item: int) -> int:
        raise Unreadable(item)

    with pytest.raises(PipelineFailure) as caught:
        read(PipelineBuilder().add_source(sampler()).pipe(fail).add_sink())
    found = re.search(r"cannot refill epoch 0, which has 60 items: (\d+) items failed", str(caught.value.exceptions))
    assert found is not None
    assert int(found[1]) > 100  # the source has seen it; calls may have failed in the meantime


def test_stopping_does_not_wait_for_items_that_are_out() -> None:
    """The source waits for the last call, and the stop for neither."""
    called, go_on = threading.Event(), threading.Event()

    def last_waits(item: int) -> int:
        if item == last:
            called.set()
            go_on.wait(TIMEOUT)
        return item

    source = sampler(4)
    last = source[3]
    pipeline: Any = PipelineBuilder().add_source(source).pipe(last_waits).add_sink(10).build(num_threads=1)
    with nothing_left():
        pipeline.start()
        assert called.wait(TIMEOUT)
        threading.Timer(0.01, go_on.set).start()
        pipeline.stop(timeout=TIMEOUT)
        del pipeline


# -- resuming and replaying


class Taker:
    """Reads the positions of a refilled pipeline, epoch by epoch."""

    def __init__(self, make: Callable[[], Pipeline[Any]], num_epochs: int) -> None:
        self.make = make
        self.num_epochs = num_epochs
        self.epochs: list[list[Any]] = [[]]

    def take(self, state: Any, most: int | None) -> Any:
        pipeline = self.make()
        if state is not None:
            pipeline.load_state_dict(state)
            assert pipeline.state_dict() == state
        with pipeline.auto_stop(timeout=TIMEOUT):
            while len(self.epochs) <= self.num_epochs and most != 0:
                try:
                    self.epochs[-1].append(pipeline.get_item(timeout=TIMEOUT))
                except EOFError:
                    self.epochs.append([])
                most = None if most is None else most - 1
            return pipeline.state_dict()


@cases(100)
@given(
    n=st.integers(1, 30),
    share=st.integers(2, 6),
    stops=st.lists(st.integers(0, 20), max_size=4),
    size=st.sampled_from([None, 1, 3]),
    world=st.sampled_from([(0, 1), (1, 2)]),
)
def test_a_refilled_epoch_is_resumed_exactly(
    n: int, share: int, stops: list[int], size: int | None, world: tuple[int, int]
) -> None:
    """The same items as without interruption, and as many as planned, in each of two epochs."""

    def part_fails(item: int) -> int:
        if item % share == 0 and n > 1:
            raise Unreadable(item)
        return item

    def make() -> Pipeline[Any]:
        source = sampler(n * world[1], rank=world[0], world_size=world[1], seed=5)
        builder: Any = PipelineBuilder().add_source(source, continuous=True).pipe(part_fails, concurrency=2)
        builder = builder if size is None else builder.aggregate(size)
        pipeline: Pipeline[Any] = builder.add_sink(2).build(num_threads=2, resumable=True)
        return pipeline

    def items(epoch: list[Any]) -> Counter[int]:
        return Counter(epoch if size is None else [item for batch in epoch for item in batch])

    with nothing_left():
        whole = Taker(make, 2)
        whole.take(None, None)
        taker, state = Taker(make, 2), None
        for most in stops:
            state = taker.take(state, most)
        taker.take(state, None)
    assert [items(epoch) for epoch in taker.epochs] == [items(epoch) for epoch in whole.epochs]
    assert [sum(items(epoch).values()) for epoch in taker.epochs] == [n, n, 0]


def test_batches_with_replacements_are_replayed(tmp_path: Path) -> None:
    """Their positions follow those of the epoch."""
    log = tmp_path / "batches.jsonl"
    builder = PipelineBuilder().add_source(sampler(rank=1, world_size=3)).pipe(fifth_fails).aggregate(4).add_sink()
    batches = read(builder, provenance=log)
    for step, batch in enumerate(batches):
        assert resume.replay(builder, log, step=step) == batch
    pipeline = builder.build(num_threads=2)
    positions = [position for _, origin in pipeline.with_origins() for position in origin.positions]
    assert positions[:16] == sorted(positions[:16])
    assert max(positions) >= 60


def test_other_ranks_go_on_only_where_nothing_was_lost() -> None:
    """The replacements of a rank are its own."""
    failing = {"some": True}

    def some_fail(item: int) -> int:
        return fifth_fails(item) if failing["some"] else item

    def make(rank: int, world: int) -> Pipeline[Any]:
        builder: Any = PipelineBuilder().add_source(sampler(rank=rank, world_size=world)).pipe(some_fail).add_sink()
        pipeline: Pipeline[Any] = builder.build(resumable=True)
        return pipeline

    def state(num: int) -> Any:
        states = []
        for rank in range(2):
            pipeline = make(rank, 2)
            with pipeline.auto_stop(timeout=TIMEOUT):
                for _ in range(num):
                    pipeline.get_item(timeout=TIMEOUT)
                states.append(pipeline.state_dict())
        return resume.gather(states)

    with pytest.raises(ResumeError, match="refilled positions that were lost"):
        make(0, 3).load_state_dict(state(20))
    failing["some"] = False  # a pipeline that has given nothing yet may already have lost some, ahead of its consumer
    saved = state(0)
    pipeline = make(0, 3)
    pipeline.load_state_dict(saved)
    with pipeline.auto_stop(timeout=TIMEOUT):
        failing["some"] = True
        assert len(list(pipeline)) == 20


# -- what is refused


def test_where_nobody_knows_what_is_lost_it_is_refused() -> None:
    """Merged sources, and aggregates inside regions and path variants."""
    subs: list[PipelineConfig[Any]] = [PipelineConfig(SourceConfig(sampler()), [], SinkConfig(1)) for _ in range(2)]
    with pytest.raises(ValueError, match="KeyedMix"):
        build_pipeline(PipelineConfig(Merge(subs), [], SinkConfig(1)))
    builder: Any = PipelineBuilder().add_source(sampler()).to(ThreadWorkersConfig(1)).aggregate(2).to(MAIN_PROCESS)
    with pytest.raises(ValueError, match=r"aggregate.*is inside a region"):
        builder.add_sink().build()
    paths: Any = PathVariants(lambda item: 0, [[Aggregate(2)]])
    with pytest.raises(ValueError, match="inside a region or path variants"):
        build_pipeline(PipelineConfig(SourceConfig(sampler()), [paths], SinkConfig(1)))


def test_a_source_that_asks_for_it_must_be_able_to() -> None:
    """The error says what it lacks."""

    class Asking:
        refill = True

        async def __aiter__(self) -> AsyncIterator[int]:
            yield 1

    with pytest.raises(ValueError, match=r"Asking has refill=True, and cannot be refilled: it needs __iter__"):
        PipelineBuilder().add_source(Asking()).add_sink().build()
