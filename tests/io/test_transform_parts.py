"""Parts of pictures: only the rows and blocks needed are decoded, and it shows nowhere."""

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.io import Crop, ImageTransform
from tests.io.pictures import decode, difference, make_jpeg, psnr
from tests.io.test_transform_quality import GOLDEN, KINDS, jpeg, load
from tests.strategies.profiles import cases
from tests.support import augment


def rectangles(rng: random.Random, height: int, width: int, count: int) -> list[tuple[int, int, int, int]]:
    """Random ones, among them single pixels and strips along the borders."""
    found = [(0, 0, 1, 1), (height - 1, width - 1, 1, 1), (0, width - 1, height, 1), (height - 1, 0, 1, width)]
    found += [(0, 0, height, width)]
    for _ in range(count):
        top, left = rng.randrange(height), rng.randrange(width)
        found.append((top, left, rng.randint(1, height - top), rng.randint(1, width - left)))
    return found


@pytest.mark.parametrize("size", [(151, 113), (64, 48), (17, 33), (34, 18)], ids=str)
@pytest.mark.parametrize("kind", [*KINDS, *GOLDEN])
def test_a_part_is_the_part_of_the_whole(kind: str, size: tuple[int, int]) -> None:
    """Only the blocks needed are decoded, and it shows nowhere: exact parts, and luma always, to the bit."""
    data = jpeg(kind, *size)
    width, height = decode(data).size
    colors: tuple[Any, ...] = ("rgb", "gray")
    whole = {
        (color, exact): load(data, ImageTransform((height, width), color=color, exact=exact))
        for color in colors
        for exact in (False, True)
    }
    has_chroma = kind not in ("gray", "444", "rgb")
    for box in rectangles(random.Random(kind), height, width, 12):
        top, left, high, wide = box
        for (color, exact), pixels in whole.items():
            part = load(data, ImageTransform((high, wide), crop=Crop(*box), color=color, exact=exact))
            distance = difference(part, pixels[top : top + high, left : left + wide])
            if exact or color == "gray" or not has_chroma:
                assert distance.max() == 0, (box, color, exact)
            else:
                # Chroma beyond the crop has no weight, so that the outermost pixels lean inwards.
                inner = distance[4 : high - 4, 4 : wide - 4]
                assert inner.size == 0 or inner.max() <= 2, box
                assert distance.mean() <= 12


@pytest.mark.parametrize("kind", [*KINDS, *GOLDEN])
def test_a_part_that_is_resampled_is_close_to_the_exact_one(kind: str) -> None:
    """Parts that are shrunk from scaled blocks, and parts that are enlarged."""
    data = jpeg(kind, 401, 303)
    width, height = decode(data).size
    rng = random.Random(kind)
    for _ in range(8):
        high, wide = rng.randint(height // 3, height), rng.randint(width // 3, width)
        box = (rng.randint(0, height - high), rng.randint(0, width - wide), high, wide)
        for size in ((high // 2 + 1, wide // 2 + 1), (high // 5 + 4, wide // 5 + 4), (high + 9, wide + 20)):
            fast = load(data, ImageTransform(size, crop=Crop(*box)))
            exact = load(data, ImageTransform(size, crop=Crop(*box), exact=True))
            expected = np.asarray(augment.resized_crop(decode(data), augment.Box(*box), size))
            assert psnr(fast, expected) >= 34, (box, size)
            assert difference(exact, expected).max() <= 1, (box, size)


@pytest.mark.parametrize("kind", [*KINDS, *GOLDEN])
def test_narrow_parts_become_few_pixels(kind: str) -> None:
    """One block of the picture, shrunk as far as the decoder can, is a few samples: in the middle and at the edges."""
    data = jpeg(kind)
    picture = decode(data)
    width, height = picture.size
    for step in (8, 16, 32):
        for high, wide in ((step, step), (height, step), (step, width), (step, 3 * step), (1, width), (height, 1)):
            for top, left in ((0, 0), (step, step), (height - high, width - wide), (height // 2, width // 2)):
                box = augment.Box(max(min(top, height - high), 0), max(min(left, width - wide), 0), high, wide)
                crop = Crop(box.top, box.left, high, wide)
                for size in ((1, 1), (1, 2), (3, 1), (1, max(wide // 24, 1)), (max(high // 24, 1), 1)):
                    fast = load(data, ImageTransform(size, crop=crop))
                    expected = np.asarray(augment.resized_crop(picture, box, size))
                    assert difference(fast, expected).mean() <= 12, (box, size)


def without_its_last_scans(data: bytes, count: int) -> bytes:
    """A progressive JPEG that ends early, but whole: libjpeg then smooths its blocks."""
    end = len(data)
    for _ in range(count):
        end = data.rindex(b"\xff\xda", 0, end)
    return data[:end] + b"\xff\xd9"


@pytest.mark.parametrize("subsampling", ["4:4:4", "4:2:0"])
@pytest.mark.parametrize("count", [1, 4, 8])
def test_an_exact_part_of_a_smoothed_picture_is_the_part_of_the_whole(count: int, subsampling: str) -> None:
    """What libjpeg smooths depends on blocks around it, which must not be left out."""
    data = without_its_last_scans(make_jpeg(151, 113, subsampling=subsampling, progressive=True), count)
    whole = load(data, ImageTransform((113, 151), exact=True))
    assert (whole == np.asarray(decode(data))).mean() > 0.9
    for box in rectangles(random.Random(count), 113, 151, 12):
        top, left, high, wide = box
        part = load(data, ImageTransform((high, wide), crop=Crop(*box), exact=True))
        assert (part == whole[top : top + high, left : left + wide]).all(), box


@pytest.mark.slow
@cases(100)
@given(
    width=st.integers(1, 100),
    height=st.integers(1, 100),
    subsampling=st.sampled_from(["4:4:4", "4:2:2", "4:2:0"]),
    progressive=st.booleans(),
    corners=st.tuples(*[st.floats(0, 1, exclude_max=True)] * 4),
)
def test_an_exact_part_is_the_part_of_the_whole(
    width: int, height: int, subsampling: str, progressive: bool, corners: tuple[float, float, float, float]
) -> None:
    """Of every size, wherever the units of the picture end."""
    data = make_jpeg(width, height, subsampling=subsampling, progressive=progressive)
    top, left = int(corners[0] * height), int(corners[1] * width)
    high, wide = 1 + int(corners[2] * (height - top)), 1 + int(corners[3] * (width - left))
    whole = load(data, ImageTransform((height, width), exact=True))
    part = load(data, ImageTransform((high, wide), crop=Crop(top, left, high, wide), exact=True))
    assert (part == whole[top : top + high, left : left + wide]).all()
