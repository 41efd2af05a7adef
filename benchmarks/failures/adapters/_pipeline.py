"""The pipeline that all ways run."""

import logging
import platform
from typing import Any, NamedTuple

import numpy as np

from spdl import __version__
from spdl.pipeline import Pipeline, PipelineBuilder

logging.disable(logging.CRITICAL)  # the log's handlers would be most of the time


class Told(NamedTuple):
    """What came out of a run, and how many failures were told."""

    items: list[int]
    num_failed: int


def refuse_odd(item: int) -> int:
    if item % 2:
        raise ValueError(f"item {item} is odd")
    return item


def build(data: dict[str, Any], on_error: Any = "skip", **options: Any) -> Pipeline[int]:
    builder = PipelineBuilder().add_source(range(data["num_items"])).pipe(refuse_odd, on_error=on_error)
    return builder.add_sink(100).build(num_threads=1, **options)


def read(pipeline: Pipeline[int]) -> list[int]:
    return list(pipeline)


def outputs(case: str, result: Told) -> dict[str, Any]:
    """Without substitutes, which are negative."""
    kept = [item for item in result.items if item >= 0]
    return {"kept": np.array(kept), "num_failed": np.array([result.num_failed])}


def versions() -> dict[str, str]:
    return {"spdl": __version__, "python": platform.python_version()}
