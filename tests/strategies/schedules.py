"""Gates: a test decides the order in which the calls of an op end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future

from .watch import BOUND, Hang, stacks

__all__ = ["Gates"]


class Gates:
    """One gate per item: its call arrives, and waits until the test releases it."""

    def __init__(self, num_items: int) -> None:
        self.arrived = [threading.Event() for _ in range(num_items)]
        self.left: list[Future[None]] = [Future() for _ in range(num_items)]

    def wait_arrival(self, item: int) -> None:
        if not self.arrived[item].wait(BOUND):
            raise Hang(f"the call for item {item} did not begin, although nothing blocked it\n{stacks()}")

    def let_go(self, item: int) -> None:
        self.left[item].set_result(None)

    def open_all(self) -> None:
        """Release all calls: the test has failed, or is over."""
        for gate in self.left:
            if not gate.done():
                gate.set_result(None)

    def gated(self, op: Callable[[int], int | None]) -> Callable[[int], int | None]:
        def call(item: int) -> int | None:
            self.arrived[item].set()
            self.left[item].result(BOUND)
            return op(item)

        return call

    def gated_async(self, op: Callable[[int], int | None]) -> Callable[[int], object]:
        async def call(item: int) -> int | None:
            self.arrived[item].set()
            await asyncio.wrap_future(self.left[item])
            return op(item)

        return call
