"""CUDA through torch: its devices, what of it is missing, and ``CUDABuffer``: arrays in device memory."""

import ctypes
import importlib
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from spdl._numbers import as_int
from spdl.io import _native
from spdl.io._buffers import to_numpy
from spdl.io._errors import DeviceError
from spdl.io._trace import traced

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from spdl.io._native import CPUBuffer
    from spdl.io._types import LoadFailure


def get_torch() -> Any | None:
    """The torch module, or ``None`` if it is not installed."""
    try:
        return importlib.import_module("torch")
    except ModuleNotFoundError as exc:
        if exc.name != "torch":
            raise
        return None


def check_device_index(index: int, action: str, *, origin: str = "") -> Any:
    """Return the torch module if a CUDA device with this index exists. Raises ``DeviceError``, which says why not.

    ``action`` (``"transfer tensors"``) and ``origin``, that of the index, are for the message.
    """
    found = what_is_missing(index)
    if found is not None:
        raise DeviceError(f"cannot {action} to or from cuda:{index}{origin}: {found}", action=action)
    return get_torch()


def what_is_missing(index: int) -> str | None:
    """The reason why there is no CUDA device with this index, as part of a message; ``None`` if there is one."""
    torch = get_torch()
    if torch is None:
        return (
            "it needs CUDA through torch, which is not installed. Install torch for CUDA: see"
            " https://pytorch.org/get-started"
        )
    num_devices = torch.cuda.device_count()
    if 0 <= index < num_devices:
        return None
    if num_devices:
        return f"there {'is 1 device' if num_devices == 1 else f'are {num_devices} devices'}, counted from 0"
    if torch.version.cuda is None and torch.version.hip is None:
        return f"this torch ({torch.__version__}) is built without CUDA"
    return "torch finds no GPU: is there a driver, and does CUDA_VISIBLE_DEVICES name one?"


def local_device(action: str) -> Any:
    """The ``torch.device`` of this process: ``cuda:$LOCAL_RANK``, as set by launchers; ``cuda:0`` if it is not set.

    Raises:
        ValueError: ``LOCAL_RANK`` is not an integer.
        DeviceError: The device does not exist.
    """
    text = os.environ.get("LOCAL_RANK")
    try:
        rank = 0 if text is None else int(text)
    except ValueError:
        raise ValueError(
            f"the environment variable LOCAL_RANK must be an integer, the number of a GPU; got {text!r}"
        ) from None
    torch = check_device_index(rank, action, origin="" if text is None else f" (LOCAL_RANK={text})")
    return torch.device("cuda", rank)


#: Two functions: one allocates device memory, ``(num_bytes, device_index, stream) -> address``; one frees it,
#: ``(address) -> None``.
Allocator: TypeAlias = tuple[Callable[[int, int, int], int], Callable[[int], None]]

_PER_THREAD_STREAM = 0x2  # cudaStreamPerThread of the CUDA runtime


@dataclass(frozen=True, slots=True)
class CUDAConfig:
    """Device, stream and allocator. Made by :func:`cuda_config`, which documents the attributes."""

    device_index: int
    stream: int = _PER_THREAD_STREAM
    allocator: Allocator | None = None


def cuda_config(device_index: int, stream: int = _PER_THREAD_STREAM, allocator: Allocator | None = None) -> CUDAConfig:
    """Choose a CUDA device, stream and allocator. Does not access the device.

    Args:
        device_index: Index of the device.
        stream: Address of the stream for copies: ``torch.cuda.Stream().cuda_stream``, 0 for the legacy default stream,
            2 for the default stream of the calling thread.
        allocator: A pair of functions that allocate and free device memory: ``(num_bytes, device_index, stream) ->
            address`` and ``(address) -> None``, like ``torch.cuda.caching_allocator_alloc`` and
            ``caching_allocator_delete``. ``None``: torch's allocator.

    Raises:
        ValueError: A number is negative.
        TypeError: An argument has the wrong type.
    """
    device_index, stream = as_int("device_index", device_index, 0), as_int("stream", stream, 0)
    if allocator is not None:
        if not isinstance(allocator, tuple | list) or len(allocator) != 2 or not all(map(callable, allocator)):
            raise TypeError(f"allocator must be a pair of functions, to allocate and to free; got {allocator!r}")
        allocator = allocator[0], allocator[1]
    return CUDAConfig(device_index, stream, allocator)


