"""``load_npy``: the array of an npy file in memory."""

from math import prod
from typing import TYPE_CHECKING, Any, Literal

from spdl._numbers import as_bool
from spdl.io import _native
from spdl.io._errors import ArchiveError

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import Buffer


def load_npy(data: "Buffer | NDArray[Any]", *, copy: bool = False) -> "NDArray[Any]":
    """Return the array of an npy file in memory, without a copy.

    Args:
        data: Content of the file, as a contiguous buffer; bytes after the array are ignored. Versions 1 to 3.
        copy: Whether to copy the array to its own memory, writable and independent of ``data``.

    Returns:
        An array with the file's shape, dtype (including byte order) and memory order. Without ``copy`` it is a view,
        writable if ``data`` is, and ``data`` can neither be freed nor resized while the array or a view of it exists.

    Raises:
        ArchiveError: ``data`` is not an npy file, is damaged, ends early, or has an object or structured dtype.
        TypeError: ``data`` is not a contiguous buffer.

    Takes about two microseconds, plus the time of the copy, which releases the GIL if it is long.
    """
    import numpy as np

    copy = as_bool("copy", copy)
    descr, is_fortran_order, shape, offset = _native.core.read_npy_header(data)
    try:
        dtype = np.dtype(descr)
    except TypeError as exc:
        raise _damage(f"its dtype {descr!r} is not known to NumPy") from exc
    if dtype.hasobject:
        raise _damage(f"its dtype {descr!r} has Python objects, and loading those could run any code")
    # An array keeps its base alive, which is enough for bytes. Other buffers could be resized: `frombuffer` makes an
    # array that holds a buffer export, which `ndarray` does not.
    memory: Any = data
    if type(data) is not bytes:
        memory = np.frombuffer(memory, np.uint8)
    order: Literal["C", "F"] = "F" if is_fortran_order else "C"
    try:
        array: NDArray[Any] = np.ndarray(shape, dtype, memory, offset, None, order)
    except TypeError:  # NumPy raises it for memory that is too small
        needed, there = prod(shape) * dtype.itemsize, len(memory) - offset
        raise _damage(
            f"an array of shape {shape} and dtype {dtype} needs {needed} bytes, and the file has {there}"
        ) from None
    except ValueError as exc:
        raise _damage(f"NumPy has no array of shape {shape} and dtype {dtype}: {exc}") from exc
    return array.copy(order) if copy else array


def _damage(reason: str) -> ArchiveError:
    action = "read the npy data"
    return ArchiveError(f"cannot {action}: {reason}", action=action)
