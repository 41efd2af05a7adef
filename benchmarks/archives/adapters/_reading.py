"""Shared by adapters: reading the input, and comparable output."""

from pathlib import Path
from typing import Any

import numpy as np


def read(data: dict[str, str]) -> bytes:
    """The file of the case, in fresh memory."""
    return Path(data["path"]).read_bytes()


def outputs(case: str, result: Any) -> dict[str, Any]:
    """Members as bytes, by name; arrays unchanged."""
    if case.startswith("tar"):
        return {name: np.frombuffer(member, np.uint8) for name, member in result}
    if isinstance(result, dict):
        return result
    return {"array": np.asarray(result)}
