"""``to_numpy`` and its relatives: buffers as arrays of other libraries, without a copy. ``cpu_storage``: memory."""

import importlib
import sys
from functools import cache
from typing import TYPE_CHECKING, Any, TypeGuard

from spdl._numbers import as_bool, as_int

from . import _native
from ._errors import ConvertError, DeviceError, NativeLibraryError
from ._types import ArrayInterface, CUDAArrayInterface

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import Buffer

    from ._native import CPUBuffer, CPUStorage


def to_numpy(buffer: ArrayInterface) -> "NDArray[Any]":
    """Return the buffer as a NumPy array: a writable view that keeps the buffer alive.

    NumPy has no ``bfloat16`` of its own; the package ml_dtypes adds it.

    Raises:
        ConvertError: The object has no array interface; or its dtype is ``bfloat16``, and ml_dtypes is not installed.
    """
    np = _numpy()
    if getattr(buffer, "_is_bfloat16", None) is False:  # a CPUBuffer
        return np.asarray(buffer)  # type: ignore[no-any-return]
    if _is_bfloat16(buffer):
        return np.ndarray(buffer.shape, _ml_dtypes_bfloat16(), memoryview(buffer))  # type: ignore[no-any-return]
    # The same check as `isinstance(buffer, ArrayInterface)`, which takes thirty times as long as the rest of this code.
    if not (hasattr(type(buffer), "__array_interface__") or hasattr(buffer, "__array_interface__")):
        raise ConvertError(
            f"cannot make an array of {type(buffer).__name__}: it has no __array_interface__", action="make an array"
        )
    return np.asarray(buffer)  # type: ignore[no-any-return]


def to_torch(buffer: ArrayInterface | CUDAArrayInterface) -> Any:
    """Return the buffer as a torch tensor: a writable view that keeps the buffer alive.

    A ``CUDABuffer`` stays on its device.

    Raises:
        ConvertError: The object has no array interface, or torch does not support its dtype: non-native byte order or,
            before torch 2.3, ``uint16``.
        NativeLibraryError: torch is not installed.
    """
    if hasattr(buffer, "__cuda_array_interface__"):
        device = f"cuda:{buffer.device_index}" if hasattr(buffer, "device_index") else "cuda"
        return _import("torch", "pip install spdl-native[torch]").as_tensor(buffer, device=device)
    if _is_bfloat16(buffer):
        return _import("torch", "pip install spdl-native[torch]").from_dlpack(buffer)
    array = to_numpy(buffer)
    torch = _import("torch", "pip install spdl-native[torch]")
    try:
        return torch.from_numpy(array)
    except (TypeError, ValueError) as exc:
        raise ConvertError(
            f"cannot make a tensor of {array.dtype}: {exc}. numpy.ndarray.astype makes an array that torch takes.",
            action="make a tensor",
        ) from exc


def to_numba(buffer: ArrayInterface) -> "NDArray[Any]":
    """Return the buffer as a NumPy array for Numba's CPU functions: a view that keeps the buffer alive.

    Raises:
        ConvertError: The object has no array interface; or its dtype is ``bfloat16``, which Numba does not support.
        NativeLibraryError: Numba is not installed.
    """
    if _is_bfloat16(buffer):
        raise ConvertError(
            "cannot make an array for Numba: its CPU functions do not take bfloat16. Use float16 or float32.",
            action="make an array",
        )
    array = to_numpy(buffer)
    _import("numba", "pip install numba")
    return array


def to_jax(buffer: ArrayInterface) -> Any:
    """Return the buffer as a JAX array on the CPU: a view that keeps the buffer alive. JAX never writes to it.

    JAX makes a copy where it cannot use the memory directly: for 64-bit dtypes without ``jax_enable_x64``, and for
    storage whose address is not a multiple of 64.

    Raises:
        ConvertError: The object has no array interface, or its memory is read-only.
        NativeLibraryError: JAX is not installed.
    """
    array: Any = buffer if _is_bfloat16(buffer) else to_numpy(buffer)
    from_dlpack = _import("jax.dlpack", "pip install jax").from_dlpack
    try:
        return from_dlpack(array)
    except BufferError as exc:
        raise ConvertError(
            f"cannot make a JAX array: {str(exc).rstrip('.')}. jax.numpy.array makes one by copying.",
            action="make a JAX array",
        ) from exc


