"""``transfer_tensor_h2d`` and ``transfer_tensor_d2h``: move the tensors of a nested batch to a CUDA device and back."""

import threading
import warnings
from collections import deque
from typing import TYPE_CHECKING, Any, TypeVar

from ._cuda import check_device_index, get_torch, local_device
from ._staging import Mover, Staging, map_leaves, record_use

if TYPE_CHECKING:
    import torch

T = TypeVar("T")


class _PerThread(threading.local):
    """Per-thread state of transfers, by device: streams, and results that are kept alive."""

    def __init__(self) -> None:
        self.movers: dict[int, Mover] = {}
        self.kept: dict[int, deque[Any]] = {}
        self.streams_back: dict[int, Any] = {}


_PER_THREAD = _PerThread()
#: Free page-locked memory. It grows to the largest number of concurrent transfers, not to the number of threads.
_STAGINGS: deque[Staging] = deque()


def transfer_tensor_h2d(batch: T, /, *, num_caches: int = 4) -> T:
    """Move the CPU tensors of a batch to this process's CUDA device: ``cuda:$LOCAL_RANK``, or ``cuda:0`` if not set.

    They may be nested in lists, tuples, named tuples, mappings and dataclasses. Each is copied to page-locked memory,
    which is reused by later calls, and from there to the device, on a stream of the calling thread. Called in
    a separate thread (as the ``transfer_fn`` of a ``DataLoader``, or as a stage of a pipeline), it overlaps with the
    consumer's work on the device.

    .. code-block:: python

        loader = DataLoader(paths, preprocessor=load, batch_size=32, aggregator=stack, transfer_fn=transfer_tensor_h2d)

    Args:
        batch: Any nesting of tensors and other values.
        num_caches: Number of this thread's latest results to keep alive. It matters if results are used on a stream
            other than the default one. Their memory belongs to the transfer's stream: once a result is dropped, the
            next one may overwrite it, even if the consumer's stream is still using it. Keep at least as many results as
            there are batches between this call and the end of that work. ``prefetch_to_device`` needs no such number,
            because it knows the consumer's stream.

    Returns:
        The same nesting, with tensors whose copy is complete. Parts without CPU tensors are the same objects. A tensor
        that occurs twice in the batch is moved once.

    Raises:
        DeviceError: The device does not exist, or CUDA is not available; a ``RuntimeError``.
        ValueError: ``num_caches`` is negative, or ``LOCAL_RANK`` is not an integer.

    Safe to call from several threads. Releases the GIL while it copies and waits.
    """
    if num_caches < 0:
        raise ValueError(f"num_caches must be >= 0, got {num_caches}")
    device = local_device("transfer tensors")
    mover = _PER_THREAD.movers.get(device.index)
    if mover is None:
        mover = _PER_THREAD.movers[device.index] = Mover(get_torch(), device, _STAGINGS)
    moved = mover.move(batch)
    record_use(moved.tensors, get_torch().cuda.default_stream(device))  # type: ignore[union-attr]
    moved.event.synchronize()
    kept = _PER_THREAD.kept.get(device.index)
    if kept is None or kept.maxlen != num_caches:
        kept = _PER_THREAD.kept[device.index] = deque(kept or (), num_caches)
    kept.append(moved.batch)
    return moved.batch


def transfer_tensor(batch: T, /, *, num_caches: int = 4) -> T:
    """Deprecated name of :func:`transfer_tensor_h2d`."""
    warnings.warn("transfer_tensor is deprecated: use transfer_tensor_h2d", FutureWarning, stacklevel=2)
    return transfer_tensor_h2d(batch, num_caches=num_caches)


def transfer_tensor_d2h(
    batch: T,
    /,
    *,
    device: "torch.device | str | None" = None,
    stream: "torch.cuda.Stream | None" = None,
    producer_event: "torch.cuda.Event | None" = None,
) -> T:
    """Move the tensors of a batch from a CUDA device to page-locked memory of the CPU.

    .. code-block:: python

        event = torch.cuda.current_stream().record_event()  # where the scores are computed
        future = executor.submit(transfer_tensor_d2h, {"scores": scores}, producer_event=event)

    Args:
        batch: Any nesting of tensors and other values.
        device: Device whose tensors are moved. ``None``: ``cuda:$LOCAL_RANK``, or ``cuda:0`` if not set; ``"cuda"``:
            the current device.
        stream: Stream for the copies. ``None``: a stream of the calling thread.
        producer_event: Event to wait for before copying. ``None``: all work queued so far on the calling thread's
            current stream, which is correct only if this thread computes the tensors.

    Returns:
        The same nesting, with tensors whose copy is complete. They stay page-locked, which is a limited resource. Parts
        without tensors of that device are the same objects. Without CUDA: ``batch``.

    Raises:
        ValueError: ``stream`` is given without ``device``, or belongs to another device; ``device`` is not CUDA; or
            ``LOCAL_RANK`` is not an integer.
        DeviceError: The device does not exist; a ``RuntimeError``.

    Safe to call from several threads. Releases the GIL while it waits.
    """
    if stream is not None and device is None:
        raise ValueError("device must be given with stream: the device of the stream")
    torch = get_torch()
    if torch is None:
        return batch
    if device is not None and (device := torch.device(device)).type != "cuda":
        raise ValueError(f"device must be a CUDA device, got {device}")
    if not torch.cuda.is_available():
        return batch
    source = _with_index(torch, device)
    if stream is not None and stream.device != source:
        raise ValueError(f"stream must be on the source device {source}, got a stream on {stream.device}")
    if producer_event is None:
        producer_event = torch.cuda.current_stream(source).record_event()
    if stream is None:
        stream = _PER_THREAD.streams_back.get(source.index)
        if stream is None:
            stream = _PER_THREAD.streams_back[source.index] = torch.cuda.Stream(source)
    return _copy_back(torch, batch, source, stream, producer_event)


def _with_index(torch: Any, device: Any) -> Any:
    if device is None:
        return local_device("transfer tensors")
    if device.index is None:
        return torch.device("cuda", torch.cuda.current_device())
    check_device_index(device.index, "transfer tensors")
    return device


def _copy_back(torch: Any, batch: T, device: Any, stream: Any, producer_event: Any) -> T:
    made: dict[int, tuple[Any, Any]] = {}  # by identity of the source, which is kept with it

    def move(leaf: Any) -> Any:
        if not isinstance(leaf, whole) or _device_of(leaf) != device:
            return leaf
        if id(leaf) not in made:
            if not made:
                stream.wait_event(producer_event)
            # torch allocates page-locked memory for a non-blocking copy to the CPU.
            made[id(leaf)] = leaf, leaf.to("cpu", non_blocking=True)
        return made[id(leaf)][1]

    whole = (torch.Tensor, torch.nn.utils.rnn.PackedSequence)
    with torch.cuda.device(device), torch.cuda.stream(stream):
        try:
            return map_leaves(move, batch, whole=whole)
        finally:
            # Wait also after an exception: pending copies still use the memory that is about to be released.
            if made:
                stream.synchronize()


def _device_of(leaf: Any) -> Any:
    return leaf.data.device if hasattr(leaf, "batch_sizes") else leaf.device
