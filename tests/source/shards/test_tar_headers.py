"""Headers of tar archives as old, odd and broken writers leave them."""

import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from spdl.source import CompressedShardError, ShardError, TarIndex

BLOCK = 512


def header(name: bytes = b"a.txt", size: bytes = b"3", kind: bytes = b"0", magic: bytes = b"ustar\x0000") -> bytearray:
    """A header without its checksum."""
    block = bytearray(BLOCK)
    block[: len(name)] = name
    block[100:107] = b"0000644"
    block[124 : 124 + len(size)] = size
    block[156:157] = kind
    block[257 : 257 + len(magic)] = magic
    return block


def signed(block: bytearray) -> int:
    """The checksum of writers whose bytes have a sign."""
    block[148:156] = b" " * 8
    return sum(byte - 256 if byte >= 128 else byte for byte in block)


def unsigned(block: bytearray) -> int:
    block[148:156] = b" " * 8
    return sum(block)


def sealed(block: bytearray, checksum: Callable[[bytearray], int] = unsigned) -> bytes:
    total = checksum(block)
    block[148:156] = b"%06o\0 " % total
    return bytes(block)


def archive(*blocks: bytes) -> bytes:
    return b"".join(block.ljust(-(-len(block) // BLOCK) * BLOCK, b"\0") for block in blocks) + bytes(2 * BLOCK)


def index_of(folder: Path, *blocks: bytes) -> TarIndex:
    path = folder / "a.tar"
    path.write_bytes(archive(*blocks))
    return TarIndex.build(path)


def texts(index: TarIndex) -> list[bytes]:
    return [sample["txt"] for sample in index]


def pax(*records: tuple[str, str], kind: bytes = b"x") -> tuple[bytes, bytes]:
    """A PAX header and its records."""
    data = b""
    for key, value in records:
        rest = f" {key}={value}\n".encode()
        length = len(rest) + 1
        while len(str(length)) + len(rest) != length:
            length += 1
        data += str(length).encode() + rest
    return sealed(header(b"pax", b"%o" % len(data), kind)), data


@pytest.mark.parametrize("size", [b"3", b"00000000003\0", b"          3 ", b"\x80" + bytes(10) + b"\x03"])
def test_sizes_in_each_way_of_writing(size: bytes, tmp_path: Path) -> None:
    """Octal digits with zeros, spaces or nothing around them; base 256."""
    assert texts(index_of(tmp_path, sealed(header(size=size)), b"abc")) == [b"abc"]


@pytest.mark.parametrize("size", [b"3x", b"9", b"\xff" * 12, b"-3"])
def test_a_size_that_is_no_number(size: bytes, tmp_path: Path) -> None:
    """Digits that octal does not have, letters, negative numbers."""
    with pytest.raises(ShardError, match="the header at byte 0 is damaged: its size is not a number"):
        index_of(tmp_path, sealed(header(size=size)), b"abc")


def test_checksums_of_signed_bytes(tmp_path: Path) -> None:
    """Old writers made them, where a name is not ASCII; ``tarfile`` reads them too."""
    block = sealed(header("é.txt".encode()), signed)
    assert texts(index_of(tmp_path, block, b"abc")) == [b"abc"]
    with tarfile.open(tmp_path / "a.tar") as reference:
        assert reference.getnames() == ["é.txt"]


def test_a_wrong_checksum_behind_the_first_header(tmp_path: Path) -> None:
    """Its place is told."""
    broken = bytearray(sealed(header(b"b.txt")))
    broken[0] ^= 1
    with pytest.raises(ShardError, match="the header at byte 1024 is damaged: its checksum is wrong") as caught:
        index_of(tmp_path, sealed(header()), b"abc", bytes(broken), b"abc")
    assert caught.value.offset == 1024


@pytest.mark.parametrize(
    ("start", "name"),
    [
        (b"\x1f\x8b", "gzip"), (b"BZh", "bzip2"), (b"\xfd7zXZ\x00", "xz"), (b"\x28\xb5\x2f\xfd", "Zstandard"),
        (b"\x04\x22\x4d\x18", "LZ4"),
    ],
)  # fmt: skip
def test_compressed_archives_are_refused_by_name(start: bytes, name: str, tmp_path: Path) -> None:
    """With what to do instead."""
    with pytest.raises(CompressedShardError, match=rf"compressed as a whole \({name}\).*ShardStream"):
        index_of(tmp_path, start + b"\x01" * 600)


def test_names_of_each_kind_of_writer(tmp_path: Path) -> None:
    """POSIX has a prefix; GNU has other things there; V7 has no magic, and folders by their slash."""
    posix = header(b"p.txt")
    posix[345:348] = b"dir"
    gnu = header(b"g.txt", magic=b"ustar  \0")
    gnu[345:348] = b"xyz"
    index = index_of(
        tmp_path,
        *(sealed(posix), b"abc", sealed(gnu), b"def"),
        sealed(header(b"folder/", b"0", b"\0", b"")),
        *(sealed(header(b"v.txt", kind=b"\0", magic=b"")), b"ghi"),
        *(sealed(header(b"c.txt", kind=b"7")), b"jkl"),
    )
    assert [index.key(number) for number in range(len(index))] == ["dir/p", "g", "v", "c"]
    assert texts(index) == [b"abc", b"def", b"ghi", b"jkl"]
    assert index.skipped == {"directory": 1}


def test_kinds_that_nobody_knows_are_counted(tmp_path: Path) -> None:
    """Their data is passed over."""
    index = index_of(tmp_path, sealed(header(b"q.txt", kind=b"Q")), b"abc", sealed(header()), b"def")
    assert texts(index) == [b"def"]
    assert index.skipped == {"unknown": 1}


def test_long_names_of_gnu(tmp_path: Path) -> None:
    """Of the file, and of what a link leads to, which does not matter."""
    name = b"x" * 150 + b".txt"
    index = index_of(
        tmp_path,
        *(sealed(header(b"././@LongLink", b"%o" % len(name), b"L")), name),
        *(sealed(header(b"././@LongLink", b"%o" % len(name), b"K")), name),
        *(sealed(header(b"short")), b"abc"),
        *(sealed(header()), b"def"),
    )
    assert [index.key(number) for number in range(len(index))] == ["x" * 150, "a"]


def test_pax_headers(tmp_path: Path) -> None:
    """A name and a size of one file, or from there on; an empty value takes an earlier one back."""
    index = index_of(
        tmp_path,
        *pax(("path", "everywhere.txt"), kind=b"g"),
        *(*pax(("path", "ü.txt"), ("size", "3"), ("mtime", "1.5")), sealed(header(size=b"7777")), b"abc"),
        *(sealed(header()), b"def"),
        *pax(("path", ""), kind=b"g"),
        *(*pax(("comment", "nothing")), sealed(header(b"b.txt")), b"ghi"),
        *(sealed(header(b"empty", b"0", b"x")), sealed(header(b"c.txt")), b"jkl"),
    )
    assert [index.key(number) for number in range(len(index))] == ["ü", "everywhere", "b", "c"]
    assert texts(index) == [b"abc", b"def", b"ghi", b"jkl"]


@pytest.mark.parametrize(
    "data",
    [b"nonsense", b"99 path=a\n", b"9 path=a.", b"x path=a\n", b"8 =aaaa\n", b"7 path\n", b"1" * 25 + b" a=b\n"],
)
def test_malformed_pax_records(data: bytes, tmp_path: Path) -> None:
    """Lengths that are none or too long, records without an end, a key, or a value."""
    with pytest.raises(ShardError, match="one of its records is malformed"):
        index_of(tmp_path, sealed(header(b"pax", b"%o" % len(data), b"x")), data, sealed(header()), b"abc")


def test_a_pax_size_that_is_no_number(tmp_path: Path) -> None:
    """It would be the place of all that follows."""
    with pytest.raises(ShardError, match="its PAX header says that its size is '3e0'"):
        index_of(tmp_path, *pax(("size", "3e0")), sealed(header()), b"abc")


def test_an_extension_that_would_fill_memory(tmp_path: Path) -> None:
    """It is damage, or worse."""
    with pytest.raises(ShardError, match="it is an extension of 1073741823 bytes"):
        index_of(tmp_path, sealed(header(b"pax", b"7777777777", b"x")), b"abc")


@pytest.mark.parametrize("kind", [b"x", b"L"])
@pytest.mark.parametrize("ends_well", [False, True])
def test_an_extension_without_its_member(kind: bytes, ends_well: bool, tmp_path: Path) -> None:
    """The archive was cut off behind it."""
    name = b"12 path=a.b\n"
    blocks = archive(sealed(header(b"ext", b"%o" % len(name), kind)), name)
    path = tmp_path / "a.tar"
    path.write_bytes(blocks if ends_well else blocks[: 2 * BLOCK])
    with pytest.raises(ShardError, match="the member described by an extension header is missing"):
        TarIndex.build(path)


def test_sparse_files_of_gnu_with_a_long_map(tmp_path: Path) -> None:
    """Their map goes on in blocks of its own; the file behind them is found."""
    block = header(b"sparse.txt", kind=b"S", magic=b"ustar  \0")
    block[482] = 1
    goes_on = bytearray(BLOCK)
    goes_on[504] = 1
    index = index_of(tmp_path, sealed(block), bytes(goes_on), bytes(BLOCK), b"abc", sealed(header()), b"def")
    assert texts(index) == [b"def"]
    assert index.skipped == {"sparse file": 1}


def test_what_tarfile_writes_is_read_without_an_end(tmp_path: Path) -> None:
    """An archive whose zeros are missing ends where its bytes do; a warning says so."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as written:
        info = tarfile.TarInfo("a.txt")
        info.size = 3
        written.addfile(info, io.BytesIO(b"abc"))
    path = tmp_path / "a.tar"
    path.write_bytes(stream.getvalue()[: 2 * BLOCK])
    with pytest.warns(UserWarning, match="ends at byte 1024 without the zeros"):
        index = TarIndex.build(path)
    assert texts(index) == [b"abc"]
