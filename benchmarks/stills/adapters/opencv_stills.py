"""OpenCV: imread, resize by area (its antialiased way), to RGB, on one thread."""

from collections.abc import Callable
from typing import Any

import cv2

from ._pictures import SIZE, by_index, one_by_one

cv2.setNumThreads(1)


def versions() -> dict[str, str]:
    return {"opencv": cv2.__version__}


def _whole(path: str) -> Any:
    return cv2.cvtColor(cv2.imread(path), cv2.COLOR_BGR2RGB)


def _small(path: str) -> Any:
    return cv2.cvtColor(cv2.resize(cv2.imread(path), (SIZE, SIZE), interpolation=cv2.INTER_AREA), cv2.COLOR_BGR2RGB)


def prepare(case: str, data: dict[str, Any]) -> Callable[[], Any]:
    return one_by_one(data, _whole, _small)


def outputs(case: str, result: Any) -> dict[str, Any]:
    return by_index(result)
