"""Edit lists (ISO/IEC 14496-12, 8.6.6) of MP4 files, written by hand."""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Final

__all__ = ["Clock", "Edit", "clock_of", "write_edits"]


@dataclass(frozen=True, slots=True)
class Edit:
    """A part of the media that is presented, or nothing, for a time.

    Attributes:
        duration: In units of the movie.
        start: In units of the media; ``None`` where nothing is presented.
        rate: The speed, where 1 << 16 is that of the media.
    """

    duration: int
    start: int | None
    rate: int = 1 << 16


@dataclass(frozen=True, slots=True)
class Clock:
    """Units of a second of the movie, and of the media of a track.

    Attributes:
        movie: Of the movie.
        media: Of the media.
        start: Where the first edit begins in the media.
    """

    movie: int
    media: int
    start: int

    def ticks(self, duration: int) -> Fraction:
        """A duration of the movie in units of the media."""
        return Fraction(duration * self.media, self.movie)


def _boxes(data: bytes) -> list[tuple[bytes, bytes]]:
    found = []
    at = 0
    while at < len(data):
        size, name = struct.unpack_from(">I4s", data, at)
        found.append((name, data[at + 8 : at + size]))
        at += size
    return found


def _box(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I4s", 8 + len(content), name) + content


def _find(data: bytes, *path: bytes) -> bytes:
    for name in path:
        data = next((content for each, content in _boxes(data) if each == name), b"")
    return data


def _is_of(track: bytes, handler: bytes) -> bool:
    return _find(track, b"mdia", b"hdlr")[8:12] == handler


def clock_of(path: Path, handler: bytes = b"vide") -> Clock:
    """The clock of the track of that kind, in a file that the ffmpeg tool wrote."""
    moov = _find(path.read_bytes(), b"moov")
    track = next(content for name, content in _boxes(moov) if name == b"trak" and _is_of(content, handler))
    movie, *_ = struct.unpack_from(">I", _find(moov, b"mvhd"), 12)
    media, *_ = struct.unpack_from(">I", _find(track, b"mdia", b"mdhd"), 12)
    edit_list = _find(track, b"edts", b"elst")
    return Clock(movie, media, struct.unpack_from(">i", edit_list, 12)[0] if edit_list else 0)


def _list_of(edits: Sequence[Edit], *, is_wide: bool) -> bytes:
    form = ">QqI" if is_wide else ">IiI"
    entries = [struct.pack(form, edit.duration, -1 if edit.start is None else edit.start, edit.rate) for edit in edits]
    return _box(b"edts", _box(b"elst", struct.pack(">II", is_wide << 24, len(entries)) + b"".join(entries)))


def write_edits(path: Path, edits: Sequence[Edit], *, is_wide: bool = False, handler: bytes = b"vide") -> None:
    """Replace the edit list of the track of that kind.

    The index of the file is behind the media, as the tool writes it, so nothing else moves; that of a fragmented file
    is before them, but fragments count from their own start, and the table of their places at the end is left out.
    """

    def changed(track: bytes) -> bytes:
        if not _is_of(track, handler):
            return track
        parts = [_box(name, content) for name, content in _boxes(track) if name != b"edts"]
        return b"".join([*parts[:1], _list_of(edits, is_wide=is_wide), *parts[1:]])

    change: Final[dict[bytes, Callable[[bytes], bytes]]] = {b"trak": changed}
    data = b""
    for name, content in _boxes(path.read_bytes()):
        if name == b"moov":
            content = b"".join(_box(each, change.get(each, bytes)(part)) for each, part in _boxes(content))
        if name != b"mfra":
            data += _box(name, content)
    path.write_bytes(data)
