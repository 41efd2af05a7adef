"""The way of a batch to a CUDA device: through page-locked memory that is used again, on a stream of its own.

What torch guarantees, and what is left to do here:

- A copy from memory that is not page-locked is done by the host: the calling thread waits for everything before it on
  the stream, and for the copy. So each tensor is copied to page-locked memory first, and the device fetches it from
  there while the host does something else. Allocating such memory takes milliseconds and stops the device, so it is
  kept (`Staging`) and guarded by an event: it is written again only once the device has fetched what is in it.
  With two of them, one is filled while the device reads the other.
- The current stream and the current device belong to a thread. Both are set for the time of a move and set back.
- The caching allocator gives a freed block to the next who allocates on the same stream, without waiting: on one stream
  that is right, since work is done in order. Tensors made here belong to the mover's stream, and are used on another.
  Who uses them there must first make that stream wait for `Moved.event`, and must tell the allocator
  (`Tensor.record_stream`), or a block would be filled with the next batch while the work on this one is still queued.
- A tensor that is page-locked already is fetched from where it is. Its owner may overwrite it, so he must not be let
  run before the event has come: `Moved.is_borrowing`.
"""

from collections import deque
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ._nested import map_leaves

__all__ = ["Moved", "Mover", "Staging", "record_use"]

T = TypeVar("T")

#: Tensors begin at multiples of this: what cudaMalloc aligns to, and enough for every dtype.
_ALIGNMENT = 256
#: Least page-locked memory to ask for at once: asking costs the same for a label as for this.
_LEAST = 1 << 20


class Staging:
    """Page-locked memory for one batch at a time. It grows to what the largest batch needed.

    For one thread at a time.
    """

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._slabs: list[Any] = []  # one-dimensional, uint8; several only while it grows
        self._num_used = 0  # bytes of the last slab
        self._fetched: Any = None  # event: the device has read what is in here

    def begin(self) -> None:
        """Wait until what is in here has been fetched, and start anew. Does not hold the GIL."""
        if self._fetched is not None:
            self._fetched.synchronize()
            self._fetched = None
        if len(self._slabs) > 1:
            total = sum(len(slab) for slab in self._slabs)
            self._slabs = []  # before the next is made
            self._slabs = [self._allocate(total)]
        self._num_used = 0

    def put(self, tensor: Any) -> Any:
        """A copy of a dense tensor in here, with the strides that torch would give a copy."""
        num_bytes = tensor.numel() * tensor.element_size()
        num_taken = -(-num_bytes // _ALIGNMENT) * _ALIGNMENT
        if not self._slabs or self._num_used + num_taken > len(self._slabs[-1]):
            self._slabs.append(self._allocate(max(num_taken, _LEAST)))
            self._num_used = 0
        start, self._num_used = self._num_used, self._num_used + num_taken
        flat = self._slabs[-1][start : start + num_bytes].view(tensor.dtype)
        if tensor.is_contiguous():
            strides = tensor.stride()
        else:  # channels last stays so; gaps and overlaps go
            strides = self._torch.empty_like(tensor, device="meta").stride()
        return flat.as_strided(tensor.shape, strides).copy_(tensor)

    def end(self, event: Any) -> None:
        """Say which event means that everything has been fetched."""
        self._fetched = event

    def _allocate(self, num_bytes: int) -> Any:
        # Not where the caller's default device is, and not as an inference tensor, which could be written in inference
        # mode only.
        with self._torch.inference_mode(False):
            return self._torch.empty(num_bytes, dtype=self._torch.uint8, device="cpu", pin_memory=True)


@dataclass(frozen=True, slots=True)
class Moved(Generic[T]):
    """A batch on its way.

    Attributes:
        batch: The batch, with tensors on the device, whose contents arrive later.
        tensors: Those of them that were made for it.
        event: All has arrived, and nothing reads the source any more.
        is_borrowing: Until then the source must not be changed: some of it is fetched from where it is.
    """

    batch: T
    tensors: list[Any]
    event: Any
    is_borrowing: bool


class Mover:
    """Moves batches to one device, on a stream of its own. For one thread at a time.

    Args:
        torch: The module.
        device: A ``torch.device`` of type ``"cuda"``, with its index.
        stagings: What is free to be used, the one that is to be used next first. Several movers may share it.

    Attributes:
        device: As given.
        stream: Where it copies, and whose memory the moved tensors are.
    """

    def __init__(self, torch: Any, device: Any, stagings: deque[Staging]) -> None:
        self._torch = torch
        self.device = device
        self.stream = torch.cuda.Stream(device)
        self._stagings = stagings
        self._whole = (torch.Tensor, torch.nn.utils.rnn.PackedSequence)

    def move(self, batch: T) -> Moved[T]:
        """Start to move a batch, and return at once. Waits only until the next staging memory has been fetched.

        CPU tensors are moved, the same one once, however often it is in the batch. What cannot be copied as plain
        memory (sparse, nested, quantized, of a subclass, or part of a graph of autograd) goes as ``Tensor.to`` does it.
        Everything else stays as it is: tensors of other devices, meta tensors, arrays.

        Raises:
            Exception: Whatever torch or a container of the batch raises. Then nothing reads the batch any more.
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
                moved = leaf if leaf.is_cuda else leaf.to(self.device)  # packed: its lengths stay on the CPU
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

        # Out of reach while it is used: for other movers, and for containers that run code when they are copied.
        try:
            staging = self._stagings.popleft()
        except IndexError:
            staging = Staging(torch)
        with torch.cuda.device(self.device), torch.cuda.stream(self.stream):
            try:
                staging.begin()
                result = map_leaves(move, batch, whole=self._whole)
                event = torch.cuda.Event(blocking=True)  # who waits for it sleeps; without, he spins
                event.record(self.stream)
                staging.end(event)
            except BaseException:
                self.stream.synchronize()
                raise
            finally:
                self._stagings.append(staging)
        return Moved(result, [tensor for _, tensor in made.values()], event, is_borrowing)


def record_use(tensors: list[Any], stream: Any) -> list[Any]:
    """Tell the allocator that tensors are used on another stream than they were made on.

    Returns:
        Those of which torch cannot be told, such as quantized ones: their memory is to be kept alive in another way.
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
    """The tensors that hold the memory of one: of a sparse or packed one, its parts."""
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
    """Whether a tensor is nothing but memory, so that copying the memory copies the tensor."""
    return (
        type(tensor) is torch.Tensor
        and tensor.layout is torch.strided
        and not tensor.is_nested  # first: it has no shape
        and not tensor.is_quantized
        and not tensor.requires_grad
        and tensor.numel() > 0
    )
