"""The sources of ``spdl.source`` in pipelines that are resumed."""

import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.pipeline import Pipeline
from spdl.pipeline._engine import _passes
from spdl.resume import gather
from spdl.source import (
    DistributedDeterministicSampler,
    DistributedKeyedSampler,
    DistributedRandomSampler,
    KeyedMix,
)
from spdl.source.utils import embed_shuffle
from tests.strategies.profiles import cases
from tests.support.running import TIMEOUT, build_of

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
