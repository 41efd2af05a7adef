"""Move batches to a CUDA device through reused page-locked memory, on a separate stream.

What torch guarantees, and what this module adds:

- A copy from pageable memory is done by the host: the calling thread waits for all earlier work on the stream, and for
  the copy. So each tensor is first copied to page-locked memory, from which the device reads it asynchronously.
  Allocating page-locked memory takes milliseconds and synchronises the device, so it is kept (`Staging`) and guarded by
  an event: it is overwritten only after the device has read it. With two of them, one is filled while the device reads
  the other.
- The current stream and the current device belong to a thread. Both are set during a move and restored after it.
- The caching allocator reuses a freed block for the next allocation on the same stream, without waiting. On one stream
  that is correct, since work is done in order. Tensors made here belong to the mover's stream, but are used on another.
  The consumer must first make that stream wait for `Moved.event`, and must tell the allocator
  (`Tensor.record_stream`); otherwise a block could be filled with the next batch while work on this one is queued.
- A tensor that is already page-locked is read in place. Its owner must not overwrite it before the event is complete:
  see `Moved.is_borrowing`.
"""

import copy
from collections import deque
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")

#: Tensors start at multiples of this: the alignment of cudaMalloc, and enough for every dtype.
_ALIGNMENT = 256
#: Smallest allocation of page-locked memory; smaller ones take just as long.
_MIN_ALLOCATION = 1 << 20
_UNSET: Any = object()