def cpu_storage(size: int, pin_memory: bool = True) -> "CPUStorage":
    """Allocate memory for results: the ``storage`` of ``convert_frames``, ``load_image_batch`` and others.

    The memory can be reused. A result is a view of it, so the next result overwrites the previous one.

    Args:
        size: Size in bytes.
        pin_memory: Whether to allocate page-locked memory, for asynchronous copies to a GPU. Requires CUDA.

    Returns:
        A writable buffer of bytes with undefined contents.

    Raises:
        ConvertError: ``size`` is less than 1.
        DeviceError: ``pin_memory`` is set, and CUDA is not available.
        MemoryError: There is not enough memory.
    """
    size, pin_memory = as_int("size", size), as_bool("pin_memory", pin_memory)
    if size < 1:
        raise ConvertError(f"cannot allocate storage: size must be >= 1, got {size}", action="allocate storage")
    if pin_memory:
        raise DeviceError(
            "cannot pin memory: it needs CUDA, which this build of spdl does not have. Set pin_memory=False, or give"
            " pinned memory that you have as storage.",
            action="pin memory",
        )
    return _native.core.new_storage(size)


def as_storage(storage: Any) -> "Buffer | NDArray[Any]":
    """The user's storage as an object with the buffer protocol. Native code checks size and layout."""
    try:
        memoryview(storage)
    except (TypeError, ValueError):  # ValueError: NumPy dtypes that the buffer protocol does not know
        pass
    except BufferError as exc:
        raise TypeError(f"storage must be a C-contiguous writable buffer: {exc}") from exc
    else:
        return storage  # type: ignore[no-any-return]
    view: NDArray[Any] | None = None
    if hasattr(storage, "__array_interface__"):
        view = to_numpy(storage)
    elif callable(getattr(storage, "numpy", None)):  # a torch tensor, pinned or not
        view = _array_of(storage)
    if view is None:
        raise TypeError(
            f"storage must be a writable C-contiguous buffer, array or CPU tensor, got {type(storage).__name__}"
        )
    return view


def _array_of(tensor: Any) -> "NDArray[Any]":
    """A torch tensor's memory as an array; as bytes for dtypes that NumPy does not have (``bfloat16``)."""
    try:
        return tensor.numpy()  # type: ignore[no-any-return]
    except TypeError:
        if not tensor.is_contiguous():
            raise TypeError("storage must be a C-contiguous writable buffer, got a tensor that is not") from None
        return tensor.reshape(-1).view(sys.modules["torch"].uint8).numpy()  # type: ignore[no-any-return]


@cache
def _numpy() -> Any:
    """Import NumPy once. An import statement at each call would take as long as the rest of ``to_numpy``."""
    import numpy as np

    return np


def _is_bfloat16(buffer: object) -> TypeGuard["CPUBuffer"]:
    return getattr(buffer, "_is_bfloat16", False) is True


def _ml_dtypes_bfloat16() -> Any:
    try:
        return importlib.import_module("ml_dtypes").bfloat16
    except ImportError as exc:
        raise ConvertError(
            "cannot make an array of bfloat16: NumPy has no such type. Install one with `pip install ml_dtypes`, or use"
            " to_torch.",
            action="make an array",
        ) from exc


def _import(name: str, remedy: str) -> Any:
    try:
        # importlib looks in sys.modules too, but is slower.
        return sys.modules.get(name) or importlib.import_module(name)
    except ImportError as exc:
        package = name.partition(".")[0]
        raise NativeLibraryError(
            f"cannot make an array of {package}: {exc}. Install it with `{remedy}`.", action=f"import {package}"
        ) from exc
