"""Send an exception of a worker to the consumer, with its own type if it can be pickled."""

from __future__ import annotations

import pickle
from typing import NamedTuple

from spdl._processes._remote_failure import RemoteFailure
from spdl._reports import add_note


class RemoteException(NamedTuple):
    """An exception as it is sent."""

    pickled: bytes | None  #: pickled exception; ``None`` if it cannot be pickled, or unpickles as another type
    failure: RemoteFailure  #: the exception as text
    where: str  #: worker and indices, as text

    @classmethod
    def of(cls, exc: BaseException, where: str) -> RemoteException:
        """Convert an exception. Never raises."""
        return cls(_dump(exc), RemoteFailure.of(exc), where)

    def revive(self) -> BaseException:
        """The exception to raise here: of its own type, or a ``WorkerError`` that names type and text.

        A ``StopIteration`` would end the consumer's loop as if the epoch were complete. It becomes the cause of a
        ``RuntimeError``, as in generators (PEP 479).
        """
        exc = _load(self.pickled)
        if exc is None:
            error: BaseException = self.failure.as_error(self.where)
        elif isinstance(exc, StopIteration):
            error = RuntimeError(f"{self.where} raised StopIteration")
            error.__cause__ = exc
            _add_notes(error, self)
        else:
            error = exc
            _add_notes(error, self)
        return error


def _add_notes(exc: BaseException, remote: RemoteException) -> None:
    add_note(exc, f"{remote.where}. Traceback there:\n{remote.failure.traceback.rstrip()}")


def _dump(exc: BaseException) -> bytes | None:
    try:
        data = pickle.dumps(exc)
        # Many exceptions cannot be unpickled, because the arguments of their __init__ differ from ``args``.
        return data if type(pickle.loads(data)) is type(exc) else None
    except BaseException:  # noqa: BLE001 - the exception's methods are user code, and may raise SystemExit
        return None


def _load(data: bytes | None) -> BaseException | None:
    if data is None:
        return None
    try:
        exc = pickle.loads(data)
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 - its module may not exist here, or its methods raise SystemExit
        return None
    return exc if isinstance(exc, BaseException) else None
