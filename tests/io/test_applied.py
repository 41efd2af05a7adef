"""The geometry of a transformed picture: matrices, points and boxes, and what is refused."""

import copy
import dataclasses
import itertools
import json
import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.io import AppliedTransform

# A part of a picture of 100x200 at half of its size, of which the middle is shown, with a border.
PLAIN: dict[str, Any] = {
    "source_size": (100, 200),
    "crop": (20, 40, 60, 80),
    "resized": (30, 40),
    "window": (5, 10, 20, 20),
    "offset": (2, 0),
    "flip": False,
    "vertical_flip": False,
    "size": (24, 20),
}


def applied(**changes: Any) -> AppliedTransform:
    """That, changed."""
    return AppliedTransform(**{**PLAIN, **changes})


@st.composite
def geometries(draw: st.DrawFn) -> AppliedTransform:
    """Anything that is consistent."""

    def part(whole: tuple[int, int]) -> tuple[int, int, int, int]:
        height, width = draw(st.integers(1, whole[0])), draw(st.integers(1, whole[1]))
        return draw(st.integers(0, whole[0] - height)), draw(st.integers(0, whole[1] - width)), height, width

    sizes = st.tuples(st.integers(1, 5000), st.integers(1, 5000))
    source_size, resized = draw(sizes), draw(sizes)
    crop, window = part(source_size), part(resized)
    offset = draw(st.integers(0, 50)), draw(st.integers(0, 50))
    size = offset[0] + window[2] + draw(st.integers(0, 50)), offset[1] + window[3] + draw(st.integers(0, 50))
    flip, vertical_flip = draw(st.booleans()), draw(st.booleans())
    return AppliedTransform(source_size, crop, resized, window, offset, flip, vertical_flip, size)


def exactly(of: AppliedTransform, x: Fraction, y: Fraction) -> tuple[Fraction, Fraction]:
    """Where a point goes, step by step, without rounding."""
    x = (x - of.crop[1]) / of.crop[3] * of.resized[1] - of.window[1] + of.offset[1]
    y = (y - of.crop[0]) / of.crop[2] * of.resized[0] - of.window[0] + of.offset[0]
    return (of.size[1] - x if of.flip else x), (of.size[0] - y if of.vertical_flip else y)


def test_points_follow_the_picture() -> None:
    """The corners of the window are where it is shown."""
    corners = [(60, 30), (100, 30), (100, 70), (60, 70)]
    assert applied().points(corners).tolist() == [[0, 2], [20, 2], [20, 22], [0, 22]]
    assert applied(flip=True).points(corners).tolist() == [[20, 2], [0, 2], [0, 22], [20, 22]]
    assert applied(vertical_flip=True).points(corners).tolist() == [[0, 22], [20, 22], [20, 2], [0, 2]]


def test_boxes_keep_their_corners_in_order() -> None:
    """Flips swap sides, and the first corner is still the one at the top left."""
    box = [[60, 30, 80, 70]]
    assert applied().boxes(box).tolist() == [[0, 2, 10, 22]]
    assert applied(flip=True).boxes(box).tolist() == [[10, 2, 20, 22]]
    assert applied(vertical_flip=True, offset=(0, 0)).boxes(box).tolist() == [[0, 4, 10, 24]]


def test_boxes_are_clipped_unless_told_otherwise() -> None:
    """What is outside of the result is cut off; a box that is all outside has no area, and its row stays."""
    boxes = [[0, 0, 200, 100], [0, 0, 10, 10], [62, 32, 64, 36]]
    assert applied().boxes(boxes).tolist() == [[0, 0, 20, 24], [0, 0, 0, 0], [1, 3, 2, 5]]
    assert applied().boxes(boxes, clip=False).tolist() == [[-30, -13, 70, 37], [-30, -13, -25, -8], [1, 3, 2, 5]]


def test_matrix_has_the_known_values() -> None:
    """Scales on the diagonal, shifts in the last column."""
    assert applied().matrix().tolist() == [[0.5, 0, -30], [0, 0.5, -13], [0, 0, 1]]
    assert applied(flip=True).matrix().tolist() == [[-0.5, 0, 50], [0, 0.5, -13], [0, 0, 1]]
    assert applied(vertical_flip=True).matrix().tolist() == [[0.5, 0, -30], [0, -0.5, 37], [0, 0, 1]]


@given(
    of=geometries(), points=st.lists(st.tuples(st.integers(-10_000, 10_000), st.integers(-10_000, 10_000)), max_size=5)
)
def test_points_are_exact_to_the_last_bits(of: AppliedTransform, points: list[tuple[int, int]]) -> None:
    """Against rational numbers: one division and one subtraction may round."""
    moved = of.points(points)
    assert moved.shape == (len(points), 2)
    for (x, y), row in zip(points, moved, strict=True):
        for actual, expected in zip(row.tolist(), exactly(of, Fraction(x), Fraction(y)), strict=True):
            # The largest value on the way decides how fine its last bit is.
            assert abs(Fraction(actual) - expected) <= (abs(expected) + 20_000 * 5000) * Fraction(1, 2**51)


@given(of=geometries(), x=st.floats(-1e4, 1e4), y=st.floats(-1e4, 1e4))
def test_matrix_points_and_boxes_agree(of: AppliedTransform, x: float, y: float) -> None:
    """Three ways to say the same, and the inverse matrix leads back."""
    by_matrix = of.matrix() @ (x, y, 1)
    scale = 1 + np.abs(of.matrix()).max() * 1e4
    assert by_matrix[2] == 1
    assert np.abs(of.points([(x, y)])[0] - by_matrix[:2]).max() <= 1e-12 * scale
    corners = of.boxes([(x, y, x + 3, y + 5)], clip=False)[0]
    both = of.points([(x, y), (x + 3, y + 5)])
    assert corners.tolist() == [*both.min(axis=0).tolist(), *both.max(axis=0).tolist()]


