"""Ops that run in other processes in these tests."""

import asyncio
import multiprocessing
import os
import random
import signal
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from spdl.pipeline.defs import Aggregator
from tests.support.remote import (
    TIMEOUT,
    BreaksOnArrival,
    Unpicklable,
    await_end,
    break_down,
    noted,
)


def same(item: Any) -> Any:
    return item


def double(item: int) -> int:
    return 2 * item


def twice(item: Any) -> Iterator[Any]:
    yield item
    yield item


def odd_fails(item: int) -> int:
    if item % 2:
        raise ValueError(f"odd {item}")
    return item


def odd_is_dropped(item: int) -> int | None:
    return None if item % 2 else item


def refuse(item: Any) -> Any:
    raise ValueError(f"refused {item}")


def process_id(item: Any) -> int:
    return os.getpid()


def with_process_id(item: Any) -> tuple[Any, int]:
    return item, os.getpid()


def with_thread(item: Any) -> tuple[Any, int, int]:
    return item, os.getpid(), threading.get_ident()


def block(item: Any) -> Any:
    threading.Event().wait()


def die(item: int, *, at: int, how: int) -> int:
    """End this process at one item."""
    if item == at:
        break_down(how)
    return item


def draw(item: Any) -> float:
    return random.random()


def draw_numpy(item: Any) -> float:
    import numpy as np

    return float(np.random.random_sample())


def draw_torch(item: Any) -> float:
    import torch

    return float(torch.rand(()))


def is_imported(module: str) -> bool:
    return module in sys.modules


def parity(item: int) -> int:
    return item % 2


async def same_async(item: Any) -> Any:
    await asyncio.sleep(0)
    return item


async def twice_async(item: Any) -> AsyncIterator[Any]:
    yield item
    yield item


def negate(item: int) -> int:
    return -item


def is_large(item: int) -> int:
    return int(item > 4)


def add(summand: int, item: int) -> int:
    return summand + item


class Adder:
    def __init__(self, summand: int) -> None:
        self.summand = summand

    def add(self, item: int) -> int:
        return self.summand + item


_meeting = threading.Barrier(2)


def meet_another(item: Any) -> Any:
    """Returns when another call in this process is running too."""
    _meeting.wait(TIMEOUT)
    return item


def some_none(item: Any) -> Iterator[Any]:
    yield None
    yield item


class CountsItself:
    """How often this copy has been called."""

    num_calls = 0

    def __call__(self, item: Any) -> int:
        self.num_calls += 1
        return self.num_calls


def crash(item: Any) -> Any:
    break_down(-signal.SIGSEGV)


def kill(pid: int) -> int:
    os.kill(pid, signal.SIGKILL)
    await_end(pid)
    return pid


def fail_at(at: int, error: BaseException, item: int) -> int:
    if item == at:
        raise error
    return item


_tries: dict[Any, int] = {}


def third_time_lucky(item: Any) -> tuple[Any, int]:
    """Fails twice on each item in this process; then tells how often it was tried."""
    _tries[item] = _tries.get(item, 0) + 1
    if _tries[item] < 3:
        raise ValueError(f"try {_tries[item]} of {item}")
    return item, _tries[item]


def meet_in_files(folder: Path, item: int) -> int:
    """Returns when the other one of two is running too, in whatever process."""
    mine, other = (folder / "one", folder / "two")[:: 1 if item == 0 else -1]
    if item == 0:
        mine.write_text("here")
        other.read_text()
    else:
        other.read_text()
        mine.write_text("here")
    return item


def unpicklable_result(item: int, *, at: int) -> Any:
    return Unpicklable() if item == at else item


def broken_result(item: int, *, at: int) -> Any:
    return BreaksOnArrival() if item == at else item


def one_then_fail(item: Any) -> Iterator[Any]:
    yield item
    raise ValueError(f"after {item}")


def second(item: tuple[int, int]) -> int:
    return item[1]


def wait_at(at: int, gate: Path, item: int) -> int:
    """Holds one item until somebody opens the pipe for writing."""
    if item == at:
        gate.read_bytes()
    return item


def die_at_tens(item: int) -> int:
    if item and item % 10 == 0:
        break_down(-signal.SIGKILL)
    return item


def block_on_odd(item: int) -> int:
    """The id of the process, or nothing for ever."""
    if item % 2:
        threading.Event().wait()
    return os.getpid()


async def block_async_on_odd(item: int) -> int:
    if item % 2:
        await asyncio.Event().wait()
    return item


def drop_fours(item: int) -> int | None:
    return None if item % 4 == 0 and item else item


class BrokenAggregator(Aggregator[int, int]):
    """Fails on its third item."""

    num_items = 0

    def accumulate(self, item: int) -> int | None:
        self.num_items += 1
        if self.num_items == 3:
            raise OverflowError("no more room")
        return None

    def flush(self) -> int | None:
        return None


def notes_and_process_id(item: Any) -> tuple[list[Any], int]:
    return list(noted()), os.getpid()


def with_notes(item: Any) -> tuple[Any, list[Any]]:
    return item, list(noted())


def with_thread_name(item: Any) -> tuple[Any, int, str]:
    return item, os.getpid(), threading.current_thread().name


def relations(item: Any) -> tuple[Any, int, int | None, list[Any]]:
    """The id of this process, that of the one that asked for it, and what it remembers."""
    return item, os.getpid(), parent_and_daemon(item)[0], list(noted())


def parent_and_daemon(item: Any) -> tuple[int | None, bool]:
    """Who asked for this process, and whether it is daemonic."""
    parent = multiprocessing.parent_process()
    return None if parent is None else parent.pid, multiprocessing.current_process().daemon


def starter(item: Any) -> int:
    return os.getppid()


def noted_by_now(item: Any) -> tuple[bool, list[Any]]:
    """Whether the process is daemonic, and what it remembers."""
    return multiprocessing.current_process().daemon, list(noted())
