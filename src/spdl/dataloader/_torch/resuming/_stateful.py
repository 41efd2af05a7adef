"""User objects that have a state: ``state_dict()`` and ``load_state_dict(state)``, as in torchdata."""

from __future__ import annotations

from typing import Any

from spdl._reports import text_of
from spdl.resume._errors import ResumeError
from spdl.resume._values import pack, unpack

from ._progress import Recorded, StateError

__all__ = ["Stater", "is_stateful", "load_state"]


def is_stateful(what: Any) -> bool:
    """Whether the object has both methods."""
    return callable(getattr(what, "state_dict", None)) and callable(getattr(what, "load_state_dict", None))


class Stater:
    """Records the state of one object."""

    __slots__ = ("_of", "_where")

    def __init__(self, where: str, of: Any) -> None:
        self._where = where
        self._of = of

    @classmethod
    def find(cls, **candidates: Any) -> Stater | None:
        """Make one for the first object that has a state; ``None`` if there is none. Objects are passed by name."""
        for where, of in candidates.items():
            if is_stateful(of):
                return cls(where, of)
        return None

    def record(self, count: int, *, has_ended: bool = False) -> Recorded:
        """Record the state after ``count`` batches, or the exception instead of it, so that loading continues."""
        try:
            state: dict[str, Any] | StateError = pack(self._of.state_dict())
        except Exception as exc:  # noqa: BLE001 - the user's; raised when the loader's state is requested
            text = f"{type(self._of).__qualname__}.state_dict() raised {type(exc).__qualname__}: {text_of(exc)}"
            state = StateError(text)
        return Recorded(count, self._where, state, has_ended)


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
