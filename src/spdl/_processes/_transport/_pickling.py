"""Objects taken apart for another process, and put together there: pickle protocol 5 with out-of-band buffers.

An object becomes an ``Encoded``: a *head* (the pickle stream, small) and *buffers* (large memory, not copied here).
What offers its memory to pickle (NumPy arrays, ``spdl.io`` buffers and packets) is taken as it is; besides:

- ``bytes`` and ``bytearray`` are known to pickle itself and offer nothing. At the top they are a buffer without any
  pickling. Inside of containers they are found by ``persistent_id``, which pickle then calls for *every* object; so
  that is done only for streams that turn out large, and remembered for the next.
- ``memoryview``, arrays of numbers and torch's CPU tensors of every dtype get reducers of ours.
- A class may define ``__reduce_transport__(self)``: like ``__reduce__``, but asked only for the way between processes
  of one pipeline (frames of ``spdl.io``, which do not pickle otherwise).

Source: PEP 574.
"""

from __future__ import annotations

import io
import marshal
import math
import pickle
import sys
import threading
from collections.abc import Callable, Sequence
from enum import Enum, IntEnum
from typing import Any, Final

from spdl._processes._memory import copy_to_bytes, exporter_of

__all__ = ["LARGE", "NOTHING", "Encoded", "Form", "MemoryPickler", "contained", "decode", "encode"]

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
            reduced = _reduce_array(payload, self._thorough)
            if reduced is not NotImplemented and payload.nbytes >= LARGE and reduced[0] is _make_array:
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
        array = _make_array(buffers[0], *rest)
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


# -- reducers


class MemoryPickler(pickle.Pickler):
    """Protocol 5, with reducers of ours for what has large memory; where that goes is its user's to say."""

    thorough = False

    def reducer_override(self, obj: Any) -> Any:
        """Called for all that pickle does not know itself."""
        kind = type(obj)
        if kind is memoryview:
            return _reduce_memoryview(obj, self.thorough)
        hook = getattr(kind, "__reduce_transport__", None)
        if hook is not None:
            return hook(obj)
        if kind.__module__ == "numpy" and kind is getattr(sys.modules.get("numpy"), "ndarray", None):
            return _reduce_array(obj, self.thorough)
        if kind.__module__ == "torch" and kind is getattr(sys.modules.get("torch"), "Tensor", None):
            return _reduce_tensor(obj)
        if kind.__module__ == "torch.storage" and kind.__name__ == "UntypedStorage":
            return _reduce_storage(obj)
        return NotImplemented


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


def _reduce_memoryview(view: memoryview, thorough: bool) -> Any:
    memory = view if view.c_contiguous and view.nbytes else view.tobytes()
    readonly = view.readonly and not thorough
    return _make_memoryview, (_buffer_of(memory, thorough), view.format, view.shape, readonly)


def _buffer_of(memory: Any, thorough: bool) -> pickle.PickleBuffer:
    """Its memory for pickle; one that is read-only would arrive so."""
    buffer = pickle.PickleBuffer(memory)
    raw = buffer.raw()
    if thorough and raw.readonly and raw.nbytes:
        alias: Any = exporter_of(raw, memory, as_writable=True)
        return pickle.PickleBuffer(alias)
    return buffer


def _make_memoryview(buffer: Any, code: Any, shape: tuple[int, ...], readonly: bool) -> memoryview:
    view: memoryview = memoryview(buffer).cast("B")
    # Memoryviews cannot be cast to a shape that has a zero.
    view = view.cast(code) if 0 in shape else view.cast(code, shape)
    return view.toreadonly() if readonly else view


def _reduce_array(array: Any, thorough: bool) -> Any:
    """An array of numbers or times. NumPy does it too, but what it writes takes three times as long to read."""
    kind = array.dtype.kind
    if kind not in "biufcmM":
        # Of these, what is not contiguous would be pickled by way of bytes, in the stream.
        if kind == "O" or array.flags.c_contiguous or array.flags.f_contiguous:
            return NotImplemented
        return array.copy().__reduce_ex__(5)
    if not (array.flags.c_contiguous or array.flags.f_contiguous):
        array = array.copy()
    order = "C" if array.flags.c_contiguous else "F"
    # Times have no buffer protocol.
    memory = array.view("i8") if kind in "mM" else array
    return _make_array, (_buffer_of(memory, thorough), array.dtype.str, array.shape, order)


def _make_array(data: Any, dtype: str, shape: tuple[int, ...], order: Any) -> Any:
    import numpy

    return numpy.ndarray(shape, dtype, data, order=order)