class CUDABuffer:
    """An array in CUDA device memory, with its data already there. Made by :func:`transfer_buffer`.

    ``to_torch``, and any library that supports ``__cuda_array_interface__``, makes an array of it without a copy. The
    array keeps the buffer alive.

    Attributes:
        __cuda_array_interface__: Version 2 of Numba's CUDA array interface, C-contiguous.
        device_index: Index of the device.
        failures: Failures of a loaded batch, as in ``CPUBuffer``; otherwise empty.
        origins: Source index of each image of a loaded batch, as in ``CPUBuffer``; otherwise empty.
    """

    __slots__ = ("__cuda_array_interface__", "__weakref__", "_memory", "device_index", "failures", "origins")

    def __init__(self, memory: Any, pointer: int, shape: tuple[int, ...], typestr: str, device_index: int) -> None:
        self._memory = memory  # the object that owns the memory
        self.device_index = device_index
        self.failures: tuple[LoadFailure, ...] = ()
        self.origins: tuple[int | None, ...] = ()
        self.__cuda_array_interface__: dict[str, Any] = {
            "shape": shape,
            "typestr": typestr,
            "data": (pointer, False),
            "strides": None,
            "version": 2,
        }

    def __repr__(self) -> str:
        interface = self.__cuda_array_interface__
        return f"<CUDABuffer: {interface['shape']} {interface['typestr']} on cuda:{self.device_index}>"


class _Allocated:
    """Memory from the user's allocator, freed with the last reference."""

    def __init__(self, config: CUDAConfig, num_bytes: int) -> None:
        assert config.allocator is not None
        allocate, self._give_back = config.allocator
        self.pointer = allocate(num_bytes, config.device_index, config.stream)

    def __del__(self) -> None:
        if hasattr(self, "pointer"):
            self._give_back(self.pointer)


