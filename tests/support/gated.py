"""A source that gives its items when it is told to."""

import threading
from collections.abc import Iterator
from typing import Any

from spdl.pipeline import Pipeline, PipelineBuilder
from tests.support.running import await_event

__all__ = ["Gated", "of"]


class Gated:
    """Numbers, each given only when its gate is open; ``asked(k)`` tells that ``k - 1`` has been handed over."""

    def __init__(self, num_items: int) -> None:
        self.num_items = num_items
        self.gates = [threading.Event() for _ in range(num_items + 1)]
        self.asked = [threading.Event() for _ in range(num_items + 1)]

    def open(self, *indices: int) -> None:
        for index in indices or range(self.num_items + 1):
            self.gates[index].set()

    def __iter__(self) -> Iterator[int]:
        for index in range(self.num_items):
            self.asked[index].set()
            await_event(self.gates[index])
            yield index
        self.asked[self.num_items].set()
        await_event(self.gates[self.num_items])


def of(source: Any, *, continuous: bool = False, sink: int = 3) -> Pipeline[Any]:
    builder: PipelineBuilder[Any, Any] = PipelineBuilder()
    return builder.add_source(source, continuous=continuous).add_sink(sink).build(num_threads=1)