def _reduce_tensor(tensor: Any) -> Any:
    """A CPU tensor of torch, strided or sparse: its memory, and what that means. All else is left to torch.

    Raises:
        RuntimeError: It is part of a graph of autograd, which would be lost; in the words of ``torch.multiprocessing``.
        TypeError: It has no memory: what stands for one that a transformation of torch is making.
    """
    import torch

    if tensor.device.type != "cpu" or tensor.is_quantized or tensor.is_nested:
        return NotImplemented
    requires_grad, attributes = tensor.requires_grad, dict(tensor.__dict__) or None
    if requires_grad and not tensor.is_leaf:
        raise RuntimeError(
            "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does not support "
            "crossing process boundaries.  If you just want to transfer the data, call detach() on the tensor before "
            "serializing (e.g., putting it on the queue)."
        )
    layout = tensor.layout
    if layout is not torch.strided:
        parts = _parts_of_sparse(tensor.detach(), torch)
        if parts is None:
            return NotImplemented
        is_coalesced = layout is torch.sparse_coo and tensor.is_coalesced()
        return _make_sparse, (layout, parts, tuple(tensor.shape), is_coalesced, requires_grad, attributes)
    tensor = tensor.detach().resolve_conj().resolve_neg()
    # Dense tensors keep the order of their dimensions in memory (channels_last, transposed); others become contiguous.
    order = sorted(range(tensor.dim()), key=lambda d: (-tensor.stride(d), -tensor.shape[d]))
    stored = tensor.permute(order)
    if not stored.is_contiguous():
        order, stored = list(range(tensor.dim())), tensor.contiguous()
    memory: Any = b""
    if stored.numel():
        if not stored.data_ptr():  # NumPy would give it an address nevertheless
            raise TypeError(
                "a tensor without memory (a functional or zero tensor, as transformations of torch make them) cannot "
                "be sent to another process: send one that was computed"
            )
        memory = stored.reshape(-1).view(torch.uint8).numpy()
    dtype = str(stored.dtype).removeprefix("torch.")
    facts = (pickle.PickleBuffer(memory), dtype, tuple(stored.shape), tuple(order), requires_grad)
    return _make_tensor, facts if attributes is None else (*facts, attributes)


def _make_tensor(
    data: Any,
    dtype: str,
    shape: tuple[int, ...],
    order: tuple[int, ...],
    requires_grad: bool,
    attributes: dict[str, Any] | None = None,
) -> Any:
    import torch

    kind = getattr(torch, dtype)
    if math.prod(shape) == 0:
        stored = torch.empty(shape, dtype=kind)
    else:
        if memoryview(data).readonly:
            data = bytearray(data)
        stored = torch.frombuffer(data, dtype=kind).reshape(shape)
    inverse = [0] * len(order)
    for position, dim in enumerate(order):
        inverse[dim] = position
    tensor = stored.permute(inverse)
    if attributes is not None:
        tensor.__dict__.update(attributes)
    return tensor.requires_grad_() if requires_grad else tensor


def _parts_of_sparse(tensor: Any, torch: Any) -> tuple[Any, ...] | None:
    """The dense tensors of a sparse one, values last; ``None``: it is none."""
    if tensor.layout is torch.sparse_coo:
        return tensor._indices(), tensor._values()
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return tensor.crow_indices(), tensor.col_indices(), tensor.values()
    if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        return tensor.ccol_indices(), tensor.row_indices(), tensor.values()
    return None


def _make_sparse(
    layout: Any,
    parts: tuple[Any, ...],
    shape: tuple[int, ...],
    is_coalesced: bool,
    requires_grad: bool,
    attributes: dict[str, Any] | None,
) -> Any:
    """As torch rebuilds one, except that torch keeps it for ever: for ``torch.load``, which checks them in the end."""
    import torch

    if layout is torch.sparse_coo:
        indices, values = parts
        tensor: Any = torch.sparse_coo_tensor(indices, values, shape, is_coalesced=is_coalesced, check_invariants=False)
    else:
        compressed, plain, values = parts
        tensor = torch.sparse_compressed_tensor(compressed, plain, values, shape, layout=layout, check_invariants=False)
    if attributes is not None:
        tensor.__dict__.update(attributes)
    return tensor.requires_grad_() if requires_grad else tensor


def _reduce_storage(storage: Any) -> Any:
    """The memory of tensors. torch itself can pickle only the kind that knows a dtype."""
    import torch

    if storage.device.type != "cpu":
        return NotImplemented
    return _make_storage, (torch.empty(0, dtype=torch.uint8).set_(storage),)


def _make_storage(tensor: Any) -> Any:
    return tensor.untyped_storage()
