"""What the tests of interpreter pools call there: it imports little, because each subinterpreter imports it again."""

from __future__ import annotations

import threading
from collections.abc import Iterator

_announced: list[str] = []


def twice(item: int) -> int:
    return 2 * item


def is_main(item: int) -> bool:
    """Whether this is the main interpreter: others have no daemon threads."""
    try:
        threading.Thread(target=int, daemon=True)
    except RuntimeError:
        return False
    return True


def count_to(item: int) -> Iterator[tuple[int, int]]:
    for k in range(item):
        yield item, k


def refuse_three(item: int) -> int:
    if item == 3:
        raise KeyError("three")
    return item


def announce(name: str) -> None:
    """An initializer."""
    _announced.append(name)


def was_announced(name: str, item: int) -> int:
    """Give the item on, if the initializer was called here."""
    if name not in _announced:
        raise LookupError(name)
    return item


def keep_sum(pair: tuple[int, int]) -> int:
    return sum(pair)
