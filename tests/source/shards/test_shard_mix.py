"""``ShardMix``: exact shares, each sample once a pass, few shards at a time, and positions that are computed."""

import json
import math
import pickle
import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from itertools import accumulate, chain, count, islice, pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.pipeline import PipelineBuilder
from spdl.resume import ResumeError
from spdl.source import JsonLines, KeyedPermutation, ParquetRows, ShardMix, TarIndex
from tests.strategies.profiles import cases
from tests.support.shards import write_shards


class Sharded:
    """Numbers in shards."""

    def __init__(self, sizes: list[int]) -> None:
        self.shard_sizes = sizes
        self._ends = list(accumulate(sizes))

    def locate(self, number: int) -> int:
        return number

    def __getitem__(self, number: int) -> str:
        return f"sample {number}"

    def shard_of(self, number: int) -> int:
        return bisect_right(self._ends, number)


SHARDS = st.lists(st.integers(0, 20), min_size=1, max_size=6).filter(any)
SOURCES = st.lists(st.tuples(SHARDS, st.integers(1, 7)), min_size=1, max_size=4)
AT_END = st.sampled_from(["stop", "repeat"])


def mix_of(sources: list[tuple[list[int], int]], at_end: Any = "repeat", **options: Any) -> ShardMix:
    """A mixture of indexes with these shards, by these weights."""
    fitting = [(shards + [weight] * (at_end == "stop"), weight) for shards, weight in sources]
    return ShardMix([Sharded(shards) for shards, _ in fitting], [w for _, w in fitting], at_end=at_end, **options)


@cases(150)
@given(sources=SOURCES, at_end=AT_END, shuffle=st.booleans(), seed=st.integers(), epoch=st.integers())
def test_shares_are_exact_and_each_sample_comes_once_a_pass(
    sources: list[tuple[list[int], int]], at_end: str, shuffle: bool, seed: int, epoch: int
) -> None:
    """In every block, so in every prefix with less than a block of difference; with ``stop``, there is one pass."""
    mix = mix_of(sources, at_end, shuffle=shuffle, seed=seed, epoch=epoch, open_shards=2)
    items, weights = list(mix), mix.weights
    block = sum(weights)
    assert len(items) == len(mix) == mix.num_global
    for start in range(0, len(items), block):
        assert Counter(source for source, _ in items[start : start + block]) == dict(enumerate(weights))
    given_so_far: Counter[int] = Counter()
    for position, (source, _) in enumerate(items, 1):
        given_so_far[source] += 1
        assert all(abs(given_so_far[each] - position * w / block) < w for each, w in enumerate(weights))
    for source, index in enumerate(mix.sources):
        own = [location for each, location in items if each == source]
        size = sum(index.shard_sizes)
        passes = [own[start : start + size] for start in range(0, len(own), size)]
        assert all(len(set(each)) == len(each) and set(each) <= set(range(size)) for each in passes)
        assert at_end == "repeat" or len(passes) == 1
        assert at_end == "stop" or sum(map(len, passes)) >= size


