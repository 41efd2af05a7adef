"""Resampling of one plane, against Pillow's, and levels as floating point, against NumPy's.

The exact way has to give Pillow's bytes. The fast one rounds its weights to 14 bits, and goes along columns first where
Pillow goes along rows: each rounds and clamps in between, and both are as far from the exact sum.
"""

from typing import Any

import numpy as np
import PIL
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

from spdl.io import _native
from tests.io.pictures import Pixels, difference, draw
from tests.support import augment

FILTERS = {
    "nearest": Image.Resampling.NEAREST,
    "box": Image.Resampling.BOX,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}

# (height, width) before and after.
SHAPES = [
    ((375, 500), (224, 224)),
    ((256, 341), (224, 224)),
    ((224, 168), (375, 500)),
    ((61, 97), (60, 96)),
    ((64, 64), (64, 32)),
    ((64, 64), (32, 64)),
    ((64, 64), (64, 64)),
    ((200, 40), (10, 90)),
    ((480, 640), (15, 20)),
    ((5, 7), (3, 31)),
    ((3, 3), (65, 63)),
    ((1, 1), (5, 6)),
    ((70, 90), (1, 1)),
    ((1, 300), (1, 33)),
    ((300, 1), (33, 1)),
]

# Greatest mean and greatest single difference, in levels, of the fast way from Pillow.
FAST_BOUNDS = {"nearest": (0, 0), "box": (0.2, 1), "bilinear": (0.3, 1), "bicubic": (0.3, 3), "lanczos": (0.4, 4)}

Area = tuple[int, int, int, int]


def resample(plane: Pixels, size: tuple[int, int], **options: Any) -> Pixels:
    """The plane at another (height, width), by the last instruction set if none is named."""
    options.setdefault("kernels", _native.core.instruction_sets()[-1])
    top_left_size = options.get("window") or (0, 0, *size)
    out = _native.core.resample(plane, height=size[0], width=size[1], **options)
    return np.frombuffer(out, np.uint8).reshape(top_left_size[2:])


def by_pillow(plane: Pixels, size: tuple[int, int], interpolation: str, crop: Area | None = None) -> Pixels:
    """What Pillow makes of it, or of what it has cut out of it."""
    picture = Image.fromarray(plane)
    if crop is not None:
        top, left, height, width = crop
        picture = picture.crop((left, top, left + width, top + height))
    return np.asarray(picture.resize(size[::-1], FILTERS[interpolation]))


def is_of_any_version(before: tuple[int, int], after: tuple[int, int]) -> bool:
    """Whether Pillow goes the same way in all versions: 13 goes along columns first where the height shrinks most."""
    shorter_by, narrower_by = before[0] - after[0], before[1] - after[1]
    return int(PIL.__version__.split(".")[0]) >= 13 or shorter_by <= max(0, 2 * narrower_by)


def noise(height: int, width: int, seed: int = 0) -> Pixels:
    """What has most to clamp and most to round."""
    return np.random.default_rng(seed).integers(0, 256, (height, width), np.uint8)


@st.composite
def areas(draw: st.DrawFn, height: int, width: int) -> Area:
    """A rectangle inside."""
    rows = draw(st.integers(1, height))
    columns = draw(st.integers(1, width))
    return draw(st.integers(0, height - rows)), draw(st.integers(0, width - columns)), rows, columns


@st.composite
def tasks(draw: st.DrawFn) -> tuple[Pixels, tuple[int, int], dict[str, Any]]:
    """A plane, a size and options for it."""
    height, width, after_height, after_width = (draw(st.integers(1, 80)) for _ in range(4))
    options = {
        "interpolation": draw(st.sampled_from(sorted(FILTERS))),
        "crop": draw(areas(height, width)),
        "window": draw(areas(after_height, after_width)),
        "flip": draw(st.booleans()),
        "vertical_flip": draw(st.booleans()),
    }
    return noise(height, width, draw(st.integers(0, 99))), (after_height, after_width), options


