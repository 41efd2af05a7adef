"""Shared by adapters: comparable output, and a heap as training processes have it.

glibc returns freed memory to the system at once until a process has freed a large block (mallopt, M_TRIM_THRESHOLD).
Batches are such blocks. In a process that has freed none, page faults take longer than reading an object of 100 kB.
"""

from typing import Any

import numpy as np

bytes(30_000_000)  # is freed here


def outputs(case: str, result: Any) -> dict[str, Any]:
    """The bytes of each object or part, in order; of tables, the numbers, and the bytes of all values."""
    if case == "parquet":
        columns = {name: [value for part in result for value in part[name].to_pylist()] for name in ("n", "x", "image")}
        return {
            "n": np.array(columns["n"]),
            "x": np.array(columns["x"]),
            "image": np.frombuffer(b"".join(columns["image"]), np.uint8),
        }
    return {str(index): np.frombuffer(data, np.uint8) for index, data in enumerate(result)}
