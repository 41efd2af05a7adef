"""The pipelines of this process, for exporters. Weak references, so that unreferenced pipelines are not kept alive."""

from __future__ import annotations

import weakref
from typing import Any, Final


class _LivePipelines:
    """All ``Pipeline`` objects. Takes no lock: each access is one operation of a dictionary.

    The type is ``Any`` because ``_pipeline`` imports this file.
    """

    def __init__(self) -> None:
        self._found: dict[int, weakref.ref[Any]] = {}

    def add(self, pipeline: Any) -> None:
        key, found = id(pipeline), self._found
        found[key] = weakref.ref(pipeline, lambda _: found.pop(key, None))

    def started(self) -> list[Any]:
        """Return the pipelines that were started in this process, oldest first; also those that have ended."""
        held = [ref() for ref in self._found.copy().values()]
        mine = [each for each in held if each is not None and each._was_started and not each._engine.is_forked]
        return sorted(mine, key=lambda pipeline: pipeline._engine.pipeline_id)


LIVE: Final = _LivePipelines()