@pytest.mark.parametrize("interpolation", FILTERS)
@pytest.mark.parametrize(("before", "after"), SHAPES, ids=str)
def test_exact_way_is_pillow_bit_for_bit(before: tuple[int, int], after: tuple[int, int], interpolation: str) -> None:
    """Up, down, along one side only, along both in either order, and sides of one sample."""
    if not is_of_any_version(before, after):
        pytest.skip("before Pillow 13, rows always come first")
    plane = noise(*before)
    ours = resample(plane, after, interpolation=interpolation, exact=True)
    assert (ours == by_pillow(plane, after, interpolation)).all()


@given(tasks())
def test_exact_way_is_pillow_on_any_part(task: tuple[Pixels, tuple[int, int], dict[str, Any]]) -> None:
    """Pillow's crop, its resize, a slice of the result and its mirror image, in one."""
    plane, after, options = task
    top, left, height, width = options["window"]
    assume(is_of_any_version(options["crop"][2:], after))
    expected = by_pillow(plane, after, options["interpolation"], options["crop"])
    expected = expected[top : top + height, left : left + width]
    expected = expected[:: -1 if options["vertical_flip"] else 1, :: -1 if options["flip"] else 1]
    assert (resample(plane, after, exact=True, **options) == expected).all()


@given(tasks())
def test_a_part_of_the_fast_way_is_that_part_of_the_whole(
    task: tuple[Pixels, tuple[int, int], dict[str, Any]],
) -> None:
    """Windows and mirror images have the samples that the whole has there."""
    plane, after, options = task
    top, left, height, width = options["window"]
    whole = resample(plane, after, interpolation=options["interpolation"], crop=options["crop"])
    expected = whole[top : top + height, left : left + width]
    expected = expected[:: -1 if options["vertical_flip"] else 1, :: -1 if options["flip"] else 1]
    assert (resample(plane, after, **options) == expected).all()


@given(tasks(), st.booleans())
def test_instruction_sets_give_the_same_bytes(
    task: tuple[Pixels, tuple[int, int], dict[str, Any]], exact: bool
) -> None:
    """A result does not depend on the processor."""
    plane, after, options = task
    first, *others = (
        resample(plane, after, exact=exact, kernels=name, **options) for name in _native.core.instruction_sets()
    )
    assert all((first == other).all() for other in others)


@pytest.mark.parametrize("interpolation", FILTERS)
@pytest.mark.parametrize(("before", "after"), SHAPES, ids=str)
def test_fast_way_is_near_pillow(before: tuple[int, int], after: tuple[int, int], interpolation: str) -> None:
    """On what looks like a photograph, few samples differ by any level, and none by more than four."""
    plane = np.asarray(draw(*before[::-1], mode="L"))
    ours = resample(plane, after, interpolation=interpolation)
    distance = difference(ours, by_pillow(plane, after, interpolation))
    mean, most = FAST_BOUNDS[interpolation]
    assert distance.mean() <= mean * (1 if augment.ROUNDING == 0 else 1.1)
    assert distance.max() <= most


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("interpolation", FILTERS)
@pytest.mark.parametrize("level", [1, 128, 255])
def test_flat_areas_stay_flat(level: int, interpolation: str, exact: bool) -> None:
    """Weights sum to one, everywhere."""
    for before, after in SHAPES:
        plane = np.full(before, level, np.uint8)
        assert (resample(plane, after, interpolation=interpolation, exact=exact) == level).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"interpolation": "cubic"}, r"interpolation must be .* got 'cubic'"),
        ({"crop": (0, 0, 5, 4)}, "crop must lie inside 4 x 4"),
        ({"crop": (-1, 0, 2, 2)}, "crop must lie inside 4 x 4"),
        ({"window": (0, 1, 2, 2)}, "window must lie inside 2 x 2"),
        ({"window": (0, 0, 0, 2)}, "window must lie inside 2 x 2"),
    ],
)
def test_parts_that_do_not_exist_are_value_errors(options: dict[str, Any], message: str) -> None:
    """Nothing outside the plane or the result can be asked for."""
    with pytest.raises(ValueError, match=message):
        resample(noise(4, 4), (2, 2), **options)


