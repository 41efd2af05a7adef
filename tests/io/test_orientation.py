"""Pictures turned upright as they say, whatever their format: against ``ImageOps.exif_transpose`` of Pillow."""

import contextlib
import io
import random
import struct
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageOps

import spdl.io
from tests.io.pictures import Pixels, difference, draw, with_png_checks
from tests.support.image_files import heif_of_many_references

FORMATS: dict[str, dict[str, Any]] = {
    "JPEG": {"quality": 95, "subsampling": "4:4:4"},
    "PNG": {},
    "WEBP": {"lossless": True},
    "TIFF": {},
    "AVIF": {"quality": 95, "subsampling": "4:4:4"},
}
# How far decoders of lossy formats are apart, on average.
MEAN = {"JPEG": 1.0, "AVIF": 0.2}


def encoded(name: str, orientation: int, *, big_endian: bool = False, size: tuple[int, int] = (61, 43)) -> bytes:
    """A picture that is stored turned, and says so."""
    exif = Image.Exif()
    exif.endian = ">" if big_endian else "<"
    exif[274] = orientation
    stream = io.BytesIO()
    draw(*size).save(stream, name, exif=exif.tobytes(), **FORMATS[name])
    return stream.getvalue()


def upright(data: bytes) -> Pixels:
    """What Pillow makes of it."""
    with Image.open(io.BytesIO(data)) as picture:
        return np.asarray(ImageOps.exif_transpose(picture).convert("RGB"))


def load(data: Any, **options: Any) -> Pixels:
    pixels: Pixels = spdl.io.to_numpy(spdl.io.load_image(data, orient=True, **options))
    return pixels


def load_slot(data: Any, width: int, height: int, **options: Any) -> Pixels:
    buffer = spdl.io.load_image_batch([data], width=width, height=height, orient=True, **options)
    pixels: Pixels = spdl.io.to_numpy(buffer)[0]
    return pixels


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("name", FORMATS)
def test_image_is_upright(name: str, orientation: int) -> None:
    """All eight, alone and in a batch."""
    expected = upright(data := encoded(name, orientation))
    height, width = expected.shape[:2]
    assert difference(load(data), expected).mean() <= MEAN.get(name, 0)
    assert difference(load_slot(data, width, height), expected).mean() <= MEAN.get(name, 0)


@pytest.mark.parametrize("name", ["JPEG", "PNG", "WEBP", "TIFF"])
def test_byte_order_of_the_exif_data_does_not_matter(name: str) -> None:
    """Cameras write both."""
    little, big = encoded(name, 6), encoded(name, 6, big_endian=True)
    assert load(little).shape == load(big).shape == (61, 43, 3)


@pytest.mark.parametrize("name", FORMATS)
def test_without_being_asked_nothing_is_turned(name: str) -> None:
    """Pixels as they are stored."""
    data = encoded(name, 6)
    assert spdl.io.load_image(data).shape == (43, 61, 3)
    buffer = spdl.io.load_image_batch([data], width=61, height=43)
    assert spdl.io.to_numpy(buffer)[0].any(axis=-1).mean() > 0.9  # it fills the slot


@pytest.mark.parametrize("name", FORMATS)
def test_picture_is_turned_before_it_is_fitted(name: str) -> None:
    """The short way and the filters agree about where it goes."""
    data = encoded(name, 6)
    description = spdl.io.get_video_filter_desc(scale_width=40, scale_height=40)
    short, general = load_slot(data, 40, 40), load_slot(data, 40, 40, filter_desc=description)
    left = (40 - round(40 * 43 / 61)) // 2
    assert not short[:, :left].any()
    assert not general[:, :left].any()
    assert difference(short, general).mean() < 2.5


def test_filters_see_the_upright_picture() -> None:
    """A crop is one of what is shown."""
    data = encoded("PNG", 8)
    expected = upright(data)[10:30, 5:25]
    cropped = load(data, filter_desc="crop=w=20:h=20:x=5:y=10,format=pix_fmts=rgb24")
    assert (cropped == expected).all()


