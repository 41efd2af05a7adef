"""PNG of every kind: the pixels of Pillow, whether libdeflate inflates them at once or FFmpeg's decoder row by row."""

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

import spdl.io
from tests.io.pictures import Pixels

#: Colour type, bits of a sample, samples of a pixel.
KINDS = [
    *[(0, bits, 1) for bits in (1, 2, 4, 8, 16)],
    *[(2, bits, 3) for bits in (8, 16)],
    *[(3, bits, 1) for bits in (1, 2, 4, 8)],
    *[(4, bits, 2) for bits in (8, 16)],
    *[(6, bits, 4) for bits in (8, 16)],
]
ADAM7 = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def write_png(kind: tuple[int, int, int], width: int, height: int, *, interlaced: bool, between: bytes = b"") -> bytes:
    """A PNG of noise, without filters, in two chunks of pixels with ``between`` between them."""
    colour_type, bits, samples = kind
    rng = np.random.default_rng(width * 1000 + height)
    noise = rng.integers(0, 2, (height, width * samples * bits), np.uint8).reshape(height, width, samples * bits)
    passes = ADAM7 if interlaced else [(0, 0, 1, 1)]
    rows = b""
    for left, top, across, down in passes:
        for row in noise[top::down, left::across]:
            if len(row):
                rows += b"\0" + np.packbits(row.ravel()).tobytes()
    packed = zlib.compress(rows)
    header = struct.pack(">IIBBBBB", width, height, bits, colour_type, 0, 0, int(interlaced))
    palette = chunk(b"PLTE", rng.bytes(3 << bits)) if colour_type == 3 else b""
    pixels = chunk(b"IDAT", packed[:20]) + between + chunk(b"IDAT", packed[20:])
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + palette + pixels + chunk(b"IEND", b"")


def load(data: bytes, **options: str | None) -> Pixels:
    array: Pixels = spdl.io.to_numpy(spdl.io.load_image(data, **options))  # type: ignore[call-overload]
    return array


@pytest.mark.parametrize("interlaced", [False, True], ids=["plain", "interlaced"])
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_every_kind_has_the_same_samples_in_both_ways(kind: tuple[int, int, int], interlaced: bool) -> None:
    """Another chunk between those of the pixels, which FFmpeg passes over, keeps libdeflate out."""
    for width, height in ((1, 1), (3, 5), (37, 23), (200, 130)):
        data = write_png(kind, width, height, interlaced=interlaced)
        other = write_png(kind, width, height, interlaced=interlaced, between=chunk(b"tEXt", b"key\0value"))
        assert (load(data) == load(other)).all()
        everything = "format=pix_fmts=rgba64"
        assert (load(data, filter_desc=everything) == load(other, filter_desc=everything)).all()


@pytest.mark.parametrize("interlaced", [False, True], ids=["plain", "interlaced"])
@pytest.mark.parametrize("kind", [each for each in KINDS if each[1] <= 8], ids=str)
def test_every_kind_has_the_pixels_of_pillow(kind: tuple[int, int, int], interlaced: bool) -> None:
    """Up to 8 bits, where Pillow rounds nothing."""
    data = write_png(kind, 37, 23, interlaced=interlaced)
    with Image.open(io.BytesIO(data)) as picture:
        assert (load(data) == np.asarray(picture.convert("RGB"))).all()


def test_damage_is_found_where_ffmpeg_finds_it() -> None:
    """Checksums of chunks and of the pixels, lengths, too few and too many pixels: an error, or what it was before."""
    data = write_png((2, 8, 3), 37, 23, interlaced=False)
    at = data.index(b"IDAT") + 4
    for position in (16, 20, 29, at, at + 3, at + 21, len(data) - 13):
        with pytest.raises(spdl.io.MediaError):
            load(data[:position] + bytes([data[position] ^ 0x55]) + data[position + 1 :])
    for end in range(30, len(data) - 12, 97):
        with pytest.raises(spdl.io.MediaError):
            load(data[:end])


def test_size_is_checked_before_memory_is_taken() -> None:
    """A header that claims a picture far larger than its data."""
    data = bytearray(write_png((6, 16, 4), 37, 23, interlaced=True))
    data[16:24] = struct.pack(">II", 12_000, 12_000)
    data[29:33] = struct.pack(">I", zlib.crc32(data[12:29]))
    with pytest.raises(spdl.io.ImageTooLargeError):
        load(bytes(data[:16] + struct.pack(">II", 2**31 - 1, 2**31 - 1) + data[24:]))
    with pytest.raises(spdl.io.DecodeError):
        load(bytes(data))
