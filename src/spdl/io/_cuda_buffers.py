"""Buffers in memory of a CUDA device, through torch."""

import ctypes
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from . import _native
from ._buffers import to_numpy
from ._cuda import check_device_index
from ._trace import traced

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ._native import CPUBuffer
    from ._types import LoadFailure

#: How to get memory of a device, ``(num_bytes, device_index, stream) -> address``; and how to give it back, by address.
Allocator: TypeAlias = tuple[Callable[[int, int, int], int], Callable[[int], None]]

_PER_THREAD_STREAM = 0x2  # cudaStreamPerThread of the CUDA runtime


@dataclass(frozen=True, slots=True)
class CUDAConfig:
    """Where on which device to put something. Made by :func:`cuda_config`, which says what the attributes are."""

    device_index: int
    stream: int = _PER_THREAD_STREAM
    allocator: Allocator | None = None


def cuda_config(device_index: int, stream: int = _PER_THREAD_STREAM, allocator: Allocator | None = None) -> CUDAConfig:
    """Say where on which CUDA device to put something. Looks at no device yet.

    Args:
        device_index: Number of the device.
        stream: Address of the stream to copy on: ``torch.cuda.Stream().cuda_stream``, 0 for the legacy default stream,
            2 for the default stream of the calling thread.
        allocator: A pair of functions to get and give back device memory: ``(num_bytes, device_index, stream) ->
            address`` and ``(address) -> None``, as ``torch.cuda.caching_allocator_alloc`` and
            ``caching_allocator_delete``. ``None``: torch's.

    Raises:
        ValueError: A number is negative.
        TypeError: An argument has the wrong type.
    """
    for name, value in (("device_index", device_index), ("stream", stream)):
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"{name} must be an int, got {value!r} of type {type(value).__qualname__}")
        if value < 0:
            raise ValueError(f"{name} must be >= 0, got {value}")
    if allocator is not None:
        if not isinstance(allocator, tuple | list) or len(allocator) != 2 or not all(map(callable, allocator)):
            raise TypeError(f"allocator must be a pair of functions, to get and to give back memory; got {allocator!r}")
        allocator = allocator[0], allocator[1]
    return CUDAConfig(device_index, stream, allocator)


class CUDABuffer:
    """An array in memory of a CUDA device, whose contents have arrived. Made by :func:`transfer_buffer`.

    ``to_torch``, and whatever knows ``__cuda_array_interface__``, make an array of it without a copy, which keeps it
    alive.

    Attributes:
        __cuda_array_interface__: Version 2 of Numba's CUDA array interface, C-contiguous.
        device_index: Number of the device.
        failures: Of a batch that was loaded: what is missing, as a ``CPUBuffer`` has it; else empty.
        origins: Likewise, which source each image is from.
    """

    __slots__ = ("__cuda_array_interface__", "__weakref__", "_memory", "device_index", "failures", "origins")

    def __init__(self, memory: Any, pointer: int, shape: tuple[int, ...], typestr: str, device_index: int) -> None:
        self._memory = memory  # whatever keeps it allocated
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
    """Memory of the user's allocator, given back with the last reference."""

    def __init__(self, config: CUDAConfig, num_bytes: int) -> None:
        assert config.allocator is not None
        allocate, self._give_back = config.allocator
        self.pointer = allocate(num_bytes, config.device_index, config.stream)

    def __del__(self) -> None:
        if hasattr(self, "pointer"):
            self._give_back(self.pointer)


class _TorchMemory:
    """Memory of torch's allocator, given back with the last reference.

    It belongs to the stream that it was copied on, while it is used on others. Who drops the last reference has, as a
    rule, used it on his current stream: the allocator is told, so that it is not written again before that is done.
    """

    def __init__(self, torch: Any, num_bytes: int, device: Any) -> None:
        self._torch = torch
        self._device = device
        self._tensor = torch.empty(num_bytes, dtype=torch.uint8, device=device)
        self.pointer: int = self._tensor.data_ptr()

    def __del__(self) -> None:
        if hasattr(self, "pointer") and not sys.is_finalizing():
            self._tensor.record_stream(self._torch.cuda.current_stream(self._device))


