"""What a transform takes and refuses, and what it says of itself; pictures are not needed for that."""

import copy
import dataclasses
import math
import pickle
from typing import Any

import numpy as np
import pytest

import spdl.io
from spdl.io import (
    CenterCrop,
    Crop,
    ImageTransform,
    LongerSide,
    RandomCrop,
    RandomResizedCrop,
    ShorterSide,
)

EVERYTHING = ImageTransform(
    (192, 224),
    resize=ShorterSide(256),
    crop=RandomCrop(),
    flip=0.5,
    vertical_flip=1,
    interpolation="bicubic",
    color="bgr",
    dtype="bfloat16",
    mean=(0.485, 0.456, 0.406),
    std=0.25,
    layout="NCHW",
    fill=(124, 116, 104),
    orient=False,
    exact=True,
)


def test_size_may_be_one_number() -> None:
    """For both sides."""
    assert ImageTransform(224) == ImageTransform((224, 224)) == ImageTransform(size=[224, 224])  # type: ignore[arg-type]
    assert ImageTransform(224).size == (224, 224)


def test_all_but_the_size_have_names() -> None:
    """Nobody remembers the order of fifteen arguments."""
    with pytest.raises(TypeError, match="positional"):
        ImageTransform(224, ShorterSide(256))  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("color", "layout", "shape"),
    [
        ("rgb", "NHWC", (4, 6, 3)),
        ("gray", "NHWC", (4, 6, 1)),
        ("rgba", "NCHW", (4, 4, 6)),
        ("ycbcr", "NCHW", (3, 4, 6)),
    ],
)
def test_shape_is_that_of_one_image(color: Any, layout: Any, shape: tuple[int, ...]) -> None:
    """Height, width and channels, in the order of the layout."""
    assert ImageTransform((4, 6), color=color, layout=layout).shape == shape


@pytest.mark.parametrize(
    ("options", "is_random"),
    [
        ({}, False),
        ({"crop": CenterCrop()}, False),
        ({"crop": Crop(0, 0, 5, 5)}, False),
        ({"flip": 1.0, "vertical_flip": 0}, False),
        ({"flip": 0.5}, True),
        ({"vertical_flip": 1e-9}, True),
        ({"crop": RandomCrop()}, True),
        ({"crop": RandomResizedCrop()}, True),
    ],
)
def test_it_knows_whether_it_needs_seeds(options: Any, is_random: bool) -> None:
    """What always or never happens is not drawn."""
    assert ImageTransform(8, **options).is_random is is_random


def test_it_is_a_value() -> None:
    """Equal, hashable and frozen; it can be sent to another process, and changed by making another."""
    assert pickle.loads(pickle.dumps(EVERYTHING)) == copy.deepcopy(EVERYTHING) == EVERYTHING
    assert len({EVERYTHING, copy.copy(EVERYTHING), ImageTransform(224)}) == 2
    changed = dataclasses.replace(EVERYTHING, dtype="float32", crop=CenterCrop())
    assert (changed.dtype, changed.crop, changed.fill) == ("float32", CenterCrop(), EVERYTHING.fill)
    with pytest.raises(dataclasses.FrozenInstanceError):
        EVERYTHING.flip = 0.0  # type: ignore[misc]
    assert not hasattr(EVERYTHING, "__dict__")


def test_change_is_checked_too() -> None:
    """``replace`` goes through the same checks."""
    with pytest.raises(ValueError, match="mean is for floating point"):
        dataclasses.replace(EVERYTHING, dtype="uint8")


def test_one_number_for_all_channels_survives_a_change_of_color() -> None:
    """It is kept as it was given."""
    assert dataclasses.replace(ImageTransform(8, dtype="float32", mean=0.5, fill=7), color="gray").mean == 0.5


