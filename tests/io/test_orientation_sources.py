"""Where an orientation is stored: EXIF and XMP, in every place, against ``ImageOps.exif_transpose`` of Pillow."""

import io
import itertools
import struct
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageOps, PngImagePlugin

import spdl.io
from tests.io.pictures import Pixels, difference, draw

PICTURE = draw(21, 13)
MEAN = {"JPEG": 1.0}
Stored = Callable[[int], bytes]


def xmp(orientation: int, *, as_element: bool = False) -> bytes:
    """A packet of XMP that says so."""
    attribute = "" if as_element else f' tiff:Orientation="{orientation}"'
    element = f"<tiff:Orientation>{orientation}</tiff:Orientation>" if as_element else ""
    return (
        '<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">'
        f'<rdf:Description xmlns:tiff="http://ns.adobe.com/tiff/1.0/"{attribute}>{element}</rdf:Description>'
        "</rdf:RDF></x:xmpmeta>"
    ).encode()


def exif(orientation: int | None) -> bytes:
    data = Image.Exif()
    if orientation is not None:
        data[274] = orientation
    else:
        data[271] = "a camera"
    return data.tobytes()


def saved(name: str, **options: Any) -> bytes:
    stream = io.BytesIO()
    lossless: dict[str, dict[str, Any]] = {"WEBP": {"lossless": True}, "JPEG": {"quality": 95, "subsampling": "4:4:4"}}
    PICTURE.save(stream, name, **lossless.get(name, {}), **options)
    return stream.getvalue()


def with_text(kind: str, key: str, text: bytes, *, behind: bool = False, compressed: bool = True) -> bytes:
    """A PNG with a chunk of text, in front of the pixels or behind them."""
    match kind:
        case "tEXt":
            contents = key.encode() + b"\0" + text
        case "zTXt":
            contents = key.encode() + b"\0\0" + zlib.compress(text)
        case _:
            start = key.encode() + bytes([0, compressed, 0]) + b"en\0schl\xc3\xbcssel\0"
            contents = start + (zlib.compress(text) if compressed else text)
    body = kind.encode() + contents
    chunk = struct.pack(">I", len(contents)) + body + struct.pack(">I", zlib.crc32(body))
    data = saved("PNG")
    at = data.index(b"IEND" if behind else b"IDAT") - 4
    return data[:at] + chunk + data[at:]


def raw_profile(orientation: int) -> bytes:
    """EXIF data in text, as ImageMagick writes it."""
    data = exif(orientation)
    digits = data.hex()
    lines = "\n".join(digits[i : i + 72] for i in range(0, len(digits), 72))
    return f"\nexif\n{len(data):8d}\n{lines}\n".encode()


def tiff_info(value: bytes, kind: int) -> Any:
    from PIL import TiffImagePlugin

    info = TiffImagePlugin.ImageFileDirectory_v2()
    info[700] = value
    info.tagtype[700] = kind
    return info


def png_info(key: str, text: bytes, *, zip: bool) -> PngImagePlugin.PngInfo:
    info = PngImagePlugin.PngInfo()
    info.add_itxt(key, text.decode(), zip=zip)
    return info


KEY = "XML:com.adobe.xmp"
PLACES: dict[str, Stored] = {
    "JPEG exif": lambda value: saved("JPEG", exif=exif(value)),
    "JPEG xmp": lambda value: saved("JPEG", xmp=xmp(value)),
    "JPEG xmp, element": lambda value: saved("JPEG", xmp=xmp(value, as_element=True)),
    "JPEG progressive xmp": lambda value: saved("JPEG", xmp=xmp(value), progressive=True),
    "PNG exif": lambda value: saved("PNG", exif=exif(value)),
    "PNG xmp": lambda value: saved("PNG", pnginfo=png_info(KEY, xmp(value), zip=False)),
    "PNG xmp, compressed": lambda value: saved("PNG", pnginfo=png_info(KEY, xmp(value), zip=True)),
    "PNG xmp in iTXt with words": lambda value: with_text("iTXt", KEY, xmp(value)),
    "PNG xmp in iTXt behind": lambda value: with_text("iTXt", KEY, xmp(value), behind=True, compressed=False),
    "PNG raw profile in zTXt": lambda value: with_text("zTXt", "Raw profile type exif", raw_profile(value)),
    "PNG raw profile in tEXt": lambda value: with_text("tEXt", "Raw profile type exif", raw_profile(value)),
    "PNG raw profile in iTXt": lambda value: with_text("iTXt", "Raw profile type exif", raw_profile(value)),
    "PNG raw profile behind": lambda value: with_text("zTXt", "Raw profile type exif", raw_profile(value), behind=True),
    "WEBP exif": lambda value: saved("WEBP", exif=exif(value)),
    "WEBP xmp": lambda value: saved("WEBP", xmp=xmp(value)),
    "WEBP xmp, element": lambda value: saved("WEBP", xmp=xmp(value, as_element=True)),
    "TIFF field": lambda value: saved("TIFF", exif=exif(value)),
    "TIFF xmp": lambda value: saved("TIFF", tiffinfo=tiff_info(xmp(value), 1)),
    "TIFF xmp, undefined": lambda value: saved("TIFF", tiffinfo=tiff_info(xmp(value), 7)),
}


