"""Objects taken apart for another process, and put together there: pickle protocol 5 with out-of-band buffers.

An object becomes an ``Encoded``: a *head* (the pickle stream, small) and *buffers* (large memory, not copied here).
What offers its memory to pickle (NumPy arrays, ``spdl.io`` buffers and packets) is taken as it is; besides:

- ``bytes`` and ``bytearray`` are known to pickle itself and offer nothing. At the top they are a buffer without any
  pickling. Inside of containers they are found by ``persistent_id``, which pickle then calls for *every* object; so
  that is done only for streams that turn out large, and remembered for the next.
- ``memoryview``, arrays of numbers and torch's CPU tensors of every dtype get reducers of ours: see ``_reducers.py``.

Source: PEP 574.
"""

from __future__ import annotations

import io
import marshal
import pickle
import sys
import threading
from collections.abc import Callable, Sequence
from enum import Enum, IntEnum
from typing import Any, Final

from spdl._processes._memory import copy_to_bytes

from ._reducers import MemoryPickler, make_array, reduce_array

__all__ = ["LARGE", "NOTHING", "Encoded", "Form", "contained", "decode", "encode"]

#: Buffers of at least so many bytes go out-of-band. Smaller ones are cheaper to copy than to keep account of.
LARGE: Final = 4096
#: A head of so many bytes may have bytes objects inside that are worth a search.
_SUSPICIOUS: Final = 4 * LARGE
#: After a search in vain, so many large heads are not searched.
_PATIENCE: Final = 64


class _Nothing(Enum):
    NOTHING = "no payload"


NOTHING: Final = _Nothing.NOTHING


class Form(IntEnum):
    """How a payload is written."""

    NOTHING = 0
    PICKLE = 1
    DEEP = 2  # a pickle whose persistent ids stand for bytes objects
    BYTES = 3  # the only buffer is the object
    BYTEARRAY = 4
    RAW = 5  # the head is the object: bytes
    ARRAY = 6  # the only buffer is its memory, the head the rest, by marshal


