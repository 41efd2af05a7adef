"""A pipeline in a "subprocess" that is a thread: the two sides of the protocol, over the same connection."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from spdl._processes._transport import Frame, link_pair
from spdl.pipeline import WorkerDiedError
from spdl.pipeline._remote._iterate import _ResumableWorker
from spdl.pipeline._remote._iterate_main import run
from spdl.pipeline._remote._run_pipeline_main import ResumableItems
from tests.support.timeouts import TIMEOUT

__all__ = ["OnThread"]


class _Child:
    """What ``_ResumableWorker`` needs of a child process."""

    def __init__(self, config: Any, options: dict[str, Any]) -> None:
        self.link, end = link_pair(0)
        there = end.open()

        def body() -> None:
            with there:
                run(there, lambda: ResumableItems(config, options), [])

        self.thread = threading.Thread(target=body, daemon=True)
        self.thread.start()

    def recv(self, timeout: float | None) -> Frame:
        try:
            return self.link.recv(timeout)
        except EOFError:
            raise WorkerDiedError("the thread has ended", exit_code=0) from None

    def stop(self, timeout: float) -> None:
        self.link.close()
        self.thread.join(TIMEOUT)
        assert not self.thread.is_alive()


class OnThread:
    """Reads like a ``Pipeline``."""

    def __init__(self, config: Any, options: dict[str, Any], buffer_size: int) -> None:
        self.child = _Child(config, options)
        self.items: Any = _ResumableWorker(self.child, buffer_size, TIMEOUT)  # type: ignore[arg-type]
        self.items.wait_ready()
        self.iterator: Iterator[Any] | None = None

    @contextmanager
    def auto_stop(self) -> Iterator[None]:
        try:
            yield
        finally:
            self.child.stop(TIMEOUT)

    def get_item(self, *, timeout: float) -> Any:
        if self.iterator is None:
            self.iterator = iter(self.items)
        try:
            return next(self.iterator)
        except StopIteration:
            self.iterator = None
            raise EOFError from None

    def state_dict(self) -> dict[str, str]:
        state: dict[str, str] = self.items.state_dict()
        return state

    def load_state_dict(self, state: Any) -> None:
        self.items.load_state_dict(state)
