"""What peers leave to their user: placement, normalisation, and the batch."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from benchmarks.images._work import LOWER, MEAN, SHORTER_SIDE, SIZE, STD, Photo, Work

# (level / 255 - mean) / std, as one multiplication and one addition, of each channel's plane.
FACTOR = (1 / (255 * np.array(STD, np.float32)))[:, None, None]
SUMMAND = -(np.array(MEAN, np.float32) / np.array(STD, np.float32))[:, None, None]


def fit(width: int, height: int) -> tuple[int, int]:
    """Largest size inside the canvas."""
    scale = min(SIZE / width, SIZE / height)
    return max(1, round(width * scale)), max(1, round(height * scale))


def shorter_side(width: int, height: int) -> tuple[int, int]:
    """The size whose shorter side is that of the evaluation."""
    shorter, longer = min(width, height), max(width, height)
    scaled = int(SHORTER_SIDE * longer / shorter)
    return (SHORTER_SIDE, scaled) if width <= height else (scaled, SHORTER_SIDE)


def middle(width: int, height: int) -> tuple[int, int]:
    """Left and top of the centre crop of the canvas's size."""
    return round((width - SIZE) / 2), round((height - SIZE) / 2)


def source_box(work: Work, width: int, height: int) -> tuple[int, int, int, int]:
    """Top, left, height and width of the part of a photograph that the work needs, without a filter's margin."""
    if work.transform == "whole":
        return 0, 0, height, width
    if work.transform == "lower":
        return height - LOWER, (width - LOWER) // 2, LOWER, LOWER
    if work.transform == "centre":
        left, top = middle(width, height)
        return top, left, SIZE, SIZE
    side = round(SIZE * min(width, height) / SHORTER_SIDE)
    return (height - side) // 2, (width - side) // 2, side, side


def least_size(work: Work, photo: Photo, width: int, height: int) -> tuple[int, int]:
    """The smallest size to which a decoder may scale a photograph without enlarging it later."""
    if work.transform == "fit":
        return fit(width, height)
    if work.transform == "eval":
        return shorter_side(width, height)
    if work.transform == "whole":
        return width // 2, height // 2  # some enlarge the shorter side a little, then
    _, _, crop_height, crop_width = photo.crop
    return min(width, -(-width * SIZE // crop_width)), min(height, -(-height * SIZE // crop_height))


def transformed(
    pixels: Any, work: Work, photo: Photo, resize: Callable[[Any, tuple[int, int]], Any], size: tuple[int, int]
) -> Any:
    """The picture, not yet mirrored.

    Args:
        pixels: An array whose size may be a fraction of the photograph's.
        resize: A function that resizes an array to a width and height.
        size: The width and height of the photograph.
    """
    if work.transform == "fit":
        return resize(pixels, fit(*size))
    if work.transform == "eval":
        wanted = shorter_side(*size)
        left, top = middle(*wanted)
        return resize(pixels, wanted)[top : top + SIZE, left : left + SIZE]
    if work.transform == "whole":
        return resize(pixels, (SIZE, SIZE))
    width, height = size
    down, across = pixels.shape[0] / height, pixels.shape[1] / width
    top, left, crop_height, crop_width = photo.crop
    rows = slice(round(top * down), max(round(top * down) + 1, round((top + crop_height) * down)))
    columns = slice(round(left * across), max(round(left * across) + 1, round((left + crop_width) * across)))
    return resize(pixels[rows, columns], (SIZE, SIZE))


def put(slot: Any, pixels: Any, flip: bool) -> None:
    """Write a picture into its place in the batch, mirrored, normalised and centred as required."""
    if flip:
        pixels = pixels[:, ::-1]
    if slot.dtype == np.float32:
        np.multiply(pixels.transpose(2, 0, 1), FACTOR, out=slot)
        slot += SUMMAND
        return
    top, left = (SIZE - pixels.shape[0]) // 2, (SIZE - pixels.shape[1]) // 2
    slot[top : top + pixels.shape[0], left : left + pixels.shape[1]] = pixels


def empty_batch(work: Work, num_photos: int) -> Any:
    if work.dtype == "float32":
        return np.empty((num_photos, 3, SIZE, SIZE), np.float32)
    return (np.zeros if work.transform == "fit" else np.empty)((num_photos, SIZE, SIZE, 3), np.uint8)


def in_batches(work: Work, photos: Sequence[Photo]) -> list[Sequence[Photo]]:
    return [photos[start : start + work.batch] for start in range(0, len(photos), work.batch)]


def one_by_one(work: Work, photos: Sequence[Photo], load: Callable[[Work, Photo], Any]) -> Callable[[], Iterator[Any]]:
    """Batches of the pictures that ``load`` gives as arrays of ``(height, width, 3)``; threads share each batch."""
    pool = ThreadPoolExecutor(work.num_threads) if work.num_threads > 1 else None
    in_turn: Callable[..., Iterator[Any]] = pool.map if pool is not None else map

    def batches() -> Iterator[Any]:
        for part in in_batches(work, photos):
            batch = empty_batch(work, len(part))

            def fill(photo: Photo, slot: Any) -> None:
                put(slot, load(work, photo), photo.flip)

            for _ in in_turn(fill, part, batch):
                pass
            yield batch

    return batches
