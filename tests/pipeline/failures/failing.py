"""Sources and ops that fail, for the tests of failing stages."""

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from spdl.pipeline import (
    Pipeline,
    PipelineBuilder,
)
from tests.support.running import build_of

__all__ = ["AsyncBreaking", "Breaking", "SourceError", "of", "refuse"]


class SourceError(Exception):
    """What a source of these tests raises."""


class Breaking:
    """Some numbers, then an error."""

    def __init__(self, num_items: int, error: BaseException | None = None) -> None:
        self.num_items = num_items
        self.error = error

    def __iter__(self) -> Iterator[int]:
        yield from range(self.num_items)
        raise SourceError("the source is broken") if self.error is None else self.error


class AsyncBreaking:
    """The same on the loop."""

    async def __aiter__(self) -> AsyncIterator[int]:
        for item in range(3):
            yield item
        raise SourceError("the source is broken")


def of(source: Any, *stages: Callable[[PipelineBuilder[Any, Any]], Any]) -> Pipeline[Any]:
    pipeline: Pipeline[Any] = build_of(source, *stages).build(num_threads=2)
    return pipeline


def refuse(item: Any) -> Any:
    raise ValueError(f"refused {item}")
