"""``load_npz`` and ``NpzFile``, judged by ``numpy.savez`` and ``zipfile``."""

import gc
import io
import struct
import threading
import zipfile
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import spdl.io
from spdl.io import _native
from tests.strategies.profiles import cases

ARRAYS = {"x": np.arange(12).reshape(3, 4), "name with ünï": np.linspace(0, 1, 5), "empty": np.zeros((0, 3), "u1")}


def make_npz(*, is_deflated: bool = False, **arrays: Any) -> bytes:
    """The file that NumPy writes."""
    stream = io.BytesIO()
    save: Any = np.savez_compressed if is_deflated else np.savez
    save(stream, **arrays)
    return stream.getvalue()


def make_zip(*entries: tuple[str, bytes], method: int = zipfile.ZIP_STORED, comment: bytes = b"") -> bytes:
    """Any zip archive."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, data in entries:
            archive.writestr(name, data)
        archive.comment = comment
    return stream.getvalue()


def npy(array: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def same(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """All arrays, in order."""
    assert list(found) == list(wanted)
    for name, array in wanted.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)


@pytest.fixture(params=["libdeflate", "zlib"])
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What inflates: libdeflate, if this build has it; and zlib, as in a build without."""
    if request.param == "zlib":
        monkeypatch.setattr(_native.core, "inflate", lambda data, memory: False)
        monkeypatch.setattr(_native.core, "crc32", lambda data: None)
    elif _native.core.libdeflate_version() is None:
        pytest.skip("the native part was built without libdeflate")
    return str(request.param)


def outcome(read: Callable[[], Any]) -> tuple[Any, ...]:
    """The bytes of an array, or type and message of the error."""
    try:
        return ("array", read().tobytes())
    except (spdl.io.ArchiveError, ValueError) as exc:
        return (type(exc), str(exc))


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("is_deflated", [False, True], ids=["stored", "deflated"])
def test_gives_what_was_saved(is_deflated: bool) -> None:
    """Names, order, dtypes and values."""
    same(spdl.io.load_npz(make_npz(is_deflated=is_deflated, **ARRAYS)), ARRAYS)


def test_mapping() -> None:
    """It behaves as NumPy's does."""
    file = spdl.io.load_npz(make_npz(a=np.arange(3), b=np.arange(4)))
    assert isinstance(file, Mapping)
    assert isinstance(file, spdl.io.NpzFile)
    assert repr(file) == "NpzFile object with 2 entries."
    assert file.files == list(file) == list(file.keys()) == ["a", "b"]
    assert len(file) == 2
    assert "a" in file
    assert "a.npy" in file
    assert "c" not in file
    assert file["a.npy"].shape == (3,)
    assert {name: array.size for name, array in file.items()} == {"a": 3, "b": 4}
    with pytest.raises(KeyError, match="c is not a file in the archive"):
        file["c"]


def test_stored_arrays_are_views() -> None:
    """Writable where the buffer is, which is locked while they live."""
    data = bytearray(GOOD)
    array = spdl.io.load_npz(data)["a"]
    array[0] = 99
    gc.collect()
    with pytest.raises(BufferError):
        data.clear()
    assert bytes(data) != GOOD
    assert not spdl.io.load_npz(GOOD)["a"].flags.writeable
    del array
    data.clear()


def test_writing_to_a_view_is_no_damage() -> None:
    """The checksum is that of the file, and checked once."""
    file = spdl.io.load_npz(bytearray(make_npz(a=np.arange(3))))
    file["a"][0] = 99
    assert file["a"][0] == 99


def test_deflated_arrays_own_their_memory() -> None:
    """Each access gives another, writable one."""
    file = spdl.io.load_npz(make_npz(is_deflated=True, a=np.arange(300)))
    first, second = file["a"], file["a"]
    first[:] = 0
    assert second[299] == 299
    del file
    gc.collect()
    assert second.sum() == 44850


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("level", [0, 1, 6, 9])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["?", "i1", "<u2", ">i4", "<f2", ">f8", "c16", "S5", "<U3", "M8[ns]"])
def test_every_dtype_and_order_as_numpy_reads_it(dtype: str, order: Any, level: int) -> None:
    """Whatever the level of compression: level 0 stores, level 1 uses other blocks."""
    array = np.asarray(np.arange(60).reshape(3, 4, 5).astype(dtype), order=order)
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=level) as archive:
        archive.writestr("a.npy", npy(array))
    found = spdl.io.load_npz(stream.getvalue())["a"]
    wanted = np.load(io.BytesIO(stream.getvalue()))["a"]
    assert (found.dtype, found.strides, found.flags.writeable) == (wanted.dtype, wanted.strides, True)
    np.testing.assert_array_equal(found, wanted)


