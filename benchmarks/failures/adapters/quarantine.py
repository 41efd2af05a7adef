"""A line in a file for each failure."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ._pipeline import Told, build, read
from ._pipeline import outputs as outputs
from ._pipeline import versions as versions


def prepare(case: str, data: dict[str, Any]) -> Callable[[], Told]:
    def run() -> Told:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "bad.jsonl"
            items = read(build(data, quarantine=path))
            with path.open("rb") as lines:
                return Told(items, sum(1 for _ in lines))

    return run
