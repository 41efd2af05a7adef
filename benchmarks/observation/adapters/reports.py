"""A table in the log ten times a second."""

import io
import logging
from collections.abc import Callable
from typing import Any

from ._pipeline import build, read
from ._pipeline import outputs as outputs
from ._pipeline import versions as versions


def prepare(case: str, data: dict[str, Any]) -> Callable[[], list[int]]:
    logger = logging.getLogger("spdl.pipeline")
    logger.setLevel(logging.INFO)
    logger.addHandler(logging.StreamHandler(io.StringIO()))
    logger.propagate = False
    return lambda: read(build(data, report_stats_interval=0.1))
