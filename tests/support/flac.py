"""FLAC files byte by byte, with samples as they are: what encoders seldom or never write (RFC 9639)."""

import itertools
import struct
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["flac_file", "frame_header", "id3"]


def _table(polynomial: int, width: int) -> list[int]:
    table = []
    for byte in range(256):
        crc = byte << (width - 8)
        for _ in range(8):
            crc = crc << 1 ^ (polynomial if crc >> (width - 1) & 1 else 0)
        table.append(crc & ((1 << width) - 1))
    return table


_CRC8, _CRC16 = _table(0x07, 8), _table(0x8005, 16)


def _crc8(data: bytes) -> int:
    """Of a header."""
    crc = 0
    for byte in data:
        crc = _CRC8[crc ^ byte]
    return crc


def _crc16(data: bytes) -> int:
    crc = 0
    for byte in data:
        crc = (crc << 8 & 0xFFFF) ^ _CRC16[crc >> 8 ^ byte]
    return crc


def _coded(number: int) -> bytes:
    """As UTF-8 codes a code point, of up to 36 bits."""
    if number < 0x80:
        return bytes([number])
    more = next(n for n in range(1, 7) if number < 1 << (6 * n + max(6 - n, 0)))
    lead = (0xFF00 >> (more + 1)) & 0xFF | number >> 6 * more
    return bytes([lead, *(0x80 | number >> 6 * i & 0x3F for i in reversed(range(more)))])


def frame_header(number: int, num_samples: int, channels: int, bits: int, *, is_variable: bool = False) -> bytes:
    """With its checksum. ``number``: of the frame, or of its first sample."""
    form = (channels - 1) << 4 | {8: 1, 16: 4, 24: 6}[bits] << 1
    start = bytes([0xFF, 0xF9 if is_variable else 0xF8, 0x70, form])
    header = start + _coded(number) + struct.pack(">H", num_samples - 1)
    return header + bytes([_crc8(header)])


def id3(size: int) -> bytes:
    """A tag of that size, without content."""
    return b"ID3\4\0\0" + bytes([size >> 21 & 0x7F, size >> 14 & 0x7F, size >> 7 & 0x7F, size & 0x7F]) + bytes(size)


def flac_file(
    samples: NDArray[np.int32], sizes: int | Sequence[int], *, rate: int = 8000, bits: int = 16, is_table: bool = False
) -> tuple[bytes, list[int]]:
    """The file, and where each frame begins.

    Args:
        samples: ``(channels, samples)``.
        sizes: Of all frames; or, in turn, of each, which makes the block size variable.
        is_table: Whether there is a table for seeking, of every third frame.
    """
    channels, total = samples.shape
    is_variable = not isinstance(sizes, int)
    turns = itertools.cycle([sizes] if isinstance(sizes, int) else sizes)
    frames: list[bytes] = []
    points: list[bytes] = []
    places: list[int] = []
    first = place = 0
    while first < total:
        part = samples[:, first : first + next(turns)]
        header = frame_header(
            first if is_variable else len(frames), part.shape[1], channels, bits, is_variable=is_variable
        )
        size = bits // 8
        rows = [row.astype(">i4").view(np.uint8).reshape(-1, 4)[:, 4 - size :].tobytes() for row in part]
        frame = header + b"".join(b"\2" + row for row in rows)
        points.append(struct.pack(">QQH", first, place, part.shape[1]))
        places.append(place)
        frames.append(frame + struct.pack(">H", _crc16(frame)))
        place += len(frames[-1])
        first += part.shape[1]
    least, most = (sizes, sizes) if isinstance(sizes, int) else (min(sizes), max(sizes))
    info = struct.pack(">HH", least, most) + bytes(6)
    info += (rate << 44 | (channels - 1) << 41 | (bits - 1) << 36 | total).to_bytes(8, "big") + bytes(16)
    blocks = [(0, info)] + ([(3, b"".join(points[::3]))] if is_table else []) + [(1, bytes(10))]
    start = b"fLaC"
    for kind, block in blocks:
        start += bytes([kind | (0x80 if kind == 1 else 0)]) + len(block).to_bytes(3, "big") + block
    return start + b"".join(frames), [len(start) + place for place in places]