def contained(exc: BaseException, doing: str) -> BaseException:
    """What to raise for ``exc``, which came out of the user's pickling code.

    A ``SystemExit`` of a ``__setstate__`` is no wish to exit of whoever happens to receive the object, nor is any other
    exception that is no ``Exception``: it is told as a ``RuntimeError``, which costs that object only. Ctrl-C stays
    what it is, where it can be one: in the main thread.

    Args:
        exc: What was raised.
        doing: What was tried: ``unpickling``.
    """
    if isinstance(exc, Exception):
        return exc
    if isinstance(exc, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
        return exc
    try:
        text = str(exc)
    except BaseException:  # noqa: BLE001 - the user's
        text = ""
    return RuntimeError(f"{doing} ended with {type(exc).__name__}{': ' if text else ''}{text}")


class Encoded:
    """A payload taken apart. ``buffers`` refer to the object's own memory until a store has put them."""

    __slots__ = ("buffers", "form", "head", "num_deep", "spans")

    def __init__(self, form: Form, head: bytes, buffers: Sequence[Any] = (), num_deep: int = 0) -> None:
        self.form = form
        self.head = head
        self.buffers = buffers
        self.num_deep = num_deep  # how many of the buffers, the last ones, stand for persistent ids
        self.spans: Any = None  # where a store has put the buffers


_EMPTY: Final = Encoded(Form.NOTHING, b"")
#: Nothing inside of these can be large without being large itself.
_SCALARS: Final = frozenset({int, float, bool, type(None), complex})


class Encoder:
    """Takes objects apart. Remembers what kind of objects come. May be used by several threads.

    Args:
        thorough: Whatever came before, all large bytes objects are found, and buffers arrive writable although the
            object's own are not: what an explicit arena promises.
    """

    __slots__ = ("_num_unsearched", "_search", "_thorough")

    def __init__(self, *, thorough: bool = False) -> None:
        self._thorough = thorough
        self._search = False
        self._num_unsearched = 0

    def encode(self, payload: Any) -> Encoded:
        """Take ``payload`` apart.

        Raises:
            Exception: What pickling raises, which may be anything: ``__reduce__`` is the user's code.
        """
        kind = type(payload)
        if payload is NOTHING:
            return _EMPTY
        if kind in _SCALARS:
            return Encoded(Form.PICKLE, pickle.dumps(payload, 5))
        if kind is bytes or kind is bytearray:
            if len(payload) < LARGE:
                if kind is bytes:
                    return Encoded(Form.RAW, payload)
                return Encoded(Form.PICKLE, pickle.dumps(payload, 5))
            return Encoded(Form.BYTES if kind is bytes else Form.BYTEARRAY, b"", (payload,))
        if kind.__module__ == "numpy" and kind is getattr(sys.modules.get("numpy"), "ndarray", None):
            reduced = reduce_array(payload, self._thorough)
            if reduced is not NotImplemented and payload.nbytes >= LARGE and reduced[0] is make_array:
                buffer, *rest = reduced[1]
                return Encoded(Form.ARRAY, marshal.dumps((buffer.raw().readonly, *rest)), (buffer,))
        if self._thorough:
            return _encode_deep(payload, thorough=True)
        if self._search:
            encoded = _encode_deep(payload)
            if not encoded.num_deep:
                self._search = False
                self._num_unsearched = 0
            return encoded
        buffers: list[pickle.PickleBuffer] = []
        stream = io.BytesIO()
        MemoryPickler(stream, 5, buffer_callback=_collector(buffers)).dump(payload)
        head = stream.getvalue()
        if len(head) >= _SUSPICIOUS and kind is not str:
            self._num_unsearched -= 1
            if self._num_unsearched < 0:
                self._num_unsearched = _PATIENCE
                encoded = _encode_deep(payload)
                self._search = encoded.num_deep > 0
                return encoded
        return Encoded(Form.PICKLE, head, buffers)


def encode(payload: Any) -> Encoded:
    """Take one object apart."""
    return Encoder().encode(payload)


def _collector(buffers: list[pickle.PickleBuffer]) -> Callable[[pickle.PickleBuffer], bool]:
    def collect(buffer: pickle.PickleBuffer) -> bool:
        """True: pickle writes it into the stream."""
        try:
            if buffer.raw().nbytes < LARGE:
                return True
        except BufferError:  # it is not contiguous: pickle says so
            return True
        buffers.append(buffer)
        return False

    return collect


def _encode_deep(payload: Any, *, thorough: bool = False) -> Encoded:
    buffers: list[Any] = []
    stream = io.BytesIO()
    pickler = _DeepPickler(stream, 5, buffer_callback=_collector(buffers))
    pickler.thorough = thorough
    pickler.leaves = _leaves(payload) if thorough else frozenset()
    pickler.dump(payload)
    found = pickler.found
    form = Form.DEEP if found else Form.PICKLE
    return Encoded(form, stream.getvalue(), [*buffers, *found], len(found))


def _leaves(payload: Any) -> frozenset[int]:
    """Ids of the large bytes objects that lie in nested containers and dataclasses.

    Those in the state of other objects are none of the user's: a class that restores itself from bytes needs bytes.
    """
    found: set[int] = set()
    seen: set[int] = set()
    todo = [payload]
    while todo:
        obj = todo.pop()
        if id(obj) in seen:
            continue
        if isinstance(obj, bytes | bytearray):
            found.add(id(obj))
        elif isinstance(obj, list | tuple | set | frozenset):
            seen.add(id(obj))
            todo += obj
        elif isinstance(obj, dict):
            seen.add(id(obj))
            todo += obj.values()
        elif hasattr(type(obj), "__dataclass_fields__") and not isinstance(obj, type):
            seen.add(id(obj))
            todo += (getattr(obj, name, None) for name in type(obj).__dataclass_fields__)
    return frozenset(found)


def decode(form: Form, head: bytes, buffers: list[Any], num_deep: int, *, bytes_as_views: bool = False) -> Any:
    """Put an object together. Its large parts are views of ``buffers`` and keep them alive.

    Args:
        form: How it was written.
        head: Its pickle stream.
        buffers: Objects with the buffer protocol, in the order of ``Encoded.buffers``.
        num_deep: As in ``Encoded``.
        bytes_as_views: Give writable memoryviews for bytes-likes, instead of copies of their own type.

    Raises:
        Exception: What unpickling raises, which may be anything.
    """
    if form is Form.PICKLE:
        return pickle.loads(head, buffers=buffers)
    if form is Form.RAW:
        return head
    if form is Form.ARRAY:
        readonly, *rest = marshal.loads(head)
        array = make_array(buffers[0], *rest)
        if readonly:
            array.flags.writeable = False
        return array
    if form is Form.NOTHING:
        return NOTHING
    if form is Form.DEEP:
        first = len(buffers) - num_deep
        unpickler = _DeepUnpickler(io.BytesIO(head), buffers=buffers[:first])
        unpickler.deep, unpickler.as_views = buffers[first:], bytes_as_views
        return unpickler.load()
    return _as_bytes(buffers[0], bytes if form is Form.BYTES else bytearray, bytes_as_views)


def _as_bytes(buffer: Any, kind: type[bytes] | type[bytearray], as_view: bool) -> Any:
    if as_view:
        return memoryview(buffer)
    if kind is bytes:
        return copy_to_bytes(buffer)  # without the GIL, which other threads may want for so long
    return buffer if type(buffer) is kind else kind(buffer)


class _DeepPickler(MemoryPickler):
    """Leaves large bytes objects out of the stream. pickle asks it for every object."""

    leaves: frozenset[int]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.found: list[bytes | bytearray] = []
        self.numbers: dict[int, int] = {}  # of those found, by id

    def persistent_id(self, obj: Any) -> tuple[bool, int, bool] | None:
        kind = type(obj)
        if (kind is bytes or kind is bytearray) and len(obj) >= LARGE:
            number = self.numbers.setdefault(id(obj), len(self.found))
            if number == len(self.found):
                self.found.append(obj)
            return kind is bytearray, number, id(obj) in self.leaves
        return None


class _DeepUnpickler(pickle.Unpickler):
    deep: list[Any]
    as_views: bool

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.made: dict[int, Any] = {}  # one object for all that refer to it

    def persistent_load(self, pid: tuple[bool, int, bool]) -> Any:
        is_bytearray, number, is_leaf = pid
        if number not in self.made:
            kind = bytearray if is_bytearray else bytes
            self.made[number] = _as_bytes(self.deep[number], kind, self.as_views and is_leaf)
        return self.made[number]
