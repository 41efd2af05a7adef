"""Encodes objects for another process, and decodes them there: pickle protocol 5 with out-of-band buffers.

An object becomes an ``Encoded``: a *head* (the pickle stream, small) and *buffers* (large memory, not copied here).
Objects that offer their memory to pickle (NumPy arrays, ``spdl.io`` buffers and packets) are used as they are. In
addition:

- ``bytes`` and ``bytearray`` are handled by pickle itself and offer no memory. At the top level they become a buffer
  without pickling. Inside containers, ``persistent_id`` finds them, which pickle then calls for *every* object; so this
  is done only if a stream turns out large, and is remembered for the next one.
- ``memoryview``, arrays of numbers and torch's CPU tensors of every dtype use our own reducers: see ``MemoryPickler``
  and ``_tensors.py``.

Source: PEP 574.
"""

from __future__ import annotations

import io
import marshal
import pickle
import sys
import threading
from collections.abc import Sequence
from enum import Enum, IntEnum
from typing import Any, Final

from spdl._processes._memory import copy_to_bytes, exporter_of

from ._tensors import LARGE, Tensors, collector, split_table, with_places

__all__ = ["LARGE", "NOTHING", "Encoded", "Form", "contained", "decode", "encode"]

#: A head of at least this many bytes is searched for bytes objects.
_SUSPICIOUS: Final = 4 * LARGE
#: After a search without result, this many large heads are not searched.
_PATIENCE: Final = 64


class _Nothing(Enum):
    NOTHING = "no payload"


NOTHING: Final = _Nothing.NOTHING


class Form(IntEnum):
    """How a payload is written."""

    NOTHING = 0
    PICKLE = 1
    DEEP = 2  # a pickle with persistent ids for bytes objects
    BYTES = 3  # the only buffer is the object
    BYTEARRAY = 4
    RAW = 5  # the head is the object: bytes
    ARRAY = 6  # the only buffer is its memory, the head the rest, by marshal
    # With the places of tensors before the stream: see ``_tensors.py``.
    TENSORS = 7
    DEEP_TENSORS = 8


def contained(exc: BaseException, doing: str) -> BaseException:
    """Return the exception to raise for ``exc``, which the user's pickling code raised.

    A ``SystemExit`` from ``__setstate__`` must not end the process that receives the object, and the same holds for any
    other exception that is not an ``Exception``: it becomes a ``RuntimeError``, which affects only that object. Ctrl-C
    is kept in the main thread, where it can occur.

    Args:
        exc: What was raised.
        doing: The attempted action: ``unpickling``.
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
    """An encoded payload. ``buffers`` refer to the object's own memory until a store has put them."""

    __slots__ = ("buffers", "form", "head", "num_deep", "spans")

    def __init__(self, form: Form, head: bytes, buffers: Sequence[Any] = (), num_deep: int = 0) -> None:
        self.form = form
        self.head = head
        self.buffers = buffers
        self.num_deep = num_deep  # number of buffers, at the end, that belong to persistent ids
        self.spans: Any = None  # where a store has put the buffers


_EMPTY: Final = Encoded(Form.NOTHING, b"")
#: Types whose objects cannot contain large buffers.
_SCALARS: Final = frozenset({int, float, bool, type(None), complex})


class Encoder:
    """Encodes objects. Adapts to the kind of objects. Thread-safe.

    Args:
        thorough: Always find all large bytes objects, and make buffers arrive writable even if the object's own are
            not, as an explicit arena guarantees.
    """

    __slots__ = ("_num_unsearched", "_search", "_thorough")

    def __init__(self, *, thorough: bool = False) -> None:
        self._thorough = thorough
        self._search = False
        self._num_unsearched = 0

    def encode(self, payload: Any) -> Encoded:
        """Encode ``payload``.

        Raises:
            Exception: Any error of pickling: ``__reduce__`` is user code. See ``contained``.
        """
        try:
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
                reduced = reduce_array(payload, writable=True)
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
            buffers: list[Any] = []
            stream, tensors = io.BytesIO(), Tensors()
            pickler = MemoryPickler(stream, 5, buffer_callback=collector(buffers, tensors))
            pickler.tensors = tensors
            pickler.dump(payload)
            head = stream.getvalue()
            if len(head) >= _SUSPICIOUS and kind is not str:
                self._num_unsearched -= 1
                if self._num_unsearched < 0:
                    self._num_unsearched = _PATIENCE
                    encoded = _encode_deep(payload)
                    self._search = encoded.num_deep > 0
                    return encoded
            return _encoded(Form.PICKLE, head, buffers, tensors)
        except BaseException as exc:
            if (error := contained(exc, "pickling")) is exc:
                raise
            raise error from exc


def encode(payload: Any) -> Encoded:
    """Encode one object."""
    return Encoder().encode(payload)


def _encoded(form: Form, head: bytes, buffers: list[Any], tensors: Tensors, found: Sequence[Any] = ()) -> Encoded:
    if tensors:
        table, buffers = tensors.finish(buffers)
        head = len(table).to_bytes(4, "little") + table + head
        form = Form.TENSORS if form is Form.PICKLE else Form.DEEP_TENSORS
    return Encoded(form, head, [*buffers, *found] if found else buffers, len(found))