def test_numbers_become_those_of_python() -> None:
    """NumPy's are taken and forgotten, so that transforms that do the same are equal."""
    one = ImageTransform(
        np.int64(8),  # type: ignore[arg-type]
        flip=np.float32(0.5),  # type: ignore[arg-type]
        dtype="float32",
        mean=np.array([0.5, 0.25, 0]),  # type: ignore[arg-type]
        fill=[np.uint8(1), 2, 3],  # type: ignore[arg-type]
        crop=Crop(np.int8(1), 2, 3, 4),  # type: ignore[arg-type]
    )
    other = ImageTransform(8, flip=0.5, dtype="float32", mean=(0.5, 0.25, 0.0), fill=(1, 2, 3), crop=Crop(1, 2, 3, 4))
    assert one == other
    assert repr(one) == repr(other)


def test_repr_tells_what_is_not_the_default() -> None:
    """And can be read back."""
    assert repr(ImageTransform(224)) == "ImageTransform(size=(224, 224))"
    assert repr(EVERYTHING) == (
        "ImageTransform(size=(192, 224), resize=ShorterSide(256), crop=RandomCrop(), flip=0.5, vertical_flip=1.0,"
        " interpolation='bicubic', color='bgr', dtype='bfloat16', mean=(0.485, 0.456, 0.406), std=0.25, layout='NCHW',"
        " fill=(124, 116, 104), orient=False, exact=True)"
    )
    for transform in (
        EVERYTHING,
        ImageTransform(8, resize=LongerSide("top_left"), crop=Crop(1, 2, 3, 4)),
        ImageTransform(8, crop=RandomResizedCrop(scale=(0.2, 1)), resize=None),
    ):
        assert eval(repr(transform), vars(spdl.io).copy()) == transform


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 0}, "size must be >= 1, got 0"),
        ({"size": (8, -1)}, "size must be >= 1, got -1"),
        ({"size": 2**31}, "size must be <= 2147483647"),
        ({"size": (8, 8, 3)}, r"size must be \(height, width\) or one number for both, got \(8, 8, 3\)"),
        ({"flip": 1.5}, "flip must be a probability, from 0 to 1, got 1.5"),
        ({"vertical_flip": -0.1}, "vertical_flip must be a probability, from 0 to 1, got -0.1"),
        ({"flip": math.nan}, "flip must be finite, got nan"),
        ({"interpolation": "cubic"}, "interpolation must be one of 'nearest', .*'lanczos', got 'cubic'"),
        ({"color": "RGB"}, "color must be one of 'rgb', .*, got 'RGB'"),
        ({"dtype": "float64"}, "dtype must be one of 'uint8', .*, got 'float64'"),
        ({"layout": "CHW"}, "layout must be one of 'NHWC', 'NCHW', got 'CHW'"),
        ({"mean": 0.5}, "mean is for floating point, and dtype is 'uint8': use 'float32', or leave it out"),
        ({"std": (1, 1, 1)}, "std is for floating point"),
        ({"dtype": "float32", "std": 0}, "std must be > 0, got 0.0"),
        ({"dtype": "float32", "std": (1, 0, 1)}, r"std must be > 0, got \(1.0, 0.0, 1.0\)"),
        ({"dtype": "float32", "mean": (0.5, 0.5)}, r"mean must be 3 numbers, got \(0.5, 0.5\)"),
        ({"dtype": "float32", "mean": (0.5,), "color": "rgba"}, "mean must be 4 numbers"),
        ({"dtype": "float32", "mean": math.inf}, "mean must be finite, got inf"),
        ({"dtype": "float32", "std": 1e-42}, "give values beyond float32"),
        ({"dtype": "float32", "mean": 1e30, "std": 1e-20}, "give values beyond float32"),
        ({"fill": 256}, "fill must be a level from 0 to 255, got 256"),
        ({"fill": (0, 0, -1)}, "fill must be a level from 0 to 255"),
        ({"fill": (0, 0)}, r"fill must be one level, or 3 for color='rgb', got \(0, 0\)"),
        ({"color": "ycbcr", "exact": True}, "exact=True decodes to RGB, and color='ycbcr' keeps the coded planes"),
    ],
)
def test_values_out_of_range_are_refused(options: dict[str, Any], message: str) -> None:
    """The message has the name, what is accepted, and what was given."""
    with pytest.raises(ValueError, match=message):
        ImageTransform(**{"size": 8, **options})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 8.0}, "size must be an int, got 8.0"),
        ({"size": True}, "size must be an int, got True"),
        ({"size": "8"}, "size must be an int, got '8'"),
        ({"size": None}, "size must be an int, got None"),
        ({"resize": 256}, r"resize must be ShorterSide\(...\), LongerSide\(...\) or None, got 256"),
        ({"resize": ShorterSide}, "resize must be ShorterSide"),
        ({"crop": "center"}, r"crop must be CenterCrop\(\), .* or None, got 'center'"),
        ({"crop": CenterCrop}, "crop must be CenterCrop"),
        ({"crop": (0, 0, 1, 1)}, "crop must be CenterCrop"),
        ({"flip": True}, "flip must be a number, got True"),
        ({"flip": "0.5"}, "flip must be a number, got '0.5'"),
        ({"color": None}, "color must be one of 'rgb'.*, got None"),
        ({"dtype": np.float32}, "dtype must be one of 'uint8'"),
        ({"dtype": "float32", "mean": "gray"}, "mean must be a number, got 'gray'"),
        ({"dtype": "float32", "std": (1, 1, None)}, "std must be a number, got None"),
        ({"fill": 0.5}, "fill must be an int, got 0.5"),
        ({"fill": "black"}, "fill must be an int, got 'black'"),
        ({"exact": 1}, "exact must be a bool, got 1"),
        ({"orient": None}, "orient must be a bool, got None"),
    ],
)
def test_values_of_the_wrong_type_are_refused(options: dict[str, Any], message: str) -> None:
    """Nothing is guessed."""
    with pytest.raises(TypeError, match=message):
        ImageTransform(**{"size": 8, **options})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"resize": ShorterSide(200), "crop": CenterCrop()},
            r"resize=ShorterSide\(200\) leaves pictures smaller than size=\(224, 224\): length must be >= 224",
        ),
        ({"resize": ShorterSide(256)}, r"needs crop=CenterCrop\(\) or crop=RandomCrop\(\), got crop=None"),
        ({"resize": ShorterSide(256), "crop": RandomResizedCrop()}, "leaves pictures of different shapes"),
        ({"resize": ShorterSide(256), "crop": Crop(0, 0, 9, 9)}, r"got crop=Crop\(top=0, left=0, height=9, width=9\)"),
        ({"resize": LongerSide(), "crop": CenterCrop()}, r"resize=LongerSide\(\) fits the whole picture inside"),
        ({"resize": LongerSide(), "crop": RandomResizedCrop()}, "which leaves nothing for crop="),
        ({"resize": LongerSide("top_left"), "crop": RandomCrop()}, r"resize=LongerSide\('top_left'\) fits"),
    ],
)
def test_contradictions_are_refused(options: dict[str, Any], message: str) -> None:
    """With what would do."""
    with pytest.raises(ValueError, match=message):
        ImageTransform(224, **options)


