"""What peers leave to their user: one picture after another, and the batch."""

from collections.abc import Callable
from typing import Any

import numpy as np

SIZE = 224


def one_by_one(data: dict[str, Any], whole: Callable[[str], Any], small: Callable[[str], Any]) -> Callable[[], Any]:
    """The work of a case with functions that load a picture as ``(height, width, 3)``."""
    paths = data["paths"]
    if data["work"] == "whole":
        return lambda: [whole(path) for path in paths]
    if data["work"] == "small":
        return lambda: [small(path) for path in paths]

    def batch() -> Any:
        pictures = np.empty((len(paths), SIZE, SIZE, 3), np.uint8)
        for index, path in enumerate(paths):
            pictures[index] = small(path)
        return pictures

    return batch


def by_index(result: Any) -> dict[str, Any]:
    """What the contest compares."""
    return {str(index): picture for index, picture in enumerate(result)}