@given(of=geometries())
def test_crop_fills_what_it_became(of: AppliedTransform) -> None:
    """The result's part that the window covers shows a part of the crop, whatever the flips."""
    top, left, height, width = of.crop
    x0, y0, x1, y1 = of.boxes([(left, top, left + width, top + height)], clip=False)[0]
    assert (x1 - x0, y1 - y0) == pytest.approx((of.resized[1], of.resized[0]))
    assert of.boxes([(left, top, left + width, top + height)])[0].min() >= 0


@pytest.mark.parametrize("flips", [*itertools.product([False, True], repeat=2)])
def test_pixels_go_where_points_say(flips: tuple[bool, bool]) -> None:
    """An array that is cut, enlarged and flipped by hand has each pixel where the point at its centre went."""
    flip, vertical_flip = flips
    of = AppliedTransform((6, 7), (1, 2, 4, 3), (8, 9), (2, 3, 5, 6), (1, 2), flip, vertical_flip, (7, 9))
    pixels = np.arange(42).reshape(6, 7)
    result = np.full((7, 9), -1)
    result[1:6, 2:8] = np.kron(pixels[1:5, 2:5], np.ones((2, 3), int))[2:7, 3:9]
    result = result[:: -1 if vertical_flip else 1, :: -1 if flip else 1]
    back = np.linalg.inv(of.matrix())
    for y, x in zip(*np.nonzero(result >= 0), strict=True):
        source_x, source_y, _ = back @ (x + 0.5, y + 0.5, 1)
        assert pixels[int(source_y), int(source_x)] == result[y, x]


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.uint8, np.float64])
def test_results_are_new_arrays_of_doubles(dtype: Any) -> None:
    """Whatever comes in; and what comes in stays as it was."""
    points, boxes = np.ones((3, 2), dtype), np.ones((3, 4), dtype)
    for given_, moved in ((points, applied(flip=True).points(points)), (boxes, applied(flip=True).boxes(boxes))):
        assert moved.dtype == np.float64
        assert (given_ == 1).all()
        assert not np.shares_memory(given_, moved)


@pytest.mark.parametrize(
    "empty", [[], np.empty((0, 2)), np.empty((0, 4)), ()], ids=["list", "points", "boxes", "tuple"]
)
def test_no_points_are_fine(empty: Any) -> None:
    """A picture without objects is a picture."""
    assert applied().points(empty).shape == (0, 2)
    assert applied(flip=True).boxes(empty).shape == (0, 4)


@pytest.mark.parametrize("values", [[1, 2], [[1, 2, 3]], [[[1, 2]]]], ids=["one", "three", "deep"])
def test_other_shapes_are_refused(values: Any) -> None:
    """With the shape that was given."""
    with pytest.raises(ValueError, match=r"points must have the shape \(n, 2\), got \("):
        applied().points(values)
    with pytest.raises(ValueError, match=r"boxes must have the shape \(n, 4\), got \("):
        applied().boxes(values)


def test_it_is_a_value() -> None:
    """Equal, hashable, frozen, and the same after pickling and copying."""
    one = applied()
    assert one == applied()
    assert len({one, applied(), applied(flip=True)}) == 2
    assert pickle.loads(pickle.dumps(one)) == copy.deepcopy(one) == one
    assert dataclasses.replace(one, flip=True) == applied(flip=True)
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.flip = True  # type: ignore[misc]


def test_numbers_from_json_and_numpy_will_do() -> None:
    """Lists become tuples, and integers Python's own, so that records can be read back from anywhere."""
    assert AppliedTransform(**json.loads(json.dumps(dataclasses.asdict(applied())))) == applied()
    read = applied(crop=np.array([20, 40, 60, 80]))
    assert read == applied()
    assert {type(number) for number in read.crop} == {int}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"crop": (50, 40, 60, 80)}, r"crop must be inside source_size \(100, 200\), got .* = \(50, 40, 60, 80\)"),
        ({"crop": (-1, 40, 60, 80)}, "crop must be inside"),
        ({"crop": (0, 0, 0, 80)}, "crop must be inside"),
        ({"window": (5, 10, 26, 20)}, r"window must be inside resized \(30, 40\)"),
        ({"offset": (5, 0)}, r"window at offset must be inside size \(24, 20\)"),
        ({"offset": (0, -1)}, "window at offset must be inside"),
        ({"source_size": (0, 200)}, r"source_size must be two numbers >= 1 and < 2\*\*31, got \(0, 200\)"),
        ({"resized": (2**31, 40)}, "resized must be two numbers"),
    ],
)
def test_what_does_not_fit_is_refused(changes: dict[str, Any], message: str) -> None:
    """Native code can rely on what it is told to do again."""
    with pytest.raises(ValueError, match=message):
        applied(**changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"crop": (0, 0, 1)}, r"crop must be 4 integers, got \(0, 0, 1\)"),
        ({"size": 24}, "size must be 2 integers, got 24"),
        ({"offset": (0.5, 0)}, "offset must be 2 integers"),
        ({"flip": 1}, "flip must be a bool, got 1"),
    ],
)
def test_numbers_of_the_wrong_kind_are_refused(changes: dict[str, Any], message: str) -> None:
    """And how many are missing is said."""
    with pytest.raises(TypeError, match=message):
        applied(**changes)
