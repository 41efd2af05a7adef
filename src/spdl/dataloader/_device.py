"""``prefetch_to_device``: the batches of a loader, on a CUDA device before they are asked for."""

import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from spdl.io import DeviceError
from spdl.io._cuda import check_device_index, get_torch, local_device

from ._prefetching import Ahead, Movers

if TYPE_CHECKING:
    import torch

__all__ = ["DeviceLoader", "prefetch_to_device"]

T = TypeVar("T")

_ACTION = "prefetch batches"


def prefetch_to_device(
    loader: Iterable[T], *, device: "torch.device | str | None" = None, num_prefetch: int = 2
) -> "DeviceLoader[T]":
    """Have the batches of a loader moved to a CUDA device by a thread, ahead of the consumer.

    .. code-block:: python

        for images, labels in prefetch_to_device(loader):  # CUDA tensors; on a machine without a GPU, as they come
            loss = train(images, labels)

    Tensors may be anywhere in lists, tuples, named tuples, mappings and dataclasses. They are ready for use on the
    stream that is current where the iterator is asked for the batch, and may be dropped at any time; neither the
    consumer nor its stream's earlier work is waited for. To use them on a stream of your own, have that wait for the
    current one, and call ``Tensor.record_stream``, as for any tensor.

    Args:
        loader: Any iterable of batches. ``iter()`` is called in the consumer's thread, ``next()`` in a thread made for
            it, and so is what a generator among them does. It may write to a batch again once it is asked for the next
            one.
        device: Where to; ``None``: ``cuda:$LOCAL_RANK``, without it the current CUDA device, and if there is no CUDA,
            nowhere. Nowhere, and ``"cpu"``: batches are passed on as they are, in the consumer's thread.
        num_prefetch: How many batches to be ahead: so many are on the device besides those that the consumer holds.
            Page-locked memory for two batches is kept as long as the result.

    Raises:
        ValueError: ``num_prefetch`` is less than 1, or ``device`` is neither a CUDA device nor the CPU.
        DeviceError: On iteration: there is no such device; a ``RuntimeError``.
    """
    return DeviceLoader(loader, device=device, num_prefetch=num_prefetch)


class DeviceLoader(Generic[T]):
    """A loader whose batches are on a device. Made by :func:`prefetch_to_device`, which takes the same arguments.

    Each ``iter()`` is an epoch with a thread of its own, and several may be under way at once. The thread ends when the
    iterator is exhausted, left with ``break``, closed with ``close()``, or collected. An exception of the loader is
    raised where its batch would have come; the iterator goes on after it if that of the loader does.
    What else one asks of it, its length included, is asked of the loader. It pickles if the loader does.

    Attributes:
        loader: As given; likewise ``device``, ``num_prefetch``.
    """

    def __init__(
        self, loader: Iterable[T], *, device: "torch.device | str | None" = None, num_prefetch: int = 2
    ) -> None:
        if isinstance(num_prefetch, bool) or not isinstance(num_prefetch, int):
            raise TypeError(f"num_prefetch must be an int, got {num_prefetch!r}")
        if num_prefetch < 1:
            raise ValueError(f"num_prefetch must be >= 1, got {num_prefetch}")
        kind = None if device is None else str(device).partition(":")[0]
        if kind not in (None, "cpu", "cuda"):
            raise ValueError(f"device must be a CUDA device, or the CPU, got {device!r}")
        self.loader = loader
        self.device = device
        self.num_prefetch = num_prefetch
        self._movers = Movers()

    def __iter__(self) -> Iterator[T]:
        where = _find_device(self.device)
        if where is None:
            return iter(self.loader)
        return Ahead(self.loader, self._movers, where, self.num_prefetch)

    def __len__(self) -> int:
        """That of the loader.

        Raises:
            TypeError: It has none.
        """
        return len(self.loader)  # type: ignore[arg-type] # it may have none: that is the TypeError

    def __bool__(self) -> bool:
        return True  # not a question of length, which it may not have

    def __repr__(self) -> str:
        return f"<{type(self).__name__} over {self.loader!r}>"

    def set_epoch(self, epoch: int) -> None:
        """Tell the loader which epoch comes next, if it wants to know."""
        tell = getattr(self.loader, "set_epoch", None)
        if callable(tell):
            tell(epoch)

    def __getattr__(self, name: str) -> Any:
        # Only for what is not here. While it is unpickled or copied, nothing is.
        if name == "loader" or (name.startswith("__") and name.endswith("__")):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.loader, name)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_movers": Movers()}  # streams stay here


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
        check_device_index(0, _ACTION)  # says what is missing
        raise DeviceError(f"cannot {_ACTION} to {device}: torch finds no GPU", action=_ACTION)
    if "LOCAL_RANK" in os.environ and device is None:
        return local_device(_ACTION)
    return torch.device("cuda", torch.cuda.current_device())
