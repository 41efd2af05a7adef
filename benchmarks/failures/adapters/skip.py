"""The item is dropped and counted."""

from collections.abc import Callable
from typing import Any

from ._pipeline import Told, build, read
from ._pipeline import outputs as outputs
from ._pipeline import versions as versions


def prepare(case: str, data: dict[str, Any]) -> Callable[[], Told]:
    def run() -> Told:
        pipeline = build(data)
        return Told(read(pipeline), pipeline.stats().stages[1].num_failures)

    return run
