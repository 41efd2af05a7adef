"""An op of each kind, as functions and as objects."""

from collections.abc import AsyncIterator, Iterator
from typing import Any


def sync_op(item: Any) -> Any:
    return item


async def async_op(item: Any) -> Any:
    return item


def generator_op(item: Any) -> Iterator[Any]:
    yield item


async def async_generator_op(item: Any) -> AsyncIterator[Any]:
    yield item


class SyncCallable:
    def __call__(self, item: Any) -> Any:
        return item


class AsyncCallable:
    async def __call__(self, item: Any) -> Any:
        return item


class GeneratorCallable:
    def __call__(self, item: Any) -> Iterator[Any]:
        yield item


class AsyncGeneratorCallable:
    async def __call__(self, item: Any) -> AsyncIterator[Any]:
        yield item


class AsyncContainer:
    async def __getitem__(self, key: Any) -> Any:
        return key
