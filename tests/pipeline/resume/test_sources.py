"""The sources of ``spdl.source`` in pipelines that are resumed."""

import json
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.pipeline import Pipeline, PipelineBuilder
from spdl.pipeline._engine import _passes
from spdl.resume import gather
from spdl.source import (
    DistributedDeterministicSampler,
    DistributedKeyedSampler,
    DistributedRandomSampler,
    KeyedMix,
)
from spdl.source.utils import embed_shuffle
from tests.pipeline.resume.graphs import Source, Stateful
from tests.strategies.profiles import cases
from tests.support.running import TIMEOUT, await_event, build_of

SOURCES: dict[str, Callable[[], Any]] = {
    "keyed": lambda: DistributedKeyedSampler(13, rank=1, world_size=2, seed=3),
    "random": lambda: DistributedRandomSampler(13, rank=0, world_size=1),
    "in order": lambda: DistributedDeterministicSampler(14, rank=0, world_size=2),
    "mix": lambda: KeyedMix([list("abcde"), list("xyz")], [2, 1], at_end="stop", seed=5),
    "shuffled": lambda: embed_shuffle(DistributedKeyedSampler(7)),
    "shuffled last": lambda: embed_shuffle(DistributedKeyedSampler(7), shuffle_last=True),
}


def build(source: Any, *, continuous: bool = True) -> Pipeline[Any]:
    builder = build_of([0], lambda b: b.pipe(lambda item: item, name="same", concurrency=3, output_order="input"))
    builder._source = None
    pipeline: Pipeline[Any] = builder.add_source(source, continuous=continuous).build(num_threads=3, resumable=True)
    return pipeline


@contextmanager
def stopping(pipeline: Pipeline[Any]) -> Iterator[Pipeline[Any]]:
    try:
        yield pipeline
    finally:
        pipeline.stop()


def read(pipeline: Pipeline[Any], num: int) -> list[Any]:
    """Items, and ``None`` at the ends of epochs."""
    found = []
    for _ in range(num):
        try:
            found.append(pipeline.get_item(timeout=TIMEOUT))
        except EOFError:
            found.append(None)
    return found


@cases(150)
@given(
    name=st.sampled_from(sorted(SOURCES)),
    first=st.integers(0, 25),
    second=st.integers(0, 12),
    share=st.sampled_from([0.01, 1e9]),
)
def test_orders_go_on_over_epochs(name: str, first: int, second: int, share: float) -> None:
    """As they would have without a stop, from a state that JSON has carried."""
    with patch.object(_passes, "_SNAPSHOT_SHARE", share):
        check(name, first, second)


def check(name: str, first: int, second: int) -> None:
    with stopping(build(SOURCES[name]())) as whole:
        wanted = read(whole, 50)
    found: list[Any] = []
    state: Any = None
    for num in (first, second, 50 - first - second):
        with stopping(build(SOURCES[name]())) as pipeline:
            if state is not None:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    pipeline.load_state_dict(json.loads(state))
            found += read(pipeline, num)
            state = json.dumps(pipeline.state_dict())
    assert found == wanted


@pytest.mark.parametrize("name", ["keyed", "random", "in order", "mix"])
def test_samplers_are_iterated_from_a_position(name: str) -> None:
    """As they are indexed there; a resumed pipeline does so, because to index item by item takes many times as long."""
    sampler = SOURCES[name]()
    for position in range(len(sampler) + 1):
        assert list(sampler.iterate_from(position)) == list(sampler)[position:]
    with stopping(build(SOURCES[name]())) as pipeline:
        read(pipeline, 3)
        state = pipeline.state_dict()
    resumed = SOURCES[name]()
    with patch.object(type(resumed), "iterate_from", autospec=True, side_effect=type(resumed).iterate_from) as called:
        pipeline = build(resumed)
        pipeline.load_state_dict(state)
        with stopping(pipeline):
            assert read(pipeline, len(sampler) - 2) == [*list(sampler)[3:], None]
    assert called.call_count >= 1


@pytest.mark.parametrize("reads", ["reads early", "reads late"])
def test_the_state_before_an_item_that_is_held_back_is_kept(reads: str) -> None:
    """However many states of the source are saved after it, and while epochs before it are live: only it leads back."""
    held, gate, passed = (0, 1, 10), threading.Event(), threading.Event()

    def keep(item: tuple[int, ...]) -> tuple[int, ...] | None:
        if item == held:
            await_event(gate)
        if item == (0, 1, 299):
            passed.set()
        return item if item == held or item[1] != 1 else None

    def make() -> Pipeline[Any]:
        source = Stateful(Source(0, "stateful", (2, 300)))
        builder = PipelineBuilder().add_source(source, continuous=True).pipe(keep, concurrency=2)
        return builder.add_sink(3).build(num_threads=2, resumable=True)

    with patch.object(_passes, "_SNAPSHOT_SHARE", 1e9):
        with stopping(make()) as pipeline:
            pipeline.start()
            if reads == "reads late":
                await_event(passed)
            assert sorted(read(pipeline, 2)) == [(0, 0, 0), (0, 0, 1)]
            assert read(pipeline, 1) == [None]
            await_event(passed)
            state = pipeline.state_dict()
            gate.set()
        [epoch, *_] = json.loads(state["spdl"])["sources"][0]["epochs"]
        assert (epoch["epoch"], epoch["holes"][0][0]) == (1, 10)
        assert epoch["iterator"]["position"] <= 10
        pipeline = make()
        pipeline.load_state_dict(state)
        with stopping(pipeline):
            assert read(pipeline, 2) == [held, None]
            assert sorted(read(pipeline, 2)) == [(0, 2, 0), (0, 2, 1)]


@pytest.mark.parametrize("worlds", [(2, 3, 1), (3, 2, 4)], ids=str)
def test_ranks_share_what_is_left_of_a_keyed_order(worlds: tuple[int, ...]) -> None:
    """Every index of the epoch is read once, and the next epoch is that of the new number of ranks."""
    state: Any = None
    found: list[int] = []
    following: list[int] = []
    for number, world in enumerate(worlds):
        states = []
        for rank in range(world):
            sampler = DistributedKeyedSampler(30, rank=rank, world_size=world, ddp_drop_last_distributed_round=False)
            with stopping(build(sampler)) as pipeline:
                if state is not None:
                    pipeline.load_state_dict(state)
                if number < len(worlds) - 1:
                    found += read(pipeline, 3)
                    states.append(pipeline.state_dict())
                else:
                    found += pipeline.get_iterator(timeout=TIMEOUT)
                    following += pipeline.get_iterator(timeout=TIMEOUT)
        if states:
            state = gather(states)
    assert sorted(found) == sorted(following) == list(range(30))
