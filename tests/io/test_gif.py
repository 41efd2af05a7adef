"""GIF: the pixels of Pillow, whether it is unpacked at once or by FFmpeg's decoder."""

import io
import struct
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

import spdl.io
from tests.io.pictures import Pixels
from tests.support.lzw import pack_lzw

EVERYTHING = "format=pix_fmts=rgba"
#: Offset of the aspect ratio, which is not looked at here, but by FFmpeg's decoder; 49 stands for square pixels.
ASPECT = 12
rng = np.random.default_rng(6)
STEPS = np.repeat(rng.integers(0, 256, (37, 11), np.uint8), 3, 1)[:, :31]


def load(data: bytes, filter_desc: str | None = None) -> Pixels:
    options: dict[str, Any] = {} if filter_desc is None else {"filter_desc": filter_desc}
    array: Pixels = spdl.io.to_numpy(spdl.io.load_image(data, **options))
    return array


def by_ffmpeg(data: bytes) -> bytes:
    return data[:ASPECT] + b"\x31" + data[ASPECT + 1 :]


def write_gif(
    indices: NDArray[Any],
    bits: int,
    *,
    flags: int = 0,
    most_strings: int = 1 << 12,
    hidden: int | None = None,
    left: int = 0,
    num_bytes: int | None = None,
) -> bytes:
    """A GIF89a with a palette of ``2 ** bits``; ``flags`` are the picture's, of which ``num_bytes`` are there."""
    height, width = indices.shape
    colours = np.random.default_rng(bits).bytes(3 << bits)
    codes = pack_lzw(indices.tobytes()[:num_bytes], "little", bits=max(bits, 2), most_strings=most_strings)
    blocks = b"".join(bytes([len(part)]) + part for at in range(0, len(codes), 99) if (part := codes[at : at + 99]))
    control = b"" if hidden is None else b"!\xf9\x04" + bytes([1, 0, 0, hidden, 0])
    local = b"" if not flags & 0x80 else colours[::-1]
    return (
        b"GIF89a" + struct.pack("<HHBBB", left + width, height, 0x80 | bits - 1, 0, 0) + colours + control
        + b"," + struct.pack("<HHHHB", left, 0, width, height, flags | (bits - 1 if local else 0)) + local
        + bytes([max(bits, 2)]) + blocks + b"\0;"
    )  # fmt: skip


@pytest.mark.parametrize("hidden", [None, 1])
@pytest.mark.parametrize("flags", [0, 0x40, 0x80, 0xC0], ids=["plain", "interlaced", "local", "local-interlaced"])
@pytest.mark.parametrize("bits", [1, 2, 4, 7, 8])
def test_every_kind_has_the_same_samples_in_both_ways(bits: int, flags: int, hidden: int | None) -> None:
    """Of noise, whose table fills up and stays full, and of strings that repeat."""
    for width, height in ((1, 1), (3, 5), (31, 37)):
        for indices in (STEPS[:height, :width] >> (8 - bits), STEPS[:height, :width] % 2):
            for most_strings in (1 << 12, 40):
                data = write_gif(indices, bits, flags=flags, most_strings=max(most_strings, 9 << bits), hidden=hidden)
                assert (load(data) == load(by_ffmpeg(data))).all()
                assert (load(data, EVERYTHING) == load(by_ffmpeg(data), EVERYTHING)).all()


@pytest.mark.parametrize("most_strings", [300, 1 << 12], ids=["cleared", "full"])
def test_a_table_that_is_full_gives_the_pixels_of_pillow(most_strings: int) -> None:
    """Noise of 90x90 has more strings than the table has room for."""
    indices = np.random.default_rng(1).integers(0, 256, (90, 90), np.uint8)
    data = write_gif(indices, 8, most_strings=most_strings)
    with Image.open(io.BytesIO(data)) as picture:
        assert (load(data) == np.asarray(picture.convert("RGB"))).all()


@pytest.mark.parametrize("interlace", [0, 1])
@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB"])
def test_every_kind_has_the_pixels_of_pillow(mode: str, interlace: int) -> None:
    """As Pillow writes it, with as many colours as there are."""
    file = io.BytesIO()
    Image.fromarray(STEPS // 16).convert(mode).save(file, "GIF", interlace=interlace)
    with Image.open(io.BytesIO(file.getvalue())) as picture:
        assert (load(file.getvalue()) == np.asarray(picture.convert("RGB"))).all()


def test_a_picture_beside_the_corner_is_placed_as_ffmpeg_does() -> None:
    """It does not cover the screen."""
    data = write_gif(STEPS, 8, left=5)
    assert load(data).shape == (37, 36, 3)
    assert (load(data) == load(by_ffmpeg(data))).all()


def test_damage_is_found_where_ffmpeg_finds_it() -> None:
    """Data that is cut off; fewer pixels than there should be are no damage to FFmpeg."""
    short = write_gif(STEPS, 8, num_bytes=700)
    assert (load(short) == load(by_ffmpeg(short))).all()
    data = write_gif(STEPS, 8)
    for end in (20, 13 + 3 * 256 + 5, len(data) // 2, len(data) - 4):
        with pytest.raises(spdl.io.MediaError):
            load(data[:end])


def test_indices_behind_the_palette_are_left_to_ffmpeg() -> None:
    """Codes may be wider than the palette is long."""
    data = bytearray(write_gif(STEPS >> 5, 4))
    data[10] &= 0xF8  # two colours
    del data[13 + 6 : 13 + 3 * 16]
    assert (load(bytes(data)) == load(by_ffmpeg(bytes(data)))).all()