@pytest.mark.parametrize(
    "options",
    [
        {"resize": ShorterSide(224), "crop": CenterCrop()},
        {"resize": LongerSide()},
        {"resize": LongerSide("top_left"), "crop": Crop(0, 0, 9, 9)},
        *({"crop": crop} for crop in (None, CenterCrop(), RandomCrop(), RandomResizedCrop(), Crop(0, 0, 9, 9))),
    ],
)
def test_all_that_means_something_is_taken(options: dict[str, Any]) -> None:
    """And goes to native code without another word."""
    transform = ImageTransform(224, **options)
    assert transform.plan(300, 400, seed=5).size == (224, 224)


@pytest.mark.parametrize(
    ("part", "options", "error", "message"),
    [
        (ShorterSide, {"length": 0}, ValueError, "length must be >= 1, got 0"),
        (ShorterSide, {"length": 8.5}, TypeError, "length must be an int, got 8.5"),
        (LongerSide, {"position": "left"}, ValueError, "position must be one of 'center', 'top_left', got 'left'"),
        (Crop, {"top": -1, "left": 0, "height": 1, "width": 1}, ValueError, "top must be >= 0, got -1"),
        (Crop, {"top": 0, "left": 0, "height": 0, "width": 1}, ValueError, "height must be >= 1, got 0"),
        (Crop, {"top": 0, "left": 0, "height": 1, "width": None}, TypeError, "width must be an int, got None"),
        (RandomResizedCrop, {"scale": (0, 1)}, ValueError, "scale must be .* 0 < low <= high <= 1, got"),
        (RandomResizedCrop, {"scale": (0.5, 0.4)}, ValueError, r"scale must be .*, got \(0.5, 0.4\)"),
        (RandomResizedCrop, {"scale": (0.5, 1.1)}, ValueError, "scale must be"),
        (RandomResizedCrop, {"ratio": (-1, 1)}, ValueError, "ratio must be .* 0 < low <= high, got"),
        (RandomResizedCrop, {"ratio": (1, math.inf)}, ValueError, "ratio must be finite"),
        (RandomResizedCrop, {"ratio": 1}, TypeError, "ratio must be 2 numbers, got 1"),
        (RandomResizedCrop, {"scale": (0.1, 0.2, 0.3)}, ValueError, "scale must be 2 numbers"),
        (RandomResizedCrop, {"scale": "01"}, TypeError, "scale must be 2 numbers, got '01'"),
    ],
)
def test_parts_are_checked_as_well(part: Any, options: dict[str, Any], error: type[Exception], message: str) -> None:
    """Where they are made, which is where the mistake is."""
    with pytest.raises(error, match=message):
        part(**options)


