"""``ShardOrder``: each sample once an epoch, few shards at a time, equal steps, and states."""

import copy
import itertools
import json
import math
import pickle
import random
from bisect import bisect_right
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl import resume
from spdl.dataloader import get_pytorch_dataloader
from spdl.pipeline import Pipeline, PipelineBuilder
from spdl.resume import ResumeError
from spdl.source import KeyedPermutation, ShardOrder, TarIndex
from tests.strategies.profiles import cases
from tests.support.shards import write_shards


class Sharded:
    """Numbers in shards."""

    def __init__(self, sizes: list[int]) -> None:
        self.shard_sizes = sizes

    def locate(self, number: int) -> int:
        return number

    def shard_of(self, number: int) -> int:
        return bisect_right(list(itertools.accumulate(self.shard_sizes)), number)


SIZES = st.lists(st.integers(0, 40), min_size=1, max_size=12).filter(any)


@cases(200)
@given(
    sizes=SIZES,
    open_shards=st.integers(1, 6),
    world_size=st.integers(1, 5),
    num_workers=st.integers(1, 3),
    drops=st.booleans(),
    key=st.tuples(st.integers(), st.integers()),
)
def test_ranks_and_workers_share_nothing_and_have_all(
    sizes: list[int], open_shards: int, world_size: int, num_workers: int, drops: bool, key: tuple[int, int]
) -> None:
    """Every sample once; with drop, as many for each, and only the last round is missing."""
    index, num_shares = Sharded(sizes), world_size * num_workers
    options: dict[str, Any] = {"seed": key[0], "epoch": key[1], "open_shards": open_shards}
    whole = list(ShardOrder(index, **options))
    assert sorted(whole) == list(range(sum(sizes)))
    if drops and len(whole) < num_shares:
        return
    shares = [
        list(
            ShardOrder(
                index, rank=rank, world_size=world_size, ddp_drop_last_distributed_round=drops, **options
            ).for_worker(worker, num_workers)
        )
        for worker in range(num_workers)
        for rank in range(world_size)
        if not drops or len(whole) >= num_shares
    ]
    stop = len(whole) - len(whole) % num_shares if drops else len(whole)
    assert shares == [whole[share:stop:num_shares] for share in range(num_shares)]


@cases(200)
@given(sizes=SIZES, open_shards=st.integers(1, 6), seed=st.integers())
def test_few_shards_are_open_at_a_time(sizes: list[int], open_shards: int, seed: int) -> None:
    """The order divides into windows of as many shards, and no shard is in two of them."""
    index = Sharded(sizes)
    shards = [index.shard_of(number) for number in ShardOrder(index, seed=seed, open_shards=open_shards)]
    windows, left = [set[int]()], Counter(shards)
    for shard in shards:
        if not any(left[each] for each in windows[-1]):
            windows.append(set())
        windows[-1].add(shard)
        left[shard] -= 1
    windows = [window for window in windows if window]
    assert all(len(window) <= open_shards for window in windows)
    assert sum(map(len, windows)) == sum(1 for size in sizes if size)


