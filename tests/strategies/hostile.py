"""Misbehaving user code: exceptions that cannot be reported, items that cannot be shown, logs that raise."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, NoReturn

__all__ = [
    "EXCEPTIONS",
    "LOGS",
    "ClosedError",
    "FailingOp",
    "FailingSource",
    "FrozenError",
    "MuteError",
    "NotedError",
    "Unspeakable",
    "hostile_log",
]


@dataclass(frozen=True)
class FrozenError(Exception):
    """Refuses every attribute, including notes."""

    path: str = "bad.jpg"


class SlottedError(Exception):
    __slots__ = ("code",)


class NoteRefusingError(Exception):
    def add_note(self, note: str, /) -> None:
        raise LookupError("no notes")


class NotedError(Exception):
    """Has ``__notes__`` that is not a list."""

    def __init__(self) -> None:
        super().__init__("noted")
        self.__notes__ = ("a", "tuple")  # type: ignore[assignment]


class ClosedError(Exception):
    def __setattr__(self, name: str, value: object) -> None:
        raise TypeError("closed")

    def __getattribute__(self, name: str) -> Any:
        if name in ("__notes__", "__cause__", "__traceback__"):
            raise KeyError(name)
        return super().__getattribute__(name)


class MuteError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no str")

    __repr__ = __str__


class LeavingError(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)

    __repr__ = __str__


class InterruptingError(Exception):
    def __str__(self) -> str:
        raise KeyboardInterrupt

    __repr__ = __str__


class MuteExit(SystemExit):
    def __str__(self) -> str:
        raise RuntimeError("no str")

    __repr__ = __str__


#: One exception object that is raised for all items.
_SHARED: Final = ValueError("always the same")

#: Exceptions that are made for each raise.
EXCEPTIONS: Final[dict[str, Callable[[], BaseException]]] = {
    "plain": lambda: ValueError("plain"),
    "frozen": FrozenError,
    "slotted": SlottedError,
    "refuses-notes": NoteRefusingError,
    "notes-no-list": NotedError,
    "refuses-attributes": ClosedError,
    "str-raises": MuteError,
    "str-exits": LeavingError,
    "str-interrupts": InterruptingError,
    "shared": lambda: _SHARED,
    "group": lambda: ExceptionGroup("group", [MuteError(), FrozenError()]),
    "stop-iteration": StopIteration,
    "stop-async-iteration": StopAsyncIteration,
    "memory": MemoryError,
    "timeout": TimeoutError,
    "cancelled": asyncio.CancelledError,
    "generator-exit": GeneratorExit,
    "exit": lambda: SystemExit(3),
    "interrupt": KeyboardInterrupt,
    "mute-exit": MuteExit,
}


class Unspeakable:
    """An item whose ``repr`` raises."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __repr__(self) -> str:
        raise SystemExit("no repr")


def _raise(error: BaseException) -> NoReturn:
    raise error


class _Handler(logging.Handler):
    """Raises out of the log call: ``handle`` is not guarded, as ``emit`` is."""

    def __init__(self, error: Callable[[], BaseException]) -> None:
        super().__init__()
        self.error = error

    def handle(self, record: logging.LogRecord) -> bool:
        _raise(self.error())


def _filter_of(error: Callable[[], BaseException]) -> Callable[[logging.LogRecord], bool]:
    return lambda record: _raise(error())


LOGS: Final = ("well", "handler", "handler-exits", "filter", "filter-interrupts")


@contextmanager
def hostile_log(kind: str, name: str = "spdl.pipeline") -> Iterator[None]:
    """Make a log of the package raise for every record, in the way given by ``kind``."""
    logger = logging.getLogger(name)
    handler = filtering = None
    if kind.startswith("handler"):
        handler = _Handler((lambda: SystemExit(4)) if kind == "handler-exits" else (lambda: RuntimeError("handler")))
        logger.addHandler(handler)
    elif kind.startswith("filter"):
        filtering = _filter_of(KeyboardInterrupt if kind == "filter-interrupts" else (lambda: RuntimeError("filter")))
        logger.addFilter(filtering)
    try:
        yield
    finally:
        if handler is not None:
            logger.removeHandler(handler)
        if filtering is not None:
            logger.removeFilter(filtering)


class FailingSource:
    """Gives two items and raises. Picklable."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __iter__(self) -> Iterator[int]:
        yield from range(2)
        raise EXCEPTIONS[self.name]()


class FailingOp:
    """Raises for the item 1. Picklable."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, item: int) -> int:
        if item == 1:
            raise EXCEPTIONS[self.name]()
        return item
