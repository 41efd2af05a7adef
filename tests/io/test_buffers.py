"""Batches as arrays of other libraries, and how long their memory lives."""

import gc
import importlib.util
import sys
import weakref
from typing import Any

import numpy as np
import pytest

import spdl.io
from tests.io.pictures import make_jpeg

DATA = make_jpeg(40, 30)


def load() -> Any:
    """A batch of two."""
    return spdl.io.load_image_batch([DATA, DATA], width=16, height=12)


def test_buffer_has_an_array_interface() -> None:
    """Version 3, of bytes, writable; and nothing of CUDA."""
    buffer = load()
    interface = buffer.__array_interface__
    assert interface["version"] == 3
    assert interface["shape"] == buffer.shape == (2, 12, 16, 3)
    assert interface["typestr"] == "|u1"
    assert interface["data"][1] is False
    assert isinstance(buffer, spdl.io.ArrayInterface)
    assert not isinstance(buffer, spdl.io.CUDAArrayInterface)
    assert isinstance(buffer, spdl.io.CPUBuffer)


def test_views_share_memory() -> None:
    """What is written through one is read through all."""
    buffer = load()
    views = [spdl.io.to_numpy(buffer), np.asarray(memoryview(buffer)), np.from_dlpack(buffer)]
    views[0][0, 0, 0, 0] = 77
    views[0][1, 11, 15, 2] = 78
    assert all(view[0, 0, 0, 0] == 77 and view[1, 11, 15, 2] == 78 for view in views)
    assert all(view.shape == (2, 12, 16, 3) for view in views)


@pytest.mark.parametrize(
    "view_of", [spdl.io.to_numpy, memoryview, np.from_dlpack], ids=["numpy", "memoryview", "dlpack"]
)
def test_view_keeps_the_memory(view_of: Any) -> None:
    """The view may be all that is left, and the memory goes with it."""
    buffer = load()
    alive = weakref.ref(buffer)
    expected = spdl.io.to_numpy(buffer).copy()
    view = view_of(buffer)
    del buffer
    gc.collect()
    others = [load() for _ in range(8)]  # would take memory that was freed too early
    assert (np.asarray(view) == expected).all()
    assert len(others) == 8
    assert alive() is not None
    del view
    gc.collect()
    assert alive() is None


def test_view_keeps_the_storage() -> None:
    """Storage of the caller's lives as long as what is in it."""
    storage = np.zeros(16 * 12 * 3, np.uint8)
    alive = weakref.ref(storage)
    array = spdl.io.to_numpy(spdl.io.load_image_batch([DATA], width=16, height=12, storage=storage))
    del storage
    gc.collect()
    assert alive() is not None
    del array
    gc.collect()
    assert alive() is None


def test_source_in_memory_is_held_only_while_it_is_read() -> None:
    """Afterwards it may be resized again; a failure keeps the object, not its memory."""
    source = bytearray(DATA)
    broken = bytearray(b"junk")
    buffer = spdl.io.load_image_batch([source, broken], width=16, height=12, strict=False)
    source.append(0)
    broken.append(0)
    assert buffer.failures[0].source is broken


def test_failures_that_refer_back_to_the_batch_are_collected() -> None:
    """The collector sees through the batch to its failures."""
    source = bytearray(b"junk")

    class Holder(bytearray):
        """A source that someone hangs the batch on."""

        batch: Any

    holder = Holder(source)
    holder.batch = spdl.io.load_image_batch([DATA, holder], width=16, height=12, strict=False)
    alive = weakref.ref(holder.batch)
    del holder
    gc.collect()
    assert alive() is None


def test_repr_shows_shape_and_type() -> None:
    """Enough to recognise it in a log."""
    assert repr(load()) == "CPUBuffer<shape=(2, 12, 16, 3), dtype=uint8>"


def test_to_numpy_without_an_array_interface_is_an_error() -> None:
    """It is a ``RuntimeError`` too."""
    with pytest.raises(spdl.io.ConvertError, match="bytes: it has no __array_interface__") as caught:
        spdl.io.to_numpy(b"")  # type: ignore[arg-type]
    assert isinstance(caught.value, RuntimeError)


@pytest.mark.parametrize(("name", "package"), [("to_torch", "torch"), ("to_numba", "numba"), ("to_jax", "jax")])
def test_missing_package_is_named_with_the_remedy(name: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Optional packages are looked for when they are used."""
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setitem(sys.modules, f"{package}.dlpack", None)
    with pytest.raises(spdl.io.NativeLibraryError, match=f"Install it with `pip install .*{package}") as caught:
        getattr(spdl.io, name)(load())
    assert isinstance(caught.value, ImportError)


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
@pytest.mark.slow  # the import of torch
def test_torch_tensor_is_a_view() -> None:
    """Without a copy, both as result and as storage."""
    import torch

    buffer = load()
    tensor = spdl.io.to_torch(buffer)
    assert tensor.data_ptr() == buffer.__array_interface__["data"][0]
    storage = torch.zeros(2 * 12 * 16 * 3, dtype=torch.uint8)
    batch = spdl.io.load_image_batch([DATA, DATA], width=16, height=12, storage=storage)
    assert spdl.io.to_torch(batch).data_ptr() == storage.data_ptr()
    assert (spdl.io.to_torch(batch) == tensor).all()


@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="JAX is not installed")
def test_jax_array_has_the_same_values() -> None:
    """By DLPack."""
    buffer = load()
    assert (np.asarray(spdl.io.to_jax(buffer)) == spdl.io.to_numpy(buffer)).all()


@pytest.mark.skipif(importlib.util.find_spec("numba") is None, reason="Numba is not installed")
def test_numba_takes_the_array() -> None:
    """On the CPU Numba works on NumPy arrays."""
    assert spdl.io.to_numba(load()).shape == (2, 12, 16, 3)
