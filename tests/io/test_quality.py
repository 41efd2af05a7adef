"""Pixels, against Pillow's decoder and Pillow's resampling.

Tolerances are in levels of 0 to 255. Resampling alone differs by rounding: Pillow goes along rows first and this
library along columns, and each rounds and clamps in between; both are as far from the exact sum. From the file on,
chroma counts too: this library resamples it once, from its own resolution, where Pillow first enlarges it with
libjpeg's triangle.
"""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import spdl.io
from spdl.io import _native
from tests.io.pictures import Pixels, difference, draw, encode, make_jpeg, psnr, resized

SIZES = [
    ((500, 375), (224, 168)),
    ((224, 168), (500, 375)),
    ((100, 100), (33, 77)),
    ((97, 61), (96, 60)),
    ((7, 5), (31, 3)),
]
SIZES += [((640, 480), (20, 15)), ((3, 3), (64, 64)), ((1, 1), (5, 5)), ((1000, 3), (10, 3)), ((64, 64), (64, 32))]


def resample(plane: Pixels, width: int, height: int, kernels: str) -> Pixels:
    out = _native.core.resample(plane, width=width, height=height, kernels=kernels)
    return np.frombuffer(out, np.uint8).reshape(height, width)


@pytest.mark.parametrize(("before", "after"), SIZES, ids=str)
def test_resampling_is_that_of_pillow(before: tuple[int, int], after: tuple[int, int]) -> None:
    """The same bicubic, antialiased: no pixel differs by more than three levels, and few by any."""
    picture = draw(*before, mode="L")
    ours = resample(np.asarray(picture), *after, _native.core.instruction_sets()[-1])
    distance = difference(ours, np.asarray(picture.resize(after, Image.Resampling.BICUBIC)))
    assert distance.max() <= 3
    assert distance.mean() <= 0.3


@pytest.mark.parametrize(("before", "after"), SIZES, ids=str)
def test_instruction_sets_give_the_same_bytes(before: tuple[int, int], after: tuple[int, int]) -> None:
    """A result does not depend on the processor."""
    plane = np.random.default_rng(0).integers(0, 256, before[::-1], np.uint8)
    first, *others = (resample(plane, *after, name) for name in _native.core.instruction_sets())
    assert all((first == other).all() for other in others)


def test_unknown_instruction_set_is_a_value_error() -> None:
    """Kernels that this processor lacks are refused, not tried."""
    with pytest.raises(ValueError, match="no instruction set 'mmx'"):
        resample(np.zeros((2, 2), np.uint8), 2, 2, "mmx")


def load_one(data: bytes, width: int, height: int, pix_fmt: str = "rgb24") -> Pixels:
    pixels: Pixels = spdl.io.to_numpy(spdl.io.load_image_batch([data], width=width, height=height, pix_fmt=pix_fmt))[0]
    return pixels


# name, how Pillow is to write it, mean and 99.9th percentile of the difference that are accepted
KINDS: dict[str, tuple[dict[str, Any], float, int]] = {
    "444": ({"subsampling": "4:4:4"}, 0.5, 3),
    "422": ({"subsampling": "4:2:2"}, 0.7, 5),
    "420": ({"subsampling": "4:2:0"}, 0.8, 6),
    "progressive": ({"progressive": True}, 0.8, 6),
    "restarts": ({"restart_marker_blocks": 3}, 0.8, 6),
    "optimized": ({"optimize": True, "quality": 50}, 0.8, 6),
    "gray": ({"mode": "L"}, 0.5, 2),
    "rgb": ({"keep_rgb": True}, 0.5, 3),
    "cmyk": ({"mode": "CMYK"}, 1.2, 8),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "size", [(150, 113), (90, 68), (300, 226), (149, 112)], ids=["same", "smaller", "larger", "odd"]
)
def test_every_kind_of_jpeg_is_like_pillow(kind: str, size: tuple[int, int]) -> None:
    """Each colour space, subsampling and process, at the same, a smaller and a larger size."""
    options, mean, percentile = KINDS[kind]
    data = make_jpeg(150, 113, **options)
    expected = resized(data, *size)
    distance = difference(load_one(data, *size), expected)
    assert distance.mean() <= mean
    assert np.percentile(distance, 99.9) <= percentile
    assert psnr(load_one(data, *size), expected) >= 38


