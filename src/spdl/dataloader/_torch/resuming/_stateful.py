"""User objects that have a state: ``state_dict()`` and ``load_state_dict(state)``, as in torchdata."""

from __future__ import annotations

from typing import Any, Final

from spdl._reports import text_of
from spdl.resume._errors import ResumeError
from spdl.resume._residue import Residue
from spdl.resume._values import pack, unpack

from ._progress import Recorded, StateError

_END: Final = object()


def is_stateful(what: Any) -> bool:
    """Whether the object has both methods."""
    return callable(getattr(what, "state_dict", None)) and callable(getattr(what, "load_state_dict", None))


class Stater:
    """Records the state of an object that is iterated, of its iterator, or of both.

    Args:
        where: Which of the two ``of`` is: ``"iterator"``, or a name of the object.
        of: The one whose state is loaded last.
        beside: The object, if both have a state.
    """

    __slots__ = ("_beside", "_of", "where")

    def __init__(self, where: str, of: Any, beside: Any = None) -> None:
        self.where = where
        self._of = of
        self._beside = beside

    @classmethod
    def find(cls, iterator: Any, **iterated: Any) -> Stater | None:
        """Make one for those of the two that have a state; ``None`` if neither has. The object is passed by name."""
        ((where, of),) = iterated.items()
        if not is_stateful(iterator):
            return cls(where, of) if is_stateful(of) else None
        return cls("iterator", iterator, of if of is not iterator and is_stateful(of) else None)

    def record(self, count: int, *, has_ended: bool = False) -> Recorded:
        """Record the state after ``count`` batches, or the exception instead of it, so that loading continues."""
        beside = None if self._beside is None else _record(self._beside)
        return Recorded(count, self.where, _record(self._of), has_ended, beside)


def _record(what: Any) -> dict[str, Any] | StateError:
    try:
        return pack(what.state_dict())
    except Exception as exc:  # noqa: BLE001 - the user's; raised when the loader's state is requested
        return StateError(f"{type(what).__qualname__}.state_dict() raised {type(exc).__qualname__}: {text_of(exc)}")


def end_of(what: Any) -> Recorded | None:
    """Record the state of an object after a pass, for the next one; ``None`` if it has no state."""
    return Recorded(0, "before", _record(what)) if is_stateful(what) else None


def start_of(what: Any) -> Recorded | None:
    """Same as ``end_of``, before a pass; ``None`` also if there is no state before the first pass."""
    recorded = end_of(what)
    return None if recorded is None or isinstance(recorded.state, StateError) else recorded


def load_state(what: Any, state: Any, name: str) -> None:
    """Load a packed state into the object that it was recorded from.

    Raises:
        ResumeError: The object has no ``load_state_dict``, or the call failed.
    """
    if not is_stateful(what):
        raise ResumeError(
            f"cannot resume: the state has one of {name}, and {type(what).__qualname__} has no load_state_dict()"
        )
    try:
        what.load_state_dict(unpack(state, name))
    except Exception as exc:
        what_failed = f"{type(what).__qualname__}.load_state_dict() raised {type(exc).__qualname__}"
        raise ResumeError(f"cannot resume: {what_failed}: {text_of(exc)}") from exc


def load_passing(what: Any, state: Any, name: str) -> Residue:
    """Load the state of a pass. What must not stay for later passes is returned.

    Raises:
        ResumeError: As for ``load_state``.
    """
    residue = Residue(what)
    load_state(what, state, name)
    residue.note_loaded()
    return residue


def finish(what: Any, state: Any, name: str) -> None:
    """Load the state after a pass, so that the next ``iter()`` begins the pass that follows it.

    Nothing is loaded into an object that has this state, such as a new one before its first pass. If the state makes
    the next pass start at its end, this pass is gone through first. If the object had already been set back, it is as
    it should be.

    Raises:
        ResumeError: The object has no state, or it raised an exception.
    """
    if (current := start_of(what)) is not None and current.state == state:
        return
    residue = load_passing(what, state, name)
    try:
        iterator = iter(what)
        is_over = next(iterator, _END) is _END
        if callable(close := getattr(iterator, "close", None)):
            close()
    except Exception as exc:
        what_failed = f"{type(what).__qualname__} raised {type(exc).__qualname__} at the end of a pass"
        raise ResumeError(f"cannot resume: {what_failed}: {text_of(exc)}") from exc
    if not is_over:
        load_state(what, state, name)
    residue.clear()