class Staging:
    """Page-locked memory for one batch at a time. It grows to the size of the largest batch. Not thread-safe."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._slabs: list[Any] = []  # one-dimensional, uint8; several only while it grows
        self._num_used = 0  # bytes of the last slab
        self._fetched: Any = None  # event: the device has read the contents

    def begin(self) -> None:
        """Wait until the device has read the contents, and start with empty memory. Releases the GIL."""
        if self._fetched is not None:
            self._fetched.synchronize()
            self._fetched = None
        if len(self._slabs) > 1:
            total = sum(len(slab) for slab in self._slabs)
            self._slabs = []  # freed before the next allocation
            self._slabs = [self._allocate(total)]
        self._num_used = 0

    def put(self, tensor: Any) -> Any:
        """Copy a dense tensor to this memory, with the strides that torch would give a copy."""
        num_bytes = tensor.numel() * tensor.element_size()
        num_taken = -(-num_bytes // _ALIGNMENT) * _ALIGNMENT
        if not self._slabs or self._num_used + num_taken > len(self._slabs[-1]):
            self._slabs.append(self._allocate(max(num_taken, _MIN_ALLOCATION)))
            self._num_used = 0
        start, self._num_used = self._num_used, self._num_used + num_taken
        flat = self._slabs[-1][start : start + num_bytes].view(tensor.dtype)
        if tensor.is_contiguous():
            strides = tensor.stride()
        else:  # channels_last is kept; gaps and overlaps are removed
            strides = self._torch.empty_like(tensor, device="meta").stride()
        return flat.as_strided(tensor.shape, strides).copy_(tensor)

    def end(self, event: Any) -> None:
        """Set the event that is complete when the device has read everything."""
        self._fetched = event

    def _allocate(self, num_bytes: int) -> Any:
        # Not on the caller's default device, and not as an inference tensor, which can be written only in inference
        # mode.
        with self._torch.inference_mode(False):
            return self._torch.empty(num_bytes, dtype=self._torch.uint8, device="cpu", pin_memory=True)


@dataclass(frozen=True, slots=True)
class Moved(Generic[T]):
    """A batch in flight.

    Attributes:
        batch: The batch, with tensors on the device, whose contents arrive later.
        tensors: The tensors that were allocated for it.
        event: Complete when all contents have arrived and the source is no longer read.
        is_borrowing: Whether the source must not be changed before the event, because part of it is read in place.
    """

    batch: T
    tensors: list[Any]
    event: Any
    is_borrowing: bool


class Mover:
    """Moves batches to one device, a ``torch.device`` with its index, on its own stream. Not thread-safe.

    ``stagings``: queue of free staging memory, next one first; several movers may share it. The memory of moved tensors
    belongs to ``stream``, on which they are copied.
    """

    def __init__(self, torch: Any, device: Any, stagings: deque[Staging]) -> None:
        self._torch = torch
        self.device = device
        self.stream = torch.cuda.Stream(device)
        self._stagings = stagings
        self._whole = (torch.Tensor, torch.nn.utils.rnn.PackedSequence)

    def move(self, batch: T) -> Moved[T]:
        """Start to move a batch, and return without waiting for the copy. Waits only for free staging memory.

        CPU tensors are moved; a tensor that occurs several times is moved once. Tensors that cannot be copied as plain
        memory (sparse, nested, quantized, of a subclass, or part of an autograd graph) are moved with ``Tensor.to``.
        Everything else is unchanged: tensors on other devices, meta tensors, arrays.

        Raises:
            Exception: Any exception of torch or a container of the batch. After that, the batch is no longer read.
        """
        torch = self._torch
        made: dict[int, tuple[Any, Any]] = {}  # by identity of the source, which is kept with it
        is_borrowing = False

        def move(leaf: Any) -> Any:
            nonlocal is_borrowing
            if not isinstance(leaf, self._whole):
                return leaf
            if id(leaf) in made:
                return made[id(leaf)][1]
            if not isinstance(leaf, torch.Tensor):
                moved = leaf if leaf.is_cuda else leaf.to(self.device)  # a packed sequence: lengths stay on the CPU
            elif leaf.device.type != "cpu":
                return leaf
            elif not _is_plain(torch, leaf):
                moved = leaf.to(self.device)
            elif leaf.is_pinned():
                is_borrowing = True
                moved = leaf.to(self.device, non_blocking=True)
            else:
                moved = staging.put(leaf).to(self.device, non_blocking=True)
            made[id(leaf)] = leaf, moved
            return moved

        # Taken from the queue while in use, so that neither other movers nor containers that run code when they are
        # copied can use it.
        try:
            staging = self._stagings.popleft()
        except IndexError:
            staging = Staging(torch)
        with torch.cuda.device(self.device), torch.cuda.stream(self.stream):
            try:
                staging.begin()
                result = map_leaves(move, batch, whole=self._whole)
                event = torch.cuda.Event(blocking=True)  # waiting sleeps instead of spinning
                event.record(self.stream)
                staging.end(event)
            except BaseException:
                self.stream.synchronize()
                raise
            finally:
                self._stagings.append(staging)
        return Moved(result, [tensor for _, tensor in made.values()], event, is_borrowing)


def record_use(tensors: list[Any], stream: Any) -> list[Any]:
    """Tell the allocator that tensors are used on another stream than the one they were made on.

    Returns:
        Tensors that torch cannot record, such as quantized ones: the caller must keep them alive itself.
    """
    untold = []
    for tensor in tensors:
        for part in dense_parts(tensor):
            try:
                part.record_stream(stream)
            except (NotImplementedError, RuntimeError):
                untold.append(part)
    return untold


def dense_parts(tensor: Any) -> list[Any]:
    """The dense tensors that hold the memory of a tensor: the parts of a sparse or packed one."""
    if hasattr(tensor, "batch_sizes"):
        return [part for part in (tensor.data, tensor.sorted_indices, tensor.unsorted_indices) if part is not None]
    layout = str(tensor.layout)
    if layout == "torch.sparse_coo":
        return [tensor._indices(), tensor._values()]
    if layout in ("torch.sparse_csr", "torch.sparse_bsr"):
        return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    if layout in ("torch.sparse_csc", "torch.sparse_bsc"):
        return [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
    return [tensor]


def _is_plain(torch: Any, tensor: Any) -> bool:
    """Whether copying the memory of a tensor copies the tensor."""
    return (
        type(tensor) is torch.Tensor
        and tensor.layout is torch.strided
        and not tensor.is_nested  # checked first, because a nested tensor has no shape
        and not tensor.is_quantized
        and not tensor.requires_grad
        and tensor.numel() > 0
    )


def map_leaves(change: Callable[[Any], Any], obj: T, *, whole: tuple[type, ...] = ()) -> T:
    """Rebuild nested containers with every leaf changed.

    Descends into lists, tuples, named tuples, mappings (dict, defaultdict, ``UserDict`` and so on) and dataclasses,
    and subclasses of all these; everything else is a leaf: strings, sets, arrays. Keys are not changed.

    Args:
        change: Function of a leaf, called in order; its result replaces the leaf.
        obj: The nested containers. They are not modified.
        whole: Types that are leaves even if they are containers.

    Returns:
        ``obj`` itself if every leaf stayed the same object; this also holds for each nested container. Otherwise
        copies of the containers, of the same types, with their attributes, default factories and so on. A copied
        dataclass is not initialised again: ``__post_init__`` does not run.

    Raises:
        TypeError: A container with changed leaves can be neither modified nor rebuilt from its items.
    """
    if isinstance(obj, whole):
        return change(obj)  # type: ignore[no-any-return]
    if isinstance(obj, list | tuple):
        old = list(obj)
        new = [map_leaves(change, value, whole=whole) for value in old]
        if all(value is other for value, other in zip(old, new, strict=True)):
            return obj
        return _sequence_like(obj, new)  # type: ignore[no-any-return]
    if isinstance(obj, Mapping):
        changed = _changed(change, list(obj.items()), whole)
        return _mapping_like(obj, changed) if changed else obj
    if is_dataclass(obj) and not isinstance(obj, type):
        # A slot may be unset.
        values = [(field.name, getattr(obj, field.name, _UNSET)) for field in fields(obj)]
        changed = _changed(change, [(name, value) for name, value in values if value is not _UNSET], whole)
        if not changed:
            return obj
        copied = copy.copy(obj)
        for name, value in changed.items():
            object.__setattr__(copied, name, value)  # works if frozen too; nothing else refers to the copy yet
        return copied
    return change(obj)  # type: ignore[no-any-return]


def _changed(change: Callable[[Any], Any], items: list[tuple[Any, Any]], whole: tuple[type, ...]) -> dict[Any, Any]:
    results = ((key, value, map_leaves(change, value, whole=whole)) for key, value in items)
    return {key: result for key, value, result in results if result is not value}


def _sequence_like(obj: Any, values: list[Any]) -> Any:
    if type(obj) is list:
        return values
    if type(obj) is tuple:
        return tuple(values)
    if isinstance(obj, list):
        copied = copy.copy(obj)
        copied[:] = values
        return copied
    if hasattr(obj, "_make") and hasattr(obj, "_fields"):
        return obj._make(values)
    return _rebuilt(obj, values)


def _mapping_like(obj: Any, changed: dict[Any, Any]) -> Any:
    if type(obj) is dict:
        return {**obj, **changed}
    if not isinstance(obj, MutableMapping):
        return _rebuilt(obj, {**obj, **changed})
    copied = copy.copy(obj)
    if copied is obj:
        raise TypeError(f"cannot change the values of {type(obj).__qualname__}: copy.copy returns the object itself")
    for key, value in changed.items():
        copied[key] = value
    return copied


def _rebuilt(obj: Any, content: Any) -> Any:
    """Rebuild an immutable container from its items, and check that the constructor took them as items."""
    reason = "its constructor does not take them as items"
    try:
        made = type(obj)(content)
        found = list(made.values()) if isinstance(content, dict) else list(made)
    except TypeError as exc:
        reason = str(exc)
    else:
        wanted = list(content.values()) if isinstance(content, dict) else content
        if len(found) == len(wanted) and all(one is other for one, other in zip(found, wanted, strict=True)):
            return made
    raise TypeError(
        f"cannot make another {type(obj).__qualname__} with other values: it cannot be rebuilt from its items"
        f" ({reason}). Use a named tuple, a dataclass or a dict."
    )