@pytest.mark.parametrize(
    "name", ["410", "411", "440", "chroma_finer", "chroma_uneven", "thirds", "arithmetic", "separate_scans"]
)
@pytest.mark.parametrize("size", [(147, 101), (93, 64), (250, 172)], ids=["same", "smaller", "larger"])
def test_rare_codings_are_like_pillow(name: str, size: tuple[int, int]) -> None:
    """Chroma of any fraction of the luma's resolution, or of more; arithmetic coding."""
    data = (Path(__file__).parent.parent / "golden" / f"{name}.jpg").read_bytes()
    assert psnr(load_one(data, *size), resized(data, *size)) >= 48


@pytest.mark.parametrize("subsampling", ["4:2:2", "4:2:0"])
@pytest.mark.parametrize("size", [(128, 64), (96, 48), (200, 100)], ids=["same", "smaller", "larger"])
def test_chroma_is_where_luma_is(subsampling: str, size: tuple[int, int]) -> None:
    """On a slope of colour a shift of half a sample would show as a difference that does not average out.

    A shift changes its sign with the slope. What does not is rounding: libjpeg rounds ties both ways and we up, which
    is 0.44 of a level at equal size.
    """
    drifts = []
    for slope in (np.linspace(0, 255, 128).astype(np.uint8), np.linspace(255, 0, 128).astype(np.uint8)):
        pixels = np.stack(
            [np.tile(slope, (64, 1)), np.full((64, 128), 128, np.uint8), np.tile(slope[::-1], (64, 1))], -1
        )
        data = encode(Image.fromarray(pixels), quality=100, subsampling=subsampling)
        drift = load_one(data, *size).astype(float) - resized(data, *size)
        drifts.append(drift[:, 16:-16].mean(axis=(0, 1)))
    assert np.abs(drifts[0] - drifts[1]).max() / 2 < 0.15
    assert np.abs(drifts).max() < 0.5


def test_ycck_is_like_pillow() -> None:
    """Adobe's other way to store four inks: what says CMYK is made to say YCCK."""
    data = bytearray(make_jpeg(60, 40, mode="CMYK"))
    transform = data.index(b"Adobe") + 11
    assert data[transform] == 0
    data[transform] = 2
    assert difference(load_one(bytes(data), 60, 40), resized(bytes(data), 60, 40)).mean() <= 1.5


@pytest.mark.parametrize(("width", "height"), [(1, 1), (2, 2), (3, 5), (7, 9), (8, 8), (15, 17), (16, 16), (31, 33)])
@pytest.mark.parametrize("kind", ["444", "422", "420", "gray", "cmyk"])
def test_small_and_odd_sizes_are_like_pillow(kind: str, width: int, height: int) -> None:
    """No size is a special case, and chroma stays where it belongs."""
    data = make_jpeg(width, height, quality=100, **KINDS[kind][0])
    assert difference(load_one(data, width, height), resized(data, width, height)).mean() <= 2.5


@pytest.mark.parametrize("kind", ["444", "420", "gray"])
def test_luma_of_the_full_size_is_exact(kind: str) -> None:
    """At its own size a picture is not resampled: gray is the decoder's luma, bit for bit."""
    data = make_jpeg(75, 50, **KINDS[kind][0])
    assert (load_one(data, 75, 50, "gray")[..., 0] == decode_luma(data)).all()


def decode_luma(data: bytes) -> Pixels:
    """The luma plane as libjpeg gives it to Pillow."""
    with Image.open(io.BytesIO(data)) as picture:
        picture.draft("L", picture.size)
        return np.asarray(picture)


@pytest.mark.parametrize("divisor", [2, 2.4, 3, 4, 5, 6.5, 8, 12, 16, 40])
def test_scaled_decoding_is_like_the_exact_way(divisor: float) -> None:
    """Where the decoder does part of the scaling, the result is within 38 dB of Pillow's from the whole picture."""
    data = make_jpeg(800, 600)
    size = (round(800 / divisor), round(600 / divisor))
    assert psnr(load_one(data, *size), resized(data, *size)) >= 38


def test_colours_are_those_of_bt601() -> None:
    """Saturated colours survive the way to planes and back."""
    for colour in [(255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 0), (0, 255, 255), (255, 0, 255), (0, 0, 0)]:
        stream = io.BytesIO()
        Image.new("RGB", (32, 32), colour).save(stream, "JPEG", quality=100)
        assert np.abs(load_one(stream.getvalue(), 16, 16).astype(int) - colour).max() <= 2
