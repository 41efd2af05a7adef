"""``load_npy``, judged by ``numpy.save`` and ``numpy.load``."""

import gc
import io
import mmap
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.lib import format as npy_format
from numpy.typing import NDArray

import spdl.io
from tests.strategies.profiles import cases


def make_npy(array: Any, version: tuple[int, int] | None = None) -> bytes:
    """The file that NumPy writes."""
    stream = io.BytesIO()
    npy_format.write_array(stream, np.asanyarray(array), version)
    return stream.getvalue()


def with_header(text: str, data: bytes = b"", version: int = 1) -> bytes:
    """A file whose header is this."""
    length = len(text).to_bytes(2 if version == 1 else 4, "little")
    return b"\x93NUMPY" + bytes([version, 0]) + length + text.encode("latin1") + data


def same(found: NDArray[Any], wanted: NDArray[Any]) -> None:
    """The same dtype, shape, order and bytes, so that not-a-number counts too."""
    assert found.dtype == wanted.dtype
    assert found.shape == wanted.shape
    assert found.flags.f_contiguous == wanted.flags.f_contiguous
    assert found.tobytes() == wanted.tobytes()


dtypes = (
    arrays.scalar_dtypes()
    | arrays.byte_string_dtypes(max_len=8)
    | arrays.unicode_string_dtypes(max_len=8)
    | arrays.complex_number_dtypes()
)


@given(
    arrays.arrays(dtypes, arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)),
    st.booleans(),
    st.booleans(),
    st.sampled_from([(1, 0), (2, 0), (3, 0)]),
)
@cases(150)
def test_gives_what_was_saved(array: NDArray[Any], is_fortran: bool, copy: bool, version: tuple[int, int]) -> None:
    """All plain dtypes of any byte order, any rank and order, empty ones too, in all versions."""
    array = np.asfortranarray(array) if is_fortran and array.ndim > 1 else array
    data = make_npy(array, version)
    same(spdl.io.load_npy(data, copy=copy), np.load(io.BytesIO(data)))


@pytest.mark.parametrize(
    "descr", ["<f8", ">i4", "|b1", "|u1", "<c16", "<M8[ns]", "<m8[25s]", "<U5", "|S3", "|V7", "<f2"]
)
def test_dtypes(descr: str) -> None:
    """Words of NumPy, units of time included."""
    array = np.zeros((2, 3), descr)
    same(spdl.io.load_npy(make_npy(array)), array)


def test_view_shares_memory_and_writability() -> None:
    """Zero copy: it can be written to where the buffer can."""
    data = bytearray(make_npy(np.arange(5)))
    array = spdl.io.load_npy(data)
    array[2] = 77
    assert np.load(io.BytesIO(data))[2] == 77
    assert not spdl.io.load_npy(bytes(data)).flags.writeable
    assert not spdl.io.load_npy(memoryview(data).toreadonly()).flags.writeable
    assert not array.flags.owndata


def test_copy_is_independent() -> None:
    """Writable and of its own memory, whatever the buffer is, in the same order."""
    array = np.asfortranarray(np.arange(6).reshape(2, 3))
    data = bytearray(make_npy(array))
    copied = spdl.io.load_npy(data, copy=True)
    assert copied.flags.writeable
    assert copied.flags.owndata
    data[-8:] = bytes(8)
    data.clear()  # not locked
    same(copied, array)


def test_buffer_is_locked_while_the_array_lives() -> None:
    """Nor can it be resized under a view of the array."""
    data = bytearray(make_npy(np.arange(5)))
    part = spdl.io.load_npy(data)[1:3]
    gc.collect()
    with pytest.raises(BufferError):
        data.clear()
    del part
    data.clear()


def test_array_outlives_the_name_of_its_buffer() -> None:
    """It keeps the memory."""
    array = spdl.io.load_npy(make_npy(np.arange(1000)))
    gc.collect()
    assert array.sum() == 499500


def test_any_buffer() -> None:
    """bytearray, memoryview, arrays of any type, mmap."""
    array = np.arange(16.0)
    data = make_npy(array)
    for source in (data, bytearray(data), memoryview(data), np.frombuffer(data, np.int32).reshape(2, -1)):
        same(spdl.io.load_npy(source), array)
    with mmap.mmap(-1, len(data)) as mapped:
        mapped[:] = data
        found = spdl.io.load_npy(mapped, copy=True)
        same(found, array)


def test_bytes_behind_the_array_are_ignored() -> None:
    """Such as those of the next one in a file."""
    same(spdl.io.load_npy(make_npy(np.arange(3)) + b"more"), np.arange(3))


