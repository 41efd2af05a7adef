"""Read the headers of a tar archive, by ranges or in order: which regular files it has, and where.

Supports POSIX ustar and PAX, GNU (long names, base-256 numbers) and V7 headers. Sources: POSIX.1-2017, pax, "ustar
Interchange Format" and "pax Header Block"; the GNU tar manual, "Basic Tar Format"; and, for cases that these do not
specify, tarfile of the standard library.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from spdl.source._compressed import compression_of, describe_beginning
from spdl.source._stores import CompressedShardError, ShardError

BLOCK: Final = 512
#: Maximum size of an extension header, which has the name or attributes of one file. A larger one is damaged, or meant
#: to exhaust memory.
_LARGEST_EXTENSION: Final = 16 << 20
_ZEROS: Final = bytes(BLOCK)
_REGULAR: Final = b"0\x007"
_EXTENSIONS: Final = b"xXgLK"
# In the names of extension headers, which follow a template: POSIX.1-2017, pax, `exthdr.name` and `globexthdr.name`;
# those of Python, libarchive, GNU tar and git.
_EXTENSION_NAMES: Final = ("PaxHeader", "@PaxHeader", "@LongLink", "GlobalHead", "pax_global_header")
#: Links, devices, directories and pipes: no data follows them, whatever size their header has.
_WITHOUT_DATA: Final = {
    ord("1"): "hard link",
    ord("2"): "symbolic link",
    ord("3"): "device",
    ord("4"): "device",
    ord("5"): "directory",
    ord("6"): "pipe",
}


class TarMember(NamedTuple):
    """A regular file of an archive."""

    name: str
    offset: int  #: of its data
    size: int
    part: int  #: number of archives before this one, if several were joined


class TarHeaders:
    """The regular files of one archive, in its order. Can be iterated once.

    A ``UserWarning`` after the last file says if the zeros are missing that mark the end, or if another archive follows
    them and is ignored. A file that is cut off between its data and the next header, in the padding, is an error.

    Args:
        read: Function that returns ``length`` bytes from a position on; fewer only at the end of the archive.
        size: Size of the archive, in bytes; ``None``: unknown.
        path: Name of the archive, for messages.
        window: Number of bytes to read at a time. Data larger than this is skipped without being read.
        ignore_zeros: Whether to read archives that were joined (``cat a.tar b.tar``), and not only the first.
    """

    def __init__(
        self, read: Callable[[int, int], bytes], size: int | None, path: str, window: int, *, ignore_zeros: bool = False
    ) -> None:
        self._read = read
        self._size = size
        self._path = path
        self._window = window
        self._ignore_zeros = ignore_zeros
        self._start = 0
        self._bytes = b""
        #: Number of archives before the current one, if several were joined.
        self.part = 0
        self._long_name: str | None = None
        self._global: dict[str, str] = {}
        self._local: dict[str, str] = {}
        #: Number of skipped members, by kind.
        self.skipped: Counter[str] = Counter()
        #: Name of the file whose header is read or missing, as far as it is known.
        self.due: str | None = None
        # The beginning of a header that is cut off.
        self._cut = b""
        self._was_extended = self._is_extended = False

    def __iter__(self) -> Iterator[TarMember]:
        position = padding = 0
        has_end = False
        while block := self._header(position, padding):
            position += padding
            padding = 0
            if block == _ZEROS:
                self._check_nothing_is_due(position)
                has_end = True
                following = self._pass_zeros(position)
                if following is None:
                    break
                position = following
                self.part += 1
                self._global = {}
                continue
            has_end = False
            size = self._check(block, position)
            kind = block[156]
            position += BLOCK
            if kind in _EXTENSIONS:
                self._is_extended = self._is_extended or kind != ord("g")
                self._read_extension(kind, position, size)
                position, padding = position + size, -size % BLOCK
                continue
            local, self._local = self._local, {}
            long_name, self._long_name = self._long_name, None
            self._was_extended, self._is_extended = self._is_extended, False
            if kind in _WITHOUT_DATA:
                self.skipped[_WITHOUT_DATA[kind]] += 1
                continue
            is_sparse = kind == ord("S") or any(key.startswith("GNU.sparse.") for key in (*local, *self._global))
            if kind == ord("S") and block[482]:
                position = self._pass_sparse_map(position)
            stated = local.get("size") or self._global.get("size")
            if stated is not None:
                if not (stated.isascii() and stated.isdigit()):
                    raise self._damage(position - BLOCK, f"its PAX header says that its size is {stated!r}")
                size = int(stated)
            name = local.get("path") or long_name or self._global.get("path") or _name_of(block)
            if self._size is not None and position + size > self._size:
                self.due = name
                raise self._cut_off(position, f"a member has {size} bytes there")
            if is_sparse:
                self.skipped["sparse file"] += 1
            elif kind == 0 and name.endswith("/"):  # a V7 directory
                self.skipped["directory"] += 1
                continue
            elif kind not in _REGULAR:
                self.skipped["unknown"] += 1
            else:
                yield TarMember(name, position, size, self.part)
            position, padding = position + size, -size % BLOCK
        if not has_end:
            warnings.warn(
                f"{self._path!r} ends at byte {position + padding} without the zeros that end a tar archive: it may "
                "have been longer",
                stacklevel=3,
            )

    def starts_another(self, key: str) -> bool:
        """After an error: whether the file behind the last one is certainly none of the files ``key.*``.

        Those differ in their extensions only, so that all or none of them have a header for a long name, if the key is
        not almost long.
        """
        is_new = self._is_extended and not self._was_extended and len(key.encode("utf-8", "surrogateescape")) < 60
        return is_new or _is_of_another(self._cut, key)

    def _header(self, position: int, padding: int) -> bytes:
        """The header behind the padding that begins at a position; empty if the archive ends where it would begin."""
        self.due = self._local.get("path") or self._long_name
        found = self._peek(position, padding + BLOCK)
        is_over = self._size is None or position + padding == self._size
        if len(found) == padding and position + padding and is_over:
            self._check_nothing_is_due(position + padding)
            return b""
        if len(found) < padding + BLOCK:
            if not position:
                self._refuse(found)
            if len(found) < padding:
                raise self._cut_off(position, "the padding of a file is missing")
            self._cut = found[padding:]
            raise self._cut_off(position + padding, "a header is missing")
        return found[padding:]

    def _pass_zeros(self, position: int) -> int | None:
        """The position of the archive that follows the zeros; ``None``: there is none, or it is not to be read."""
        while len(block := self._peek(position := position + BLOCK, BLOCK)) == BLOCK:
            if block == _ZEROS:
                continue
            if self._ignore_zeros:
                return position
            if _has_checksum(block):
                warnings.warn(
                    f"{self._path!r} has another archive behind its end, at byte {position}, which is ignored; "
                    "ignore_zeros=True reads it too",
                    stacklevel=4,
                )
            break
        return None

    def _peek(self, position: int, length: int) -> bytes:
        """The bytes at a position; fewer at the end of the archive."""
        start = position - self._start
        if start >= 0 and start + length <= len(self._bytes):
            return self._bytes[start : start + length]
        # A stream cannot be read twice.
        found = self._bytes[start:] if start >= 0 else b""
        wanted = max(length, self._window) - len(found)
        if self._size is not None:
            wanted = min(wanted, self._size - position - len(found))
        if wanted > 0:
            found += self._read(position + len(found), wanted)
        self._bytes, self._start = found, position
        return found[:length]

    def _get(self, position: int, length: int, what: str) -> bytes:
        found = self._peek(position, length)
        if len(found) < length:
            raise self._cut_off(position, what)
        return found

    def _cut_off(self, position: int, what: str) -> ShardError:
        length = "" if self._size is None else f"It has {self._size} bytes, and "
        return ShardError(
            f"cannot read the tar archive {self._path!r}: it ends early. {length}at byte {position} {what}. It was not "
            "written or copied completely: make or copy it again",
            shard=self._path,
            offset=position,
        )

    def _damage(self, position: int, reason: str) -> ShardError:
        return ShardError(
            f"cannot read the tar archive {self._path!r}: the header at byte {position} is damaged: {reason}",
            shard=self._path,
            offset=position,
        )

    def _check(self, block: bytes, position: int) -> int:
        """Check a header and return its size field."""
        if not _has_checksum(block):
            if position == 0:
                self._refuse(block)
                raise ShardError(
                    f"cannot read {self._path!r}: it is not a tar archive: its first block is not a header (it begins "
                    f"with {block[:8]!r})",
                    shard=self._path,
                    offset=0,
                )
            raise self._damage(position, "its checksum is wrong")
        size = _number(block[124:136])
        if size is None:
            raise self._damage(position, "its size is not a number")
        return size

    def _refuse(self, start: bytes) -> None:
        """Raise if what begins so is known not to be a tar archive."""
        if (compression := compression_of(start)) is not None:
            raise CompressedShardError(
                f"cannot index {self._path!r}: it is compressed as a whole ({compression}), so samples cannot be read "
                "individually. Read it in order with ShardStream, or decompress it: images and audio in shards are "
                "already compressed",
                shard=self._path,
                offset=0,
            )
        if looks := describe_beginning(start):
            raise ShardError(f"cannot read {self._path!r}: it is not a tar archive{looks}", shard=self._path, offset=0)

    def _check_nothing_is_due(self, position: int) -> None:
        if self._local or self._long_name is not None:
            raise self._cut_off(position, "the member described by an extension header is missing")

    def _read_extension(self, kind: int, position: int, size: int) -> None:
        if size > _LARGEST_EXTENSION:
            raise self._damage(
                position - BLOCK, f"it is an extension of {size} bytes, and {_LARGEST_EXTENSION} are accepted"
            )
        data = self._get(position, size, "an extension header is missing") if size else b""
        if kind == ord("L"):
            self._long_name = _text(data)
        elif kind == ord("g"):
            self._read_pax(data, position, self._global)
        elif kind != ord("K"):
            self._read_pax(data, position, self._local)

    def _read_pax(self, data: bytes, position: int, found: dict[str, str]) -> None:
        """Records ``<length> <key>=<value>\\n``, where the length counts the whole record."""
        place = 0
        while place < len(data) and data[place]:
            space = data.find(b" ", place)
            digits = data[place:space]
            stop = place + int(digits) if space > 0 and digits.isdigit() and len(digits) < 20 else 0
            key, equals, value = data[space + 1 : stop - 1].partition(b"=")
            if not place < space < stop <= len(data) or data[stop - 1] != ord("\n") or not key or not equals:
                raise self._damage(position - BLOCK, "it is a PAX header, and one of its records is malformed")
            # An empty value removes an earlier one.
            found[_decode(key)] = _decode(value)
            place = stop

    def _pass_sparse_map(self, position: int) -> int:
        while True:
            block = self._get(position, BLOCK, "the map of a sparse file is missing")
            position += BLOCK
            if not block[504]:
                return position


def _is_of_another(cut: bytes, key: str) -> bool:
    """Whether a header that begins so is certainly not of a file ``key.*``, nor an extension of its header."""
    if not cut or (len(cut) > 156 and cut[156] in _EXTENSIONS):
        return False
    name = _text(cut[:100])
    is_whole = len(cut) >= 100 or b"\0" in cut
    *folders, last = name.split("/")
    begun = [] if is_whole else [each for each in _EXTENSION_NAMES if each.startswith(last)]
    named = [part for part in (*folders, last) if part.startswith(_EXTENSION_NAMES)]
    if begun or (named and len(cut) <= 156) or (not is_whole and not name.strip("./")):
        return False
    # The folders may be in the prefix of the header, which follows.
    parts = f"{key}.".split("/")
    own = ("/".join(parts[first:]) for first in range(len(parts)))
    return not any(name.startswith(each) or (not is_whole and each.startswith(name)) for each in own)


def _has_checksum(block: bytes) -> bool:
    """Whether a block is a header: its checksum is right."""
    total = sum(block) - sum(block[148:156]) + 8 * ord(" ")
    stated = _number(block[148:156])
    # Some old writers summed signed bytes.
    return stated == total or stated == total - 256 * sum(byte >= 128 for byte in block[:148] + block[156:])


def _number(field: bytes) -> int | None:
    """Parse octal digits between spaces (none: 0), or GNU's base-256: two's complement, marked by its top bit."""
    if field[0] & 0x80:
        return None if field[0] & 0x40 else int.from_bytes(field, "big") - (1 << (8 * len(field) - 1))
    digits = field.split(b"\0", 1)[0].strip(b" ")
    if not digits:
        return 0
    try:
        return int(digits, 8) if digits.isdigit() else None
    except ValueError:
        return None


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _text(data: bytes) -> str:
    return _decode(data.split(b"\0", 1)[0])


def _name_of(block: bytes) -> str:
    name = _text(block[:100])
    # Only POSIX headers have a prefix; GNU ("ustar ") and V7 headers have other data there.
    if block[257:263] == b"ustar\0" and block[345]:
        return f"{_text(block[345:500])}/{name}"
    return name
