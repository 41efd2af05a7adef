"""Batched path variants: batches are split over the paths and joined again, in lock step."""

import asyncio
import threading
from typing import Any

import pytest

from spdl.pipeline.defs import PathVariants, Pipe
from tests.support.running import TIMEOUT, await_event, build_of, drain, fail, run, running


def same(item: Any) -> Any:
    return item


async def same_async(item: Any) -> Any:
    await asyncio.sleep(0)
    return item


def paths_of(router: Any, paths: Any, **options: Any) -> Any:
    """Return what adds a path-variants stage to a builder."""
    return lambda builder: builder.path_variants(router, paths, **options)


def batches(num_batches: int, size: int) -> list[list[int]]:
    return [list(range(k * size, (k + 1) * size)) for k in range(num_batches)]


@pytest.mark.parametrize("is_async", [False, True])
def test_batches_are_split_and_joined_in_path_order(is_async: bool) -> None:
    """Each path gets its sub-list, in order; results are joined path after path, batch after batch."""

    def router(batch: list[int]) -> list[int]:
        return [item % 2 for item in batch]

    async def router_async(batch: list[int]) -> list[int]:
        return router(batch)

    async def negate(batch: list[int]) -> list[int]:
        await asyncio.sleep(0)
        return [-item for item in batch]

    stage = paths_of(router_async if is_async else router, [[Pipe(same), Pipe(same)], [Pipe(negate)]], batched=True)
    assert run(build_of(batches(10, 4), stage)) == [[a, c, -b, -d] for a, b, c, d in batches(10, 4)]


def test_a_path_gets_an_empty_sub_list_too() -> None:
    """One per batch, whether anything is in it or not."""
    got: list[list[int]] = []

    def note(batch: list[int]) -> list[int]:
        got.append(batch)
        return batch

    stage = paths_of(lambda batch: [0] * len(batch), [[Pipe(same)], [Pipe(note)]], batched=True)
    assert run(build_of(batches(3, 2), stage)) == batches(3, 2)
    assert got == [[], [], []]


def test_paths_may_return_shorter_lists_and_empty_batches_are_not_emitted() -> None:
    """A path filters; a batch of which nothing is left does not come out."""

    def keep_small(batch: list[int]) -> list[int]:
        return [item for item in batch if item < 3]

    stage = paths_of(lambda batch: [item % 2 for item in batch], [[Pipe(keep_small)], [Pipe(keep_small)]], batched=True)
    assert run(build_of(batches(3, 2), stage)) == [[0, 1], [2]]


def test_an_empty_batch_goes_through() -> None:
    """With no index; nothing is emitted for it."""
    stage = paths_of(lambda batch: [0 for _ in batch], [[Pipe(same)], [Pipe(same)]], batched=True)
    assert run(build_of([[], [1], []], stage)) == [[1]]


@pytest.mark.parametrize("indices", [[0], [0, 0, 0], []])
def test_a_wrong_number_of_indices_fails_the_stage(indices: list[int]) -> None:
    """With a ValueError that says both numbers."""
    stage = paths_of(lambda batch: indices, [[Pipe(same)], [Pipe(same)]], batched=True)
    items, error = fail(build_of(batches(3, 2), stage), max_failures=-1)
    assert items == []
    assert isinstance(error, ValueError)
    assert str(len(indices)) in str(error)
    assert "2" in str(error)


def test_a_batched_index_out_of_range_fails_the_stage() -> None:
    """One of them suffices."""
    stage = paths_of(lambda batch: [0, 2], [[Pipe(same)], [Pipe(same)]], batched=True)
    _, error = fail(build_of(batches(3, 2), stage))
    assert isinstance(error, IndexError)


def test_batched_paths_work_in_lock_step() -> None:
    """A slow path holds the batch: no later one comes out before it, though the other path is done with all."""
    release = threading.Event()
    fast: list[int] = []
    all_fast = threading.Event()

    def slow(batch: list[int]) -> list[int]:
        await_event(release)
        return batch

    def quick(batch: list[int]) -> list[int]:
        fast.extend(batch)
        if len(fast) == 2:
            all_fast.set()
        return batch

    stage = paths_of(lambda batch: [0, 1], [[Pipe(slow)], [Pipe(quick)]], batched=True)
    with running(build_of(batches(4, 2), stage), num_threads=3) as pipeline:
        await_event(all_fast)
        with pytest.raises(TimeoutError):
            pipeline.get_item(timeout=0)
        release.set()
        assert list(pipeline.get_iterator(timeout=TIMEOUT)) == batches(4, 2)


def test_concurrent_calls_in_a_batched_path_keep_batches_apart() -> None:
    """Calls that end out of order: what belongs to one batch is joined with that batch."""
    second = threading.Event()

    def op(batch: list[int]) -> list[int]:
        if batch[0] == 0:
            await_event(second)
        if batch[0] == 2:
            second.set()
        return batch

    stage = paths_of(lambda batch: [0, 1], [[Pipe(op, concurrency=2)], [Pipe(same)]], batched=True)
    assert sorted(run(build_of(batches(4, 2), stage))) == batches(4, 2)


def test_a_failed_sub_batch_costs_itself() -> None:
    """The other path's part of the batch comes out, and later batches do."""

    def op(batch: list[int]) -> list[int]:
        if batch == [0]:
            raise ValueError(batch)
        return batch

    stage = paths_of(lambda batch: [item % 2 for item in batch], [[Pipe(op)], [Pipe(same)]], batched=True)
    pipeline = build_of(batches(3, 2), stage).build(num_threads=2)
    assert drain(pipeline) == ([[1], [2, 3], [4, 5]], None)


def test_batched_paths_nest() -> None:
    """A batched stage in a path of a batched stage."""
    inner = PathVariants(lambda batch: [item // 2 % 2 for item in batch], [[Pipe(same)], [Pipe(same)]], batched=True)
    stage = paths_of(lambda batch: [item % 2 for item in batch], [[Pipe(same)], [inner]], batched=True)
    assert run(build_of([list(range(8))] * 3, stage)) == [[0, 2, 4, 6, 1, 5, 3, 7]] * 3


def test_many_batches_through_a_small_sink() -> None:
    """On one thread."""
    stage = paths_of(
        lambda batch: [item % 3 for item in batch], [[Pipe(same)], [Pipe(same_async)], [Pipe(same)]], batched=True
    )
    out = run(build_of(batches(60, 3), stage, sink=1), num_threads=1)
    assert [sorted(batch) for batch in out] == batches(60, 3)
