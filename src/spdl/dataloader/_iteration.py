"""``Iteration``: one pass over a ``DataLoader``; ``ResumableIteration`` also has a state."""

import logging
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from spdl._reports import log
from spdl.pipeline import Pipeline, PipelineFailure, PipelineStats

from ._holding import Holding, hold

_LOG = logging.getLogger("spdl.dataloader")

Output = TypeVar("Output")


class Iteration(Iterator[Output]):
    """One pass over a loader. When it is collected, so is the pipeline, which then stops."""

    def __init__(
        self, pipeline: Pipeline[Output], timeout: float | None, warn: Callable[[PipelineStats], None]
    ) -> None:
        self._pipeline: Pipeline[Output] | None = pipeline
        self._warn = warn
        self._outputs = pipeline.get_iterator(timeout=timeout)
        self._held: Holding | None = None

    def __next__(self) -> Output:
        if self._pipeline is None:
            raise StopIteration
        try:
            return next(self._outputs)
        except StopIteration:
            stats = self._pipeline.stats()
            self.close()
            self._warn(stats)
            raise
        except BaseException:  # a failure, a timeout or Ctrl-C: each ends the iteration
            self.close()
            raise

    def close(self) -> None:
        """Stop the pipeline and wait for its threads."""
        pipeline, self._pipeline = self._pipeline, None
        if pipeline is None:
            return
        try:
            pipeline.stop()
        except PipelineFailure as exc:
            text = "a loader's source failed; the iterator was closed before it could raise the error"
            log(_LOG, logging.ERROR, text, exc_info=exc)


class ResumableIteration(Iteration[Output]):
    """An ``Iteration`` with a state; see ``Holding``."""

    def hold(self) -> None:
        self._held = hold(self._outputs)

    def token(self) -> Any:
        return None if self._held is None else self._held.token()

    def commit(self, token: Any) -> None:
        if self._held is not None:
            self._held.commit(token)
