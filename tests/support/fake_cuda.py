"""torch with a fake CUDA that records its calls, for tests of their order only.

The device is torch's ``meta``, so moved tensors have shapes but no contents. Nothing is asynchronous: only the order of
the calls shows whether an event guards the right operations.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["FakeTorch"]


class FakeStream:
    def __init__(self, torch: "FakeTorch", name: str) -> None:
        self._torch = torch
        self.name = name
        self.device = torch.the_device

    def wait_event(self, event: "FakeEvent") -> None:
        self._torch.note(f"{self.name} waits for {event.name}")

    def synchronize(self) -> None:
        self._torch.note(f"host waits for {self.name}")

    def record_event(self) -> "FakeEvent":
        event = FakeEvent(self._torch)
        event.record(self)
        return event


class FakeEvent:
    def __init__(self, torch: "FakeTorch") -> None:
        self._torch = torch
        self.name = torch.new_name("event")

    def record(self, stream: FakeStream) -> None:
        self._torch.note(f"{stream.name} records {self.name}")

    def synchronize(self) -> None:
        self._torch.note(f"host waits for {self.name}")


class FakeCuda:
    def __init__(self, torch: "FakeTorch") -> None:
        self._torch = torch
        self._current = threading.local()
        self._default = FakeStream(torch, "default")

    def is_available(self) -> bool:
        return True

    def device_count(self) -> int:
        return 1

    def current_device(self) -> int:
        return 0

    def Stream(self, device: Any) -> FakeStream:
        return FakeStream(self._torch, self._torch.new_name("stream"))

    def Event(self, blocking: bool = False) -> FakeEvent:
        return FakeEvent(self._torch)

    def current_stream(self, device: Any = None) -> FakeStream:
        stream: FakeStream = getattr(self._current, "stream", self._default)
        return stream

    def default_stream(self, device: Any = None) -> FakeStream:
        return self._default

    @contextmanager
    def device(self, device: Any) -> Iterator[None]:
        yield

    @contextmanager
    def stream(self, stream: FakeStream) -> Iterator[None]:
        before = self.current_stream()
        self._current.stream = stream
        try:
            yield
        finally:
            self._current.stream = before


class FakeTorch:
    """All of torch, except ``cuda``, with fake page-locked memory.

    Attributes:
        notes: The calls of streams, events and the allocator, in order.
        num_pinned: The number of allocations of page-locked memory.
    """

    def __init__(self) -> None:
        import torch

        self._torch = torch
        self.the_device = torch.device("meta")
        self.notes: list[str] = []
        self.num_pinned = 0
        self._num_names: dict[str, int] = {}
        self.cuda = FakeCuda(self)

    def note(self, what: str) -> None:
        self.notes.append(what)

    def new_name(self, kind: str) -> str:
        self._num_names[kind] = self._num_names.get(kind, 0) + 1
        return f"{kind} {self._num_names[kind]}"

    def device(self, *args: Any) -> Any:
        return self.the_device

    def empty(self, *args: Any, pin_memory: bool = False, **options: Any) -> Any:
        self.num_pinned += pin_memory
        return self._torch.empty(*args, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._torch, name)