def test_libdeflate_inflates_where_the_build_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """zlib is only asked for what libdeflate refuses."""
    if _native.core.libdeflate_version() is None:
        pytest.skip("the native part was built without libdeflate")
    monkeypatch.setattr(zlib, "decompressobj", None)
    monkeypatch.setattr(zlib, "crc32", None)
    same(spdl.io.load_npz(make_npz(is_deflated=True, **ARRAYS)), ARRAYS)


def test_damage_is_named_alike_with_and_without_libdeflate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte of the deflated data changed, and the data cut off at each byte: the same array or the same error."""
    directory = DEFLATED.index(b"PK\1\2")
    start, size = DEFLATED.index(b"a.npy") + 5, struct.unpack_from("<I", DEFLATED, directory + 20)[0]
    start += struct.unpack_from("<H", DEFLATED, 28)[0]
    stated, crc32 = (
        struct.unpack_from("<I", DEFLATED, directory + 24)[0],
        zlib.crc32(npy(np.load(io.BytesIO(DEFLATED))["a"])),
    )
    files = [changed(DEFLATED, at, bytes([DEFLATED[at] ^ 0x55])) for at in range(start, start + size)]

    def outcomes() -> list[tuple[Any, ...]]:
        of_bytes = [outcome(lambda data=data: spdl.io.load_npz(data)["a"]) for data in files]  # type: ignore[misc]
        of_ends = [
            outcome(lambda n=n: spdl.io.NpzFile(DEFLATED, {"a": (start, n, stated, 8, crc32)})["a"])  # type: ignore[misc]
            for n in range(size + 1)
        ]
        return of_bytes + of_ends

    found = outcomes()
    assert found[-1][0] == "array"
    assert sum(kind is spdl.io.ArchiveError for kind, _ in found) > size
    monkeypatch.setattr(_native.core, "inflate", lambda data, memory: False)
    monkeypatch.setattr(_native.core, "crc32", lambda data: None)
    assert outcomes() == found


@pytest.mark.usefixtures("library")
def test_large_deflated_array() -> None:
    """Of many parts."""
    array = np.random.default_rng(0).integers(0, 4, 3_000_000, dtype=np.uint8)
    same(spdl.io.load_npz(make_npz(is_deflated=True, a=array)), {"a": array})


@pytest.mark.parametrize("prefix", [b"", b"#!/bin/sh\n" * 20], ids=["bare", "prefixed"])
@pytest.mark.parametrize("comment", [b"", b"a comment", b"PK\x05\x06" * 30], ids=["", "comment", "tricky"])
def test_comments_and_prefixes(prefix: bytes, comment: bytes) -> None:
    """Whatever stands in front of the archive, and at its end."""
    array = np.arange(4)
    same(spdl.io.load_npz(prefix + make_zip(("a.npy", npy(array)), comment=comment)), {"a": array})


class Unseekable(io.RawIOBase):
    """A sink that makes ``zipfile`` write data descriptors."""

    def __init__(self) -> None:
        self.data = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.data += data
        return len(data)


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("is_zip64", [False, True], ids=["zip", "zip64"])
def test_archive_written_to_a_pipe(method: int, is_zip64: bool) -> None:
    """Sizes come behind the data there, in 64 bits where that was forced."""
    sink = Unseekable()
    with (
        zipfile.ZipFile(sink, "w", method) as archive,
        archive.open("a.npy", "w", force_zip64=is_zip64) as entry,
    ):
        entry.write(npy(np.arange(9)))
    same(spdl.io.load_npz(sink.data), {"a": np.arange(9)})


@pytest.mark.parametrize("prefix", [b"", b"junk" * 25])
def test_zip64_directory(prefix: bytes) -> None:
    """Sizes and offsets of 64 bits, as large archives have them."""
    data = npy(np.arange(5))
    local = struct.pack("<4s5H3I2H", b"PK\3\4", 45, 0, 0, 0, 0, zlib.crc32(data), *[0xFFFFFFFF] * 2, 5, 20)
    local += b"a.npy" + struct.pack("<2H2Q", 1, 16, len(data), len(data)) + data
    extra = struct.pack("<2H3Q", 1, 24, len(data), len(data), 0)
    central = struct.pack("<4s6H3I5H2I", b"PK\1\2", 45, 45, 0, 0, 0, 0, zlib.crc32(data), *[0xFFFFFFFF] * 2, 5,
                          len(extra), 0, 0, 0, 0, 0xFFFFFFFF) + b"a.npy" + extra  # fmt: skip
    end64 = struct.pack("<4sQ2H2I4Q", b"PK\6\6", 44, 45, 45, 0, 0, 1, 1, len(central), len(local))
    locator = struct.pack("<4sIQI", b"PK\6\7", 0, len(local) + len(central), 1)
    end = struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    same(spdl.io.load_npz(prefix + local + central + end64 + locator + end), {"a": np.arange(5)})
    with pytest.raises(spdl.io.ArchiveError, match=r"directory\. Its zip64 record is not where it should be"):
        spdl.io.load_npz(local + central + locator + end)
    with pytest.raises(spdl.io.ArchiveError, match=r"directory\. Its zip64 record is missing"):
        spdl.io.load_npz(local + central + end)


def test_empty_archive() -> None:
    """It has no arrays."""
    assert dict(spdl.io.load_npz(make_zip())) == {}


@pytest.mark.parametrize("data", [b"", b"garbage" * 20, b"\x1f\x8b" * 30, npy(np.arange(9))], ids=range(4))
def test_data_that_is_no_zip(data: bytes) -> None:
    """The wording is that of the contract."""
    with pytest.raises(RuntimeError, match=r"The data is not a valid zip file\."):
        spdl.io.load_npz(data)


GOOD = make_npz(a=np.arange(3))
DEFLATED = make_npz(is_deflated=True, a=np.arange(300))


@pytest.mark.parametrize("cut", [4, 30, len(GOOD) - 22, len(GOOD) - 1])
def test_archive_without_its_end(cut: int) -> None:
    """It is known as what it was."""
    with pytest.raises(spdl.io.ArchiveError, match=r"Failed to locate the end of the central directory\."):
        spdl.io.load_npz(GOOD[:cut])


def changed(data: bytes, at: int, value: bytes) -> bytes:
    return data[:at] + value + data[at + len(value) :]


END = len(GOOD) - 22


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (END, b"XX"),
        (END + 4, b"\1"),
        (END + 10, b"\xff\xff"),
        (END + 12, b"\xff\xff\xff\0"),
        (END + 16, b"\xff\xff\xff\0"),
    ],
    ids=["signature", "disks", "entries", "size", "offset"],
)
def test_damaged_end_record(at: int, value: bytes) -> None:
    """Whatever it says that cannot be."""
    with pytest.raises(RuntimeError, match=r"Failed to locate the end of the central directory\."):
        spdl.io.load_npz(changed(GOOD, at, value))


DIRECTORY = GOOD.index(b"PK\1\2")


@pytest.mark.parametrize(
    ("at", "value", "reason"),
    [
        (DIRECTORY, b"XX", "its directory is damaged at entry 0"),
        (DIRECTORY + 28, b"\xff\xff", "its directory is truncated at entry 0"),
        (DIRECTORY + 42, b"\1", "has no header at the offset"),
        (DIRECTORY + 42, b"\xf0\xff\xff\xff", "has no header at the offset"),
        (DIRECTORY + 20, b"\xf0\xff\xff\x7f", "more than there are"),
        (30, b"b", "has a different name in its header"),
        (28, b"\xff\xff", "has a truncated header"),
    ],
)
def test_damaged_directory(at: int, value: bytes, reason: str) -> None:
    """Nothing outside of the archive is looked at."""
    with pytest.raises(spdl.io.ArchiveError, match=reason):
        spdl.io.load_npz(changed(GOOD, at, value))


def test_wrong_checksum() -> None:
    """Stored or deflated, it is noticed when the array is asked for."""
    for data, at in ((GOOD, DIRECTORY + 16), (DEFLATED, DEFLATED.index(b"PK\1\2") + 16), (GOOD, DIRECTORY - 3)):
        file = spdl.io.load_npz(changed(data, at, bytes([data[at] ^ 1])))
        with pytest.raises(RuntimeError, match=r"entry 'a\.npy' has CRC-32 [0-9a-f]{8} where"):
            file["a"]


@pytest.mark.parametrize(
    ("offset", "value", "reason"),
    [(24, b"\x01\x00", "more than the 1 bytes it states"), (24, b"\xff\xff", "ends after 2528 bytes of 65535"),
     (24, b"\xff\xff\xff\x3f", "are too few for that"), (20, b"\x09\x00", "ends after")],
)  # fmt: skip
def test_sizes_that_lie(offset: int, value: bytes, reason: str) -> None:
    """Neither more nor less is made than is stated, and never more than the data can give."""
    data = changed(DEFLATED, DEFLATED.index(b"PK\1\2") + offset, value)
    with pytest.raises(spdl.io.ArchiveError, match=reason):
        spdl.io.load_npz(data)["a"]


@pytest.mark.usefixtures("library")
def test_damaged_stream() -> None:
    """zlib's words are in the message."""
    at = DEFLATED.index(b"a.npy") + 40
    with pytest.raises(spdl.io.ArchiveError, match=r"not valid deflate data|CRC-32|ends after|more than"):
        spdl.io.load_npz(changed(DEFLATED, at, b"\xff" * 20))["a"]


