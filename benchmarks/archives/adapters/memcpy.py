"""A copy of the same bytes: the lower bound for every peer that copies."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ._reading import outputs as outputs


def versions() -> dict[str, str]:
    return {}


def prepare(case: str, data: dict[str, str]) -> Callable[[], Any] | None:
    if not case.startswith("npy_copy"):
        return None
    array = np.load(data["path"])
    return lambda: array.copy()
