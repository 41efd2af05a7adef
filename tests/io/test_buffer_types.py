"""Buffers of every type that samples and pictures have, as arrays of other libraries and by each protocol."""

import ctypes
import importlib.util
import struct
from typing import Any

import numpy as np
import pytest

import spdl.io
from spdl.io import _native

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")

TYPES = {"u8": "u1", "s16": "i2", "s32": "i4", "s64": "i8", "flt": "f4", "dbl": "f8", "gray16": "u2", "half": "f2"}


def make(name: str) -> tuple[Any, Any]:
    """A buffer of that format, and an equal array that is NumPy's own."""
    values = np.arange(24).astype(TYPES[name])
    if name == "half":  # of batches of images only
        buffer = _native.core.new_buffer((12, 2), values.dtype.str, None)
        spdl.io.to_numpy(buffer)[:] = values.reshape(12, 2)
        return buffer, values.reshape(12, 2)
    if name == "gray16":
        frames: Any = spdl.io.create_reference_video_frame(values.reshape(2, 3, 4), name, (25, 1), 0)
        return spdl.io.convert_frames(frames), values.reshape(2, 1, 3, 4)
    frames = spdl.io.create_reference_audio_frame(values.reshape(12, 2), name, 8000, 0)
    return spdl.io.convert_frames(frames), values.reshape(12, 2)


@pytest.mark.parametrize("name", TYPES)
def test_all_protocols_describe_the_same_array(name: str) -> None:
    """The array interface, the buffer protocol and DLPack, with shape, type and values."""
    buffer, expected = make(name)
    assert buffer.shape == expected.shape
    assert buffer.dtype == expected.dtype
    assert repr(buffer) == f"CPUBuffer<shape={expected.shape}, dtype={expected.dtype}>"
    interface = buffer.__array_interface__
    assert interface["typestr"] == expected.dtype.str
    view = memoryview(buffer)
    assert struct.calcsize(view.format) == view.itemsize == expected.itemsize
    assert view.strides == expected.strides
    assert view.c_contiguous
    assert view.nbytes == expected.nbytes
    for array in (spdl.io.to_numpy(buffer), np.asarray(view), np.from_dlpack(buffer)):
        assert array.dtype == expected.dtype
        assert (array == expected).all()
        assert array.ctypes.data == interface["data"][0]
        assert array.flags.writeable


@pytest.mark.parametrize("name", ["u8", "flt"])
def test_consumer_that_asks_for_bytes_gets_bytes(name: str) -> None:
    """Without shape and format, as ``bytes`` and file writes ask for them."""
    buffer, expected = make(name)
    assert bytes(buffer) == expected.tobytes()
    assert bytearray(buffer) == expected.tobytes()
    address = ctypes.addressof((ctypes.c_char * expected.nbytes).from_buffer(buffer))
    assert address == buffer.__array_interface__["data"][0]


def test_dlpack_says_that_it_is_memory_of_the_cpu() -> None:
    """Device type 1 of the protocol."""
    buffer, _ = make("flt")
    assert buffer.__dlpack_device__() == (1, 0)


def test_dlpack_makes_a_copy_on_demand() -> None:
    """As the protocol's ``copy=True`` asks."""
    buffer, expected = make("flt")
    copied = np.from_dlpack(buffer, copy=True)
    copied[:] = 7
    assert (spdl.io.to_numpy(buffer) == expected).all()


def test_to_numpy_takes_any_array_interface() -> None:
    """Of other libraries, and arrays themselves."""

    class Other:
        """Memory of somebody else's."""

        array = np.arange(5, dtype=np.int16)

        def __init__(self) -> None:
            self.__array_interface__ = self.array.__array_interface__

    other = Other()
    view = spdl.io.to_numpy(other)
    assert view.tolist() == list(range(5))
    assert view.ctypes.data == other.array.ctypes.data
    assert spdl.io.to_numpy(other.array) is other.array


def test_part_of_a_view_keeps_the_memory() -> None:
    """Without the buffer and the view that it is a part of."""
    buffer, expected = make("dbl")
    part = spdl.io.to_numpy(buffer)[2:4].T
    del buffer
    assert (part == expected[2:4].T).all()


@needs_torch
@pytest.mark.slow  # the import of torch
@pytest.mark.parametrize("name", TYPES)
def test_torch_tensor_has_the_type(name: str) -> None:
    """A writable view."""
    import torch

    buffer, expected = make(name)
    tensor = spdl.io.to_torch(buffer)
    assert tensor.dtype == getattr(torch, str(expected.dtype))
    assert tensor.data_ptr() == buffer.__array_interface__["data"][0]
    tensor[0] = 5
    assert (spdl.io.to_numpy(buffer)[0] == 5).all()
    assert torch.utils.dlpack.from_dlpack(buffer).data_ptr() == tensor.data_ptr()
    del buffer
    assert (tensor[1:].numpy() == expected[1:]).all()


@needs_torch
@pytest.mark.slow  # the import of torch
def test_type_that_torch_does_not_have_is_an_error() -> None:
    """As of numbers in the other byte order; it says how to go on."""
    with pytest.raises(spdl.io.ConvertError, match="astype"):
        spdl.io.to_torch(np.arange(3).astype(">i4"))
