"""``async for`` over a pipeline: nothing is lost, whoever is cancelled, and no loop is blocked."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from typing import Any

import pytest

from spdl.pipeline import Pipeline, PipelineStateError
from tests.support.gated import Gated, of
from tests.support.running import TIMEOUT, await_event


async def collect(pipeline: Pipeline[Any], limit: int | None = None) -> list[Any]:
    items = []
    async for item in pipeline:
        items.append(item)
        if len(items) == limit:
            break
    return items


def test_async_for_gives_everything_once() -> None:
    """async for gives each item once and in order; a second loop is an error."""
    pipeline = of(range(50))

    async def main() -> None:
        assert await collect(pipeline) == list(range(50))
        for _ in range(2):
            with pytest.raises(PipelineStateError, match="has ended"):
                await collect(pipeline)

    asyncio.run(main())


def test_leaving_an_async_loop_early_loses_no_item() -> None:
    """A loop left by break is continued by another, in another event loop too, and by get_item."""
    pipeline = of(range(9))
    assert asyncio.run(collect(pipeline, 2)) == [0, 1]
    assert asyncio.run(collect(pipeline, 3)) == [2, 3, 4]
    assert pipeline.get_item() == 5
    assert list(itertools.islice(pipeline, 1)) == [6]
    assert asyncio.run(collect(pipeline)) == [7, 8]


def test_async_for_does_not_block_the_loop() -> None:
    """While a coroutine waits for an item, others run: one of them opens the gate that the item waits for."""
    source = Gated(1)
    pipeline = of(source)

    async def main() -> list[Any]:
        reader = asyncio.ensure_future(collect(pipeline))
        await asyncio.sleep(0)
        source.open()
        return await asyncio.wait_for(reader, TIMEOUT)

    assert asyncio.run(main()) == [0]


def test_cancelling_a_waiting_read_loses_no_item() -> None:
    """A task cancelled while it waits for an item does not take that item with it."""
    source = Gated(3)
    pipeline = of(source)

    async def main() -> list[Any]:
        for _ in range(3):
            waiting = asyncio.ensure_future(collect(pipeline))
            for _ in range(5):
                await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        source.open()
        return await collect(pipeline)

    assert asyncio.run(main()) == [0, 1, 2]


def test_cancelling_a_read_whose_item_has_just_come_loses_no_item() -> None:
    """Item and cancellation arrive in one turn of the loop: the item is still there for the next read."""
    source = Gated(3)
    pipeline = of(source)
    pipeline.start()

    async def first() -> Any:
        return await anext(aiter(pipeline))

    async def main() -> list[Any]:
        waiting = asyncio.ensure_future(first())
        for _ in range(5):
            await asyncio.sleep(0)
        source.open(0)
        await_event(source.asked[1])  # blocks this loop on purpose: the item is in the sink, the reader not yet awake
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        source.open()
        return await collect(pipeline)

    assert asyncio.run(main()) == [0, 1, 2]


def test_timeout_around_an_async_read_loses_no_item() -> None:
    """asyncio.timeout that runs out around a read costs no item."""
    source = Gated(2)
    pipeline = of(source)
    pipeline.start()

    async def main() -> list[Any]:
        iterator = aiter(pipeline)
        for _ in range(3):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.001):
                    await anext(iterator)
        source.open()
        return [await anext(iterator), await anext(iterator)]

    assert asyncio.run(main()) == [0, 1]
    assert list(pipeline) == []


def test_exhausted_async_iterator_stays_exhausted() -> None:
    """After StopAsyncIteration every further anext raises it again, with a continuous source too."""
    for continuous in (False, True):
        pipeline = of(range(2), continuous=continuous)

        async def main(pipeline: Pipeline[Any] = pipeline, continuous: bool = continuous) -> None:
            iterator = aiter(pipeline)
            assert [item async for item in iterator] == [0, 1]
            for _ in range(3):
                with pytest.raises(StopAsyncIteration):
                    await anext(iterator)
            if continuous:
                assert await collect(pipeline) == [0, 1]

        asyncio.run(main())
        pipeline.stop()


def test_stop_ends_an_async_loop() -> None:
    """A coroutine that waits for an item finds the end when another thread stops the pipeline."""

    class Silent:
        async def __aiter__(self) -> AsyncIterator[int]:
            await asyncio.Event().wait()
            yield 0

    pipeline = of(Silent())
    pipeline.start()

    async def main() -> list[Any]:
        reader = asyncio.ensure_future(collect(pipeline))
        await asyncio.sleep(0)
        await asyncio.get_running_loop().run_in_executor(None, pipeline.stop)
        return await asyncio.wait_for(reader, TIMEOUT)

    assert asyncio.run(main()) == []


def test_two_pipelines_in_one_event_loop() -> None:
    """Several pipelines may be read by tasks of one loop at once."""
    pipelines = [of(range(20)), of(range(100, 120))]

    async def main() -> list[list[Any]]:
        return await asyncio.gather(*(collect(pipeline) for pipeline in pipelines))

    assert asyncio.run(main()) == [list(range(20)), list(range(100, 120))]
