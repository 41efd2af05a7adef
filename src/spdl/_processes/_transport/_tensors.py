"""``Tensors``: torch's CPU tensors in one message, by the memory that they are views of.

As with ``torch.multiprocessing``, tensors of one storage arrive as tensors of one storage, with their strides, and the
memory of an expanded tensor is sent once. But only the part of a storage that its tensors span is sent, not all of it:
a sample may be a slice of a dataset. Parts that are far from each other are sent apart, and a part of which the tensors
use less than half is not sent: each of them arrives contiguous, with memory of its own.

What the tensors of a storage span is known only when everything is pickled. So the pickle stream refers to a place in
a table, one for each tensor, which is made last and sent before the stream.
"""

from __future__ import annotations

import marshal
import math
import pickle
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

#: Buffers of at least this many bytes go out-of-band. Smaller ones are cheaper to copy than to track.
LARGE: Final = 4096
#: So many bytes are sent in one piece, however few of them the tensors use.
_SMALL: Final = 16 << 10
#: Multiple of all sizes of elements: offsets of tensors stay whole numbers of elements.
_ALIGNMENT: Final = 16
_NO_MEMORY: Final = bytearray()
_ELEMENT: Final = bytearray(_ALIGNMENT)


class _View(NamedTuple):
    """A tensor with elements."""

    slot: pickle.PickleBuffer  # in the place of its memory, until that is known
    tensor: Any
    storage: Any
    start: int  # in bytes, in the storage
    stop: int


class Tensors:
    """Collects the tensors of one message while it is pickled."""

    __slots__ = ("_views",)

    def __init__(self) -> None:
        self._views: dict[int, _View] = {}  # by the id of the slot

    def __bool__(self) -> bool:
        return bool(self._views)

    def has(self, buffer: pickle.PickleBuffer) -> bool:
        """Whether the buffer is in the place of a tensor's memory."""
        return id(buffer) in self._views

    def reduce(self, tensor: Any) -> Any:
        """Reduce a strided or sparse CPU tensor to its memory and metadata. All others are left to torch.

        Raises:
            RuntimeError: It is part of an autograd graph, which would be lost; same message as
                ``torch.multiprocessing``.
            TypeError: It has no memory: a placeholder made by a torch transformation.
        """
        import torch

        if tensor.device.type != "cpu" or tensor.is_quantized or tensor.is_nested:
            return NotImplemented
        requires_grad, attributes = tensor.requires_grad, dict(tensor.__dict__) or None
        if requires_grad and not tensor.is_leaf:
            raise RuntimeError(
                "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does not support "
                "crossing process boundaries.  If you just want to transfer the data, call detach() on the tensor "
                "before serializing (e.g., putting it on the queue)."
            )
        layout = tensor.layout
        if layout is not torch.strided:
            parts = _parts_of_sparse(tensor.detach(), torch)
            if parts is None:
                return NotImplemented
            is_coalesced = layout is torch.sparse_coo and tensor.is_coalesced()
            return _make_sparse, (layout, parts, tuple(tensor.shape), is_coalesced, requires_grad, attributes)
        # torch.multiprocessing loses these bits, and with them the values.
        tensor = tensor.detach().resolve_conj().resolve_neg()
        dtype = str(tensor.dtype).removeprefix("torch.")
        facts = (dtype, tuple(tensor.shape), tensor.stride(), requires_grad, attributes)
        if not tensor.numel():
            return _make_tensor, (None, *facts)
        if not tensor.data_ptr():
            raise TypeError(
                "a tensor without memory (a functional or zero tensor, as transformations of torch make them) cannot "
                "be sent to another process: send one that was computed"
            )
        return _make_tensor, (self._add(tensor), *facts)

    def reduce_storage(self, storage: Any) -> Any:
        """Reduce the storage of tensors. torch itself can pickle only storages with a dtype."""
        import torch

        if storage.device.type != "cpu":
            return NotImplemented
        return _make_storage, (torch.empty(0, dtype=torch.uint8).set_(storage),)

    def _add(self, tensor: Any) -> pickle.PickleBuffer:
        size = tensor.element_size()
        start = tensor.storage_offset() * size
        num = 1 + sum((length - 1) * stride for length, stride in zip(tensor.shape, tensor.stride(), strict=True))
        slot = pickle.PickleBuffer(_NO_MEMORY)
        self._views[id(slot)] = _View(slot, tensor, tensor.untyped_storage(), start, start + num * size)
        return slot

    def finish(self, buffers: Sequence[pickle.PickleBuffer]) -> tuple[bytes, list[Any]]:
        """Return the table, and the buffers to send, for those that the pickle stream refers to, in order."""
        places: dict[int, tuple[int, int]] = {}
        sent: list[Any] = []
        small: list[bytes] = []

        def put(memory: Any) -> int:
            if memory.nbytes < LARGE:
                small.append(memory.tobytes())
                return -len(small)
            sent.append(memory)
            return len(sent) - 1

        of_storages: dict[int, list[_View]] = {}
        for view in self._views.values():
            of_storages.setdefault(view.storage._cdata, []).append(view)
        for views in of_storages.values():
            for part in _parts_of_storage(views) if len(views) > 1 else (views,):
                _place(part, put, places)
        table: list[int | tuple[int, int]] = []
        for buffer in buffers:
            place = places.get(id(buffer))
            if place is None:
                sent.append(buffer)
            table.append(len(sent) - 1 if place is None else place)
        self._views.clear()
        return marshal.dumps((table, small)), sent