@pytest.mark.parametrize(
    "text",
    [
        "{'descr': '<i4', 'fortran_order': False, 'shape': (2,), }",
        '{"shape":(2,),"fortran_order":False,"descr":"<i4"}\n',
        "  {  'fortran_order' : False ,\n 'shape' : ( 2 , ) , 'descr' : 'int32' }  \n",
        "{'descr': '<i4', 'fortran_order': False, 'shape': (2L,)}",  # Python 2
    ],
)
def test_odd_headers_that_are_valid(text: str) -> None:
    """Spacing, quotes and order of keys are free."""
    data = with_header(text, np.arange(2, dtype="<i4").tobytes())
    same(spdl.io.load_npy(data), np.arange(2, dtype="<i4"))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is not a valid dict"),
        ("{'descr': '<i4', 'fortran_order': False}", "lacks one of"),
        ("{'descr': '<i4', 'fortran_order': False, 'shape': (2,), 'more': 1}", "unexpected or repeated key"),
        ("{'descr': '<i4', 'descr': '<i4', 'shape': (2,)}", "unexpected or repeated key"),
        ("{'descr': '<i4', 'fortran_order': 0, 'shape': (2,)}", "neither True nor False"),
        ("{'descr': '<i4', 'fortran_order': False, 'shape': (2)}", "not a tuple"),
        ("{'descr': '<i4', 'fortran_order': False, 'shape': [2]}", "'(' is missing"),
        ("{'descr': '<i4', 'fortran_order': False, 'shape': (-2,)}", "not a size"),
        ("{'descr': '<i4', 'fortran_order': False, 'shape': (True,)}", "not a size"),
        ("{'descr': '<i4', 'fortran_order': False, 'shape': (99999999999999999999,)}", "larger than the address space"),
        ("{'descr': '<i4', 'fortran_order': False, 'shape': (" + "1," * 70 + ")}", "more than 64 dimensions"),
        ("{'descr': '<i4', 'fortran_order': False, 'shape': (4611686018427387904, 4)}", "NumPy has no array"),
        ("{'descr': '<i4', 'fortran_order': False, 'shape': (17,)}", "needs 68 bytes, and the file has 64"),
        ("{'descr': '<i4', 'fortran_order': False, 'shape': (0, 4611686018427387904, 8)}", "NumPy has no array"),
        ("{'descr': '<i4', 'fortran_order': False, 'shape': (2,)", "'}' is missing"),
        ("{'descr': '<i4', 'fortran_order': False, 'shape': (2,)} x", "something follows"),
        ("{'descr': '<i4", "is not terminated"),
        ("{'descr': 4, 'fortran_order': False, 'shape': (2,)}", "must have a string"),
        ("{'descr': '<i3', 'fortran_order': False, 'shape': (2,)}", "not known to NumPy"),
        ("{'descr': 'nonesuch', 'fortran_order': False, 'shape': (2,)}", "not known to NumPy"),
        ("{'descr': '', 'fortran_order': False, 'shape': (2,)}", "not a valid dtype string"),
        ("{'descr': 'i4,i4', 'fortran_order': False, 'shape': (2,)}", "not a valid dtype string"),
        ("{'descr': '(2,)i4', 'fortran_order': False, 'shape': (2,)}", "not a valid dtype string"),
        ("{'descr': '|O', 'fortran_order': False, 'shape': (2,)}", "Python objects"),
        ("{'descr': 'O8', 'fortran_order': False, 'shape': (2,)}", "Python objects"),
        ("{'descr': 'object', 'fortran_order': False, 'shape': (2,)}", "Python objects"),
        ("{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (2,)}", "structured"),
        ("{'descr': ('<i4', (2,)), 'fortran_order': False, 'shape': (2,)}", "structured"),
    ],
)  # fmt: skip
def test_headers_that_are_refused(text: str, reason: str) -> None:
    """The message says what is wrong, and nothing in a header is evaluated."""
    with pytest.raises(spdl.io.ArchiveError, match="cannot read the npy data") as caught:
        spdl.io.load_npy(with_header(text, bytes(64)))
    assert reason in str(caught.value)


def test_objects_and_records_as_numpy_writes_them() -> None:
    """Neither can be viewed."""
    stream = io.BytesIO()
    np.save(stream, np.array([{}, []], dtype=object), allow_pickle=True)
    with pytest.raises(RuntimeError, match="Python objects"):
        spdl.io.load_npy(stream.getvalue())
    with pytest.raises(RuntimeError, match="structured"):
        spdl.io.load_npy(make_npy(np.zeros(2, [("a", "i4"), ("b", "f8")])))


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_file_cut_at_any_byte(version: tuple[int, int]) -> None:
    """Every one of them is an error."""
    data = make_npy(np.arange(6, dtype=np.int16), version)
    for cut in range(len(data)):
        with pytest.raises(spdl.io.ArchiveError):
            spdl.io.load_npy(data[:cut])


def test_short_data_is_named_in_bytes() -> None:
    """What is needed and what is there."""
    with pytest.raises(spdl.io.ArchiveError, match=r"shape \(3,\) and dtype int64 needs 24 bytes, and the file has 23"):
        spdl.io.load_npy(make_npy(np.arange(3))[:-1])


@pytest.mark.parametrize(
    ("data", "reason"),
    [(b"", "does not begin with"), (b"PK\x03\x04" * 10, "it looks like zip"), (b"\x93NUMPY\x04\x00" * 9, "version 4")],
)
def test_other_data(data: bytes, reason: str) -> None:
    """The message says what it looks like."""
    with pytest.raises(spdl.io.ArchiveError, match=reason):
        spdl.io.load_npy(data)


@pytest.mark.parametrize("data", ["text", None, 3, memoryview(bytes(40))[::2]], ids=["str", "None", "int", "gaps"])
def test_what_is_no_buffer(data: Any) -> None:
    """It is a TypeError that names the argument."""
    with pytest.raises(TypeError, match="data must be a C-contiguous buffer"):
        spdl.io.load_npy(data)


SMALL = make_npy(np.arange(4, dtype="<u2").reshape(2, 2))


@given(st.lists(st.tuples(st.integers(0, len(SMALL) - 1), st.integers(0, 255)), min_size=1, max_size=3))
@cases(300)
def test_damage_anywhere_is_an_error_or_an_array(changes: list[tuple[int, int]]) -> None:
    """Never a crash; where both give an array, it is the one that NumPy gives."""
    data = bytearray(SMALL)
    for at, value in changes:
        data[at] = value
    try:
        found = spdl.io.load_npy(bytes(data))
    except spdl.io.ArchiveError:
        return
    same(found, np.load(io.BytesIO(data), allow_pickle=False))
