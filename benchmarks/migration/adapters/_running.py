"""A pipeline that is built, started and ended by iterating over it, like a loader."""

from collections.abc import Callable, Iterator
from typing import Any

from spdl.pipeline import Pipeline


class Running:
    """Build and run the pipeline in each iteration, from its start to its end."""

    def __init__(self, build: Callable[[], Pipeline[Any]]) -> None:
        self._build = build

    def __iter__(self) -> Iterator[Any]:
        pipeline = self._build()
        with pipeline.auto_stop():
            yield from pipeline
