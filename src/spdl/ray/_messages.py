"""Ray, imported on first use, and the messages between a pipeline and its actors in the form that Ray carries.

Large parts of a payload are sent as ``PickleBuffer``: Ray puts them in its object store, and the other side reads them
there. Such memory is read-only.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from importlib import import_module
from typing import Any, NamedTuple, TypeAlias

from spdl._processes._transport._pickling import NOTHING, Encoded, Encoder, Form, contained, decode

#: For each message: kind, number, form, head, number of deep buffers, buffers.
Wire: TypeAlias = "list[tuple[int, int, int, bytes, int, list[Any]]]"


class Place(NamedTuple):
    """Where an actor runs."""

    host: str
    pid: int
    space: str = ""  #: see ``pid_space``


def import_ray() -> Any:
    """Return the module ``ray``.

    Raises:
        ImportError: It is not installed; the message names the extra.
    """
    try:
        return import_module("ray")
    except ImportError as exc:
        text = f"RayActors needs the package ray, which cannot be imported ({exc}): pip install 'spdl-native[ray]'"
        raise ImportError(text, name=exc.name) from exc


class PayloadEncoder:
    """Encodes payloads, and sends them by ``send_encoded``. Thread-safe."""

    sender = None  # Ray has no memory to write to before it creates an object

    def __init__(self) -> None:
        self._encoder = Encoder()

    def encode(self, payload: Any = NOTHING) -> Encoded:
        """See ``Connection.encode``."""
        return self._encoder.encode(payload)

    def send(self, kind: int, number: int = 0, payload: Any = NOTHING) -> None:
        self.send_encoded([(kind, number, self.encode(payload))])

    def send_encoded(self, frames: Iterable[tuple[int, int, Encoded]]) -> None:
        raise NotImplementedError


def to_wire(frames: Iterable[tuple[int, int, Encoded]]) -> Wire:
    """Return messages as objects that Ray can send. They refer to the memory of the payloads."""
    return [
        (
            *(int(kind), number, int(encoded.form), encoded.head, encoded.num_deep),
            [pickle.PickleBuffer(pickle.PickleBuffer(each).raw()) for each in encoded.buffers],
        )
        for kind, number, encoded in frames
    ]


class ArrivedMessage:
    """See ``spdl._processes._transport.Message``."""

    __slots__ = ("_buffers", "_form", "_head", "_num_deep", "kind", "number")

    def __init__(self, kind: int, number: int, form: int, head: bytes, num_deep: int, buffers: list[Any]) -> None:
        self.kind = kind
        self.number = number
        self._form = form
        self._head = head
        self._num_deep = num_deep
        self._buffers: list[Any] = buffers

    def load(self) -> Any:
        buffers, self._buffers = [memoryview(each) for each in self._buffers], []
        try:
            return decode(Form(self._form), self._head, buffers, self._num_deep)
        except BaseException as exc:
            if (error := contained(exc, "unpickling")) is exc:
                raise
            raise error from exc

    def discard(self) -> None:
        self._buffers = []
