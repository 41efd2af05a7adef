"""``iter_tarfile``: what it finds in archives, judged by the standard library's ``tarfile``."""

import gc
import io
import mmap
import os
import tarfile
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import spdl.io
from tests.io.tars import (
    END,
    header,
    make_tar,
    members_by_tarfile,
    members_of,
    members_of_stream,
    padded,
    pax,
    with_checksum,
)
from tests.strategies.profiles import cases

Members = list[tuple[str, bytes]]
BOTH = pytest.mark.parametrize("read", [members_of, members_of_stream], ids=["memory", "stream"])
FILES: Members = [("a.txt", b"hello"), ("b/c.bin", bytes(range(256)) * 5), ("empty", b""), ("block", b"x" * 512)]

names = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=300).filter(
    lambda name: name.strip("/") != "" and not name.endswith("/")
)


@BOTH
@given(
    st.lists(st.tuples(names, st.binary(max_size=1500)), max_size=6),
    st.sampled_from([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]),
)
@cases(60)
def test_finds_what_tarfile_wrote(read: Callable[[bytes], Members], members: Members, format: int) -> None:
    """Names of any length and script, data of any size, in the order of the archive."""
    data = make_tar(members, format=format)
    assert read(data) == members_by_tarfile(data)


@BOTH
@pytest.mark.parametrize("format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize("length", [1, 99, 100, 101, 155, 156, 200, 243, 250])
def test_long_names(read: Callable[[bytes], Members], format: int, length: int) -> None:
    """ustar splits them, GNU and PAX put them in front."""
    name = ("folder/" * 40)[: length - 1] + "x"
    assert read(make_tar([(name, b"1"), ("next", b"2")], format=format)) == [(name, b"1"), ("next", b"2")]


@BOTH
def test_only_regular_files_are_given(read: Callable[[bytes], Members]) -> None:
    """Folders, links, devices and pipes are passed over, and what follows them is found."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        kinds = [tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE]
        for kind in kinds:
            info = tarfile.TarInfo(f"other-{kind!r}")
            info.type = kind
            info.linkname = "target" * 30  # needs an extension of its own
            archive.addfile(info)
            info = tarfile.TarInfo(f"file-{kind!r}")
            info.size = 3
            archive.addfile(info, io.BytesIO(b"abc"))
    assert read(stream.getvalue()) == [(f"file-{kind!r}", b"abc") for kind in kinds]


@BOTH
def test_type_that_is_not_known_is_passed_over(read: Callable[[bytes], Members]) -> None:
    """With its data."""
    odd = header(b"odd", b"%011o" % 700, b"Z") + padded(bytes(700))
    assert read(odd + header(b"a", b"%011o" % 1) + padded(b"1") + END) == [("a", b"1")]


@BOTH
def test_old_archives(read: Callable[[bytes], Members]) -> None:
    """V7: no magic, type NUL, folders end with a slash, and nothing else is known of the rest of the block."""
    data = header(b"dir/", b"%011o" % 0, b"\0", b"") + header(b"f", b"%011o" % 2, b"\0", b"") + padded(b"hi") + END
    assert read(data) == members_by_tarfile(data) == [("f", b"hi")]


@BOTH
def test_prefix_is_posix_only(read: Callable[[bytes], Members]) -> None:
    """GNU's magic has times in that place."""
    size = b"%011o" % 0
    posix = header(b"name", size, prefix=b"folder")
    gnu = header(b"name", size, magic=b"ustar  \0", prefix=b"14000000000")
    assert [name for name, _ in read(posix + gnu + END)] == ["folder/name", "name"]


@BOTH
@pytest.mark.parametrize(
    "size",
    [b"2", b"2 ", b"  2\0", b"00000000002 ", b"00000000002\0", b"000000000002", b"\x80" + bytes(10) + b"\x02"],
    ids=repr,
)
def test_spellings_of_a_size(read: Callable[[bytes], Members], size: bytes) -> None:
    """Octal with spaces or NULs around it, or base-256."""
    data = header(b"f", size) + padded(b"hi") + END
    assert read(data) == members_by_tarfile(data) == [("f", b"hi")]


@BOTH
@pytest.mark.parametrize(
    "size", [b"9", b"2x", b"-1", b"\xff" * 12, b"\x80" + b"\xff" * 11, b"\x81" + bytes(11)], ids=repr
)
def test_size_that_is_none(read: Callable[[bytes], Members], size: bytes) -> None:
    """Not octal, negative, or more than 63 bits."""
    with pytest.raises(spdl.io.ArchiveError, match=r"header at byte 0 is damaged: its size is not a number"):
        read(header(b"f", size) + END)


@BOTH
def test_checksum_of_signed_bytes(read: Callable[[bytes], Members]) -> None:
    """Some old writers added them so."""
    block = with_checksum(bytearray(header("é".encode() * 2, b"%011o" % 0)), is_signed=True)
    assert read(block + END) == [("é" * 2, b"")]


@BOTH
def test_pax_path_and_size(read: Callable[[bytes], Members]) -> None:
    """They stand for what the header says, for one member."""
    data = pax(("path", "ünï/cödé"), ("size", "3"), ("mtime", "1.5")) + header(b"short", b"%011o" % 0) + padded(b"abc")
    data += header(b"next", b"%011o" % 1) + padded(b"d") + END
    assert read(data) == members_by_tarfile(data) == [("ünï/cödé", b"abc"), ("next", b"d")]


@BOTH
def test_global_pax_header_holds_until_overridden(read: Callable[[bytes], Members]) -> None:
    """A path for all, one of its own for a member, and an empty value that takes it back."""
    size = b"%011o" % 0
    data = pax(("path", "all"), ("comment", "x"), type=b"g") + header(b"1", size) + pax(("path", "own"))
    data += header(b"2", size) + header(b"3", size) + pax(("path", ""), type=b"g") + header(b"4", size) + END
    assert [name for name, _ in read(data)] == ["all", "own", "all", "4"]


@BOTH
def test_names_that_are_not_utf8_become_surrogates(read: Callable[[bytes], Members]) -> None:
    """So that ``os.fsencode`` gives the bytes again; as ``tarfile`` does."""
    raw = b"caf\xe9"
    data = header(raw, b"%011o" % 0) + END
    ((name, _),) = read(data)
    assert name == members_by_tarfile(data)[0][0]
    assert name.encode("utf-8", "surrogateescape") == raw


@BOTH
def test_empty_archives(read: Callable[[bytes], Members]) -> None:
    """No bytes, or end blocks only."""
    assert read(b"") == read(END) == read(bytes(512)) == read(make_tar([])) == []


@BOTH
def test_garbage_behind_the_end_is_ignored(read: Callable[[bytes], Members]) -> None:
    """As by others."""
    data = make_tar(FILES)
    assert read(data + b"garbage") == read(data + b"garbage" * 1000) == FILES


@BOTH
def test_an_archive_behind_the_end_is_told_or_read(read: Callable[[bytes], Members]) -> None:
    """A warning says that it is ignored; with ``ignore_zeros``, its members come too."""
    data = make_tar(FILES)
    with pytest.warns(UserWarning, match=rf"at byte {len(data)}, which is ignored; ignore_zeros=True reads it too"):
        assert read(data + data) == FILES
    for source in (data * 3, io.BytesIO(data * 3)):
        assert [(name, bytes(view)) for name, view in spdl.io.iter_tarfile(source, ignore_zeros=True)] == FILES * 3


@BOTH
def test_the_end_may_be_missing(read: Callable[[bytes], Members]) -> None:
    """Some writers leave the zeros out; or it was cut off, so a warning comes after the members."""
    data = header(b"f", b"%011o" % 2) + padded(b"hi")
    with pytest.warns(UserWarning, match="ends at byte 1024 without the zeros that end a tar archive"):
        assert read(data) == members_by_tarfile(data) == [("f", b"hi")]


@BOTH
def test_a_warning_may_be_an_error(read: Callable[[bytes], Members]) -> None:
    """It comes once, after the last member."""
    data: Any = header(b"f", b"%011o" % 2) + padded(b"hi")
    members = spdl.io.iter_tarfile(data if read is members_of else io.BytesIO(data))
    assert bytes(next(members)[1]) == b"hi"
    with pytest.raises(UserWarning, match="without the zeros"):
        next(members)
    assert list(members) == []


def test_streams_may_read_short_at_the_end() -> None:
    """What is read there is told from the end by asking again."""
    data = make_tar([("f", b"hi"), ("g", b"ho")])

    class Stream(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            return super().read(510 if size == 1022 else size)

    assert list(spdl.io.iter_tarfile(Stream(data))) == [("f", b"hi"), ("g", b"ho")]


def test_any_buffer_of_bytes() -> None:
    """bytes, bytearray, memoryview, array, mmap."""
    data = make_tar(FILES)
    views = [memoryview(data), memoryview(data).cast("b"), memoryview(data).cast("c")]
    for source in (data, bytearray(data), *views, np.frombuffer(data, "u1").reshape(-1, 512)):
        assert members_of(source) == FILES
    with mmap.mmap(-1, len(data)) as mapped:
        mapped[:] = data
        assert members_of(mapped) == FILES


def test_array_of_numbers() -> None:
    """Its bytes are what counts."""
    assert members_of(np.frombuffer(make_tar(FILES), np.int32)) == FILES


def test_views_share_the_buffer() -> None:
    """Zero copy, and writable where the buffer is."""
    data = bytearray(make_tar([("f", b"hello")]))
    ((_, view),) = spdl.io.iter_tarfile(data)
    assert view.format == "B"
    view[0] = ord("j")
    assert b"jello" in data
    ((_, frozen),) = spdl.io.iter_tarfile(bytes(data))
    assert frozen.readonly


def test_buffer_is_locked_while_views_live() -> None:
    """It cannot be resized under them; afterwards it can."""
    data = bytearray(make_tar([("f", b"hello")]))
    members = spdl.io.iter_tarfile(data)
    _, view = next(members)
    with pytest.raises(BufferError):
        data.clear()
    del members
    with pytest.raises(BufferError):
        data.clear()
    view.release()
    data.clear()


def test_views_outlive_the_iterator_and_the_name() -> None:
    """They keep the memory."""
    views = [view for _, view in spdl.io.iter_tarfile(make_tar(FILES))]
    gc.collect()
    assert [bytes(view) for view in views] == [data for _, data in FILES]


def test_iterator_in_a_cycle_is_collected() -> None:
    """A stream that holds the iterator over itself."""

    class Stream(io.BytesIO):
        members: Any

    stream = Stream(make_tar(FILES))
    stream.members = spdl.io.iter_tarfile(stream)
    gone = weakref.ref(stream)
    del stream
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("source", [3, None, "archive.tar", Path("archive.tar"), object()])
def test_other_sources_are_refused(source: Any) -> None:
    """At the call, not at the first member."""
    with pytest.raises(TypeError, match="contiguous buffer or have a method read"):
        spdl.io.iter_tarfile(source)


def test_buffer_with_gaps_is_refused() -> None:
    """Its bytes are not side by side."""
    with pytest.raises(TypeError, match="contiguous"):
        spdl.io.iter_tarfile(memoryview(make_tar(FILES))[::2])


def test_stream_is_read_to_the_end_of_the_member_only() -> None:
    """What follows an archive in a stream is left to others, up to the block."""
    data = make_tar([("a", b"1" * 100), ("b", b"2" * 100)], format=tarfile.USTAR_FORMAT)
    stream = io.BytesIO(data)
    members = spdl.io.iter_tarfile(stream)
    next(members)
    assert stream.tell() == 512 + 100
    next(members)
    assert stream.tell() == 1024 + 512 + 100


def test_stream_of_a_file(tmp_path: Path) -> None:
    """An open file, and a pipe that is buffered."""
    path = tmp_path / "a.tar"
    path.write_bytes(make_tar(FILES))
    with path.open("rb") as file:
        assert list(spdl.io.iter_tarfile(file)) == FILES
    reader, writer = os.pipe()
    with open(reader, "rb") as source:
        with open(writer, "wb") as sink:
            sink.write(path.read_bytes())
        assert list(spdl.io.iter_tarfile(source)) == FILES


def test_stream_may_give_bytearrays() -> None:
    """They become bytes."""

    class Stream(io.BytesIO):
        def read(self, size: int | None = -1, /) -> Any:
            return bytearray(super().read(size))

    assert list(spdl.io.iter_tarfile(Stream(make_tar(FILES)))) == FILES


def test_many_archives_in_many_threads() -> None:
    """Each thread has its own iterator, over one buffer."""
    members = [(f"{number:05}", bytes([number % 256]) * (number % 700)) for number in range(3000)]
    data = make_tar(members, format=tarfile.USTAR_FORMAT)
    found: list[Members] = []
    threads = [threading.Thread(target=lambda: found.append(members_of(data))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [members] * 4


def test_one_iterator_in_many_threads() -> None:
    """Who comes while another one is taking gets an error, and every member comes out once."""
    names = [f"{number:05}" for number in range(5000)]
    members = spdl.io.iter_tarfile(make_tar([(name, b"") for name in names], format=tarfile.USTAR_FORMAT))
    found: list[str] = []

    def take() -> None:
        while True:
            try:
                found.append(next(members)[0])
            except spdl.io.MediaError:
                continue
            except StopIteration:
                return

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == names
