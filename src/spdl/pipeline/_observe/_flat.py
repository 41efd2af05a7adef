"""Statistics as a flat dictionary of names and numbers, for loggers and exporters.

The functions take a ``PipelineStats``; their type is ``Any`` because its file imports this one.
"""

from __future__ import annotations

import re
from typing import Any, Final

_PIPELINE_FIELDS: Final = ("elapsed", "num_threads", "num_items", "rate", "consumer_wait")
#: The attributes of ``StageStats`` that are numbers. Their names are part of the public contract.
STAGE_FIELDS: Final = (
    "num_calls",
    "num_failures",
    "num_dropped",
    "num_substituted",
    "num_lost",
    "num_redealt",
    "num_in_flight",
    "num_emitted",
    "busy",
    "starved",
    "blocked",
    "wall_per_call",
    "cpu_per_call",
    "queue_len",
    "queue_capacity",
    "occupancy",
    "rate",
)


def flat(stats: Any, prefix: str) -> dict[str, float]:
    """Return ``{prefix + name: number}`` of the pipeline, and ``{prefix + stage/name: number}`` of each stage."""
    found = {prefix + name: getattr(stats, name) for name in _PIPELINE_FIELDS}
    for key, stage in zip(stage_keys(stats), stats.stages, strict=True):
        for name in STAGE_FIELDS:
            if (value := getattr(stage, name)) is not None:
                found[f"{prefix}{key}/{name}"] = value
    return found


def stage_keys(stats: Any) -> list[str]:
    """Return a name for each stage: letters, digits, ``_``, ``-`` and ``.``, each name once.

    Several stages of one name get their numbers: ``decode.1`` and ``decode.4``.
    """
    names = [re.sub(r"[^A-Za-z0-9_.-]+", "_", stage.info.stage_name).strip("_") or "stage" for stage in stats.stages]
    return [
        name if names.count(name) == 1 else f"{name}.{stage.info.stage_id}"
        for name, stage in zip(names, stats.stages, strict=True)
    ]
