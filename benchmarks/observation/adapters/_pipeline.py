"""The pipeline that all contestants run."""

import hashlib
import platform
from typing import Any

import numpy as np

from spdl import __version__
from spdl.pipeline import Pipeline, PipelineBuilder

NUM_THREADS = 2


def build(data: dict[str, Any], **options: Any) -> Pipeline[list[int]]:
    """Two stages of native work without the GIL, and batches."""
    block = bytes(data["size"])

    def work(item: int) -> int:
        hashlib.sha256(block).digest()
        return item

    builder = PipelineBuilder().add_source(range(data["num_items"]))
    builder.pipe(work, concurrency=NUM_THREADS, name="first").pipe(work, concurrency=NUM_THREADS, name="second")
    return builder.aggregate(16).add_sink().build(num_threads=NUM_THREADS, **options)


def read(pipeline: Pipeline[list[int]]) -> list[int]:
    return [item for batch in pipeline for item in batch]


def outputs(case: str, result: list[int]) -> dict[str, Any]:
    """Sorted: several calls at once keep no order."""
    return {"items": np.array(sorted(result))}


def versions() -> dict[str, str]:
    return {"spdl": __version__, "python": platform.python_version()}
