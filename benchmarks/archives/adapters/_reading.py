"""What adapters share: input, and output that can be compared."""

from pathlib import Path
from typing import Any

import numpy as np


def read(data: dict[str, str]) -> bytes:
    """The case's file, in memory of its own."""
    return Path(data["path"]).read_bytes()


def outputs(case: str, result: Any) -> dict[str, Any]:
    """Members by name as bytes, arrays as they are."""
    if case.startswith("tar"):
        return {name: np.frombuffer(member, np.uint8) for name, member in result}
    if isinstance(result, dict):
        return result
    return {"array": np.asarray(result)}
