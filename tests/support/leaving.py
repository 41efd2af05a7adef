"""Start workers whose reads do not hang, and tell how they ended."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from spdl import pipeline
from tests.support.running import TIMEOUT

__all__ = ["hurry", "iterate", "process_in", "run_apart"]


def iterate(fn: Callable[[], Any], **options: Any) -> Any:
    """``iterate_in_subprocess`` with a bound on every read."""
    return pipeline.iterate_in_subprocess(fn, **{"timeout": TIMEOUT, **options})


def run_apart(config: Any, **options: Any) -> Any:
    """``run_pipeline_in_subprocess`` with a bound on every read."""
    return pipeline.run_pipeline_in_subprocess(config, **{"timeout": TIMEOUT, "num_threads": 2, **options})


def hurry(iterable: Any, seconds: float = 0.2) -> None:
    """Wait for its items no longer than that from now on; beside other load, the start takes longer."""
    assert iterable.timeout == TIMEOUT
    iterable.timeout = seconds


def process_in(path: Path) -> int:
    """The process id that ``remote.append_process_id`` left."""
    return int(path.read_text().split()[0])