# ------------------------------------------------------------------------------------------------------------- plans


def test_plan_of_a_stretched_picture() -> None:
    """All of it becomes the result."""
    plan = ImageTransform((24, 32)).plan(100, 200)
    assert plan == spdl.io.AppliedTransform(
        (100, 200), (0, 0, 100, 200), (24, 32), (0, 0, 24, 32), (0, 0), False, False, (24, 32)
    )


def test_plan_of_the_middle() -> None:
    """The usual evaluation: 500x375 becomes 341x256, of which the middle is cut out."""
    plan = ImageTransform(224, resize=ShorterSide(256), crop=CenterCrop()).plan(375, 500)
    assert (plan.crop, plan.resized, plan.offset) == ((0, 0, 375, 500), (256, 341), (0, 0))
    top, left, height, width = plan.window
    assert (top, height, width) == (16, 224, 224)
    assert left in (58, 59)  # torchvision rounds 58.5 to the even number


def test_plan_of_a_picture_that_is_fitted() -> None:
    """It is centred, or at the top left."""
    assert ImageTransform(100, resize=LongerSide()).plan(100, 200).offset == (25, 0)
    plan = ImageTransform(100, resize=LongerSide("top_left")).plan(100, 200)
    assert (plan.resized, plan.offset) == ((50, 100), (0, 0))


def test_plan_depends_on_the_seed_alone() -> None:
    """The same again for the same seed, another for another."""
    transform = ImageTransform(224, crop=RandomResizedCrop(), flip=0.5)
    plans = [transform.plan(375, 500, seed) for seed in range(40)]
    assert plans == [transform.plan(375, 500, seed) for seed in range(40)]
    assert len({plan.crop for plan in plans}) > 30
    assert {plan.flip for plan in plans} == {False, True}
    assert transform.plan(375, 500, 2**64 - 1).size == (224, 224)


def test_part_that_the_picture_does_not_have_fails() -> None:
    """As it will when such a picture is loaded."""
    with pytest.raises(spdl.io.DecodeError):
        ImageTransform(8, crop=Crop(90, 0, 20, 20)).plan(100, 100)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((0, 5), ValueError, "height must be >= 1, got 0"),
        ((5, 2**40), ValueError, "width must be <= 2147483647"),
        ((5.0, 5), TypeError, "height must be an int, got 5.0"),
        (
            (5, 5, -1),
            ValueError,
            r"seed must be >= 0 and < 2\*\*64, got -1; sample_seeds makes such seeds from any integer",
        ),
        ((5, 5, 2**64), ValueError, "seed must be"),
        ((5, 5, None), TypeError, "seed must be an int, got None"),
    ],
)
def test_plan_checks_its_numbers(arguments: Any, error: type[Exception], message: str) -> None:
    """Before native code sees them."""
    with pytest.raises(error, match=message):
        ImageTransform(8).plan(*arguments)