def to_elements(levels: Pixels, dtype: str, factor: list[float], summand: list[float], kernels: str) -> NDArray[Any]:
    """The elements, those of bfloat16 as their bits."""
    out = _native.core.to_elements(levels, dtype=dtype, factor=factor, summand=summand, kernels=kernels)
    return np.frombuffer(out, np.uint16 if dtype == "bfloat16" else dtype)


def by_numpy(levels: Pixels, dtype: str, factor: list[float], summand: list[float]) -> NDArray[Any]:
    """The same in NumPy's arithmetic; bfloat16 is the upper half of float32, rounded to the nearest, ties to even."""
    with np.errstate(all="ignore"):
        products = levels.astype(np.float32) * np.resize(np.array(factor, np.float32), levels.size)
        values = (products + np.resize(np.array(summand, np.float32), levels.size)).astype(np.float32)
        if dtype != "bfloat16":
            return values.astype(dtype)
    bits = values.view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


floats = st.floats(width=32, allow_nan=False, allow_infinity=False)


@given(
    st.binary(max_size=200),
    st.sampled_from([1, 3, 4]).flatmap(lambda n: st.lists(st.tuples(floats, floats), min_size=n, max_size=n)),
    st.sampled_from(["float32", "float16", "bfloat16"]),
)
def test_elements_are_those_of_numpy(data: bytes, scales: list[tuple[float, float]], dtype: str) -> None:
    """Whatever the channels, the count and the range, every bit agrees, with every instruction set."""
    levels = np.frombuffer(data, np.uint8)
    factor, summand = [list(numbers) for numbers in zip(*scales, strict=True)]
    expected = by_numpy(levels, dtype, factor, summand)
    for name in _native.core.instruction_sets():
        assert to_elements(levels, dtype, factor, summand, name).tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(
    ("factor", "summand"),
    [
        (1 / 255 / 0.229, -0.485 / 0.229),
        (2.0**-25, 0.0),  # subnormal halves, every second one a tie
        (-(2.0**-24), 2.0**-25),
        (2.0**-14 / 255, -(2.0**-26)),  # where subnormal halves end
        (2.0**-10, 2.0**-11),  # ties of halves from 1 on
        (2.0**-7, 1 + 2.0**-8),  # and of bfloat16
        (257.0, -16.0),  # up to 65519, which rounds to the largest half, and beyond
        (257.0, -15.0),
        (1e-40, 0.0),  # subnormal float32
        (1e36, 1e38),  # infinity
        (-1.0, 0.0),  # negative zero
    ],
)
def test_elements_round_to_the_nearest_even(factor: float, summand: float, dtype: str) -> None:
    """All levels, at the places where rounding is decided."""
    levels = np.arange(256).astype(np.uint8)
    expected = by_numpy(levels, dtype, [factor], [summand])
    for name in _native.core.instruction_sets():
        assert to_elements(levels, dtype, [factor], [summand], name).tobytes() == expected.tobytes()


def test_elements_need_one_factor_and_summand_of_each_channel() -> None:
    """Two channels exist nowhere, and neither do factors without summands."""
    for factor, summand in (([], []), ([1.0] * 5, [0.0] * 5), ([1.0], [0.0, 0.0])):
        with pytest.raises(ValueError, match="1, 3 or 4 channels"):
            to_elements(noise(1, 3)[0], "float32", factor, summand, "portable")
    with pytest.raises(ValueError, match=r"dtype must be .* got 'float64'"):
        to_elements(noise(1, 3)[0], "float64", [1.0], [0.0], "portable")
