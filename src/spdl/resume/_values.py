"""States of the user's objects inside a document: as JSON where that is exact, else pickled."""

from __future__ import annotations

import base64
import math
import pickle
from typing import Any

from ._errors import ResumeError

__all__ = ["pack", "unpack"]


def pack(value: Any) -> dict[str, Any]:
    """``{"json": value}``, or ``{"pickled": text}`` if JSON would change the value: tuples, tensors, NaN.

    Args:
        value: What a ``state_dict()`` of the user has returned. It is not kept.

    Raises:
        ResumeError: It cannot be pickled.
    """
    if _is_exact(value):
        return {"json": value}
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
        what: What the value is the state of, for the message.

    Raises:
        ResumeError: It is not a packed value, or it cannot be unpickled.
    """
    if isinstance(packed, dict) and "json" in packed:
        return packed["json"]
    try:
        return pickle.loads(base64.b64decode(packed["pickled"], validate=True))
    except Exception as exc:
        raise ResumeError(f"cannot read the state of {what}: {exc} ({type(exc).__name__})") from exc


def _is_exact(value: Any) -> bool:
    kind = type(value)
    if value is None or kind is bool or kind is int or kind is str:
        return True
    if kind is float:
        return math.isfinite(value)
    try:
        if kind is list:
            return all(_is_exact(each) for each in value)
        if kind is dict:
            return all(type(key) is str and _is_exact(each) for key, each in value.items())
    except RecursionError:
        pass
    return False
