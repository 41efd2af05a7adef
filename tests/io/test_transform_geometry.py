"""What ``ImageTransform.plan`` decides, against torchvision's formulae and against the distributions it must follow.

The tests of distributions are of fixed seeds, so they give the same answer each time. Their bounds are those that one
good generator in a thousand would fail.
"""

import json
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from spdl.io import (
    AppliedTransform,
    CenterCrop,
    Crop,
    DecodeError,
    ImageTransform,
    LongerSide,
    RandomCrop,
    RandomResizedCrop,
    ShorterSide,
    sample_seeds,
)
from tests.support import augment

Values = NDArray[np.float64]

NUM_DRAWS = 4000
# Kolmogorov and Smirnov's distance that one sample in a thousand exceeds.
FAR = 1.95 / math.sqrt(NUM_DRAWS)

HEIGHTS_AND_WIDTHS = [
    (1, 1), (1, 2), (2, 1), (3, 500), (500, 3), (375, 500), (500, 375), (333, 500), (224, 224), (223, 225), (256, 341),
    (480, 640), (1080, 1920), (4000, 3000), (65, 64), (127, 333), (1, 5000), (5000, 1), (97, 61), (255, 257),
]  # fmt: skip

TRANSFORMS = {
    "stretch": ImageTransform((224, 160)),
    "fit": ImageTransform((224, 160), resize=LongerSide()),
    "fit at top left": ImageTransform((97, 160), resize=LongerSide("top_left"), flip=0.5),
    "evaluation": ImageTransform(224, resize=ShorterSide(256), crop=CenterCrop()),
    "tight": ImageTransform((64, 48), resize=ShorterSide(64), crop=CenterCrop(), flip=0.5),
    "random part": ImageTransform((64, 48), resize=ShorterSide(70), crop=RandomCrop(), flip=0.5),
    "center": ImageTransform((100, 151), crop=CenterCrop(), vertical_flip=0.5),
    "random": ImageTransform((100, 151), crop=RandomCrop(), flip=0.5, vertical_flip=0.5),
    "training": ImageTransform(224, crop=RandomResizedCrop(), flip=0.5),
    "wild": ImageTransform((31, 97), crop=RandomResizedCrop(scale=(0.001, 1.0), ratio=(0.1, 10.0)), flip=0.5),
}


def seeds(count: int = NUM_DRAWS, epoch: int = 0) -> Iterable[int]:
    return sample_seeds(7, epoch, range(count))


def draw(transform: ImageTransform, height: int, width: int, given: Iterable[int]) -> list[AppliedTransform]:
    return [transform.plan(height, width, seed) for seed in given]


def distance(values: Values, share_below: Callable[[Values], Values]) -> float:
    """Kolmogorov and Smirnov's: the largest difference between the values' distribution and the one expected."""
    values = np.sort(values)
    ranks = np.arange(len(values) + 1) / len(values)
    expected = share_below(values)
    return float(max((expected - ranks[:-1]).max(), (ranks[1:] - expected).max()))


def uniform(low: float, high: float) -> Callable[[Values], Values]:
    return lambda values: np.clip((values - low) / (high - low), 0, 1)


