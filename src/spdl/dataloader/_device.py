"""``prefetch_to_device``: move the batches of a loader to a CUDA device ahead of the consumer."""

import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from spdl._numbers import as_positive_int
from spdl.io import DeviceError
from spdl.io._devices._cuda import check_device_index, get_torch, local_device

from ._prefetching import Movers, PrefetchingIterator

if TYPE_CHECKING:
    import torch

T = TypeVar("T")

_ACTION = "prefetch batches"
_STATE_METHODS = ("state_dict", "load_state_dict")


def prefetch_to_device(
    loader: Iterable[T], *, device: "torch.device | str | None" = None, num_prefetch: int = 2
) -> "DeviceLoader[T]":
    """Wrap a loader so that its batches are moved to a CUDA device in a thread, ahead of the consumer.

    .. code-block:: python

        for images, labels in prefetch_to_device(loader):  # CUDA tensors; without a GPU, unchanged
            loss = train(images, labels)

    Tensors may be nested in lists, tuples, named tuples, mappings and dataclasses. They are ready for use on the stream
    that is current when the consumer calls ``next``, and may be dropped at any time; the copies wait neither for the
    consumer nor for earlier work on its stream. To use the tensors on another stream, make it wait for the current
    stream and call ``Tensor.record_stream``, as for any tensor.

    Args:
        loader: Iterable of batches. ``iter()`` is called in the consumer's thread. ``next()`` is called in the
            prefetching thread, so the code of a generator runs there. The loader may overwrite a batch when ``next()``
            is called for the next one.
        device: Target device; ``None``: ``cuda:$LOCAL_RANK`` if that variable is set, otherwise the current CUDA
            device, or the CPU if there is no CUDA. For the CPU, batches are returned unchanged, and loaded in the
            consumer's thread.
        num_prefetch: Number of batches to prefetch; they are on the device in addition to those that the consumer
            holds. The returned loader also keeps page-locked memory for two batches.

    Raises:
        ValueError: ``num_prefetch`` is less than 1, or ``device`` is neither a CUDA device nor the CPU.
        DeviceError: While iterating: the device does not exist; a ``RuntimeError``.
    """
    return DeviceLoader(loader, device=device, num_prefetch=num_prefetch)


class DeviceLoader(Generic[T]):
    """A loader whose batches are on a device. Made by :func:`prefetch_to_device`, which takes the same arguments.

    Each ``iter()`` begins an epoch with its own thread, and several may run at once. The thread ends when the
    iterator is exhausted, left with ``break``, closed with ``close()``, or collected. An exception of the loader is
    raised in place of its batch; the iterator continues after it if the loader's iterator does.
    All other attributes, including the length, are those of the loader. It is picklable if the loader is.

    ``state_dict()`` and ``load_state_dict()`` are also those of the loader. With the loaders of SPDL, a ``Pipeline``,
    and ``run_pipeline_in_subprocess(..., resumable=True)``, batches that were prefetched but not returned do not count
    as taken.

    Attributes:
        loader: The loader. ``device`` and ``num_prefetch`` are attributes too.
    """

    def __init__(
        self, loader: Iterable[T], *, device: "torch.device | str | None" = None, num_prefetch: int = 2
    ) -> None:
        num_prefetch = as_positive_int("num_prefetch", num_prefetch)
        kind = None if device is None else str(device).partition(":")[0]
        if kind not in (None, "cpu", "cuda"):
            raise ValueError(f"device must be a CUDA device, or the CPU, got {device!r}")
        self.loader = loader
        self.device = device
        self.num_prefetch = num_prefetch
        self._movers = Movers()
        self._pass_on_states()

    def _pass_on_states(self) -> None:
        # Attributes of the instance, because some checks, such as ``isinstance`` with a protocol, do not call
        # ``__getattr__``.
        for name in _STATE_METHODS:
            method = getattr(self.loader, name, None)
            if callable(method):
                setattr(self, name, method)

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._pass_on_states()

    def __iter__(self) -> Iterator[T]:
        where = _find_device(self.device)
        if where is None:
            return iter(self.loader)
        return PrefetchingIterator(self.loader, self._movers, where, self.num_prefetch)

    def __len__(self) -> int:
        """Length of the loader.

        Raises:
            TypeError: The loader has no length.
        """
        return len(self.loader)  # type: ignore[arg-type] # it may have none: that is the TypeError

    def __bool__(self) -> bool:
        return True  # without this, bool() would need the length, which the loader may not have

    def __repr__(self) -> str:
        return f"<{type(self).__name__} over {self.loader!r}>"

    def set_epoch(self, epoch: int) -> None:
        """Call ``set_epoch`` of the loader, if it has one."""
        tell = getattr(self.loader, "set_epoch", None)
        if callable(tell):
            tell(epoch)

    def __getattr__(self, name: str) -> Any:
        # Called only for attributes that are missing here; during unpickling and copying that is all of them.
        if name == "loader" or (name.startswith("__") and name.endswith("__")):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.loader, name)

    def __getstate__(self) -> dict[str, Any]:
        own = {key: value for key, value in vars(self).items() if key not in _STATE_METHODS}
        return {**own, "_movers": Movers()}  # CUDA streams cannot be pickled


def _find_device(device: "torch.device | str | None") -> Any | None:
    """The ``torch.device`` with its index; ``None`` for the CPU."""
    if device is not None and str(device) != "cuda":
        kind, _, text = str(device).partition(":")
        if kind == "cpu":
            return None
        if not text.isdecimal():
            raise ValueError(f"device must be a CUDA device such as 'cuda:0', or the CPU, got {device!r}")
        return check_device_index(int(text), _ACTION).device("cuda", int(text))
    torch = get_torch()
    if torch is None or not torch.cuda.is_available():
        if device is None:
            return None
        check_device_index(0, _ACTION)  # the error names the missing part
        raise DeviceError(f"cannot {_ACTION} to {device}: torch finds no GPU", action=_ACTION)
    if "LOCAL_RANK" in os.environ and device is None:
        return local_device(_ACTION)
    return torch.device("cuda", torch.cuda.current_device())
