"""The whole run is traced to a file."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ._pipeline import build, read
from ._pipeline import outputs as outputs
from ._pipeline import versions as versions


def prepare(case: str, data: dict[str, Any]) -> Callable[[], list[int]]:
    def run() -> list[int]:
        pipeline = build(data)
        with tempfile.TemporaryDirectory() as folder, pipeline.trace(Path(folder) / "trace.json"):
            return read(pipeline)

    return run