def upright(data: bytes) -> Pixels:
    """What Pillow makes of it."""
    with Image.open(io.BytesIO(data)) as picture:
        return np.asarray(ImageOps.exif_transpose(picture).convert("RGB"))


def check(data: bytes, name: str) -> None:
    """Alone, in a batch and through filters, it is turned as Pillow does."""
    expected = upright(data)
    height, width = expected.shape[:2]
    batch = spdl.io.load_image_batch([data], width=width, height=height, orient=True)
    filtered = spdl.io.load_image(data, orient=True, filter_desc=spdl.io.get_video_filter_desc())
    for buffer, index in ((spdl.io.load_image(data, orient=True), ...), (batch, 0), (filtered, ...)):
        pixels = spdl.io.to_numpy(buffer)[index]
        assert pixels.shape == expected.shape
        assert difference(pixels, expected).mean() <= MEAN.get(name.split()[0], 0)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("name", PLACES)
def test_place(name: str, orientation: int) -> None:
    """All eight, from each place."""
    data = PLACES[name](orientation)
    check(data, name)


@pytest.mark.parametrize(("first", "second"), [*itertools.product([None, 1, 6, 9], [1, 3, 8])])
@pytest.mark.parametrize("name", ["JPEG", "PNG", "WEBP"])
def test_exif_counts_before_xmp(name: str, first: int | None, second: int) -> None:
    """If it has the field at all, even with a number that is no orientation."""
    options: dict[str, Any] = (
        {"xmp": xmp(second)} if name != "PNG" else {"pnginfo": png_info(KEY, xmp(second), zip=True)}
    )
    check(saved(name, exif=exif(first), **options), name)


@pytest.mark.parametrize("first", [None, 1, 6])
def test_field_of_tiff_counts_before_xmp(first: int | None) -> None:
    """As EXIF does."""
    info = tiff_info(xmp(8), 1)
    if first is not None:
        info[274] = first
    check(saved("TIFF", tiffinfo=info), "TIFF")


@pytest.mark.parametrize("first", [1, 6])
def test_exif_of_png_counts_before_a_raw_profile(first: int) -> None:
    """And both before XMP."""
    data = with_text("zTXt", "Raw profile type exif", raw_profile(8))
    profile_at = data.index(b"zTXt") - 4
    body = b"eXIf" + exif(first)[6:]
    chunk = struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body))
    check(data[:profile_at] + chunk + data[profile_at:], "PNG")


def test_numbers_of_four_bytes_are_read() -> None:
    """EXIF says two bytes, and some writers use four."""
    data = bytearray(saved("TIFF", exif=exif(6)))
    entry = struct.pack("<HHLHH", 274, 3, 1, 6, 0)
    at = data.index(entry)
    data[at : at + 12] = struct.pack("<HHLL", 274, 4, 1, 6)
    check(bytes(data), "TIFF")


@pytest.mark.parametrize("text", [b"tiff:Orientation", b'tiff:Orientation="', b"tiff:Orientation=6", b"", b"\xff" * 50])
def test_other_xmp_turns_nothing(text: bytes) -> None:
    """Text that has no number where it belongs."""
    for data in (saved("JPEG", xmp=text), saved("WEBP", xmp=text), with_text("iTXt", KEY, text)):
        assert spdl.io.load_image(data, orient=True).shape == (13, 21, 3)


def test_text_that_is_no_zlib_data_turns_nothing() -> None:
    """And text that would be very large is left alone."""
    for contents in (b"\0\1\0\0\0broken", b"\0\1\0\0\0" + zlib.compress(bytes(1 << 22) + xmp(6))):
        body = b"iTXt" + KEY.encode() + contents
        chunk = struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body))
        data = saved("PNG")
        at = data.index(b"IDAT") - 4
        assert spdl.io.load_image(data[:at] + chunk + data[at:], orient=True).shape == (13, 21, 3)
