"""``RecordedEngine``: an engine that reports the origin of each item that is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from ._engine import Engine

if TYPE_CHECKING:
    from ._origin import Origin


class Recorder(Protocol):
    """Receives the origins."""

    def note(self, origin: Origin) -> None:
        """An item with this origin is being read. Under the lock."""

    def write(self) -> None:
        """Called after one or more calls of ``note``. Not under the lock."""


class RecordedEngine(Engine):
    """An engine that passes the origin of each item that is read to a recorder.

    It is a separate class, so that other pipelines have no cost.
    """

    recorder: Recorder

    def read(self, timeout: float | None) -> Any:
        with self.lock:
            found = self._next()
            value = None if found is None else self._committed(found)
        if found is None:
            value = self._wait_for_next(timeout, self._committed)
        self.recorder.write()
        return value

    async def read_async(self, timeout: float | None) -> Any:  # noqa: ASYNC109 - same parameter as read
        value = await super().read_async(timeout)
        self.recorder.write()
        return value

    def commit(self, taken: Any) -> None:
        super().commit(taken)
        self.recorder.write()

    def _committed(self, taken: Any) -> Any:
        if isinstance(taken, tuple):
            self.recorder.note(taken[1])
        return super()._committed(taken)