def test_entry_whose_npy_is_damaged() -> None:
    """A note names the entry."""
    file = spdl.io.load_npz(make_zip(("a.npy", npy(np.arange(9))[:-1]), ("b.npy", npy(np.arange(2)))))
    with pytest.raises(spdl.io.ArchiveError, match="needs 72 bytes, and the file has 71") as caught:
        file["a"]
    assert caught.value.__notes__ == ["in entry 'a.npy' of the archive"]
    assert file["b"].size == 2


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_compression(method: int) -> None:
    """It is named by its number."""
    with pytest.raises(ValueError, match=f"compressed by method {method}, which is not supported"):
        spdl.io.load_npz(make_zip(("a.npy", b"x"), method=method))


def test_encryption() -> None:
    """It is refused."""
    with pytest.raises(ValueError, match="is encrypted"):
        spdl.io.load_npz(changed(GOOD, DIRECTORY + 8, b"\1"))


def test_limit_counts_deflated_entries_together() -> None:
    """Stored ones cost no memory."""
    data = make_npz(is_deflated=True, a=np.zeros(1000, "u1"), b=np.zeros(1000, "u1"))
    size = 2 * (1000 + 128)
    assert len(spdl.io.load_npz(data, max_uncompressed_bytes=size)) == 2
    with pytest.raises(
        ValueError, match=rf"have {size} bytes together, more than max_uncompressed_bytes \({size - 1}\)"
    ):
        spdl.io.load_npz(data, max_uncompressed_bytes=size - 1)
    assert len(spdl.io.load_npz(GOOD, max_uncompressed_bytes=0)) == 1
    with pytest.raises(ValueError, match="must be >= 0, got -1"):
        spdl.io.load_npz(GOOD, max_uncompressed_bytes=-1)


