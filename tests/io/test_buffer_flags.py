"""What a consumer of the buffer protocol asks for is what it gets, or is refused: as NumPy does it."""

import ctypes
import itertools
from typing import Any

import numpy as np
import pytest

import spdl.io
from spdl.io import _native

WRITABLE, FORMAT, ND, STRIDES, C, F, ANY, INDIRECT = 0x1, 0x4, 0x8, 0x18, 0x38, 0x58, 0x98, 0x118


class PyBuffer(ctypes.Structure):
    """Py_buffer of Python 3.11."""

    _fields_ = (
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.py_object),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.POINTER(ctypes.c_ssize_t)),
        ("strides", ctypes.POINTER(ctypes.c_ssize_t)),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    )


_get = ctypes.pythonapi.PyObject_GetBuffer
_get.argtypes = [ctypes.py_object, ctypes.POINTER(PyBuffer), ctypes.c_int]


def ask(exporter: Any, flags: int) -> dict[str, Any] | None:
    """What the consumer gets; None: it is refused."""
    view = PyBuffer()
    try:
        _get(exporter, ctypes.byref(view), flags)
    except (BufferError, ValueError):  # NumPy raises the latter
        return None
    given = {
        "len": view.len,
        "itemsize": view.itemsize,
        "readonly": view.readonly,
        "format": view.format,
        "shape": view.shape[: view.ndim] if view.shape else None,
        "strides": view.strides[: view.ndim] if view.strides else None,
        "suboffsets": view.suboffsets,
        "orders": [ctypes.pythonapi.PyBuffer_IsContiguous(ctypes.byref(view), ctypes.c_char(order)) for order in b"CFA"]
        if view.shape
        else None,
    }
    ctypes.pythonapi.PyBuffer_Release(ctypes.byref(view))
    return given


@pytest.mark.parametrize("is_readonly", [False, True])
@pytest.mark.parametrize("shape", [(2, 3, 4), (6,), (1, 6, 1), (0, 3, 4), (3, 1, 1), (1, 1), (2, 2)])
def test_each_request_is_answered_as_numpy_answers_it(shape: tuple[int, ...], is_readonly: bool) -> None:
    """All orders, with and without format, for writing and for reading."""
    array = np.zeros(shape, np.float32)
    array.flags.writeable = not is_readonly
    buffer = _native.core.new_buffer(shape, "<f4", None)
    if is_readonly:
        restore, (_, *rest) = buffer.__reduce_ex__(5)
        buffer = restore(bytes(array.nbytes), *rest)
    layouts = [0, ND, STRIDES, C, F, C | F, ANY, INDIRECT, INDIRECT | F]
    for flags in map(sum, itertools.product(layouts, [0, FORMAT], [0, WRITABLE])):
        given, wanted = ask(buffer, flags), ask(array, flags)
        if wanted is not None and wanted["strides"] and (0 in shape or 1 in shape):
            # Where no element is reached by it, a stride may be anything.
            wanted["strides"] = given and given["strides"]
        assert given == wanted, hex(flags)


def test_refusal_says_why() -> None:
    """Fortran's order of an array that is in C's, and writing where only reading is allowed."""
    buffer = spdl.io.convert_array(np.arange(6).reshape(2, 3))
    with pytest.raises(BufferError, match="C order, and Fortran's was asked for"):
        _get(buffer, ctypes.byref(PyBuffer()), F)
