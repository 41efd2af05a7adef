"""The actor: a worker of a region, which Ray runs."""

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
from spdl._processes._transport import NOTHING, Encoded
from spdl.pipeline._remote._region_main import serve

from ._door import DoorAddress, enter
from ._library import import_ray
from ._looking import show
from ._messages import ArrivedMessage, PayloadEncoder, Place, Wire, to_wire

if TYPE_CHECKING:
    from spdl.pipeline._remote._region_main import RegionSpec

__all__ = ["RegionActor"]


class _Connection(PayloadEncoder):
    """The actor's end of the way through Ray. See ``spdl._processes._transport.Connection``."""

    sender = None  # Ray has no memory to write to before an object is made of it

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._inbox: SimpleQueue[ArrivedMessage | None] = SimpleQueue()
        self._early: dict[int, Wire] = {}  # calls that have overtaken others, by number
        self._num_received = 0
        self._outbox: SimpleQueue[tuple[Wire, threading.Event] | None] = SimpleQueue()
        self._is_finished = False

    def feed(self, number: int, wire: Wire) -> None:
        """Messages have arrived, in the call with this number. Calls may arrive in any order."""
        with self._lock:
            self._early[number] = wire
            while (messages := self._early.pop(self._num_received, None)) is not None:
                self._num_received += 1
                for message in messages:
                    self._inbox.put(ArrivedMessage(*message))

    def end(self) -> None:
        """Nothing more comes."""
        self._inbox.put(None)

    def recv(self) -> ArrivedMessage:
        message = self._inbox.get()
        if message is None:
            raise EOFError
        return message

    def send(self, kind: int, number: int = 0, payload: Any = NOTHING) -> None:
        self.send_encoded([(kind, number, self.encode(payload))])

    def send_encoded(self, frames: Iterable[tuple[int, int, Encoded]]) -> None:
        taken = threading.Event()
        with self._lock:
            if self._is_finished:
                raise BrokenPipeError("the actor has ended")
            self._outbox.put((to_wire(frames), taken))
        taken.wait()

    def sent(self) -> Iterator[Wire]:
        """Yield what is sent. When the next is asked for, Ray has copied the last one."""
        while (entry := self._outbox.get()) is not None:
            wire, taken = entry
            try:
                yield wire
            finally:
                taken.set()
                del entry, wire

    def finish(self) -> None:
        """Nothing more is sent."""
        with self._lock:
            self._is_finished = True
            self._outbox.put(None)


class RegionActor:
    """Made by Ray, with a thread for ``begin``, ``receive`` and ``close``, one for ``outputs``, and one for ``look``.

    It has no arguments: so Ray starts it, and it imports what it needs, before the pipeline has pickled anything.
    """

    def __init__(self) -> None:
        offer_stacks()
        self._connection = _Connection()
        self._error: BaseException | None = None

    def begin(self, spec: RegionSpec, index: int, generation: int, door: DoorAddress | None) -> None:
        """Begin to work.

        Args:
            spec: What it works at.
            index: Its number.
            generation: How many actors have had this number before it.
            door: The pipeline's, if there is one.
        """
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
        except BaseException as exc:  # noqa: BLE001 - told to the pipeline by ``outputs``
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
        """Return what it shows to ``spdl stats`` and ``spdl dump``."""
        return show(view)

    def outputs(self) -> Iterator[Wire | Place]:
        """Yield where the actor runs, then everything that is sent through Ray, until the actor is closed."""
        yield Place(socket.gethostname(), os.getpid(), pid_space())
        yield from self._connection.sent()
        if self._error is not None:
            raise self._error


def _own_node() -> str:
    node: str = import_ray().get_runtime_context().get_node_id()
    return node