class _TorchMemory:
    """Memory from torch's allocator, freed with the last reference.

    The memory belongs to the stream of the copy, but is used on other streams. The thread that drops the last reference
    has usually used it on its current stream. So it is recorded there: the allocator does not reuse it before that
    stream is done.
    """

    def __init__(self, torch: Any, num_bytes: int, device: Any) -> None:
        self._torch = torch
        self._device = device
        self._tensor = torch.empty(num_bytes, dtype=torch.uint8, device=device)
        self.pointer: int = self._tensor.data_ptr()

    def __del__(self, _is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:  # `sys` may be gone at exit
        if hasattr(self, "pointer") and not _is_finalizing():
            self._tensor.record_stream(self._torch.cuda.current_stream(self._device))


def _stream_of(torch: Any, config: CUDAConfig, device: Any) -> Any:
    if config.stream in (0, 1):  # cudaStreamLegacy is 1. torch accepts neither as the address of a stream.
        return torch.cuda.default_stream(device)
    return torch.cuda.ExternalStream(config.stream, device=device)


def check_device_config(device_config: object) -> CUDAConfig:
    """Raise ``TypeError`` if the value was not made by ``cuda_config``."""
    if not isinstance(device_config, CUDAConfig):
        raise TypeError(f"device_config must be made by cuda_config(), got {type(device_config).__qualname__}")
    return device_config


def as_device(device_config: CUDAConfig | None, action: str) -> CUDAConfig | None:
    """Check the user's ``device_config`` before loading. Raises ``TypeError`` or ``DeviceError``."""
    if device_config is None:
        return None
    check_device_index(check_device_config(device_config).device_index, action, origin=", as device_config says")
    return device_config


def on_device(buffer: "CPUBuffer", device_config: CUDAConfig | None) -> "CPUBuffer | CUDABuffer":
    """Move a loaded buffer to the user's device, if there is one."""
    if device_config is None:
        return buffer
    moved = transfer_buffer(buffer, device_config=device_config)
    moved.failures = buffer.failures
    moved.origins = buffer.origins
    return moved


@traced
def transfer_buffer(buffer: "CPUBuffer | NDArray[Any]", *, device_config: CUDAConfig) -> CUDABuffer:
    """Copy a buffer or array to a CUDA device, and wait until the copy is complete.

    Args:
        buffer: Result of a ``load_*`` or ``convert_*`` function, or a C-contiguous array. Page-locked memory is copied
            by DMA.
        device_config: Target device, from ``cuda_config``.

    Returns:
        A buffer with the same shape and dtype on the device. The memory is from torch's allocator, or from
        ``device_config.allocator``.

    Raises:
        TypeError: ``buffer`` is neither a buffer nor an array, or ``device_config`` was not made by ``cuda_config``.
        ValueError: ``buffer`` is not C-contiguous.
        DeviceError: The device does not exist, or CUDA is not available.

    Releases the GIL; safe to call from several threads.
    """
    config = check_device_config(device_config)
    array = _as_array(buffer)
    torch = check_device_index(config.device_index, "transfer a buffer")
    device = torch.device("cuda", config.device_index)
    stream = _stream_of(torch, config, device)
    with torch.cuda.device(device), torch.cuda.stream(stream):
        memory: _Allocated | _TorchMemory
        if config.allocator is None:
            memory = _TorchMemory(torch, array.nbytes, device)
        else:
            memory = _Allocated(config, array.nbytes)
        if array.nbytes:
            # Copied as bytes, because torch does not have all NumPy dtypes.
            flat = CUDABuffer(memory, memory.pointer, (array.nbytes,), "|u1", config.device_index)
            target = torch.as_tensor(flat, device=device)
            try:
                target.copy_(_bytes_of(torch, array), non_blocking=True)
            finally:
                stream.synchronize()
    return CUDABuffer(memory, memory.pointer, array.shape, array.dtype.str, config.device_index)


@traced
def transfer_buffer_cpu(buffer: CUDABuffer) -> "CPUBuffer":
    """Copy a buffer from a CUDA device to the CPU, and wait until the copy is complete.

    Args:
        buffer: Result of ``transfer_buffer``, or a C-contiguous object with ``__cuda_array_interface__`` and
            ``device_index``. The copy waits for pending work on torch's current stream only.

    Returns:
        A buffer with the same shape and dtype.

    Raises:
        TypeError: ``buffer`` lacks these attributes, is not C-contiguous, or has elements other than integers and
            floats.
        DeviceError: The device does not exist, or CUDA is not available.

    Releases the GIL; safe to call from several threads.
    """
    import numpy as np

    interface = getattr(buffer, "__cuda_array_interface__", None)
    index = getattr(buffer, "device_index", None)
    if not isinstance(interface, dict) or not isinstance(index, int):
        raise TypeError(f"buffer must be a CUDABuffer, got {type(buffer).__qualname__}")
    if interface.get("strides") is not None:
        raise TypeError(f"buffer must be C-contiguous, got one with the strides {interface['strides']}")
    shape = tuple(interface["shape"])
    dtype = np.dtype(interface["typestr"])
    if dtype.kind not in "iuf" or not dtype.isnative:
        raise TypeError(f"buffer must have elements that a CPUBuffer can have, integers or floats, got {dtype}")
    torch = check_device_index(index, "transfer a buffer")
    result = _native.core.new_buffer(shape, dtype.str, None)
    array = to_numpy(result)
    if array.nbytes:
        device = torch.device("cuda", index)
        pointer, _ = interface["data"]
        flat = CUDABuffer(buffer, pointer, (array.nbytes,), "|u1", index)
        with torch.cuda.device(device):
            _bytes_of(torch, array).copy_(torch.as_tensor(flat, device=device))
    return result


def _bytes_of(torch: Any, array: "NDArray[Any]") -> Any:
    """A tensor over the bytes of an array, even a read-only one. It does not keep them alive."""
    address, _ = array.__array_interface__["data"]
    return torch.frombuffer((ctypes.c_uint8 * array.nbytes).from_address(address), dtype=torch.uint8)


def _as_array(buffer: Any) -> "NDArray[Any]":
    import numpy as np

    if getattr(buffer, "_is_bfloat16", False) is True:
        raise TypeError(
            "buffer must have a dtype that CUDA's array interface supports, got bfloat16: move to_torch(buffer) instead"
        )
    if not hasattr(buffer, "__array_interface__"):
        raise TypeError(f"buffer must be a CPUBuffer or an array, got {type(buffer).__qualname__}")
    array: NDArray[Any] = np.asarray(buffer)
    if not array.flags.c_contiguous:
        raise ValueError(f"buffer must be C-contiguous, got an array with the strides {array.strides}")
    if array.dtype.hasobject:
        raise TypeError(f"buffer must not have Python objects, got {array.dtype}")
    return array
