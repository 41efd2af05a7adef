"""Where results are put: storage of ours, of NumPy's, of torch's, of anybody's."""

import array
import gc
import importlib.util
import mmap
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import spdl.io

VALUES = np.arange(6, dtype=np.int64).reshape(2, 3)  # 48 bytes


def address_of(buffer: Any) -> int:
    """Of the first element."""
    address: int = buffer.__array_interface__["data"][0]
    return address


def test_storage_is_a_writable_buffer_of_bytes() -> None:
    """Of the size that was asked for."""
    storage = spdl.io.cpu_storage(100, pin_memory=False)
    view = memoryview(storage)
    assert (view.nbytes, view.format, view.readonly, len(storage)) == (100, "B", False, 100)
    assert repr(storage) == "CPUStorage<size=100>"
    assert isinstance(storage, spdl.io.CPUStorage)


def test_result_is_a_view_of_the_storage() -> None:
    """It is at its start, and keeps it alive."""
    storage = spdl.io.cpu_storage(64, pin_memory=False)
    alive = weakref.ref(storage)
    result = spdl.io.to_numpy(spdl.io.convert_array(VALUES, storage=storage))
    assert np.frombuffer(memoryview(storage), np.int64)[:6].tolist() == list(range(6))
    assert (result == VALUES).all()
    del storage
    gc.collect()
    assert alive() is not None
    assert (result == VALUES).all()
    del result
    gc.collect()
    assert alive() is None


def test_storage_can_be_used_again() -> None:
    """Then earlier results show what was put there last."""
    storage = spdl.io.cpu_storage(48, pin_memory=False)
    first = spdl.io.to_numpy(spdl.io.convert_array(VALUES, storage=storage))
    second = spdl.io.to_numpy(spdl.io.convert_array(VALUES + 10, storage=storage))
    assert (first == second).all()
    assert (first == VALUES + 10).all()


def _shared_mmap() -> mmap.mmap:
    return mmap.mmap(-1, 64)


@pytest.mark.parametrize(
    "make",
    [
        lambda: np.zeros(64, np.uint8),
        lambda: np.zeros((2, 4), np.float64),
        lambda: np.zeros((4, 4), np.float64)[1:3],
        lambda: bytearray(64),
        lambda: memoryview(bytearray(80))[8:72],
        lambda: array.array("d", [0] * 8),
        _shared_mmap,
        lambda: np.zeros(8, "datetime64[s]"),
    ],
    ids=["bytes", "floats", "rows", "bytearray", "memoryview", "array", "mmap", "dates"],
)
def test_any_writable_contiguous_buffer_will_do(make: Callable[[], Any]) -> None:
    """Whatever its elements and its shape."""
    result = spdl.io.convert_array(VALUES, storage=make())
    assert (spdl.io.to_numpy(result) == VALUES).all()


def test_storage_without_alignment_will_do() -> None:
    """NumPy copes with elements at odd addresses, and so do we."""
    storage = memoryview(bytearray(64))[1:]
    assert (spdl.io.to_numpy(spdl.io.convert_array(VALUES, storage=storage)) == VALUES).all()


def test_bytearray_that_holds_a_result_cannot_be_resized() -> None:
    """Until the result is gone."""
    storage = bytearray(48)
    result = spdl.io.convert_array(VALUES, storage=storage)
    with pytest.raises(BufferError):
        storage.append(0)
    del result
    storage.append(0)


def test_storage_that_is_too_small_is_an_error_that_names_both_sizes() -> None:
    """It is a ``RuntimeError`` too, and nothing is written."""
    storage = bytearray(47)
    with pytest.raises(spdl.io.ConvertError, match=r"has 48 bytes and the storage has 47") as caught:
        spdl.io.convert_array(VALUES, storage=storage)
    assert isinstance(caught.value, RuntimeError)
    assert storage == bytes(47)


@pytest.mark.parametrize(
    "storage",
    [b"0" * 64, np.zeros(64, np.uint8)[::-1], np.zeros((8, 8), np.uint8).T, memoryview(bytes(64)), 64, [0] * 64, "s"],
    ids=["bytes", "reversed", "transposed", "readonly", "int", "list", "str"],
)
def test_anything_else_is_a_type_error(storage: Any) -> None:
    """What cannot be written to, is not contiguous, or is no memory at all."""
    with pytest.raises(TypeError, match="storage must be a"):
        spdl.io.convert_array(VALUES, storage=storage)


@pytest.mark.parametrize("size", [0, -1])
def test_size_below_one_is_an_error(size: int) -> None:
    """It is a ``RuntimeError``."""
    with pytest.raises(spdl.io.ConvertError, match=f"size must be >= 1, got {size}"):
        spdl.io.cpu_storage(size, pin_memory=False)


def test_size_that_is_no_integer_is_a_type_error() -> None:
    """Not rounded."""
    with pytest.raises(TypeError):
        spdl.io.cpu_storage(1.5, pin_memory=False)  # type: ignore[arg-type]


def test_more_than_there_is_is_a_memory_error() -> None:
    """Not a crash."""
    with pytest.raises(MemoryError):
        spdl.io.cpu_storage(1 << 62, pin_memory=False)


def test_pinning_without_cuda_is_an_error_that_says_what_to_do() -> None:
    """It is a ``RuntimeError``, and pinning is the default."""
    with pytest.raises(spdl.io.DeviceError, match="pin_memory=False") as caught:
        spdl.io.cpu_storage(16)
    assert isinstance(caught.value, RuntimeError)


def test_cycle_through_the_storage_is_collected() -> None:
    """An array that carries the result that is in it."""

    class Holder(bytearray):
        """Storage with attributes."""

        result: Any

    storage = Holder(48)
    storage.result = spdl.io.convert_array(VALUES, storage=storage)
    alive = weakref.ref(storage)
    del storage
    gc.collect()
    assert alive() is None


def test_two_threads_put_results_in_two_halves_of_one_block() -> None:
    """As the slots of an arena are used."""
    block = bytearray(96)
    halves = memoryview(block)[:48], memoryview(block)[48:]
    start = threading.Barrier(2)

    def put(half: memoryview, offset: int) -> None:
        start.wait()
        for _ in range(50):
            spdl.io.convert_array(VALUES + offset, storage=half)

    threads = [threading.Thread(target=put, args=(half, 10 * i)) for i, half in enumerate(halves)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert np.frombuffer(block, np.int64).tolist() == [*range(6), *range(10, 16)]


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
@pytest.mark.slow  # the import of torch
def test_torch_tensor_is_storage() -> None:
    """Of any type, without a copy; one that is not contiguous is an error."""
    import torch

    storage = torch.zeros(12, dtype=torch.float32)
    result = spdl.io.convert_array(VALUES, storage=storage)
    assert address_of(result) == storage.data_ptr()
    assert (spdl.io.to_torch(result) == torch.from_numpy(VALUES)).all()
    with pytest.raises(TypeError, match="storage must be a C-contiguous"):
        spdl.io.convert_array(VALUES, storage=torch.zeros(8, 8).T)
