"""Sessions and adapter of a contest that measures nothing: each number is the number of the turn."""

import os
from collections.abc import Mapping
from typing import Any

from benchmarks._contest.session import Session, Task


def versions() -> dict[str, str]:
    return {"counting": "1"}


def open(adapter: Any, task: Task) -> Session | None:
    return None if task.settings.get("unable") == task.case else Counting(task)


class Counting(Session):
    def __init__(self, task: Task) -> None:
        self._task = task
        self._turn = 0

    def outputs(self) -> Mapping[str, Any]:
        return {"value": [self._task.settings.get("output", 1)]}

    def calibrate(self, seconds: float) -> Mapping[str, float]:
        return {"size": self._task.data["size"]}

    def measure(self) -> Mapping[str, Any]:
        self._turn += 1
        factor = self._task.settings.get("factor", 1)
        return {"wall_us": factor * self._turn, "pid": os.getpid(), "choice": "x", "each": [self._turn, self._turn]}

    def finish(self) -> Mapping[str, float]:
        return {"turns": self._turn}