def test_overlapping_entries() -> None:
    """As in archives that are made to fill memory."""
    data = GOOD
    directory = data.index(b"PK\1\2")
    entry = data[directory : len(data) - 22]
    end = struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 2, 2, 2 * len(entry), directory, 0)
    with pytest.raises(spdl.io.ArchiveError, match="its entries overlap"):
        spdl.io.load_npz(data[:directory] + entry + entry + end)


@pytest.mark.parametrize(
    ("meta", "error", "reason"),
    [
        ((0, 1, 1), ValueError, "must have 4 or 5 values, got 3"),
        ((0, 1, 1, 0, 0, 0), ValueError, "must have 4 or 5 values, got 6"),
        ((-1, 1, 1, 0), ValueError, "negative"),
        ((0, 1, -1, 0), ValueError, "negative"),
        ((5, 6, 6, 0), ValueError, "not inside the data"),
        ((2**70, 1, 1, 0), ValueError, "not inside the data"),
        ((0, 1, 2, 0), ValueError, "its two sizes differ"),
        ((0, 1, 1, 1), ValueError, "method 1, which is not supported"),
        (("0", 1, 1, 0), TypeError, "must have integers, got str"),
    ],
)  # fmt: skip
def test_wrong_metadata(meta: Any, error: type[Exception], reason: str) -> None:
    """It is checked before anything is read."""
    with pytest.raises(error, match=reason):
        spdl.io.NpzFile(b"x" * 10, {"a": meta})


