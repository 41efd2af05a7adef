"""Files that ask for much: refused by their header, or decoded within a budget."""

import io
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import pytest
from PIL import Image

import spdl.io
from spdl.io import ImageTransform, _native
from tests.io.pictures import draw, with_png_checks
from tests.support.media import h264

WIDTH, HEIGHT = 40, 30


def saved(name: str, **options: Any) -> bytes:
    stream = io.BytesIO()
    draw(WIDTH, HEIGHT).save(stream, name, **options)
    return stream.getvalue()


FILES = {
    "JPEG": saved("JPEG"),
    "progressive": saved("JPEG", progressive=True),
    "PNG": saved("PNG"),
    "GIF": saved("GIF"),
    "BMP": saved("BMP"),
    "TIFF": saved("TIFF"),
    "WebP": saved("WEBP"),
    "WebP, lossless": saved("WEBP", lossless=True),
    "WebP, extended": saved("WEBP", exif=b"Exif\0\0MM\0*\0\0\0\x08\0\0\0\0\0\0"),
    "WebP, animated": saved("WEBP", save_all=True, append_images=[draw(WIDTH, HEIGHT, seed=1)]),
    "AVIF": saved("AVIF"),
    "JPEG 2000": saved("JPEG2000"),
    "JPEG 2000, bare": saved("JPEG2000", no_jp2=True),
    "QOI": saved("QOI"),
    "PPM": saved("PPM"),
    "video": b"",
}
WAYS: dict[str, Callable[..., Any]] = {
    "image": spdl.io.load_image,
    "filter": lambda data, **limit: spdl.io.load_image(data, filter_desc="format=pix_fmts=rgb24", **limit),
    "configuration": lambda data, **limit: spdl.io.load_image(data, demux_config=spdl.io.demux_config(), **limit),
    "video": lambda data, max_pixels: spdl.io.load_video(
        data, decode_config=spdl.io.decode_config(decoder_options={"max_pixels": str(max_pixels)})
    ),
    "fitted": lambda data, **limit: spdl.io.load_image_batch([data], width=8, height=8, **limit),
    "filtered batch": lambda data, **limit: spdl.io.load_image_batch(
        [data], width=8, height=8, filter_desc="scale=8:8,format=pix_fmts=rgb24", **limit
    ),
    "transform": lambda data, **limit: spdl.io.load_image_batch([data], transform=ImageTransform(8), **limit),
}


def error_of(load: Callable[[], Any]) -> Exception:
    """Its error, of the one source where it is a batch."""
    with pytest.raises(spdl.io.MediaError) as caught:
        load()
    if isinstance(caught.value, spdl.io.BatchLoadError):
        (failure,) = caught.value.failures
        return failure.error
    return caught.value


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", FILES)
def test_a_picture_may_have_max_pixels_and_no_more(name: str, way: str) -> None:
    """In every format, on every way."""
    data = FILES[name] or h264().read_bytes()
    width, height = (WIDTH, HEIGHT) if FILES[name] else (64, 48)
    load = WAYS[way]
    assert load(data, max_pixels=width * height).shape
    error = error_of(lambda: load(data, max_pixels=width * height - 1))
    assert type(error) is spdl.io.ImageTooLargeError, error
    assert isinstance(error, spdl.io.DecodeError)
    assert f"{width}x{height} pixels, more than the {width * height - 1}" in str(error)


@pytest.mark.parametrize("value", [0, -1, 2**31, True, 1.5, "9", None], ids=repr)
@pytest.mark.parametrize("way", sorted(WAYS.keys() - {"video"}))
def test_max_pixels_is_checked(way: str, value: Any) -> None:
    """Like any argument."""
    with pytest.raises((ValueError, TypeError), match="max_pixels must be"):
        WAYS[way](FILES["JPEG"], max_pixels=value)


def test_default_is_what_pillow_refuses() -> None:
    """One pixel more is a bomb for both."""
    assert Image.MAX_IMAGE_PIXELS is not None
    most = 2 * Image.MAX_IMAGE_PIXELS
    png = bytearray(FILES["PNG"])
    for pixels in (most, most + 1):
        png[16:24] = struct.pack(">II", pixels, 1)
        bomb = with_png_checks(bytes(png))
        kinds = [type(error_of(partial(spdl.io.load_image, bomb)))]
        try:
            Image.open(io.BytesIO(bomb)).close()
        except Image.DecompressionBombError:
            kinds.append(Image.DecompressionBombError)
        except (Exception, Warning):
            pass
        assert (spdl.io.ImageTooLargeError in kinds) == (pixels > most)
        assert (Image.DecompressionBombError in kinds) == (pixels > most)


def test_videos_have_the_limit_of_the_option() -> None:
    """It is libavcodec's own, with our default."""
    config = spdl.io.decode_config(decoder_options={"max_pixels": "3071"})
    with pytest.raises(spdl.io.ImageTooLargeError, match="64x48 pixels, more than the 3071") as caught:
        spdl.io.load_video(h264(), decode_config=config)
    assert caught.value.stream_index == 0
    exact = spdl.io.decode_config(decoder_options={"max_pixels": "3072"})
    assert spdl.io.load_video(h264(), decode_config=exact).shape[0] == 50


@contextmanager
def memory_budget(num_bytes: int) -> Iterator[None]:
    before = _native.core.set_memory_budget(num_bytes)
    _native.core.take_memory_peak()
    try:
        yield
    finally:
        _native.core.set_memory_budget(before)


LARGE = {"JPEG": (3400, 2600), "PNG": (1600, 1500)}


def large(name: str) -> bytes:
    stream = io.BytesIO()
    Image.radial_gradient("L").resize(LARGE[name]).save(stream, name, progressive=name == "JPEG")
    return stream.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["JPEG", "PNG"])
def test_threads_share_a_budget_of_memory(name: str) -> None:
    """Four bombs for four threads are decoded one after the other where there is room for one only."""
    data = large(name)
    options: dict[str, Any] = {"transform": ImageTransform(16), "num_threads": 4}
    expected = spdl.io.to_numpy(spdl.io.load_image_batch([data] * 4, **options))
    with memory_budget(1 << 62):
        spdl.io.load_image_batch([data], **options)
        alone = _native.core.take_memory_peak()
        width, height = LARGE[name]
        assert alone >= width * height * 2
    for room in (1, 2 * alone):
        with memory_budget(room):
            batch = spdl.io.to_numpy(spdl.io.load_image_batch([data] * 4, **options))
            assert _native.core.take_memory_peak() <= max(room, alone)
        assert np.array_equal(batch, expected)
    assert _native.core.take_memory_peak() == 0
