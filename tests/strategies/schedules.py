"""Gates: calls of an op that end in an order which the test says, whatever the threads do."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future

from .watch import BOUND, Hang, stacks

__all__ = ["Gates"]


class Gates:
    """One gate for each item: its call arrives, and stays until it is let go."""

    def __init__(self, num_items: int) -> None:
        self.arrived = [threading.Event() for _ in range(num_items)]
        self.left: list[Future[None]] = [Future() for _ in range(num_items)]

    def wait_arrival(self, item: int) -> None:
        if not self.arrived[item].wait(BOUND):
            raise Hang(f"the call for item {item} did not begin, although nothing was in its way\n{stacks()}")

    def let_go(self, item: int) -> None:
        self.left[item].set_result(None)

    def open_all(self) -> None:
        """Nothing is to be waited for any more: the test has failed, or is over."""
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