def of_sample(sample: Values) -> Callable[[Values], Values]:
    """The distribution of other values, which are many."""
    ordered = np.sort(sample)
    return lambda values: (
        (np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right")) / (2 * len(ordered))
    )


# ------------------------------------------------------------------------------------------------ where things may be


@pytest.mark.parametrize("size", HEIGHTS_AND_WIDTHS, ids=str)
@pytest.mark.parametrize("name", TRANSFORMS)
def test_everything_stays_inside(name: str, size: tuple[int, int]) -> None:
    """The crop in the source, the window in what was resized, and the window on the canvas."""
    for applied in draw(TRANSFORMS[name], *size, range(25)):
        top, left, height, width = applied.crop
        assert applied.source_size == size
        assert 0 <= top < top + height <= size[0]
        assert 0 <= left < left + width <= size[1]
        top, left, height, width = applied.window
        assert 0 <= top < top + height <= applied.resized[0]
        assert 0 <= left < left + width <= applied.resized[1]
        assert applied.size == TRANSFORMS[name].size
        assert 0 <= applied.offset[0] <= applied.size[0] - height
        assert 0 <= applied.offset[1] <= applied.size[1] - width


@pytest.mark.parametrize("size", HEIGHTS_AND_WIDTHS, ids=str)
@pytest.mark.parametrize("length", [64, 65, 256, 257])
def test_shorter_side_and_center_crop_are_those_of_torchvision(size: tuple[int, int], length: int) -> None:
    """The longer side is cut off after the point, the offset is rounded to the even number."""
    for cut in ((64, 64), (63, 64), (64, 33), (1, 1), (60, 61)):
        applied = ImageTransform(cut, resize=ShorterSide(length), crop=CenterCrop()).plan(*size)
        resized = augment.shorter_size(*size, length)
        box = augment.center_window(*resized, cut)
        assert applied.resized == resized
        assert applied.window == (box.top, box.left, box.height, box.width)
        assert (applied.crop, applied.offset) == ((0, 0, *size), (0, 0))


def test_shorter_side_is_exact_where_rounding_is_close() -> None:
    """Products that only just reach, or miss, a whole number."""
    for height in range(1, 400, 7):
        for width in range(height, 4 * height + 3, 5):
            assert ImageTransform(1, resize=ShorterSide(224), crop=CenterCrop()).plan(height, width).resized == (
                augment.shorter_size(height, width, 224)
            )


@pytest.mark.parametrize("size", HEIGHTS_AND_WIDTHS, ids=str)
@pytest.mark.parametrize("cut", [(100, 100), (99, 100), (224, 31), (1, 1), (2, 3)])
def test_center_crop_pads_as_torchvision_does(size: tuple[int, int], cut: tuple[int, int]) -> None:
    """Where the picture is smaller it is in the middle, by the smaller half where it cannot be even."""
    applied = ImageTransform(cut, crop=CenterCrop()).plan(*size)
    for axis in (0, 1):
        total, wanted = size[axis], cut[axis]
        begin = applied.window[axis] + applied.crop[axis]
        if total < wanted:
            assert (begin, applied.window[axis + 2]) == (0, total)
            assert applied.offset[axis] == (wanted - total) // 2
        else:
            assert (begin, applied.window[axis + 2]) == (round((total - wanted) / 2), wanted)
            assert applied.offset[axis] == 0


def test_fitted_pictures_are_where_ffmpeg_puts_them() -> None:
    """The same numbers as those of FFmpeg's filters, which are kept."""
    rows = json.loads((Path(__file__).parent.parent / "golden" / "placements.json").read_text())["rows"]
    for width, height, canvas_width, canvas_height, left, top, fitted_width, fitted_height in rows:
        applied = ImageTransform((canvas_height, canvas_width), resize=LongerSide()).plan(height, width)
        assert (applied.offset, applied.resized) == ((top, left), (fitted_height, fitted_width))
        assert applied.window == (0, 0, fitted_height, fitted_width)
        corner = ImageTransform((canvas_height, canvas_width), resize=LongerSide("top_left")).plan(height, width)
        assert (corner.offset, corner.resized) == ((0, 0), (fitted_height, fitted_width))


def test_given_crop_is_kept_and_then_stretched_or_fitted() -> None:
    """``Crop`` names the part of the source; what leaves it fails."""
    box = (10, 20, 30, 90)
    assert ImageTransform((50, 60), crop=Crop(*box)).plan(40, 110).crop == box
    assert ImageTransform((50, 60), crop=Crop(*box)).plan(40, 110).resized == (50, 60)
    fitted = ImageTransform((50, 60), crop=Crop(*box), resize=LongerSide()).plan(40, 110)
    expected = augment.fit_inside(30, 90, (50, 60))
    assert (fitted.crop, fitted.resized) == (box, (expected.height, expected.width))
    assert fitted.offset == (expected.top, expected.left)
    for height, width in ((39, 110), (40, 109), (1, 1)):
        with pytest.raises(DecodeError, match=f"10 to 40.*20 to 110.*{height} rows and {width} columns"):
            ImageTransform((50, 60), crop=Crop(*box)).plan(height, width)


# --------------------------------------------------------------------------------------------------- how chance falls


@pytest.mark.parametrize("given", [tuple(seeds()), tuple(range(NUM_DRAWS)), tuple(i << 40 for i in range(NUM_DRAWS))],
                         ids=["mixed", "counted", "high bits"])  # fmt: skip
def test_area_and_ratio_are_uniform_where_every_try_fits(given: Sequence[int]) -> None:
    """The share of the area, and the logarithm of the ratio, whatever the seeds look like."""
    transform = ImageTransform(224, crop=RandomResizedCrop(scale=(0.08, 0.5), ratio=(3 / 4, 4 / 3)))
    crops = np.array([applied.crop for applied in draw(transform, 5000, 5000, given)], np.float64)
    heights, widths = crops[:, 2], crops[:, 3]
    assert distance(heights * widths / 5000**2, uniform(0.08, 0.5)) < FAR
    assert distance(np.log(widths / heights), uniform(math.log(3 / 4), math.log(4 / 3))) < FAR
    assert abs(np.corrcoef(heights * widths, widths / heights)[0, 1]) < 0.06
    for first, length in ((crops[:, 0], heights), (crops[:, 1], widths)):
        assert distance((first + 0.5) / (5000 - length + 1), uniform(0, 1)) < FAR
    assert abs(np.corrcoef(crops[:, 0] / (5001 - heights), crops[:, 1] / (5001 - widths))[0, 1]) < 0.06


@pytest.mark.parametrize("size", [(375, 500), (500, 375), (100, 1000), (224, 224), (9, 7)], ids=str)
def test_resized_crops_are_distributed_as_those_of_torchvision(size: tuple[int, int]) -> None:
    """Tries that do not fit, and what is left when none does, included."""
    scale, ratio = (0.08, 1.0), (3 / 4, 4 / 3)
    transform = ImageTransform(224, crop=RandomResizedCrop(scale=scale, ratio=ratio))
    ours = np.array([applied.crop for applied in draw(transform, *size, seeds())], np.float64)
    rng = np.random.default_rng(0)
    boxes = [
        augment.draw_resized_crop(rng, *size, scale, ratio) or augment.fallback_crop(*size, ratio)
        for _ in range(3 * NUM_DRAWS)
    ]
    theirs = np.array([(box.top, box.left, box.height, box.width) for box in boxes], np.float64)
    for actual, expected in (
        *zip(ours.T, theirs.T, strict=True),
        (ours[:, 2] * ours[:, 3], theirs[:, 2] * theirs[:, 3]),
        (ours[:, 3] / ours[:, 2], theirs[:, 3] / theirs[:, 2]),
    ):
        # Ties, of which small pictures have many, count by half in `of_sample`.
        ties = max(np.unique(expected, return_counts=True)[1]) / len(expected)
        assert distance(actual, of_sample(expected)) < FAR * math.sqrt(4 / 3) + ties


@pytest.mark.parametrize("size", [(1, 5000), (5000, 1), (10, 3000), (3000, 10), (2, 999), (7, 4001)], ids=str)
def test_where_no_try_fits_the_crop_is_central(size: tuple[int, int]) -> None:
    """torchvision's last resort, for pictures that are lines."""
    for ratio in ((3 / 4, 4 / 3), (0.5, 0.7), (1.5, 1.5)):
        transform = ImageTransform(32, crop=RandomResizedCrop(scale=(0.5, 1.0), ratio=ratio))
        box = augment.fallback_crop(*size, ratio)
        if 0 < box.height <= size[0] and 0 < box.width <= size[1]:
            expected = (box.top, box.left, box.height, box.width)
            assert {applied.crop for applied in draw(transform, *size, range(50))} == {expected}


def test_ratio_without_range_and_scale_without_range() -> None:
    """One ratio and one share are kept by every draw."""
    transform = ImageTransform(32, crop=RandomResizedCrop(scale=(0.25, 0.25), ratio=(1.0, 1.0)))
    assert {applied.crop[2:] for applied in draw(transform, 400, 400, range(100))} == {(200, 200)}
    whole = ImageTransform(32, crop=RandomResizedCrop(scale=(1.0, 1.0), ratio=(1.0, 1.0)))
    assert {applied.crop for applied in draw(whole, 64, 64, range(100))} == {(0, 0, 64, 64)}


@pytest.mark.parametrize("resize", [None, ShorterSide(80)], ids=["source", "resized"])
def test_random_crops_are_everywhere_alike(resize: Any) -> None:
    """Each of the places where the crop fits, the first and the last too, is as likely as any other."""
    transform = ImageTransform((70, 60), resize=resize, crop=RandomCrop())
    height, width = (80, 64) if resize is None else (100, 80)
    all_applied = draw(transform, height, width, seeds())
    high, wide = all_applied[0].resized
    tops = [applied.crop[0] + applied.window[0] for applied in all_applied]
    lefts = [applied.crop[1] + applied.window[1] for applied in all_applied]
    assert abs(np.corrcoef(tops, lefts)[0, 1]) < 0.06
    if resize is None:
        high, wide = height, width
    for positions, room in ((tops, high - 70 + 1), (lefts, wide - 60 + 1)):
        counts = np.bincount(positions, minlength=room)
        assert len(counts) == room
        expected = NUM_DRAWS / room
        # Chi-square: its mean is the degrees of freedom, its variance twice that.
        assert ((counts - expected) ** 2 / expected).sum() < room - 1 + 4 * math.sqrt(2 * room)


@pytest.mark.parametrize("probability", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_flips_are_as_frequent_as_asked(probability: float) -> None:
    """Each by itself, and without regard to where the crop is."""
    transform = ImageTransform(32, crop=RandomResizedCrop(), flip=probability, vertical_flip=1 - probability)
    all_applied = draw(transform, 300, 400, seeds())
    flips = np.array([applied.flip for applied in all_applied], np.float64)
    vertical = np.array([applied.vertical_flip for applied in all_applied], np.float64)
    bound = 3.3 * math.sqrt(probability * (1 - probability) / NUM_DRAWS)
    assert abs(flips.mean() - probability) <= bound
    assert abs(vertical.mean() - (1 - probability)) <= bound
    if 0 < probability < 1:
        crops = np.array([applied.crop for applied in all_applied], np.float64)
        for values in (vertical, *crops.T):
            assert abs(np.corrcoef(flips, values)[0, 1]) < 0.06


def test_flip_does_not_change_the_crop() -> None:
    """Seeds keep their crops when flips are switched on: experiments can be compared."""
    plain = draw(ImageTransform(32, crop=RandomResizedCrop()), 300, 400, range(50))
    flipped = draw(ImageTransform(32, crop=RandomResizedCrop(), flip=1.0), 300, 400, range(50))
    assert [applied.crop for applied in plain] == [applied.crop for applied in flipped]


def test_plan_is_a_function_of_its_arguments() -> None:
    """The same seed gives the same plan, another seed another one."""
    for transform in TRANSFORMS.values():
        assert draw(transform, 300, 401, range(20)) == draw(transform, 300, 401, range(20))
    training = draw(TRANSFORMS["training"], 300, 401, [0, 1, 2, 1 << 63, (1 << 64) - 1])
    assert len({applied.crop for applied in training}) == 5


# -------------------------------------------------------------------------------------------------------- coordinates


@pytest.mark.parametrize("name", TRANSFORMS)
def test_matrix_takes_the_crop_to_where_it_is_shown(name: str) -> None:
    """Corners of what is shown, worked out step by step: crop, resize, window, offset, flips."""
    for applied in draw(TRANSFORMS[name], 333, 251, range(10)):
        matrix = applied.matrix()
        assert matrix.shape == (3, 3)
        assert matrix.dtype == np.float64
        rng = np.random.default_rng(0)
        source = rng.uniform(0, 1, (20, 2)) * [251, 333]
        shown = (source - [applied.crop[1], applied.crop[0]]) * [
            applied.resized[1] / applied.crop[3],
            applied.resized[0] / applied.crop[2],
        ]
        shown += [applied.offset[1] - applied.window[1], applied.offset[0] - applied.window[0]]
        if applied.flip:
            shown[:, 0] = applied.size[1] - shown[:, 0]
        if applied.vertical_flip:
            shown[:, 1] = applied.size[0] - shown[:, 1]
        assert np.allclose(applied.points(source), shown, atol=1e-9)
        homogeneous = np.concatenate([source, np.ones((20, 1))], 1) @ matrix.T
        assert np.allclose(homogeneous[:, :2] / homogeneous[:, 2:], shown, atol=1e-9)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_boxes_stay_boxes_inside_the_result(name: str) -> None:
    """Flips do not turn a box inside out, and clipped ones end at the border."""
    boxes = np.array([[0, 0, 251, 333], [10, 20, 30, 44], [250, 332, 251, 333]], np.float64)
    for applied in draw(TRANSFORMS[name], 333, 251, range(10)):
        free, clipped = applied.boxes(boxes, clip=False), applied.boxes(boxes)
        assert (free[:, :2] <= free[:, 2:]).all()
        corners = [applied.points(boxes[:, pair]) for pair in ([0, 1], [2, 3])]
        assert np.allclose(free, np.concatenate([np.minimum(*corners), np.maximum(*corners)], 1))
        assert np.allclose(clipped, np.clip(free, 0, [*applied.size[::-1], *applied.size[::-1]]))
