"""Files whose colours decoders disagree about: what Pillow shows, or a typed error, never something else."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import spdl.io
from spdl.io.utils import get_native_info
from tests.io.pictures import Pixels, decode, difference, draw, encode
from tests.support import augment
from tests.support.image_files import bmp_without_palette, tiff, with_adobe, with_component_ids, without_marker

WIDTH, HEIGHT = 24, 16
PICTURE = draw(WIDTH, HEIGHT)
RGB = np.asarray(PICTURE)
CMYK = PICTURE.convert("CMYK")


def ways(source: Any) -> dict[str, Any]:
    """What each way makes of it, through FFmpeg or not: pixels, or the error."""
    made: dict[str, Any] = {}
    loads: dict[str, Callable[[], Any]] = {
        "image": lambda: spdl.io.load_image(source),
        "batch": lambda: spdl.io.load_image_batch([source], width=WIDTH, height=HEIGHT),
        "filter": lambda: spdl.io.load_image(source, filter_desc=spdl.io.get_video_filter_desc()),
        "video": lambda: spdl.io.load_video(source),
        "packets": lambda: spdl.io.convert_frames(spdl.io.decode_packets(spdl.io.demux_image(source))),
    }
    for name, load in loads.items():
        try:
            pixels: Pixels = spdl.io.to_numpy(load())
            made[name] = pixels.reshape(HEIGHT, WIDTH, 3)
        except spdl.io.BatchLoadError as error:
            made[name] = error.failures[0].error
        except spdl.io.DecodeError as error:
            made[name] = error
    return made


def saved(picture: Image.Image, name: str, **options: Any) -> bytes:
    stream = io.BytesIO()
    picture.save(stream, name, **options)
    return stream.getvalue()


def jpegs() -> dict[str, bytes]:
    """Every mark that tells the colours of a JPEG, with and against every other one."""
    files: dict[str, bytes] = {}
    for sampling in ("4:4:4", "4:2:2", "4:2:0"):
        four = encode(CMYK, subsampling=sampling)
        for ids in (b"CMYK", b"\1\2\3\4", b"RGBA"):
            named = with_component_ids(four, ids)
            files[f"four {ids!r} {sampling}, no Adobe"] = without_marker(named, 0xEE)
            for transform in (0, 2):
                files[f"four {ids!r} {sampling}, Adobe {transform}"] = with_adobe(named, transform)
        three = encode(PICTURE, subsampling=sampling)
        for ids in (b"\1\2\3", b"RGB", b"BGR", b"YCC"):
            named = with_component_ids(three, ids)
            bare = without_marker(named, 0xE0)
            files |= {f"three {ids!r} {sampling}, JFIF": named, f"three {ids!r} {sampling}": bare}
            for transform in (0, 1):
                files[f"three {ids!r} {sampling}, Adobe {transform}"] = with_adobe(bare, transform)
                files[f"three {ids!r} {sampling}, JFIF, Adobe {transform}"] = with_adobe(named, transform)
    return files


JPEGS = jpegs()


@pytest.mark.parametrize("name", JPEGS)
def test_colours_of_jpeg_are_those_of_libjpeg(name: str) -> None:
    """Without a filter as Pillow shows them; through FFmpeg as well, or refused."""
    data = JPEGS[name]
    expected = np.asarray(decode(data))
    made = ways(data)
    assert difference(made["image"], expected).max() <= 1
    assert difference(made["batch"], expected).max() <= 3  # it resamples chroma once
    for way in ("filter", "packets", "video"):
        if not isinstance(made[way], spdl.io.DecodeError):
            assert difference(made[way], expected).mean() <= 4, way


def indices() -> tuple[Image.Image, Pixels]:
    picture = PICTURE.quantize(64)
    return picture, np.asarray(picture)


def with_alpha(pixels: Pixels, alpha: int) -> Pixels:
    return np.dstack([pixels, np.full(pixels.shape[:2], alpha, np.uint8)])


PALETTED, INDICES = indices()
GRAY = np.asarray(PICTURE.convert("L"))
PALETTE_AND_ALPHA = tiff(with_alpha(INDICES, 200), 3, extra=[2], palette=PALETTED)
PALETTE_AND_MORE = tiff(with_alpha(INDICES, 200), 3, extra=[0], palette=PALETTED)
DEEP_CMYK = tiff(np.asarray(CMYK).astype(np.uint16) * 257, 5)
DEEP_INVERTED = tiff(GRAY[..., None].astype(np.uint16) * 257, 0)
#: The file, the reason, and the colours that it has.
MISREAD = {
    "palette and alpha": (PALETTE_AND_ALPHA, "more than one sample", PALETTED.convert("RGB")),
    "palette and more": (PALETTE_AND_MORE, "more than one sample", PALETTED.convert("RGB")),
    "16-bit CMYK": (DEEP_CMYK, "CMYK of 16 bits", CMYK.convert("RGB")),
    "16 bits, white is zero": (
        DEEP_INVERTED, "whose zero is white", Image.fromarray(255 - GRAY).convert("RGB")
    ),
    "signed": (
        tiff(GRAY[..., None].astype(np.uint16), 1, kind=2), "signed or floating-point", None
    ),
    "floats": (
        tiff(GRAY[..., None].astype(np.float16).view(np.uint16), 1, kind=3), "signed or floating-point", None
    ),
    "JPEG": (saved(PICTURE, "TIFF", compression="jpeg"), "holds JPEG data", None),
}  # fmt: skip
#: Where FFmpeg decodes TIFF, although the build has libtiff.
OF_FFMPEG = ("video", "packets")


@pytest.mark.parametrize("name", MISREAD)
def test_tiff_that_ffmpeg_misreads_is_read_by_libtiff_and_otherwise_refused(name: str) -> None:
    """Refused wherever FFmpeg would decode it, and the message says why."""
    data, reason, colours = MISREAD[name]
    has_libtiff = any(library.name == "libtiff" for library in get_native_info().libraries)
    for way, made in ways(data).items():
        if way in OF_FFMPEG or not has_libtiff:
            assert isinstance(made, spdl.io.DecodeError), way
            assert reason in str(made), way
        elif colours is not None:
            assert difference(made, np.asarray(colours)).max() <= 1, way


def test_bmp_without_its_palette_is_refused() -> None:
    """On every way, and the message says why."""
    for way, made in ways(bmp_without_palette(WIDTH, HEIGHT)).items():
        assert isinstance(made, spdl.io.DecodeError), way
        assert "without the palette" in str(made), way


RIGHT = {
    "TIFF, 16-bit CMYK, big-endian": tiff(np.asarray(CMYK).astype(np.uint16) * 257, 5, big_endian=True),
    "TIFF, CMYK": tiff(np.asarray(CMYK), 5),
    "TIFF, palette": tiff(INDICES[..., None], 3, palette=PALETTED),
    "TIFF, alpha": tiff(with_alpha(RGB, 77), 2, extra=[2]),
    "TIFF, multiplied by alpha": tiff(with_alpha(RGB // 3, 90), 2, extra=[1]),
    "TIFF, 16 bits multiplied by alpha": tiff(with_alpha(RGB // 3, 90).astype(np.uint16) * 257, 2, extra=[1]),
    "TIFF, gray and alpha": tiff(with_alpha(GRAY, 100), 1, extra=[2]),
    "TIFF, YCbCr": tiff(np.asarray(PICTURE.convert("YCbCr")), 6),
    "BMP, palette": saved(PALETTED, "BMP"),
}


@pytest.mark.parametrize("name", RIGHT)
def test_rare_kinds_are_what_pillow_shows(name: str) -> None:
    """Hidden or not: alpha is left out."""
    if name == "TIFF, YCbCr" and augment.ROUNDING:
        pytest.skip("Pillow before version 13 says that it is truncated")
    data = RIGHT[name]
    with Image.open(io.BytesIO(data)) as picture:
        expected = np.asarray(picture.convert("RGB"))
    for way, made in ways(data).items():
        assert difference(made, expected).max() <= 1, way


@pytest.mark.parametrize("compression", [None, "tga_rle"])
@pytest.mark.parametrize("mode", ["L", "LA", "P", "RGB", "RGBA"])
def test_targa_is_what_pillow_shows(mode: str, compression: str | None, tmp_path: Path) -> None:
    """Gray with alpha is not RGB of 15 bits."""
    picture = PALETTED if mode == "P" else PICTURE.convert(mode)
    if mode.endswith("A"):
        picture.putalpha(120)
    path = tmp_path / "picture.tga"
    picture.save(path, compression=compression)
    for way, made in ways(path).items():
        assert (made == np.asarray(picture.convert("RGB"))).all(), way


def test_alpha_of_gray_targa_is_kept(tmp_path: Path) -> None:
    """It was the high byte of a gray level."""
    picture = PICTURE.convert("LA")
    picture.putalpha(120)
    path = tmp_path / "picture.tga"
    picture.save(path)
    transform = spdl.io.ImageTransform((HEIGHT, WIDTH), color="rgba", interpolation="nearest")
    pixels = spdl.io.to_numpy(spdl.io.load_image_batch([path], transform=transform))[0]
    assert (pixels == np.asarray(picture.convert("RGBA"))).all()
