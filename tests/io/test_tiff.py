"""Compressed TIFF: the pixels of Pillow, whether it is unpacked at once or by FFmpeg's decoder."""

import io
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import spdl.io
from tests.io.pictures import Pixels
from tests.support.lzw import pack_lzw

PACKED = ["tiff_lzw", "tiff_adobe_deflate", "tiff_deflate"]
EVERYTHING = "format=pix_fmts=rgba64"
rng = np.random.default_rng(5)
#: Noise in steps, so that strings are short and long; its rows are an odd number of bytes.
STEPS = np.repeat(rng.integers(0, 256, (40, 11, 4), np.uint8), 3, 1)[:, :31] // 16


def load(data: bytes, filter_desc: str | None = None) -> Pixels:
    options: dict[str, Any] = {} if filter_desc is None else {"filter_desc": filter_desc}
    array: Pixels = spdl.io.to_numpy(spdl.io.load_image(data, **options))
    return array


def saved(picture: Image.Image, **options: Any) -> bytes:
    file = io.BytesIO()
    picture.save(file, "TIFF", **options)
    return file.getvalue()


def write_tiff(strips: list[bytes], compression: int, order: str, **changed: int) -> bytes:
    """40 rows of 31 pixels in RGB, in strips of so many rows; ``changed`` has values of fields by ``f`` and number."""
    fields = {256: 31, 257: 40, 259: compression, 262: 2, 277: 3, 278: -(-40 // len(strips)), 284: 1}
    fields |= {int(tag[1:]): value for tag, value in changed.items()}
    begin = 8 + 2 + 12 * (len(fields) + 3) + 4
    starts = [begin + 6 + 8 * len(strips) + sum(map(len, strips[:i])) for i in range(len(strips))]
    lists = struct.pack(f"{order}3H", 8, 8, 8) + struct.pack(f"{order}{2 * len(strips)}I", *starts, *map(len, strips))
    entries = {tag: struct.pack(f"{order}HHIHH", tag, 3, 1, value, 0) for tag, value in fields.items()}
    entries[258] = struct.pack(f"{order}HHII", 258, 3, 3, begin)
    for tag, at, only in ((273, begin + 6, starts[0]), (279, begin + 6 + 4 * len(strips), len(strips[0]))):
        entries[tag] = struct.pack(f"{order}HHII", tag, 4, len(strips), at if len(strips) > 1 else only)
    directory = struct.pack(f"{order}H", len(entries)) + b"".join(entries[tag] for tag in sorted(entries)) + bytes(4)
    mark = b"II" if order == "<" else b"MM"
    return mark + struct.pack(f"{order}HI", 42, 8) + directory + lists + b"".join(strips)


@pytest.mark.parametrize("predictor", [1, 2])
@pytest.mark.parametrize("compression", PACKED)
@pytest.mark.parametrize("mode", ["1", "L", "P", "LA", "RGB", "RGBA", "CMYK", "I;16"])
def test_every_kind_has_the_samples_of_the_stored_one(mode: str, compression: str, predictor: int) -> None:
    """What is stored goes to FFmpeg's decoder as it is; strips of 7 rows, and one of all of them."""
    picture = Image.fromarray(STEPS * 16)
    if mode == "I;16":
        picture = Image.fromarray(STEPS[..., 0].astype(np.uint16) * 4097)
    elif mode != "RGBA":
        picture = picture.convert(mode)
    fields = {317: 2} if predictor == 2 and mode != "1" else {}
    stored = saved(picture)
    for strip_size in (7 * 31 * len(picture.getbands()), 1 << 20):
        packed = saved(picture, compression=compression, tiffinfo=fields, strip_size=strip_size)
        assert len(packed) != len(stored)
        assert (load(packed) == load(stored)).all()
        assert (load(packed, EVERYTHING) == load(stored, EVERYTHING)).all()


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("num_strips", [1, 3])
@pytest.mark.parametrize(
    ("compression", "pack"),
    [
        (5, lambda data: pack_lzw(data, "big", most_strings=4093)),
        (5, lambda data: pack_lzw(data, "big", most_strings=300)),
        (8, zlib.compress),
        (32946, lambda data: zlib.compress(data, 0)),
    ],
    ids=["lzw", "lzw-cleared-early", "deflate", "stored-in-deflate"],
)
def test_strips_of_both_byte_orders_have_the_pixels_of_pillow(
    compression: int, pack: Callable[[bytes], bytes], num_strips: int, order: str
) -> None:
    """Of noise, whose tables fill up, and of one colour, whose strings grow by one."""
    rows = -(-40 // num_strips)
    for pixels in (
        rng.integers(0, 256, (40, 31, 3), np.uint8),
        STEPS[..., :3].copy(),
        np.full((40, 31, 3), 7, np.uint8),
    ):
        strips = [pack(pixels[top : top + rows].tobytes()) for top in range(0, 40, rows)]
        data = write_tiff(strips, compression, order)
        with Image.open(io.BytesIO(data)) as picture:
            assert (np.asarray(picture) == pixels).all()
        assert (load(data) == pixels).all()


@pytest.mark.parametrize("compression", PACKED)
def test_damage_is_found_where_ffmpeg_finds_it(compression: str) -> None:
    """Data that is cut off, and strips that lie behind the end or give too little."""
    data = saved(Image.fromarray(STEPS[..., :3] * 16), compression=compression, strip_size=31 * 3 * 13)
    with Image.open(io.BytesIO(data)) as picture:
        first = picture.tag_v2[273][0]  # type: ignore[attr-defined]
        size = picture.tag_v2[279][0]  # type: ignore[attr-defined]
    inside = first + size // 2
    with pytest.raises(spdl.io.MediaError):
        load(data[:inside])
    with pytest.raises(spdl.io.MediaError):
        load(data[:first] + bytes(size) + data[first + size :])
    short = pack_lzw(bytes(100), "big")
    with pytest.raises(spdl.io.MediaError):
        load(write_tiff([short], 5, "<"))


def test_size_is_checked_before_memory_is_taken() -> None:
    """A header that claims a picture far larger than its data."""
    strip = pack_lzw(STEPS[..., :3].tobytes(), "big")
    with pytest.raises(spdl.io.ImageTooLargeError):
        load(write_tiff([strip], 5, "<", f256=65535, f257=65535, f278=65535))
    with pytest.raises(spdl.io.DecodeError):
        load(write_tiff([strip], 5, "<", f256=1000, f257=1000, f278=1000))


@pytest.mark.parametrize("order", ["<", ">"])
def test_bigtiff_is_the_same_to_ffmpeg_by_path_and_in_memory(tmp_path: Path, order: str) -> None:
    """Packets come out of it, and its decoder refuses them by name."""
    tifffile = pytest.importorskip("tifffile")
    path = tmp_path / "big.tif"
    tifffile.imwrite(path, np.zeros((8, 9), np.uint8), bigtiff=True, byteorder=order)
    for source in (path, path.read_bytes()):
        for demux in (spdl.io.demux_image, spdl.io.demux_video):
            packets = demux(source)
            with pytest.raises(spdl.io.DecodeError, match="it is a BigTIFF, which FFmpeg does not read"):
                spdl.io.decode_packets(packets)
        with pytest.raises(spdl.io.DecodeError, match="it is a BigTIFF, which FFmpeg does not read"):
            spdl.io.load_image(source, decode_config=spdl.io.decode_config())
