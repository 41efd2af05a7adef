"""An exception of a worker on its way to the consumer, who gets it with its own type wherever that can be."""

from __future__ import annotations

import pickle
from typing import NamedTuple

from spdl._processes._remote_failure import RemoteFailure
from spdl._reports import add_note

__all__ = ["RemoteException"]


class RemoteException(NamedTuple):
    """What is sent of an exception."""

    pickled: bytes | None  #: itself; ``None`` if it does not pickle, or not come back as what it was
    failure: RemoteFailure  #: the same in words
    where: str  #: in which worker, at which batch

    @classmethod
    def of(cls, exc: BaseException, where: str) -> RemoteException:
        """Take an exception apart. Never raises."""
        return cls(_dump(exc), RemoteFailure.of(exc), where)

    def revive(self) -> BaseException:
        """The exception to raise here: of its own type, or a ``WorkerError`` that names type and text.

        A ``StopIteration`` would end the loop of the consumer as if all batches had come: it is the cause of a
        ``RuntimeError``, as it is for generators (PEP 479).
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
        # Many pickle well and then cannot be made: their __init__ wants other arguments than they keep.
        return data if type(pickle.loads(data)) is type(exc) else None
    except BaseException:  # noqa: BLE001 - the exception's own methods are the user's, and may ask for an exit
        return None


def _load(data: bytes | None) -> BaseException | None:
    if data is None:
        return None
    try:
        exc = pickle.loads(data)
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 - its module may not exist here, or its own methods ask for an exit
        return None
    return exc if isinstance(exc, BaseException) else None
