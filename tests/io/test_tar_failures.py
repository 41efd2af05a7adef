"""Archives that are damaged, or none: typed errors that say what is wrong, after the members in front of the damage."""

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import spdl.io
from tests.io.tars import END, header, make_tar, members_of, members_of_stream, padded, pax
from tests.strategies.profiles import cases

Members = list[tuple[str, bytes]]
BOTH = pytest.mark.parametrize("read", [members_of, members_of_stream], ids=["memory", "stream"])
# Without what fills the last record of twenty blocks.
SMALL = make_tar([("a", b"1" * 10), ("b" * 120, b"2" * 600)]).rstrip(b"\0").ljust(7 * 512, b"\0") + END


def zipped() -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("a" * 600, b"1")
    return stream.getvalue()


@BOTH
@pytest.mark.parametrize(
    ("data", "look"),
    [
        (gzip.compress(SMALL), "gzip; decompress it first"),
        (bz2.compress(SMALL), "bzip2; decompress it first"),
        (lzma.compress(SMALL), "xz; decompress it first"),
        (b"\x28\xb5\x2f\xfd" * 200, "zstd; decompress it first"),
        (zipped(), "zip"),
        (b"<!DOCTYPE html><html>" + b" " * 600, "HTML; see what the server said"),
        (b'{"error": 404}', "JSON"),
        (b"\n <HTML>", "HTML; see what the server said"),
        (b'\xef\xbb\xbf<?xml version="1.0"?>' + b" " * 600, "XML; see what the server said"),
        (b"<Error><Code>AccessDenied</Code></Error>", "XML; see what the server said"),
        (b" [1]", "JSON; see what the server said"),
        (b"version https://git-lfs.github.com/spec/v1\n", "a Git LFS pointer"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_no_archive_is_named(read: Callable[[bytes], Members], data: bytes, look: str) -> None:
    """The message says what it looks like, however short it is."""
    with pytest.raises(spdl.io.ArchiveError, match=f"it looks like {look}"):
        read(data)


@BOTH
@pytest.mark.parametrize("data", [b"x", b"garbage!" * 100, b"\xff" * 512, b"\0" * 511 + b"\1"], ids=len)
def test_garbage(read: Callable[[bytes], Members], data: bytes) -> None:
    """It is never silently an archive without members."""
    with pytest.raises(spdl.io.ArchiveError):
        read(data)


def test_error_names_its_source() -> None:
    """Memory by its address, a stream by its name or type."""
    with pytest.raises(RuntimeError, match="cannot read the tar archive Bytes: 0x") as caught:
        members_of(b"x")
    assert isinstance(caught.value, spdl.io.MediaError)
    assert caught.value.action == "read the tar archive"
    stream: Any = io.BytesIO(b"x")
    with pytest.raises(spdl.io.ArchiveError, match="archive BytesIO: Failed to fetch data"):
        list(spdl.io.iter_tarfile(stream))
    named: Any = io.BufferedReader(io.BytesIO(b"x"))
    with pytest.raises(spdl.io.ArchiveError, match="archive BufferedReader"):
        list(spdl.io.iter_tarfile(named))


def given_before_error(members: Iterator[tuple[str, Any]]) -> tuple[Members, Exception | None]:
    """What came out, and the error that ended it."""
    found: Members = []
    try:
        for name, data in members:
            found.append((name, bytes(data)))
    except spdl.io.ArchiveError as exc:
        return found, exc
    return found, None


def test_data_cut_at_any_byte() -> None:
    """Whole members come out, then an error says that there should be more; a warning if it is cut between two."""
    whole = [("a", b"1" * 10), ("b" * 120, b"2" * 600)]
    for cut in range(1, 7 * 512):
        for source in (SMALL[:cut], io.BytesIO(SMALL[:cut])):
            if cut == 1024:
                with pytest.warns(UserWarning, match="ends at byte 1024 without the zeros"):
                    assert [(name, bytes(view)) for name, view in spdl.io.iter_tarfile(source)] == whole[:1]
                continue
            found, error = given_before_error(spdl.io.iter_tarfile(source))
            assert found == whole[: len(found)]
            assert error is not None
            assert "Failed to fetch data." in str(error)


@BOTH
def test_damage_behind_good_members(read: Callable[[bytes], Members]) -> None:
    """The members in front of it come first, and the message has the place."""
    data = bytearray(make_tar([(str(number), b"x") for number in range(100)], format=tarfile.USTAR_FORMAT))
    data[50 * 1024 + 3] ^= 1
    members = spdl.io.iter_tarfile(bytes(data) if read is members_of else io.BytesIO(data))
    found, error = given_before_error(iter(members))
    assert [name for name, _ in found] == [str(number) for number in range(50)]
    assert "the header at byte 51200 is damaged: its checksum is wrong" in str(error)
    assert list(members) == []


@BOTH
@pytest.mark.parametrize(
    "extension",
    [
        header(b"", b"%011o" % 5, b"x") + padded(b"abcde"),
        header(b"", b"%011o" % 5, b"x") + padded(b"9 a=b"),
        header(b"", b"%011o" % 6, b"x") + padded(b"6 ab\n\n"),
        header(b"", b"%011o" % 7, b"x") + padded(b"7 =abc\n"),
        header(b"", b"%011o" % 30, b"x") + padded(b"99999999999999999999999 a=bcd\n"),
        header(b"", b"%011o" % 4, b"x") + padded(b"0 a\n"),
        pax(("size", "-1")),
        pax(("size", "1e3")),
        pax(("size", "99999999999999999999")),
    ],
    ids=range(9),
)
def test_damaged_pax_header(read: Callable[[bytes], Members], extension: bytes) -> None:
    """Records that are none, and sizes that are none."""
    with pytest.raises(spdl.io.ArchiveError, match="PAX headers is damaged"):
        read(extension + header(b"f", b"%011o" % 0) + END)


@BOTH
@pytest.mark.parametrize("type", [b"L", b"K", b"x", b"X", b"g"])
def test_extension_of_too_many_bytes(read: Callable[[bytes], Members], type: bytes) -> None:
    """A name of a gigabyte is not read to find out."""
    with pytest.raises(spdl.io.ArchiveError, match="more than the 16777216 that are accepted"):
        read(header(b"f", b"%011o" % 2**30, type) + END)


@BOTH
def test_extension_without_its_member(read: Callable[[bytes], Members]) -> None:
    """Something is missing there."""
    with pytest.raises(spdl.io.ArchiveError, match="before the member that the header describes"):
        read(pax(("path", "a")) + END)
    with pytest.raises(spdl.io.ArchiveError, match=r"Failed to fetch data\."):
        read(pax(("path", "a")))


@BOTH
def test_sparse_files_are_refused(read: Callable[[bytes], Members]) -> None:
    """Their data is not that of the file; old GNU and PAX forms."""
    for data in (header(b"f", b"%011o" % 0, b"S"), pax(("GNU.sparse.major", "1")) + header(b"f", b"%011o" % 0)):
        with pytest.raises(spdl.io.ArchiveError, match="'f' is stored as a sparse file"):
            read(data + END)


def test_size_beyond_memory_is_not_allocated() -> None:
    """A damaged size is found by the data that is not there."""
    for size in (b"\x80\x00\x00\x00\x7f" + b"\xff" * 7, b"77777777777"):
        for read in (members_of, members_of_stream):
            with pytest.raises(spdl.io.ArchiveError, match=r"Failed to fetch data\."):
                read(header(b"f", size) + bytes(2048))


def test_stream_that_reads_short() -> None:
    """It is told from one that has ended by nothing, so it is an error, which says what helps."""

    class Stream(io.RawIOBase):
        def __init__(self) -> None:
            self.rest = io.BytesIO(SMALL)

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            return self.rest.readinto(memoryview(buffer)[:300])

    with pytest.raises(spdl.io.ArchiveError, match=r"Failed to fetch data\. .*wrap it in io\.BufferedReader"):
        list(spdl.io.iter_tarfile(Stream()))
    assert len(list(spdl.io.iter_tarfile(io.BufferedReader(Stream())))) == 2


class Answering:
    """A stream whose ``read`` gives one thing."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def read(self, size: int) -> Any:
        return self.answer(size) if callable(self.answer) else self.answer


@pytest.mark.parametrize("answer", [None, "text", object()], ids=["None", "str", "object"])
def test_stream_that_gives_no_bytes(answer: Any) -> None:
    """The message names what it gave."""
    with pytest.raises(TypeError, match=f"of Answering must return bytes, got {type(answer).__name__}"):
        list(spdl.io.iter_tarfile(Answering(answer)))


def test_stream_that_gives_too_much() -> None:
    """It would be lost."""
    with pytest.raises(spdl.io.ArchiveError, match=r"gave 513 bytes where 512 were asked for"):
        list(spdl.io.iter_tarfile(Answering(lambda size: bytes(size + 1))))


def test_error_of_the_stream_is_the_users() -> None:
    """As it was raised."""

    def fail(size: int) -> bytes:
        raise ConnectionResetError("gone")

    with pytest.raises(ConnectionResetError, match="gone"):
        list(spdl.io.iter_tarfile(Answering(fail)))


def test_stream_that_iterates_over_itself() -> None:
    """Taking from the iterator inside of ``read`` is an error, not a crash."""
    stream = Answering(lambda size: next(members))
    members: Iterator[Any] = spdl.io.iter_tarfile(stream)
    with pytest.raises(spdl.io.MediaError, match="it is in use by another thread, or by the stream that it reads"):
        next(members)


@given(st.lists(st.tuples(st.integers(0, len(SMALL) - 1), st.integers(0, 255)), min_size=1, max_size=4))
@cases(150)
def test_damage_anywhere_is_an_error_or_members(changes: list[tuple[int, int]]) -> None:
    """Never a crash, and the same from memory and from a stream."""
    data = bytearray(SMALL)
    for at, value in changes:
        data[at] = value
    found, error = given_before_error(spdl.io.iter_tarfile(data))
    streamed, stream_error = given_before_error(spdl.io.iter_tarfile(io.BytesIO(data)))
    assert found == streamed
    assert type(error) is type(stream_error)
