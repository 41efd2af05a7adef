"""Pipelines over epochs, for the tests of continuous sources."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from spdl.pipeline import Pipeline, PipelineBuilder
from tests.support.running import TIMEOUT

Add = Callable[[PipelineBuilder[Any, Any]], Any]


def continuous(source: Any, *stages: Add, sink: int = 3, num_threads: int = 2, **options: Any) -> Pipeline[Any]:
    """Return a pipeline over the epochs of ``source``."""
    builder: PipelineBuilder[Any, Any] = PipelineBuilder()
    builder.add_source(source, continuous=True)
    for add in stages:
        add(builder)
    return builder.add_sink(sink).build(num_threads=num_threads, **options)


def epochs(pipeline: Pipeline[Any], num_epochs: int = 3) -> list[list[Any]]:
    """What each of the first epochs gives."""
    with pipeline.auto_stop():
        return [list(pipeline.get_iterator(timeout=TIMEOUT)) for _ in range(num_epochs)]


class Counting:
    """A source whose k-th epoch is ``(k, 0) … (k, sizes[k] - 1)``; the last size repeats."""

    def __init__(self, *sizes: int) -> None:
        self.sizes = sizes
        self.num_epochs = 0

    def __iter__(self) -> Iterator[tuple[int, int]]:
        epoch = self.num_epochs
        self.num_epochs += 1
        return iter([(epoch, k) for k in range(self.sizes[min(epoch, len(self.sizes) - 1)])])


def same(item: Any) -> Any:
    return item


async def same_async(item: Any) -> Any:
    await asyncio.sleep(0)
    return item


def twice(item: Any) -> Iterator[Any]:
    yield item
    yield item


async def twice_async(item: Any) -> AsyncIterator[Any]:
    yield item
    yield item
