"""Aggregators that show what a stage does with them; importable, so that they can cross to other processes."""

from collections.abc import Callable
from typing import Any

from spdl.pipeline.defs import Aggregator, Outputs

__all__ = ["AtOnce", "Copies", "Grouped"]


class Copies(Aggregator[Any, Any]):
    """Item ``n`` gives ``n`` outputs ``(n, 0), (n, 1) …`` at once; the flush gives ``("rest", k)`` for ``num_rest``."""

    def __init__(self, num_rest: int = 0) -> None:
        self.num_rest = num_rest

    def accumulate(self, item: int) -> Outputs[Any]:
        return Outputs((item, k) for k in range(item))

    def flush(self) -> Outputs[Any]:
        return Outputs(("rest", k) for k in range(self.num_rest))


class Grouped(Aggregator[Any, Any]):
    """Holds ``num_items`` items and then gives them back one by one."""

    def __init__(self, num_items: int) -> None:
        self.num_items = num_items
        self.items: list[Any] = []

    def accumulate(self, item: Any) -> Outputs[Any] | None:
        self.items.append(item)
        return self.flush() if len(self.items) == self.num_items else None

    def flush(self) -> Outputs[Any]:
        items, self.items = self.items, []
        return Outputs(items)


class AtOnce(Aggregator[Any, Any]):
    """Lists without a length of their own. Their time is up as soon as ``is_up`` says so of the items held."""

    def __init__(self, is_up: Callable[[list[Any]], bool] = bool) -> None:
        self.is_up = is_up
        self.items: list[Any] = []
        self.num_flushes = 0

    def accumulate(self, item: Any) -> None:
        self.items.append(item)

    def flush(self) -> list[Any] | None:
        self.num_flushes += 1
        items, self.items = self.items, []
        return items or None

    def deadline(self) -> float | None:
        return float("-inf") if self.is_up(self.items) else float("inf")
