"""Where a picture goes, for the peers that leave that to their user."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

SIZE = 224


def fit(width: int, height: int) -> tuple[int, int]:
    """Largest size inside the canvas."""
    scale = min(SIZE / width, SIZE / height)
    return max(1, round(width * scale)), max(1, round(height * scale))


def fill(load: Callable[[str], Any], paths: Iterable[str]) -> Any:
    """A batch of what ``load`` gives, centred."""
    paths = list(paths)
    batch = np.zeros((len(paths), SIZE, SIZE, 3), np.uint8)
    for slot, path in zip(batch, paths, strict=True):
        pixels = load(path)
        top, left = (SIZE - pixels.shape[0]) // 2, (SIZE - pixels.shape[1]) // 2
        slot[top : top + pixels.shape[0], left : left + pixels.shape[1]] = pixels
    return batch
