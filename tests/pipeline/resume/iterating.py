"""Ways to read a pipeline: in a "subprocess" that is a thread, over the same connection; ahead, as to a device."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from spdl._processes._transport._connecting import link_pair
from spdl._processes._transport._frame import Frame
from spdl.dataloader._device import Movers, PrefetchingIterator
from spdl.io._devices._staging import Moved
from spdl.pipeline import WorkerDiedError
from spdl.pipeline._remote._iterate import ResumableWorker
from spdl.pipeline._remote._iterate_main import run
from spdl.pipeline._remote._run_pipeline_main import ResumableItems
from tests.support.timeouts import TIMEOUT

__all__ = ["OnThread", "Prefetched"]


class _Child:
    """What ``ResumableWorker`` needs of a child process."""

    def __init__(self, config: Any, options: Any) -> None:
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

    def __init__(self, config: Any, options: Any, buffer_size: int) -> None:
        self.child = _Child(config, options)
        self.items: Any = ResumableWorker(self.child, buffer_size, TIMEOUT)  # type: ignore[arg-type]
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


class Prefetched:
    """Reads a pipeline as ``prefetch_to_device`` does, with the same thread, and moves nothing."""

    def __init__(self, pipeline: Any, num_prefetch: int) -> None:
        self.pipeline = pipeline
        self.num_prefetch = num_prefetch
        self.iterator: _Prefetching | None = None

    @contextmanager
    def auto_stop(self) -> Iterator[None]:
        with self.pipeline.auto_stop():
            try:
                yield
            finally:
                if self.iterator is not None:
                    self.iterator.close()

    def get_item(self, *, timeout: float) -> Any:
        if self.iterator is None:
            self.iterator = _Prefetching(self.pipeline, _Movers(), None, self.num_prefetch)
        try:
            return next(self.iterator)
        except StopIteration:
            self.iterator = None
            raise EOFError from None

    def state_dict(self) -> dict[str, str]:
        state: dict[str, str] = self.pipeline.state_dict()
        return state

    def load_state_dict(self, state: Any) -> None:
        self.pipeline.load_state_dict(state)


class _Prefetching(PrefetchingIterator[Any]):
    def _receive(self, moved: Moved[Any]) -> Any:
        return moved.batch


class _Movers(Movers):
    def take(self, device: Any) -> Any:
        return self

    def give_back(self, mover: Any) -> None:
        pass

    def move(self, batch: Any) -> Moved[Any]:
        return Moved(batch, [], None, False)
