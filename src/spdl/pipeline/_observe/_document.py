"""Statistics as a JSON document that has everything that a report shows.

The functions take a ``PipelineStats``; their type is ``Any`` because its file imports this one.
"""

from __future__ import annotations

import re
import time
from os import PathLike, fspath
from typing import Any, Final

from spdl._reports import describe_exception, shown

VERSION: Final = 1


def document_of(stats: Any) -> dict[str, Any]:
    """Return the statistics as a dictionary of plain values."""
    limiting, sentence = stats._explained()
    return {
        "spdl_stats": VERSION,
        "time": time.time(),
        "pipeline": stats.stages[0].info.pipeline_id if stats.stages else None,
        "state": stats.state,
        "elapsed": stats.elapsed,
        "num_threads": stats.num_threads,
        "num_items": stats.num_items,
        "consumer_wait": stats.consumer_wait,
        "limiting": None if limiting is None else limiting.info.stage_id,
        "verdict": sentence or None,
        "stages": [_stage(stage) for stage in stats.stages],
        "history": [[*moment[:3], list(moment[3])] for moment in stats.history],
    }


def _stage(stage: Any) -> dict[str, Any]:
    return {
        "id": stage.info.stage_id,
        "name": stage.info.stage_name,
        "concurrency": stage.info.concurrency or 1,
        "inputs": list(stage.inputs),
        **{name: getattr(stage, name) for name in STAGE_FIELDS},
        "failures": [
            {
                "origin": shown(failure.origin),
                "item": failure.item_repr,
                "error": describe_exception(failure.error),
            }
            for failure in stage.failures
        ],
    }


def written(text: str, path: str | PathLike[str] | None) -> str:
    """Return ``text``, and write it to a file if ``path`` is given."""
    if path is not None:
        with open(fspath(path), "w", encoding="utf-8") as file:
            file.write(text)
    return text


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