def _parts_of_storage(views: list[_View]) -> list[list[_View]]:
    """Group the tensors of a storage: those that overlap, and those that are near each other."""
    views.sort(key=lambda view: view.start)
    parts = [[views[0]]]
    start, stop, num_used = views[0].start, views[0].stop, _num_used(views[0])
    for view in views[1:]:
        longest, used = max(stop, view.stop), num_used + _num_used(view)
        if view.start < stop or longest - start <= max(_SMALL, 2 * used):
            parts[-1].append(view)
            stop, num_used = longest, used
        else:
            parts.append([view])
            start, stop, num_used = view.start, view.stop, _num_used(view)
    return parts


def _num_used(view: _View) -> int:
    return min(int(view.tensor.numel()) * int(view.tensor.element_size()), view.stop - view.start)


def _place(views: Sequence[_View], put: Callable[[Any], int], places: dict[int, tuple[int, int]]) -> None:
    """Put the memory of some tensors of one storage, and note the place of each."""
    start = min(view.start for view in views) // _ALIGNMENT * _ALIGNMENT
    stop = max(view.stop for view in views)
    if stop - start <= max(_SMALL, 2 * sum(map(_num_used, views))):
        number = put(_bytes_of(views[0].storage, start, stop))
        for view in views:
            places[id(view.slot)] = (number, view.start - start)
        return
    for view in views:
        tensor = view.tensor.contiguous()
        offset = tensor.storage_offset() * tensor.element_size()
        size = tensor.numel() * tensor.element_size()
        places[id(view.slot)] = (put(_bytes_of(tensor.untyped_storage(), offset, offset + size)), -1)


def _bytes_of(storage: Any, start: int, stop: int) -> Any:
    """The memory as an array, which keeps it alive."""
    import torch

    return torch.empty(0, dtype=torch.uint8).set_(storage, start, (stop - start,), (1,)).numpy()


def collector(buffers: list[Any], tensors: Tensors) -> Callable[[pickle.PickleBuffer], bool]:
    """Return a function for pickle that collects large buffers, and the places of tensors."""

    def collect(buffer: pickle.PickleBuffer) -> bool:
        """Return true to make pickle write it into the stream."""
        if not tensors.has(buffer):
            try:
                if buffer.raw().nbytes < LARGE:
                    return True
            except BufferError:  # it is not contiguous: pickle reports that
                return True
        buffers.append(buffer)
        return False

    return collect


def split_table(head: bytes) -> tuple[bytes, memoryview]:
    """Return the table and the pickle stream of a head that has both."""
    stop = 4 + int.from_bytes(head[:4], "little")
    return head[4:stop], memoryview(head)[stop:]


def with_places(table: bytes, buffers: Sequence[Any]) -> list[Any]:
    """Return the buffers that the pickle stream refers to, in order: for a tensor, its memory and its place there."""
    places, small = marshal.loads(table)
    memories: dict[int, _Memory] = {}
    found: list[Any] = []
    for place in places:
        if type(place) is int:
            found.append(buffers[place])
            continue
        number, offset = place
        if number not in memories:
            memories[number] = _Memory(buffers[number] if number >= 0 else bytearray(small[-1 - number]))
        found.append((memories[number], offset))
    return found


class _Memory:
    """Memory that has arrived, and its storage."""

    __slots__ = ("_buffer", "_storage")

    def __init__(self, buffer: Any) -> None:
        self._buffer = buffer
        self._storage: Any = None

    def storage(self, torch: Any) -> Any:
        if self._storage is None:
            buffer, self._buffer = self._buffer, None
            if memoryview(buffer).readonly:
                buffer = bytearray(buffer)
            self._storage = torch.frombuffer(buffer, dtype=torch.uint8).untyped_storage()
        return self._storage


def _make_tensor(
    place: tuple[_Memory, int] | None,
    dtype: str,
    shape: tuple[int, ...],
    stride: tuple[int, ...],
    requires_grad: bool,
    attributes: dict[str, Any] | None,
) -> Any:
    import torch

    kind = getattr(torch, dtype)
    if place is None:
        tensor: Any = torch.empty_strided(shape, stride, dtype=kind)
    else:
        memory, offset = place
        tensor = torch.frombuffer(_ELEMENT, dtype=kind)  # ``torch.empty`` warns of some dtypes
        if offset < 0:
            tensor.set_(memory.storage(torch), 0, shape, _contiguous(shape))
        else:
            tensor.set_(memory.storage(torch), offset // tensor.element_size(), shape, stride)
    if attributes is not None:
        tensor.__dict__.update(attributes)
    return tensor.requires_grad_() if requires_grad else tensor


def _contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(math.prod(shape[dim + 1 :]) for dim in range(len(shape)))


def _parts_of_sparse(tensor: Any, torch: Any) -> tuple[Any, ...] | None:
    """The dense tensors of a sparse one, values last; ``None`` if it is not sparse."""
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
    """Rebuild a sparse tensor as torch does, without keeping it forever for the checks of ``torch.load``."""
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


def _make_storage(tensor: Any) -> Any:
    return tensor.untyped_storage()