def _stream_of(torch: Any, config: CUDAConfig, device: Any) -> Any:
    if config.stream in (0, 1):  # cudaStreamLegacy is 1. torch takes neither for the address of a stream.
        return torch.cuda.default_stream(device)
    return torch.cuda.ExternalStream(config.stream, device=device)


def check_device_config(device_config: object) -> CUDAConfig:
    """Raise ``TypeError`` if it is not what ``cuda_config`` makes."""
    if not isinstance(device_config, CUDAConfig):
        raise TypeError(f"device_config must be made by cuda_config(), got {type(device_config).__qualname__}")
    return device_config


def as_device(device_config: CUDAConfig | None, action: str) -> CUDAConfig | None:
    """What a user gave as ``device_config``, before anything is loaded for a device that is not there.

    Raises:
        TypeError: It is not what ``cuda_config`` makes.
        DeviceError: There is no such device.
    """
    if device_config is None:
        return None
    check_device_index(check_device_config(device_config).device_index, action, origin=", as device_config says")
    return device_config


def on_device(buffer: "CPUBuffer", device_config: CUDAConfig | None) -> "CPUBuffer | CUDABuffer":
    """What was loaded, where the user wants it."""
    if device_config is None:
        return buffer
    moved = transfer_buffer(buffer, device_config=device_config)
    moved.failures = buffer.failures
    moved.origins = buffer.origins
    return moved


@traced
def transfer_buffer(buffer: "CPUBuffer | NDArray[Any]", *, device_config: CUDAConfig) -> CUDABuffer:
    """Copy a buffer or array to a CUDA device, and wait until it is there.

    Args:
        buffer: What any ``load_*`` or ``convert_*`` returns, or a C-contiguous array. Page-locked memory is fetched by
            the device itself.
        device_config: Where to, as ``cuda_config`` makes it.

    Returns:
        The same shape and type on the device. The memory is torch's, or that of ``device_config.allocator``.

    Raises:
        TypeError: ``buffer`` is neither buffer nor array, or ``device_config`` is something else.
        ValueError: ``buffer`` is not C-contiguous.
        DeviceError: There is no such device, or no CUDA.

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
            # As bytes: torch does not have all of NumPy's types, and need not know them for a copy.
            flat = CUDABuffer(memory, memory.pointer, (array.nbytes,), "|u1", config.device_index)
            target = torch.as_tensor(flat, device=device)
            try:
                target.copy_(_bytes_of(torch, array), non_blocking=True)
            finally:
                stream.synchronize()
    return CUDABuffer(memory, memory.pointer, array.shape, array.dtype.str, config.device_index)


@traced
def transfer_buffer_cpu(buffer: CUDABuffer) -> "CPUBuffer":
    """Copy a buffer of a CUDA device to one of the CPU, and wait until it is there.

    Args:
        buffer: What ``transfer_buffer`` returns, or has ``__cuda_array_interface__`` and ``device_index`` like it;
            C-contiguous. Work on it that other streams than torch's current one still do is not waited for.

    Returns:
        The same shape and type.

    Raises:
        TypeError: It has no such attributes, is not C-contiguous, or has elements other than integers and floats.
        DeviceError: There is no such device, or no CUDA.

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
    """A tensor over the bytes of an array, read-only ones too. It does not keep them alive."""
    address, _ = array.__array_interface__["data"]
    return torch.frombuffer((ctypes.c_uint8 * array.nbytes).from_address(address), dtype=torch.uint8)


def _as_array(buffer: Any) -> "NDArray[Any]":
    import numpy as np

    if getattr(buffer, "_is_bfloat16", False) is True:
        raise TypeError(
            "buffer must have a type that CUDA's array interface knows, got bfloat16: move to_torch(buffer)"
        )
    if not hasattr(buffer, "__array_interface__"):
        raise TypeError(f"buffer must be a CPUBuffer or an array, got {type(buffer).__qualname__}")
    array: NDArray[Any] = np.asarray(buffer)
    if not array.flags.c_contiguous:
        raise ValueError(f"buffer must be C-contiguous, got an array with the strides {array.strides}")
    if array.dtype.hasobject:
        raise TypeError(f"buffer must have elements of plain memory, got {array.dtype}")
    return array
