"""Integers, such as labels, as buffers."""

from typing import Any

import numpy as np
import pytest

import spdl.io

INTEGERS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_of_all_sizes_become_int64(dtype: Any) -> None:
    """With the same values."""
    limits = np.iinfo(dtype)
    values = np.array([limits.min, 0, 1, min(limits.max, 2**63 - 1)], dtype)
    array = spdl.io.to_numpy(spdl.io.convert_array(values))
    assert array.dtype == np.int64
    assert array.tolist() == values.tolist()


@pytest.mark.parametrize("shape", [(), (0,), (1,), (7,), (2, 3), (2, 0, 3), (1, 2, 3, 4, 5, 6)])
def test_shape_is_kept(shape: tuple[int, ...]) -> None:
    """Of any number of dimensions, empty ones too."""
    values = np.arange(np.prod(shape), dtype=np.int64).reshape(shape)
    buffer = spdl.io.convert_array(values)
    array = spdl.io.to_numpy(buffer)
    assert array.shape == buffer.shape == shape
    assert (array == values).all()
    assert array.flags.writeable
    assert array.flags.c_contiguous
    assert memoryview(buffer).shape == shape
    assert memoryview(buffer).nbytes == values.nbytes


@pytest.mark.parametrize(
    "values",
    [
        np.arange(24).reshape(2, 3, 4).transpose(2, 0, 1),
        np.arange(24)[::-2],
        np.asfortranarray(np.arange(24).reshape(4, 6)),
        np.arange(24, dtype=">i4"),
        np.broadcast_to(np.arange(3), (2, 3)),
    ],
    ids=["transposed", "reversed", "fortran", "big-endian", "broadcast"],
)
def test_order_in_memory_does_not_matter(values: Any) -> None:
    """The result is in C order and in the byte order of this machine."""
    array = spdl.io.to_numpy(spdl.io.convert_array(values))
    assert (array == values).all()
    assert array.dtype.isnative
    assert array.flags.c_contiguous


def test_result_is_independent_of_the_argument() -> None:
    """It is a copy."""
    values = np.arange(4)
    array = spdl.io.to_numpy(spdl.io.convert_array(values))
    values += 1
    assert array.tolist() == [0, 1, 2, 3]


def test_list_of_integers_will_do() -> None:
    """Whatever NumPy makes an array of integers of."""
    assert spdl.io.to_numpy(spdl.io.convert_array([[1, 2], [3, 4]])).tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    "values", [np.zeros(3), np.zeros(3, bool), np.zeros(3, complex), np.array(["a"]), [1.5], [object()], None, "text"]
)
def test_anything_else_is_a_type_error(values: Any) -> None:
    """No rounding, no parsing."""
    with pytest.raises(TypeError, match="must be an array of integers"):
        spdl.io.convert_array(values)


def test_value_beyond_int64_is_an_error() -> None:
    """It does not become negative."""
    with pytest.raises(OverflowError, match="9223372036854775808"):
        spdl.io.convert_array(np.array([1, 2**63], np.uint64))


def test_failures_are_empty() -> None:
    """They are of batches of images."""
    assert spdl.io.convert_array([1]).failures == ()