def _encode_deep(payload: Any, *, thorough: bool = False) -> Encoded:
    buffers: list[Any] = []
    stream, tensors = io.BytesIO(), Tensors()
    pickler = _DeepPickler(stream, 5, buffer_callback=collector(buffers, tensors))
    pickler.tensors = tensors
    pickler.thorough = thorough
    pickler.leaves = _leaves(payload) if thorough else frozenset()
    pickler.dump(payload)
    found = pickler.found
    form = Form.DEEP if found else Form.PICKLE
    return _encoded(form, stream.getvalue(), buffers, tensors, found)


def _leaves(payload: Any) -> frozenset[int]:
    """Ids of the large bytes objects that lie in nested containers and dataclasses.

    Not those in the state of other objects: a class that restores itself from bytes needs bytes.
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
    """Decode an object. Its large parts are views of ``buffers`` and keep them alive.

    Args:
        form: How it was encoded.
        head: Its pickle stream.
        buffers: Objects with the buffer protocol, in the order of ``Encoded.buffers``.
        num_deep: As in ``Encoded``.
        bytes_as_views: Return writable memoryviews for bytes-like objects, instead of copies of their own type.

    Raises:
        Exception: Any error of unpickling.
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
    if form is Form.TENSORS:
        table, stream = split_table(head)
        return pickle.loads(stream, buffers=with_places(table, buffers))
    if form is Form.DEEP or form is Form.DEEP_TENSORS:
        first = len(buffers) - num_deep
        stream, own = memoryview(head), buffers[:first]
        if form is Form.DEEP_TENSORS:
            table, stream = split_table(head)
            own = with_places(table, own)
        unpickler = _DeepUnpickler(io.BytesIO(stream), buffers=own)
        unpickler.deep, unpickler.as_views = buffers[first:], bytes_as_views
        return unpickler.load()
    return _as_bytes(buffers[0], bytes if form is Form.BYTES else bytearray, bytes_as_views)


def _as_bytes(buffer: Any, kind: type[bytes] | type[bytearray], as_view: bool) -> Any:
    if as_view:
        return memoryview(buffer)
    if kind is bytes:
        return copy_to_bytes(buffer)  # without the GIL, so that other threads can run
    return buffer if type(buffer) is kind else kind(buffer)


class MemoryPickler(pickle.Pickler):
    """Protocol 5 with our own reducers for large memory. The caller decides where that memory goes.

    Arrays arrive writable, as with ``torch.multiprocessing``, unless ``keeps_readonly`` is set.
    """

    tensors: Tensors
    thorough = False
    keeps_readonly = False

    def reducer_override(self, obj: Any) -> Any:
        """Called for all objects that pickle does not handle itself."""
        kind = type(obj)
        if kind is memoryview:
            return _reduce_memoryview(obj, self.thorough)
        hook = getattr(kind, "__reduce_transport__", None)
        if hook is not None:
            return hook(obj)
        if kind.__module__ == "numpy" and kind is getattr(sys.modules.get("numpy"), "ndarray", None):
            return reduce_array(obj, writable=not self.keeps_readonly)
        if kind.__module__ == "torch" and kind is getattr(sys.modules.get("torch"), "Tensor", None):
            return self.tensors.reduce(obj)
        if kind.__module__ == "torch.storage" and kind.__name__ == "UntypedStorage":
            return self.tensors.reduce_storage(obj)
        return NotImplemented


def _reduce_memoryview(view: memoryview, thorough: bool) -> Any:
    memory = view if view.c_contiguous and view.nbytes else view.tobytes()
    readonly = view.readonly and not thorough
    return _make_memoryview, (_buffer_of(memory, thorough), view.format, view.shape, readonly)


def _buffer_of(memory: Any, writable: bool) -> pickle.PickleBuffer:
    """Return its memory for pickle; read-only memory would arrive read-only."""
    buffer = pickle.PickleBuffer(memory)
    raw = buffer.raw()
    if writable and raw.readonly:
        alias: Any = exporter_of(raw, memory, as_writable=True) if raw.nbytes else bytearray()
        return pickle.PickleBuffer(alias)
    return buffer


def _make_memoryview(buffer: Any, code: Any, shape: tuple[int, ...], readonly: bool) -> memoryview:
    view: memoryview = memoryview(buffer).cast("B")
    # Memoryviews cannot be cast to a shape that has a zero.
    view = view.cast(code) if 0 in shape else view.cast(code, shape)
    return view.toreadonly() if readonly else view


def reduce_array(array: Any, *, writable: bool) -> Any:
    """Reduce an array of numbers or times. NumPy can do this too, but its format takes three times as long to read."""
    kind = array.dtype.kind
    if kind not in "biufcmM":
        # Non-contiguous ones would be pickled as bytes, in the stream.
        is_readonly = writable and not array.flags.writeable
        if kind == "O" or (not is_readonly and (array.flags.c_contiguous or array.flags.f_contiguous)):
            return NotImplemented
        return array.copy(order="A").__reduce_ex__(5)
    if not (array.flags.c_contiguous or array.flags.f_contiguous):
        array = array.copy()
    order = "C" if array.flags.c_contiguous else "F"
    # Times have no buffer protocol.
    memory = array.view("i8") if kind in "mM" else array
    return make_array, (_buffer_of(memory, writable), array.dtype.str, array.shape, order)


def make_array(data: Any, dtype: str, shape: tuple[int, ...], order: Any) -> Any:
    import numpy

    return numpy.ndarray(shape, dtype, data, order=order)


class _DeepPickler(MemoryPickler):
    """Leaves large bytes objects out of the stream. pickle calls it for every object."""

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
