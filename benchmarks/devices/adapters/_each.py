"""An iterable that moves each batch when it is requested, as at the start of a training step."""

from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["Each"]


class Each:
    def __init__(self, batches: list[Any], move: Callable[[Any], Any]) -> None:
        self._batches = batches
        self._move = move

    def __iter__(self) -> Iterator[Any]:
        for batch in self._batches:
            yield {name: self._move(tensor) for name, tensor in batch.items()}
