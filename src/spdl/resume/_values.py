"""States of user objects inside a document: as JSON if that is exact, else pickled."""

from __future__ import annotations

import base64
import math
import pickle
from typing import Any

from ._errors import ResumeError

__all__ = ["pack", "unpack"]


def pack(value: Any) -> dict[str, Any]:
    """A copy: ``{"state": value}``, or ``{"pickled": text}`` if JSON would change the value: tuples, tensors, NaN.

    Args:
        value: Result of a user's ``state_dict()``, which the user's object may change later.

    Raises:
        ResumeError: It cannot be pickled.
    """
    try:
        return {"state": _copied(value)}
    except (_Inexact, RecursionError):
        pass
    try:
        return {"pickled": base64.b64encode(pickle.dumps(value)).decode("ascii")}
    except Exception as exc:
        raise ResumeError(
            f"cannot write the state of a {type(value).__qualname__}: it cannot be pickled ({exc}). A state_dict() "
            "must return numbers, text, lists, dictionaries, or objects that can be pickled"
        ) from exc


def unpack(packed: Any, what: str) -> Any:
    """The value that :func:`pack` was given.

    Unpickling runs code: load only states that you trust, as with ``torch.load``.

    Args:
        packed: Part of a document.
        what: The owner of the state, for messages.

    Raises:
        ResumeError: It is not a packed value, or it cannot be unpickled.
    """
    if isinstance(packed, dict) and "state" in packed:
        return packed["state"]
    try:
        return pickle.loads(base64.b64decode(packed["pickled"], validate=True))
    except Exception as exc:
        raise ResumeError(f"cannot read the state of {what}: {exc} ({type(exc).__name__})") from exc


class _Inexact(Exception):
    """JSON would change the value."""


def _copied(value: Any) -> Any:
    kind = type(value)
    if value is None or kind is bool or kind is int or kind is str or (kind is float and math.isfinite(value)):
        return value
    if kind is list:
        return [_copied(each) for each in value]
    if kind is dict and all(type(key) is str for key in value):
        return {key: _copied(each) for key, each in value.items()}
    raise _Inexact
