"""``log_failed_item``: log the failure of an item of a pipeline."""

import logging
from collections import Counter
from typing import Any, Final

from spdl._failure_log import log_failed
from spdl._reports import shown

_LOG = logging.getLogger("spdl.pipeline")

#: Log lines about a failed item, by its outcome.
_OUTCOMES: Final[dict[str, str]] = {
    "dropped": "stage %s dropped item %s (source position %s)",
    "substituted": "stage %s failed on item %s (source position %s); a substitute replaces its output",
    "raised": "stage %s failed on item %s (source position %s), which fails the pipeline",
}


def log_failed_item(seen: "Counter[str]", failure: Any) -> None:
    """Log the failure of an item: a ``Failure`` of the engine."""
    record = failure.record
    where = shown(failure.stage, str).split(":")[-1]  # without the numbers of the pipeline and of the stage
    args = (failure.stage, record.item_repr, shown(record.origin))
    log_failed(_LOG, seen, where, _OUTCOMES[record.outcome], *args, error=record.error)