def test_metadata_of_ones_own() -> None:
    """Without a checksum, nothing is checked; the mapping is taken as it is now."""
    data = b"junk" + npy(np.arange(3))
    meta: dict[str, Any] = {"a.npy": (4, len(data) - 4, len(data) - 4, 0)}
    file = spdl.io.NpzFile(data, meta)
    numpys: Any = tuple(np.int64(number) for number in meta["a.npy"])
    assert np.array_equal(spdl.io.NpzFile(data, {"a.npy": numpys})["a"], file["a"])
    meta.clear()
    same(file, {"a": np.arange(3)})
    same(spdl.io.NpzFile(np.frombuffer(data, np.uint8), {"a": (4, len(data) - 4, len(data) - 4, 0, None)}),
         {"a": np.arange(3)})  # fmt: skip


@pytest.mark.parametrize("data", ["text", None, memoryview(GOOD)[::2]], ids=["str", "None", "gaps"])
def test_what_is_no_buffer(data: Any) -> None:
    """It is a TypeError."""
    with pytest.raises(TypeError):
        spdl.io.load_npz(data)
    with pytest.raises(TypeError):
        spdl.io.NpzFile(data, {})


@pytest.mark.usefixtures("library")
def test_one_file_in_many_threads() -> None:
    """All of them may read it."""
    arrays = {str(number): np.full(5000, number) for number in range(20)}
    file = spdl.io.load_npz(make_npz(is_deflated=True, **arrays))
    sums: list[int] = []
    threads = [threading.Thread(target=lambda: sums.append(sum(int(a.sum()) for a in file.values()))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sums == [5000 * 190] * 4


@given(
    st.booleans(),
    st.lists(st.tuples(st.integers(0, len(GOOD) - 1), st.integers(0, 255)), min_size=1, max_size=3),
)
@cases(300)
def test_damage_anywhere_is_an_error_or_arrays(is_deflated: bool, changes: list[tuple[int, int]]) -> None:
    """Never a crash, and no other error than those of the contract."""
    data = bytearray(DEFLATED if is_deflated else GOOD)
    for at, value in changes:
        data[at % len(data)] = value
    try:
        for array in spdl.io.load_npz(data).values():
            array.tobytes()
    except (spdl.io.ArchiveError, ValueError):
        pass


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_entries_that_are_no_npy_are_bytes(method: int, library: str) -> None:
    """Whatever their names are, as NumPy gives them; and npy files of other names are arrays."""
    entries = [
        ("notes.txt", b"text"), ("empty", b""), ("short", b"\x93NUM"), ("lies.npy", b"no npy at all"),
        ("array", npy(np.arange(3))), ("x.npy", npy(np.arange(4))), ("x", b"not x.npy"), ("folder/", b""),
    ]  # fmt: skip
    data = make_zip(*entries, method=method)
    found = spdl.io.load_npz(data)
    with np.load(io.BytesIO(data)) as reference:
        assert found.files == reference.files
        for name in [*reference.files, *(name for name, _ in entries)]:
            expected = reference[name]
            assert type(found[name]) is type(expected)
            np.testing.assert_array_equal(found[name], expected)
    assert found["notes.txt"] == b"text"


def test_damage_is_no_other_content(library: str) -> None:
    """The checksum is verified of bytes, too."""
    data = bytearray(make_zip(("notes.txt", b"text")))
    data[data.index(b"text")] ^= 1
    with pytest.raises(spdl.io.ArchiveError, match=r"'notes\.txt' has CRC-32"):
        spdl.io.load_npz(bytes(data))["notes.txt"]
