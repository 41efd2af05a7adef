"""Runs that go on with other numbers of ranks, over and over: each item is read once per epoch."""

import itertools
import json
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from spdl import resume
from spdl.pipeline import Pipeline, PipelineBuilder
from spdl.source import DistributedKeyedSampler, KeyedMix, ShardMix, ShardOrder
from tests.support.soak import seeds

LENGTH = 23


class Keyed(DistributedKeyedSampler):
    """Indices with their epoch."""

    def _item_at(self, position: int) -> Any:
        return self.epoch, super()._item_at(position)

    def _items_at(self, positions: range) -> Iterator[Any]:
        epoch = self.epoch
        return ((epoch, index) for index in super()._items_at(positions))


class Mixed(KeyedMix[Any]):
    """Items of two sources with their epoch."""

    def _item_at(self, position: int) -> Any:
        return self.epoch, super()._item_at(position)

    def _items_at(self, positions: range) -> Iterator[Any]:
        epoch = self.epoch
        return ((epoch, item) for item in super()._items_at(positions))


class Sharded(ShardOrder[Any]):
    """Samples of shards with their epoch."""

    def _item_at(self, position: int) -> Any:
        return self.epoch, super()._item_at(position)

    def _items_at(self, positions: range) -> Iterator[Any]:
        epoch = self.epoch
        return ((epoch, item) for item in super()._items_at(positions))


class MixedShards(ShardMix):
    """Samples of two indexes with their epoch."""

    def _item_at(self, position: int) -> Any:
        return self._with_epoch(self.epoch, super()._item_at(position))

    def _items_at(self, positions: range) -> Iterator[Any]:
        epoch = self.epoch
        return (self._with_epoch(epoch, item) for item in super()._items_at(positions))

    def _with_epoch(self, epoch: int, item: Any) -> Any:
        return epoch, 17 * item.source + item.location


class Shards:
    """Numbers in shards."""

    def __init__(self, *sizes: int) -> None:
        self.shard_sizes = sizes

    def locate(self, number: int) -> int:
        return number


def make_keyed(rank: int, world: int, drop_last: bool) -> Any:
    return Keyed(LENGTH, rank=rank, world_size=world, seed=1, ddp_drop_last_distributed_round=drop_last)


def make_mixed(rank: int, world: int, drop_last: bool) -> Any:
    return Mixed(
        [range(17), range(17, LENGTH)],
        [3, 1],
        at_end="repeat",
        length=LENGTH - 3,
        rank=rank,
        world_size=world,
        ddp_drop_last_distributed_round=drop_last,
    )


def make_sharded(rank: int, world: int, drop_last: bool) -> Any:
    return Sharded(
        Shards(4, 0, 7, 1, LENGTH - 12),
        rank=rank,
        world_size=world,
        seed=1,
        open_shards=2,
        ddp_drop_last_distributed_round=drop_last,
    )


def make_mixed_shards(rank: int, world: int, drop_last: bool) -> Any:
    return MixedShards(
        [Shards(4, 0, 7, 6), Shards(1, LENGTH - 18)],
        [3, 1],
        at_end="repeat",
        length=LENGTH - 3,
        rank=rank,
        world_size=world,
        open_shards=2,
        ddp_drop_last_distributed_round=drop_last,
    )


def several(item: tuple[int, int]) -> Iterator[tuple[int, int, int]]:
    """From none to three outputs."""
    for number in range(item[1] % 4):
        yield (*item, number)


def one(item: tuple[int, int]) -> tuple[int, int, int]:
    return (*item, 0)


def read(pipeline: Pipeline[Any], num_batches: int) -> tuple[list[Any], dict[str, str]]:
    """Items of as many batches, over the ends of epochs, and the state behind them."""

    def batches() -> Iterator[list[Any]]:
        while True:
            yield from pipeline

    with pipeline.auto_stop():
        found = list(itertools.chain.from_iterable(itertools.islice(batches(), num_batches)))
        return found, pipeline.state_dict()


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.parametrize("op", [one, several])
@pytest.mark.parametrize("make", [make_keyed, make_mixed, make_sharded, make_mixed_shards])
@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("seed", seeds(3, 100))
def test_chains_of_worlds_read_every_item_once(op: Any, make: Any, drop_last: bool, seed: int) -> None:
    """Over five worlds, whose ranks stop within a few batches of each other, and one rank at the end."""

    def build(rank: int, world: int) -> Pipeline[Any]:
        builder = PipelineBuilder().add_source(make(rank, world, drop_last), continuous=True)
        return builder.pipe(op, concurrency=3).aggregate(2).add_sink(3).build(num_threads=2, resumable=True)

    rng = random.Random(seed)
    found: Counter[Any] = Counter()
    state: Any = None
    for world in [rng.choice([1, 2, 3, 4, 8]) for _ in range(5)]:
        states, step = [], rng.randrange(12)
        for rank in range(world):
            pipeline = build(rank, world)
            if state is not None:
                pipeline.load_state_dict(state)
            items, own = read(pipeline, max(0, step + rng.randrange(-2, 3)))
            found.update(items)
            states.append(own)
        state = json.loads(json.dumps(resume.gather(states)))
    newest = max((item[0] for item in found), default=0)
    pipeline = build(0, 1)
    pipeline.load_state_dict(state)
    found.update(read(pipeline, (newest + 3) * 2 * LENGTH)[0])

    if make not in (make_mixed, make_mixed_shards):
        assert max(found.values()) == 1, "an item is read twice"
    if not drop_last:
        for epoch in range(newest + 1):
            sampler = make(0, 1, False)
            sampler.set_epoch(epoch)
            expected = Counter(item for each in sampler for item in ([one(each)] if op is one else several(each)))
            assert Counter({item: count for item, count in found.items() if item[0] == epoch}) == expected
