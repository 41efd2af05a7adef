"""Shared by adapters: what is done with samples, and comparable output."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

#: Of each file, one byte in so many is kept: enough to compare, and little against reading the file.
STRIDE = 509


def consume(samples: Iterable[Mapping[str, Any]]) -> list[tuple[str, list[tuple[str, int, bytes]]]]:
    """Look at each sample and let it go, as a loader does: for each file, its size and some of its bytes."""
    return [
        (
            sample["__key__"],
            [(name, len(data), data[::STRIDE]) for name, data in sample.items() if not name.startswith("__")],
        )
        for sample in samples
    ]


def outputs(case: str, result: Any) -> dict[str, Any]:
    """What was seen of each sample, by key; of an index, how many samples it has."""
    if case == "open":
        return {"samples": np.array(result)}
    return {
        key: np.frombuffer(b"".join(b"%s %d " % (name.encode(), size) + seen for name, size, seen in files), np.uint8)
        for key, files in result
    }
