"""Statistics as a JSON document that has everything that a report shows.

The functions take a ``PipelineStats``; their type is ``Any`` because its file imports this one.
"""

from __future__ import annotations

import time
from os import PathLike, fspath
from typing import Any, Final

from spdl._reports import describe_exception, shown
from spdl.pipeline._observe._flat import STAGE_FIELDS

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