@cases(150)
@given(
    sources=SOURCES,
    at_end=AT_END,
    shuffle=st.booleans(),
    world_size=st.integers(1, 6),
    key=st.tuples(st.integers(), st.integers()),
)
def test_ranks_share_nothing_and_positions_are_computed(
    sources: list[tuple[list[int], int]], at_end: str, shuffle: bool, world_size: int, key: tuple[int, int]
) -> None:
    """By iterating, by index, from the middle, for other ranks and workers, and back: all of one order."""
    options: dict[str, Any] = {"shuffle": shuffle, "seed": key[0], "epoch": key[1], "open_shards": 3}
    whole = list(mix_of(sources, at_end, **options))
    for rank in range(min(world_size, len(whole))):
        options |= {"rank": rank, "world_size": world_size, "ddp_drop_last_distributed_round": False}
        mix = mix_of(sources, at_end, **options)
        own = whole[rank::world_size]
        assert list(mix) == mix[:] == [mix[number] for number in range(len(mix))] == own
        assert list(mix.iterate_from(len(own) // 2)) == own[len(own) // 2 :]
        assert mix[::-1] == own[::-1]
        for worker in range(2):
            assert list(mix.for_worker(worker, 2)) == own[worker::2]
    for position, item in enumerate(whole):
        found = mix.locate(position)
        assert (found.source, found.item) == item == mix.at_global(position)
        assert mix.position_of(*found) == position


@pytest.mark.parametrize("weights", [[1, 1], [4, 1], [30, 12], [150, 107], [1500, 700], [4000, 2001]])
@pytest.mark.parametrize("world_size", [1, 3, 50])
def test_blocks_of_all_lengths(weights: list[int], world_size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sorted or permuted, with a chunk or over many; the same numbers without NumPy, one by one."""
    sources = [Sharded([900, 1, 3000]), Sharded([50] * 60)]
    options: dict[str, Any] = {
        "at_end": "repeat",
        "length": 7000,
        "seed": 5,
        "world_size": world_size,
        "open_shards": [2, 7],
    }
    mix = ShardMix(sources, weights, rank=world_size - 1, **options)
    items = list(mix)
    assert [mix[number] for number in range(0, len(items), 13)] == items[::13]
    monkeypatch.setitem(sys.modules, "numpy", None)
    assert list(mix)[:500] == items[:500]
    if world_size == 1:
        whole = sum(weights) * (len(items) // sum(weights))
        assert Counter(source for source, _ in items[:whole])[0] == whole * weights[0] // sum(weights)


@pytest.mark.parametrize("weights", [[3, 2], [1, 4, 1], [700, 3, 150], [5, 2000]])
def test_order_is_what_the_algorithm_says(weights: list[int]) -> None:
    """The words of SplitMix64 and the windows of ``ShardOrder``, written down again from the docstring."""
    mask = 2**64 - 1

    def finalised(state: int) -> int:
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & mask
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & mask
        return state ^ (state >> 31)

    step, state = 0x9E3779B97F4A7C15, 0x13198A2E03707344
    for word in (7, 4):  # seed and epoch
        state = finalised((state + word + step) & mask)

    def sources_in(first: int, counts: list[int]) -> list[int]:
        size, ends = sum(counts), list(accumulate(counts))
        if size > 256:
            half = size // 2
            cuts = [end * half // size for end in ends]
            taken = [cut - before for before, cut in pairwise([0, *cuts])]
            rest = [count - left for count, left in zip(counts, taken, strict=True)]
            return sources_in(first, taken) + sources_in(first + half, rest)
        named = [source for source, count in enumerate(counts) for _ in range(count)]
        words = [finalised((state + step * (first + number + 1)) & mask) for number in range(size)]
        return [named[number] for number in sorted(range(size), key=words.__getitem__)]

    def pass_of(source: int, pass_number: int) -> list[int]:
        key = (7, 4, source, pass_number)
        filled = [shard for shard, size in enumerate(sizes[source]) if size]
        shards = [filled[place] for place in KeyedPermutation(len(filled), (*key, -1))]
        firsts = list(accumulate(sizes[source], initial=0))
        order: list[int] = []
        for window in range(math.ceil(len(shards) / 2)):
            opened = shards[2 * window : 2 * window + 2]
            own = [firsts[shard] + n for shard in opened for n in range(sizes[source][shard])]
            order += [own[place] for place in KeyedPermutation(len(own), (*key, -2, window))]
        return order

    sizes = [[9, 0, 4, 30], [5, 600], [70, 0, 9, 8, 7]][: len(weights)]
    options: dict[str, Any] = {"at_end": "repeat", "length": 3000, "seed": 7, "epoch": 4, "open_shards": 2}
    mix = ShardMix([Sharded(each) for each in sizes], weights, **options)

    def passes(source: int) -> Iterator[int]:
        return chain.from_iterable(pass_of(source, number) for number in count())

    streams = [passes(source) for source in range(len(weights))]
    block = sum(weights)
    sources = chain.from_iterable(sources_in(start, weights) for start in range(0, len(mix), block))
    assert list(mix) == [(source, next(streams[source])) for source in islice(sources, 3000)]


def test_numbers_are_golden() -> None:
    """They are part of the contract: the same on every machine and in every release."""
    sources = [Sharded([10**6] * 100), Sharded([1000] * 7)]
    mix = ShardMix(sources, [3, 1], at_end="repeat", seed=1, open_shards=4)
    assert len(mix) == 133_333_336
    assert [tuple(item) for item in mix[:8]] == [
        (1, 2985), (0, 87448625), (0, 78585539), (0, 87337254), (0, 78604649), (1, 528), (0, 87063929), (0, 6542550)
    ]  # fmt: skip
    assert [tuple(mix[position]) for position in (10**8, -1)] == [(0, 79214306), (0, 86448098)]


def test_any_position_of_a_billion_is_near() -> None:
    """What is computed for it: two orders of shards, of which there are few."""
    located = []

    class Recorded(Sharded):
        def locate(self, number: int) -> int:
            located.append(number)
            return number

    mix = ShardMix([Recorded([10**7] * 100), Recorded([10**8] * 10)], [1, 1], at_end="stop", rank=1, world_size=2)
    mix.load_state_dict({**mix.state_dict(), "position": 5 * 10**8})
    assert next(iter(mix)) == mix[5 * 10**8]
    assert len(located) == 2


@cases(100)
@given(sources=SOURCES, open_shards=st.integers(1, 4), seed=st.integers())
def test_few_shards_of_each_source_are_open(sources: list[tuple[list[int], int]], open_shards: int, seed: int) -> None:
    """In each pass, the shards come in windows, as in ``ShardOrder``: none is in two."""
    mix = mix_of(sources, open_shards=open_shards, seed=seed)
    for source, index in enumerate(mix.sources):
        assert isinstance(index, Sharded)
        own = [location for each, location in mix if each == source][: sum(index.shard_sizes)]
        shards, windows = [index.shard_of(number) for number in own], [set[int]()]
        left = Counter(shards)
        for shard in shards:
            if not any(left[each] for each in windows[-1]):
                windows.append(set())
            windows[-1].add(shard)
            left[shard] -= 1
        assert all(len(window) <= open_shards for window in windows)
        assert sum(map(len, windows)) == sum(1 for size in index.shard_sizes if size)


@pytest.mark.slow
def test_sources_look_drawn_at_random() -> None:
    """Over many keys: at each place as often as its weight says, and after each other; so is each sample."""
    weights, tries = [3, 1, 2], 1000
    places: list[Counter[int]] = [Counter() for _ in range(6)]
    pairs: Counter[tuple[int, int]] = Counter()
    samples: Counter[int] = Counter()
    for seed in range(tries // 10):
        mix = ShardMix([Sharded([9] * 7), Sharded([25]), Sharded([40])], weights, at_end="stop", seed=seed)
        items = mix[:60]
        for block in range(0, 60, 6):
            own = [source for source, _ in items[block : block + 6]]
            for place, source in enumerate(own):
                places[place][source] += 1
            pairs.update(pairwise(own))
        samples.update(location for source, location in items[:20] if source == 0)
    for counts in places:
        check(counts, {source: weight / 6 for source, weight in enumerate(weights)})
    check(pairs, {(a, b): weights[a] * (weights[b] - (a == b)) / 30 for a in range(3) for b in range(3)})
    check(samples, dict.fromkeys(range(63), 1 / 63))


def check(counts: Counter[Any], chances: dict[Any, float]) -> None:
    """Within five standard deviations of the chi-square distribution; what has no chance does not come."""
    total = counts.total()
    possible = {key: chance for key, chance in chances.items() if chance}
    assert set(counts) <= set(possible)
    value = sum((counts[key] - total * chance) ** 2 / (total * chance) for key, chance in possible.items())
    freedom = len(possible) - 1
    assert value < freedom + 5 * math.sqrt(2 * freedom)


@cases(60)
@given(sources=SOURCES, position=st.integers(0, 10**4), worlds=st.tuples(st.integers(1, 4), st.integers(1, 4)))
def test_a_state_goes_on_with_any_number_of_ranks(
    sources: list[tuple[list[int], int]], position: int, worlds: tuple[int, int]
) -> None:
    """From every position that divides among them; JSON keeps it; so do copies."""
    first, second = worlds
    whole = list(mix_of(sources, seed=3))
    taken = position % (len(whole) // (first * second) + 1) * second
    if len(whole) < first * second:
        return
    mix = mix_of(sources, seed=3, world_size=first)
    iterator = iter(mix)
    for _ in range(taken):
        next(iterator)
    state = json.loads(json.dumps(mix.state_dict()))
    stop = len(whole) - len(whole) % second
    for rank in range(second):
        again = mix_of(sources, seed=0, rank=rank, world_size=second)
        again.load_state_dict(state)
        assert list(pickle.loads(pickle.dumps(again))) == list(again) == whole[taken * first + rank : stop : second]


def test_other_arguments_are_another_order() -> None:
    """A state of other weights, shards or windows is refused."""
    mix = mix_of([([5, 5], 2), ([3], 1)], open_shards=2)
    state = mix.state_dict()
    for other in (
        mix_of([([5, 5], 1), ([3], 2)], open_shards=2),
        mix_of([([5, 6], 2), ([3], 1)], open_shards=2),
        mix_of([([5, 5], 2), ([3], 1)], open_shards=[2, 1]),
        mix_of([([5, 5], 2), ([3], 1)], open_shards=2, shuffle=False),
    ):
        with pytest.raises(ResumeError):
            other.load_state_dict(state)
    first = list(mix)
    mix.set_epoch(1)
    assert list(mix) != first
    mix.shuffle(9)
    assert (mix.seed, mix.epoch, mix.open_shards) == (9, 1, [2, 2])


def test_samples_are_read_from_their_source(tmp_path: Path) -> None:
    """Of indexes of any kind, in a pipeline; each sample with the source that it is from."""
    write_shards(tmp_path, [4, 3])
    (tmp_path / "a.jsonl").write_text("".join(f"[{number}]\n" for number in range(9)))
    tars, lines = TarIndex.build(tmp_path), JsonLines(tmp_path / "a.jsonl")
    mix = ShardMix([tars, lines], [1, 2], at_end="repeat")
    pipeline = PipelineBuilder().add_source(mix).pipe(mix.read, concurrency=2).add_sink(2).build(num_threads=2)
    with pipeline.auto_stop():
        found = list(pipeline)
    texts = [sample["txt"] for sample in found if isinstance(sample, dict)]
    assert set(texts) == {sample["txt"] for sample in tars}
    assert {sample[0] for sample in found if isinstance(sample, list)} == set(range(9))
    assert len(found) == len(mix) == 21
    assert repr(mix).startswith("ShardMix(2 sources, weights=[1, 2], at_end='repeat', rank=0")


def test_row_groups_are_decoded_once_a_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each table, while the tables take turns; a mixture of rows in any order would decode one for each row."""
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    tables = []
    for number in range(2):
        values = list(range(1000 * number, 1000 * number + 200))
        pq.write_table(pa.table({"n": values}), tmp_path / f"{number}.parquet", row_group_size=10)
        tables.append(ParquetRows(tmp_path / f"{number}.parquet", open_groups=4))
    decoded: Counter[int] = Counter()
    original = ParquetRows._completed

    def counted(self: Any, table: Any, file: int) -> Any:
        decoded[table["n"][0].as_py()] += 1
        return original(self, table, file)

    monkeypatch.setattr(ParquetRows, "_completed", counted)
    mix = ShardMix(tables, [1, 1], at_end="stop", open_shards=4)
    assert sorted(mix.read(item)["n"] for item in mix) == [*range(200), *range(1000, 1200)]
    assert decoded == dict.fromkeys([*range(0, 200, 10), *range(1000, 1200, 10)], 1)


@pytest.mark.parametrize(
    ("sources", "options", "error", "said"),
    [
        ([], {}, ValueError, "sources must have at least one"),
        (
            [[1]],
            {},
            TypeError,
            r"source 0 must have shard_sizes and locate\(number\), as TarIndex has, got an object of",
        ),
        ([Sharded([0, 0])], {}, ValueError, "source 0 must have samples, got none in 2 shards"),
        ([Sharded([5])], {"weights": [1, 2]}, ValueError, "weights must be one for each of the 1 sources, got 2"),
        ([Sharded([5])], {"weights": [0]}, ValueError, "weights must be >= 1, got 0 for source 0"),
        ([Sharded([5])], {"weights": [0.5]}, TypeError, "weights must be an int"),
        ([Sharded([5])], {"weights": [6]}, ValueError, "source 0 must have as many items as its weight, 6"),
        ([Sharded([5])], {"open_shards": 0}, ValueError, "open_shards must be >= 1, got 0"),
        (
            [Sharded([5])],
            {"open_shards": [1, 2]},
            ValueError,
            "open_shards must be one number, or one for each of the 1",
        ),
        ([Sharded([5])], {"at_end": "never"}, ValueError, "at_end must be 'stop' or 'repeat'"),
        ([Sharded([5])], {"length": 3}, ValueError, "length must be None with at_end='stop'"),
    ],
)
def test_wrong_arguments_are_refused(sources: Any, options: dict[str, Any], error: type[Exception], said: str) -> None:
    """By name, with what is accepted."""
    given_options: dict[str, Any] = {"at_end": "stop", **options}
    weights = given_options.pop("weights", [1] * len(sources))
    with pytest.raises(error, match=said):
        ShardMix(sources, weights, **given_options)
