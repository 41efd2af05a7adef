"""Shared code of scripts for ``child.run_child``: sources and ops that block, and a Ctrl-C at the right moment."""

import asyncio
import gc
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from queue import SimpleQueue
from types import CodeType, FrameType
from typing import Any

__all__ = [
    "async_block",
    "async_blocked_source",
    "block",
    "blocked_source",
    "collect",
    "hurry",
    "interrupt_when_blocked",
    "never",
    "reach",
    "reached",
]

#: The events for which a blocked source and a blocked op wait.
never = threading.Event()
#: The events that they set before they wait.
reached = threading.Event()


def block(item: object) -> object:
    """An op that never returns."""
    reached.set()
    never.wait()
    return item


async def async_block(item: object) -> object:
    """The same for the event loop, where it can be cancelled."""
    reached.set()
    await asyncio.Event().wait()
    return item


def reach() -> None:
    """Wait until ``block``, or a blocked source, blocks."""
    reached.wait()


def blocked_source(num_items: int = 0) -> Iterator[int]:
    """A source that gives ``num_items`` items and then never returns."""
    yield from range(num_items)
    reached.set()
    never.wait()


async def async_blocked_source(num_items: int = 0) -> AsyncIterator[int]:
    """The same for the event loop, where it can be cancelled."""
    for item in range(num_items):
        yield item
    reached.set()
    await asyncio.Event().wait()


def collect(found: Callable[[], object]) -> None:
    """Collect garbage until a weak reference is dead, when the threads that use its object have gone to sleep."""
    while found() is not None:
        gc.collect()
        never.wait(0.005)


def hurry(seconds: float = 0.2) -> None:
    """Set how long a stop waits for stuck ops, instead of ten seconds."""
    from spdl.pipeline import _reading
    from spdl.pipeline._engine import _ending

    for module in (_reading, _ending):
        assert vars(module)["DEFAULT_JOIN_TIMEOUT"]
        vars(module)["DEFAULT_JOIN_TIMEOUT"] = seconds


class _Presser:
    """A thread that presses Ctrl-C for the main thread. Kept, because at exit Python 3.12 starts none any more."""

    def __init__(self) -> None:
        self.waits: SimpleQueue[threading.Event] = SimpleQueue()  # for each press, what is set when it was handled
        threading.Thread(target=self._press, args=(threading.get_ident(),), daemon=True).start()

    def _press(self, main: int) -> None:
        while True:
            handled = self.waits.get()
            signal.pthread_kill(main, signal.SIGINT)
            while not handled.wait(0.05):
                signal.pthread_kill(main, signal.SIGINT)


_presser: _Presser | None = None


def interrupt_when_blocked() -> None:
    """Send Ctrl-C when the main thread, which is the caller, next waits inside the package.

    A signal that arrives in the instant before the wait is noticed by the interpreter only after the wait. So it is
    sent again until it has been handled; once it has, it is never sent again. At exit it can be called again, but not
    for the first time.
    """
    global _presser
    _presser = presser = _presser or _Presser()
    handled = threading.Event()

    def is_inside(frame: FrameType | None) -> bool:
        while frame is not None:
            if str(frame.f_globals.get("__name__")).startswith("spdl."):
                return True
            frame = frame.f_back
        return False

    def press_before(function: Any, frame: FrameType) -> bool:
        is_wait = getattr(function, "__name__", "") in ("acquire", "join") and is_inside(frame)
        if is_wait:
            presser.waits.put(handled)
        return is_wait

    def watch(frame: FrameType, event: str, arg: Any) -> None:
        if event == "c_call" and press_before(arg, frame):
            sys.setprofile(None)

    def handle(signal_number: int, frame: FrameType | None) -> None:
        if not handled.is_set():
            handled.set()
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, handle)
    if "t" in sys.abiflags:  # the engine's locks are then of a kind whose calls are no ``c_call``
        _monitor_calls(press_before)
    else:
        sys.setprofile(watch)


def _monitor_calls(is_found: Callable[[Any, FrameType], bool]) -> None:
    """Tell of each call of this thread, before it is made, until ``is_found``."""
    monitoring: Any = vars(sys)["monitoring"]  # from Python 3.12 on
    thread = threading.get_ident()

    def look(code: CodeType, offset: int, function: Any, first: Any) -> None:
        if threading.get_ident() == thread and is_found(function, sys._getframe(1)):
            monitoring.set_events(monitoring.PROFILER_ID, 0)

    if monitoring.get_tool(monitoring.PROFILER_ID) is None:
        monitoring.use_tool_id(monitoring.PROFILER_ID, "tests")
    monitoring.register_callback(monitoring.PROFILER_ID, monitoring.events.CALL, look)
    monitoring.set_events(monitoring.PROFILER_ID, monitoring.events.CALL)
