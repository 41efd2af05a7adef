"""Ops, sources and initializers that worker processes can import."""

import asyncio
import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from spdl.pipeline.defs import Aggregator


def double(item: int) -> int:
    return 2 * item


def plus_one(item: int) -> int:
    return item + 1


def same(item: Any) -> Any:
    return item


def first(item: tuple[int, int]) -> int:
    return item[0]


def with_pid(item: Any) -> tuple[Any, int]:
    return item, os.getpid()


def odd_only(item: int) -> int | None:
    return item if item % 2 else None


def fail_on_multiples_of_three(item: int) -> int:
    if item % 3 == 0:
        raise ValueError(f"{item} is a multiple of three")
    return item


def three_of_each(item: int) -> Iterator[tuple[int, int]]:
    for number in range(3):
        yield item, number


async def double_async(item: int) -> int:
    await asyncio.sleep(0)
    return 2 * item


def parity(item: int) -> int:
    return item % 2


def fail_to_start() -> None:
    raise LookupError("no such model")


def exit_at_start() -> None:
    os._exit(7)


def die(item: int) -> int:
    """Kills its process for the item 5."""
    if item == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    return item


def system_exit(item: int) -> int:
    raise SystemExit(item)


def unpicklable_for_odd(item: int) -> Any:
    return (lambda: item) if item % 2 else item


class Unloadable:
    """Pickles, and cannot be unpickled."""

    def __init__(self, item: int) -> None:
        self.item = item

    def __reduce__(self) -> Any:
        return _refuse, (self.item,)

    def __repr__(self) -> str:
        return f"Unloadable({self.item})"


class ExitsOnArrival(Unloadable):
    """Unpickling it asks for the end of the process."""

    def __reduce__(self) -> Any:
        return sys.exit, (self.item,)


class ExitsOnDeparture(Unloadable):
    """Pickling it does."""

    def __reduce__(self) -> Any:
        sys.exit(self.item)


def exit_on_arrival_for_odd(item: int) -> Any:
    return ExitsOnArrival(item) if item % 2 else item


def exit_on_departure_for_odd(item: int) -> Any:
    return ExitsOnDeparture(item) if item % 2 else item


def _refuse(item: int) -> Any:
    raise RuntimeError(f"cannot load {item}")


def unloadable_for_odd(item: int) -> Any:
    return Unloadable(item) if item % 2 else item


class Sum(Aggregator[int, int]):
    """Sums of two."""

    def __init__(self) -> None:
        self.items: list[int] = []

    def accumulate(self, item: int) -> int | None:
        self.items.append(item)
        return self.flush() if len(self.items) == 2 else None

    def flush(self) -> int | None:
        items, self.items = self.items, []
        return sum(items) if items else None


class NeedsArguments(Exception):
    """Cannot be unpickled: its constructor takes two arguments and gives one to its base."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(first)
        self.second = second


def raise_what_does_not_pickle(item: int) -> int:
    raise NeedsArguments("first", "second")


def stuck_but_for_zero(item: int) -> int:
    if item:
        threading.Event().wait()
    return item


def block_one_and_die(note: Path, item: int) -> None:
    """One process never returns from its first item; the other one kills itself."""
    try:
        note.touch(exist_ok=False)
    except FileExistsError:
        os.kill(os.getpid(), signal.SIGKILL)
    threading.Event().wait()


class Epochs:
    """A source whose k-th pass gives ``sizes[k]`` items: ``100 * k, 100 * k + 1, ...``; then empty passes."""

    def __init__(self, *sizes: int) -> None:
        self.sizes = sizes
        self.num_passes = 0

    def __iter__(self) -> Iterator[int]:
        number = self.num_passes
        self.num_passes += 1
        size = self.sizes[number] if number < len(self.sizes) else 0
        return iter(range(100 * number, 100 * number + size))


class ThirdTime:
    """Fails twice on each item; then tells how often it was tried."""

    def __init__(self) -> None:
        self.num_tries: Counter[int] = Counter()

    def __call__(self, item: int) -> tuple[int, int]:
        self.num_tries[item] += 1
        if self.num_tries[item] < 3:
            raise ValueError(f"try {self.num_tries[item]} of {item}")
        return item, self.num_tries[item]
