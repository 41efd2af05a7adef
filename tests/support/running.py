"""Run a pipeline to its end and tell how it ended; wait for a condition without hanging for ever."""

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from spdl.pipeline import Pipeline, PipelineBuilder, PipelineFailure
from tests.support.timeouts import TIMEOUT

__all__ = ["TIMEOUT", "Recorder", "await_event", "build_of", "drain", "fail", "run", "running"]


def await_event(event: threading.Event) -> None:
    """Wait until ``event`` is set; fail rather than hang."""
    assert event.wait(TIMEOUT), "what the test waits for did not happen"


def build_of(source: Any, *stages: Callable[[PipelineBuilder[Any, Any]], Any], sink: int = 3) -> Any:
    """Return a builder with ``source``, what each of ``stages`` adds, and a sink."""
    builder: PipelineBuilder[Any, Any] = PipelineBuilder()
    builder.add_source(source)
    for add in stages:
        add(builder)
    return builder.add_sink(sink)


@contextmanager
def running(builder: PipelineBuilder[Any, Any], *, num_threads: int = 4, **options: Any) -> Iterator[Pipeline[Any]]:
    """A started pipeline, stopped on the way out."""
    pipeline = builder.build(num_threads=num_threads, **options)
    with pipeline.auto_stop():
        yield pipeline


def run(builder: PipelineBuilder[Any, Any], *, num_threads: int = 4, **options: Any) -> list[Any]:
    """Everything that comes out of a pipeline that ends well."""
    with running(builder, num_threads=num_threads, **options) as pipeline:
        return list(pipeline.get_iterator(timeout=TIMEOUT))


def drain(pipeline: Pipeline[Any]) -> tuple[list[Any], PipelineFailure | None]:
    """What came out before the end, and the failure that ended it, if one did."""
    items: list[Any] = []
    with pipeline.auto_stop():
        try:
            for item in pipeline.get_iterator(timeout=TIMEOUT):
                items.append(item)  # noqa: PERF402 - what came before the failure is asked for
        except PipelineFailure as exc:
            return items, exc
    return items, None


def fail(builder: PipelineBuilder[Any, Any], *, num_threads: int = 4, **options: Any) -> tuple[list[Any], Any]:
    """What came out of a pipeline one stage of which fails, and the exception of that stage."""
    items, failure = drain(builder.build(num_threads=num_threads, **options))
    assert failure is not None, f"the pipeline ended well and gave {items}"
    assert len(failure.exceptions) == 1, failure.exceptions
    return items, failure.exceptions[0]


class Recorder:
    """An iterator over ``items`` that tells whether, and how often, it was closed."""

    def __init__(self, items: Iterable[Any]) -> None:
        self.items = iter(items)
        self.num_closed = 0
        self.num_taken = 0

    def __iter__(self) -> "Recorder":
        return self

    def __next__(self) -> Any:
        item = next(self.items)
        self.num_taken += 1
        return item

    def close(self) -> None:
        self.num_closed += 1


class AsyncRecorder:
    """An async iterator that tells how often it was closed."""

    def __init__(self, items: Any) -> None:
        self.items = iter(items)
        self.num_closed = 0

    def __aiter__(self) -> "AsyncRecorder":
        return self

    async def __anext__(self) -> Any:
        await asyncio.sleep(0)
        try:
            return next(self.items)
        except StopIteration:
            raise StopAsyncIteration from None

    async def aclose(self) -> None:
        await asyncio.sleep(0)
        self.num_closed += 1


def refuse(item: Any) -> Any:
    """An op that fails on every item."""
    raise ValueError(item)