@pytest.mark.parametrize("orientation", range(1, 9))
def test_turning_works_without_filters_and_in_other_formats(orientation: int) -> None:
    """Gray of 16 bits stays what it is."""
    deep = np.random.default_rng(0).integers(0, 65536, (7, 11), np.uint16)
    exif = Image.Exif()
    exif[274] = orientation
    stream = io.BytesIO()
    Image.fromarray(deep).save(stream, "PNG", exif=exif.tobytes())
    with Image.open(stream) as picture:
        expected = np.asarray(ImageOps.exif_transpose(picture))
    assert (load(stream.getvalue(), filter_desc=None)[0] == expected).all()
    assert (load(stream.getvalue(), filter_desc="format=pix_fmts=gray16le")[0] == expected).all()


@pytest.mark.parametrize("name", ["JPEG", "PNG", "WEBP", "AVIF"])
def test_configurations_do_not_change_it(name: str) -> None:
    """With a demuxer as without."""
    data = encoded(name, 7)
    plain = load(data, filter_desc=spdl.io.get_video_filter_desc()) if name == "JPEG" else load(data)
    assert (load(data, demux_config=spdl.io.demux_config()) == plain).all()


def test_transparent_and_animated_pictures_are_turned() -> None:
    """Wherever the data stands in the file."""
    exif = Image.Exif()
    exif[274] = 6
    first, second = draw(61, 43), draw(61, 43, seed=1)
    for name in ("PNG", "WEBP"):
        stream = io.BytesIO()
        first.convert("RGBA").save(
            stream, name, save_all=True, append_images=[second], exif=exif.tobytes(), **FORMATS[name]
        )
        assert (load(stream.getvalue()) == upright(stream.getvalue())).all()


@pytest.mark.parametrize("value", [0, 9, 255, 65_535])
@pytest.mark.parametrize("name", ["PNG", "WEBP", "TIFF"])
def test_orientation_out_of_range_changes_nothing(name: str, value: int) -> None:
    """It is not an orientation."""
    data = encoded(name, 6)
    entry = struct.pack("<HHLHH", 274, 3, 1, 6, 0)
    assert data.count(entry) == 1
    data = with_png_checks(data.replace(entry, struct.pack("<HHLHH", 274, 3, 1, value, 0)))
    assert load(data).shape == (43, 61, 3)


@pytest.mark.parametrize("name", ["PNG", "WEBP"])
def test_damaged_exif_data_changes_nothing(name: str) -> None:
    """Bytes of it replaced at random: the picture is there, upright or not."""
    data = encoded(name, 6)
    start = data.index(b"II*\0")
    rng = random.Random(0)
    for _ in range(50):
        damaged = bytearray(data)
        for _ in range(rng.randint(1, 6)):
            damaged[start + rng.randrange(26)] = rng.randrange(256)
        assert sorted(load(with_png_checks(bytes(damaged))).shape) == [3, 43, 61]


def test_damaged_properties_of_avif_change_nothing() -> None:
    """Whatever the boxes say: a picture or an error of the package."""
    data = encoded("AVIF", 6)
    end = data.index(b"mdat")
    rng = random.Random(0)
    for _ in range(200):
        damaged = bytearray(data)
        for _ in range(rng.randint(1, 4)):
            damaged[rng.randrange(end)] = rng.randrange(256)
        with contextlib.suppress(spdl.io.MediaError):
            assert load(bytes(damaged)).shape[-1] == 3


def test_orientation_takes_time_that_grows_with_the_length() -> None:
    """A property that is named a million times, behind 32,766 others, is looked up and not searched for."""
    data = heif_of_many_references(4000)
    with pytest.raises(spdl.io.MediaError):
        spdl.io.load_image(data, orient=True)
