"""The actor: a worker of a region, run by Ray."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from spdl._processes._elsewhere import pid_space
from spdl._processes._stacks import offer_stacks
from spdl._processes._transport._pickling import Encoded
from spdl.pipeline._remote._region_main import serve

from ._door import DoorAddress, enter
from ._looking import show
from ._messages import ArrivedMessage, PayloadEncoder, Place, Wire, import_ray, to_wire

if TYPE_CHECKING:
    from spdl.pipeline._remote._region_main import RegionSpec


class _Connection(PayloadEncoder):
    """The actor's end of the connection through Ray. See ``spdl._processes._transport.Connection``."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._inbox: SimpleQueue[ArrivedMessage | None] = SimpleQueue()
        self._early: dict[int, Wire] = {}  # calls that have overtaken others, by number
        self._num_received = 0
        self._outbox: SimpleQueue[tuple[Wire, threading.Event] | None] = SimpleQueue()
        self._is_finished = False

    def feed(self, number: int, wire: Wire) -> None:
        """Add messages that arrived in the call with this number. Calls may arrive in any order."""
        with self._lock:
            self._early[number] = wire
            while (messages := self._early.pop(self._num_received, None)) is not None:
                self._num_received += 1
                for message in messages:
                    self._inbox.put(ArrivedMessage(*message))

    def end(self) -> None:
        """Signal that no more messages will arrive."""
        self._inbox.put(None)

    def recv(self) -> ArrivedMessage:
        message = self._inbox.get()
        if message is None:
            raise EOFError
        return message

    def send_encoded(self, frames: Iterable[tuple[int, int, Encoded]]) -> None:
        taken = threading.Event()
        with self._lock:
            if self._is_finished:
                raise BrokenPipeError("the actor has ended")
            self._outbox.put((to_wire(frames), taken))
        taken.wait()

    def sent(self) -> Iterator[Wire]:
        """Yield the messages to send. When Ray asks for the next one, it has copied the previous one."""
        while (entry := self._outbox.get()) is not None:
            wire, taken = entry
            try:
                yield wire
            finally:
                taken.set()
                del entry, wire

    def finish(self) -> None:
        """Signal that no more messages will be sent."""
        with self._lock:
            self._is_finished = True
            self._outbox.put(None)


class RegionActor:
    """Created by Ray. Threads: one for ``begin``, ``receive`` and ``close``, one for ``outputs``, one for ``look``.

    It has no arguments, so Ray can start it and it can import its modules before the pipeline has pickled anything.
    """

    def __init__(self) -> None:
        offer_stacks()
        self._connection = _Connection()
        self._error: BaseException | None = None

    def begin(self, spec: RegionSpec, index: int, generation: int, door: DoorAddress | None) -> None:
        """Start working."""
        thread = threading.Thread(
            target=self._serve, args=(spec, index, generation, door), name="spdl-region-actor", daemon=True
        )
        thread.start()

    def _serve(self, spec: RegionSpec, index: int, generation: int, door: DoorAddress | None) -> None:
        link = None
        try:
            if door is not None and door.node == _own_node():
                link = enter(door, index, generation)
            with suppress(BrokenPipeError):
                serve(self._connection if link is None else link, spec, index)
        except BaseException as exc:  # noqa: BLE001 - reported to the pipeline by ``outputs``
            self._error = exc
        finally:
            if link is not None:
                link.close()
            self._connection.finish()

    def receive(self, number: int, wire: Wire) -> None:
        self._connection.feed(number, wire)

    def close(self) -> None:
        self._connection.end()

    def look(self, view: str) -> Any:
        """Return the actor's view for ``spdl stats`` and ``spdl dump``."""
        return show(view)

    def outputs(self) -> Iterator[Wire | Place]:
        """Yield where the actor runs, then all messages that it sends through Ray, until it is closed."""
        yield Place(socket.gethostname(), os.getpid(), pid_space())
        yield from self._connection.sent()
        if self._error is not None:
            raise self._error


def _own_node() -> str:
    node: str = import_ray().get_runtime_context().get_node_id()
    return node