@cases(100)
@given(sizes=SIZES, open_shards=st.integers(1, 6), world_size=st.integers(1, 3), shuffle=st.booleans())
def test_positions_are_computed(sizes: list[int], open_shards: int, world_size: int, shuffle: bool) -> None:
    """By index, by slice, from the middle, and for other ranks: all give what iterating gives."""
    order = ShardOrder(
        Sharded(sizes), rank=world_size - 1, world_size=world_size, open_shards=open_shards, shuffle=shuffle,
        ddp_drop_last_distributed_round=False,
    )  # fmt: skip
    items = list(order)
    assert [order[position] for position in range(len(order))] == order[:] == items
    assert order[::-1] == items[::-1]
    for position, item in enumerate(items):
        at = order.global_position(position)
        assert order.at_global(at) == order.number_at(at) == item
    assert list(order.iterate_from(len(items) // 2)) == items[len(items) // 2 :]


def test_order_is_what_the_algorithm_says() -> None:
    """By the permutations that the docstring names; windows above 1024 have no table."""
    sizes = [3, 0, 700, 900, 20, 5]
    index = Sharded(sizes)
    firsts = list(itertools.accumulate(sizes, initial=0))
    filled = [shard for shard, size in enumerate(sizes) if size]
    shards = [filled[place] for place in KeyedPermutation(5, (7, 4, -1))]
    expected = []
    for window in range(3):
        own = [
            number
            for shard in shards[2 * window : 2 * window + 2]
            for number in range(firsts[shard], firsts[shard + 1])
        ]
        expected += [own[place] for place in KeyedPermutation(len(own), (7, 4, -2, window))]
    assert list(ShardOrder(index, seed=7, epoch=4, open_shards=2)) == expected


def test_numbers_are_golden() -> None:
    """They are part of the contract: the same on every machine and in every release."""
    order = ShardOrder(Sharded([1000] * 100), seed=1, open_shards=4)
    assert order[:6] == [71169, 70630, 80192, 81756, 81731, 81123]
    assert order[99_999] == 23514


def test_epochs_have_other_orders() -> None:
    """Of shards and in windows; ``shuffle=False`` has none."""
    index = Sharded([20] * 10)
    order = ShardOrder(index, open_shards=2)
    first = list(order)
    order.set_epoch(1)
    second = list(order)
    order.shuffle(seed=3)
    assert len({tuple(each) for each in (first, second, list(order))}) == 3
    assert {index.shard_of(number) for number in first[:40]} != {index.shard_of(number) for number in second[:40]}
    order.shuffle(seed=0)
    order.set_epoch(0)
    under_way = iter(order)
    begun = list(itertools.islice(under_way, 50))
    order.set_epoch(1)
    assert begun + list(under_way) == first, "an iteration keeps its epoch"
    assert (order.seed, order.epoch, order.open_shards, order.index) == (0, 1, 2, index)
    assert list(ShardOrder(index, shuffle=False)) == list(range(200))


def test_samples_are_mixed_within_windows() -> None:
    """Where the samples of a shard come in its window, over many epochs: chi-square."""
    index, tries = Sharded([8] * 6), 600
    counts: Counter[int] = Counter()
    order = ShardOrder(index, open_shards=3)
    for epoch in range(tries):
        order.set_epoch(epoch)
        counts[list(order).index(0) % 24] += 1
    value = sum((counts[place] - tries / 24) ** 2 / (tries / 24) for place in range(24))
    assert value < 23 + 5 * math.sqrt(46)


@cases(60)
@given(sizes=SIZES, world_size=st.integers(1, 3), taken=st.integers(0, 60), epoch=st.integers(0, 3))
def test_a_state_goes_on_where_it_was(sizes: list[int], world_size: int, taken: int, epoch: int) -> None:
    """In another process and with its seed and epoch; JSON keeps it."""
    options: dict[str, Any] = {"world_size": world_size, "ddp_drop_last_distributed_round": False, "open_shards": 2}
    order = ShardOrder(Sharded(sizes), seed=5, epoch=epoch, **options)
    items, iterator = list(order), iter(order)
    taken = len(list(itertools.islice(iterator, taken)))
    state = json.loads(json.dumps(order.state_dict()))
    again = ShardOrder(Sharded(sizes), **options)
    again.load_state_dict(state)
    assert again.state_dict() == state
    assert list(again) == items[taken:]
    assert list(again) == items


def test_a_state_of_other_shards_is_refused(tmp_path: Path) -> None:
    """Sizes, number of open shards, and the samples themselves are compared."""
    write_shards(tmp_path, [4, 4])
    index = TarIndex.build(tmp_path)
    state = ShardOrder(index).state_dict()
    with pytest.raises(ResumeError, match="open_shards was 16 and is 2"):
        ShardOrder(index, open_shards=2).load_state_dict(state)
    (tmp_path / "other").mkdir()
    write_shards(tmp_path / "other", [5, 3])
    with pytest.raises(ResumeError, match="index was"):
        ShardOrder(TarIndex.build(tmp_path / "other")).load_state_dict(state)
    copied = tmp_path.with_name("copied")
    copied.mkdir()
    write_shards(copied, [4, 4])
    ShardOrder(TarIndex.build(copied)).load_state_dict(state)


def test_copies_begin_at_the_start(tmp_path: Path) -> None:
    """Pickled and copied, also in the middle of an iteration."""
    write_shards(tmp_path, [4, 4, 4])
    order = ShardOrder(TarIndex.of(tmp_path), seed=2, open_shards=2)
    items = list(order)
    next(iter(order))
    for copied in (pickle.loads(pickle.dumps(order)), copy.copy(order)):
        assert list(copied) == items


def build(index: TarIndex, rank: int, world: int) -> Pipeline[Any]:
    order = ShardOrder(index, rank=rank, world_size=world, open_shards=2, ddp_drop_last_distributed_round=False)
    builder = PipelineBuilder().add_source(order).pipe(index.read, concurrency=3)
    return builder.pipe(lambda sample: sample["txt"]).aggregate(2).add_sink(2).build(num_threads=2, resumable=True)


@pytest.mark.parametrize(("before", "after"), [(1, 1), (1, 3), (2, 1), (3, 2)])
def test_a_pipeline_goes_on_with_other_ranks(before: int, after: int, tmp_path: Path) -> None:
    """What was taken before and what is taken after are all samples, each once."""
    write_shards(tmp_path, [5, 0, 7, 3, 6])
    index = TarIndex.build(tmp_path)
    found: list[bytes] = []
    states = []
    for rank in range(before):
        pipeline = build(index, rank, before)
        with pipeline.auto_stop():
            for batch in itertools.islice(pipeline, 2 + rank % 2):
                found += batch
            states.append(pipeline.state_dict())
    state = resume.gather(states)
    for rank in range(after):
        pipeline = build(index, rank, after)
        pipeline.load_state_dict(state)
        with pipeline.auto_stop():
            for batch in pipeline:
                found += batch
    assert sorted(found) == sorted(sample["txt"] for sample in index)


@pytest.mark.slow
def test_a_torch_loader_takes_it_as_its_sampler(tmp_path: Path) -> None:
    """The index is the dataset, and what the order gives its keys; its state goes on exactly."""
    pytest.importorskip("torch")
    write_shards(tmp_path, [5, 7])
    index = TarIndex.build(tmp_path)

    def make() -> Any:
        order = ShardOrder(index, open_shards=1)
        return get_pytorch_dataloader(
            index, 4, sampler=order, workers="thread", collate_fn=lambda batch: [each["txt"] for each in batch]
        )

    whole = [text for batch in make() for text in batch]
    assert whole == [index.read(sample)["txt"] for sample in ShardOrder(index, open_shards=1)]
    loader, again = make(), make()
    iterator = iter(loader)
    first = next(iterator)
    again.load_state_dict(loader.state_dict())
    assert first + [text for batch in again for text in batch] == whole
    del iterator


def test_a_random_position_of_many_is_near() -> None:
    """Ten thousand shards of a hundred thousand samples: any position, without those before."""
    index = Sharded([100_000] * 10_000)
    order = ShardOrder(index, seed=1)
    rng = random.Random(0)
    for _ in range(5):
        position = rng.randrange(10**9)
        assert order[position] == next(iter(order.iterate_from(position)))


@pytest.mark.parametrize(
    ("index", "options", "error", "said"),
    [
        (range(5), {}, TypeError, "shard_sizes and locate.*range"),
        (Sharded([0, 0]), {}, ValueError, "must have samples, got none in 2 shards"),
        (Sharded([4]), {"open_shards": 0}, ValueError, "open_shards must be >= 1, got 0"),
        (Sharded([4]), {"open_shards": 1.5}, TypeError, "open_shards must be an int"),
        (Sharded([4]), {"rank": 2, "world_size": 2}, ValueError, "rank must be in range"),
        (Sharded([4]), {"world_size": 5}, ValueError, "number of samples, got 5 for 4 samples"),
    ],
)
def test_wrong_arguments_are_refused(index: Any, options: dict[str, Any], error: type[Exception], said: str) -> None:
    """By name, with what is accepted."""
    with pytest.raises(error, match=said):
        ShardOrder(index, **options)


def test_wrong_workers_are_refused() -> None:
    """By name, with what is accepted."""
    order = ShardOrder(Sharded([4]))
    with pytest.raises(ValueError, match="num_workers must be >= 1"):
        order.for_worker(0, 0)
    with pytest.raises(ValueError, match=r"worker must be in range \[0, 2\), got 2"):
        order.for_worker(2, 2)
    with pytest.raises(IndexError, match="position 4 is out of range for 4 samples"):
        order.number_at(4)
