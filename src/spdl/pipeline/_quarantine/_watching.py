"""``FailureWatcher``: passes each failed item to the user's callback and to the quarantine file."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from spdl._reports import log, shown
from spdl.pipeline._engine._stages._merge import CustomMergeStage
from spdl.pipeline._info import StageInfo
from spdl.pipeline._provenance._origin import BatchOrigin, leaves_of

from ._file import FailureEvent, QuarantineFile

if TYPE_CHECKING:
    from spdl.pipeline._engine._engine import Engine
    from spdl.pipeline._engine._failures import Failure
    from spdl.pipeline._provenance._origin import BatchOrigin


_LOG = logging.getLogger("spdl.pipeline")
#: A stage as text: ``<pipeline_id>:<stage_id>:<name>``, with its concurrency behind it.
_STAGE: Final = re.compile(r"\d+:[^:]*:(.*?)(\[\d+\])?", re.DOTALL)


class FailureWatcher:
    """Called for each failed item, on the thread that handles it, never under the engine's lock. Never raises."""

    def __init__(
        self, engine: Engine, callback: Callable[[FailureEvent], Any] | None, file: QuarantineFile | None
    ) -> None:
        self._engine = engine
        self._callback = callback
        self._file = file
        self._knows_origins = not any(isinstance(node, CustomMergeStage) for node in engine.nodes)
        self._was_logged = False  # that the callback raised

    def __call__(self, failure: Failure) -> None:
        record = failure.record
        event = FailureEvent(
            failure.item,
            _name_of(failure.stage),
            record.error,
            record.attempts,
            record.seconds,
            self._origin_of(failure),
            record.outcome,
            record.item_repr,
            failure.worker,
        )
        if self._file is not None:
            self._file.write(event)
        if self._callback is not None:
            try:
                self._callback(event)
            except BaseException as exc:  # noqa: BLE001 - user code, and no caller handles its exceptions
                if not self._was_logged:
                    self._was_logged = True
                    text = "on_failure=%s raised; it is called again, and further errors of it are not logged"
                    log(_LOG, logging.ERROR, text, shown(self._callback), exc_info=exc)

    def _origin_of(self, failure: Failure) -> BatchOrigin | None:
        if not self._knows_origins or failure.origin == ():
            return None
        try:
            with self._engine.lock:
                place = self._engine.places.of(failure.origin)
        except LookupError:  # its epoch has ended since; a report must not fail the pipeline
            return None
        return BatchOrigin(tuple(dict.fromkeys(leaves_of(place))), (), place)


def _name_of(stage: StageInfo | str) -> str:
    if isinstance(stage, StageInfo):
        return stage.stage_name
    found = _STAGE.fullmatch(stage)
    return stage if found is None else found[1]
