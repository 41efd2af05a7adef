"""Buffers of bfloat16, which NumPy and the struct module do not have: never taken for anything else."""

import gc
import importlib.util
import sys
import weakref
from typing import Any

import numpy as np
import pytest

import spdl.io
from spdl.io import _native
from spdl.io._buffers import as_storage

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
needs_ml_dtypes = pytest.mark.skipif(importlib.util.find_spec("ml_dtypes") is None, reason="ml_dtypes is not installed")
needs_jax = pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="JAX is not installed")

# All are exact in bfloat16, whose bits are the upper half of those of float32.
VALUES = np.array([[0.0, 1.0, -2.5], [0.375, 1e30, 3.0]], np.float32)
VALUES[1, 1] = 2.0**100
BITS = (VALUES.view(np.uint32) >> 16).astype(np.uint16)


def make(storage: Any = None) -> Any:
    """A buffer with ``VALUES``."""
    buffer: Any = _native.core.new_buffer((2, 3), "bfloat16", storage)
    np.frombuffer(buffer, np.uint16)[:] = BITS.reshape(-1)
    return buffer


def address_of(buffer: Any) -> int:
    """Of the first element."""
    return np.frombuffer(buffer, np.uint8).ctypes.data


def test_buffer_tells_its_type() -> None:
    """In words, and by a format of the buffer protocol that is no other type's."""
    buffer = make()
    assert repr(buffer) == "CPUBuffer<shape=(2, 3), dtype=bfloat16>"
    view = memoryview(buffer)
    assert (view.format, view.itemsize, view.shape, view.nbytes) == ("E", 2, (2, 3), 12)
    assert bytes(buffer) == BITS.tobytes()


def test_numpy_is_not_told_of_another_type() -> None:
    """No array interface, no dtype, and no array by accident."""
    buffer = make()
    assert not hasattr(buffer, "__array_interface__")
    assert not isinstance(buffer, spdl.io.CUDAArrayInterface)
    with pytest.raises(AttributeError, match="bfloat16 has no dtype"):
        _ = buffer.dtype
    with pytest.raises(ValueError, match="not a valid PEP 3118"):
        np.asarray(buffer)


def test_to_numpy_without_ml_dtypes_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another package, or another function."""
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(spdl.io.ConvertError, match=r"`pip install ml_dtypes`, or use to_torch"):
        spdl.io.to_numpy(make())


@needs_ml_dtypes
def test_to_numpy_is_a_view_with_the_type_of_ml_dtypes() -> None:
    """Writable, and it keeps the memory."""
    buffer = make()
    address, alive = address_of(buffer), weakref.ref(buffer)
    array = spdl.io.to_numpy(buffer)
    del buffer
    assert str(array.dtype) == "bfloat16"
    assert (array.ctypes.data, array.flags.writeable) == (address, True)
    assert (array.astype(np.float32) == VALUES).all()
    del array
    gc.collect()
    assert alive() is None


@needs_jax
def test_to_jax_has_the_type_and_the_values() -> None:
    """By DLPack."""
    array = spdl.io.to_jax(make())
    assert str(array.dtype) == "bfloat16"
    assert (np.asarray(array).astype(np.float32) == VALUES).all()


def test_numba_is_an_error() -> None:
    """It has no such type, so nothing is made that it would refuse later."""
    with pytest.raises(spdl.io.ConvertError, match="do not take bfloat16"):
        spdl.io.to_numba(make())


def test_dlpack_is_of_the_cpu() -> None:
    """Device type 1; and NumPy, which cannot read it, says so."""
    buffer = make()
    assert buffer.__dlpack_device__() == (1, 0)
    with pytest.raises((RuntimeError, BufferError)):
        np.from_dlpack(buffer)


@needs_torch
@pytest.mark.slow  # the import of torch
def test_to_torch_is_a_view() -> None:
    """Writable, and it keeps the memory."""
    import torch

    buffer = make()
    address, alive = address_of(buffer), weakref.ref(buffer)
    tensor = spdl.io.to_torch(buffer)
    del buffer
    gc.collect()
    assert tensor.dtype == torch.bfloat16
    assert tensor.data_ptr() == address
    assert (tensor.float().numpy() == VALUES).all()
    tensor[0, 0] = 7
    assert tensor[0].tolist() == [7, 1, -2.5]
    del tensor
    gc.collect()
    assert alive() is None


@needs_torch
@pytest.mark.slow  # the import of torch
@pytest.mark.parametrize("options", [{}, {"copy": True}, {"max_version": (1, 0)}, {"dl_device": (1, 0)}])
def test_dlpack_has_the_type_with_every_option(options: dict[str, Any]) -> None:
    """Of both kinds of capsule; a copy is one."""
    import torch

    buffer = make()
    capsule = buffer.__dlpack__(**options)
    tensor = torch.utils.dlpack.from_dlpack(capsule)
    assert tensor.dtype == torch.bfloat16
    assert (tensor.float().numpy() == VALUES).all()
    assert (tensor.data_ptr() == address_of(buffer)) == ("copy" not in options)


@needs_torch
@pytest.mark.slow  # the import of torch
@pytest.mark.parametrize("shape", [(0, 4), (3, 0), (2, 2, 2)])
def test_shapes_are_kept(shape: tuple[int, ...]) -> None:
    """Without elements too."""
    assert spdl.io.to_torch(_native.core.new_buffer(shape, "bfloat16", None)).shape == shape


@needs_torch
@pytest.mark.slow  # the import of torch
def test_torch_tensor_of_bfloat16_is_storage() -> None:
    """Of any shape that is contiguous; others are an error."""
    import torch

    storage = torch.zeros(2, 3, dtype=torch.bfloat16)
    buffer = make(as_storage(storage))
    assert address_of(buffer) == storage.data_ptr()
    assert (storage.float().numpy() == VALUES).all()
    spdl.io.convert_array([5, 6], storage=torch.zeros(8, dtype=torch.bfloat16))
    single = torch.zeros((), dtype=torch.bfloat16)
    assert address_of(_native.core.new_buffer((1,), "bfloat16", as_storage(single))) == single.data_ptr()
    with pytest.raises(TypeError, match="storage must be a C-contiguous"):
        spdl.io.convert_array([5], storage=torch.zeros(8, 8, dtype=torch.bfloat16).T)
