"""A store and a receiver in one process, for tests of what is above them."""

from collections.abc import Sequence
from typing import Any

__all__ = ["FakeStore"]


class FakeStore:
    """Keeps copies under numbers. Both sides at once."""

    bytes_as_views = False

    def __init__(self, limit: int = 1 << 30) -> None:
        self.limit = limit
        self.kept: dict[int, bytearray] = {}
        self.next = 0

    def put(self, buffers: Sequence[Any]) -> list[int] | None:
        if sum(memoryview(each).nbytes for each in buffers) + sum(map(len, self.kept.values())) > self.limit:
            return None
        numbers = []
        for each in buffers:
            self.kept[self.next] = bytearray(memoryview(each).cast("B") if memoryview(each).nbytes else b"")
            numbers.append(self.next)
            self.next += 1
        return numbers

    def take_back(self, spans: list[int]) -> None:
        self.drop(spans)

    def get(self, spans: list[int]) -> list[Any]:
        return [self.kept.pop(number) for number in spans]

    def drop(self, spans: list[int]) -> None:
        for number in spans:
            del self.kept[number]
