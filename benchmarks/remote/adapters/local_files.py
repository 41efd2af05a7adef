"""The same objects as files on this machine, which nothing has to fetch."""

import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ._outputs import outputs as outputs


def versions() -> dict[str, str]:
    return {"python": platform.python_version()}


def prepare(case: str, data: dict[str, Any]) -> Callable[[], Any] | None:
    paths = [str(Path(data["folder"]) / path) for path in data["paths"]]
    return lambda: [_read(path) for path in paths]


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
