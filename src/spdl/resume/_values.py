"""States of user objects inside a document: as JSON if that is exact, else pickled."""

from __future__ import annotations

import base64
import io
import math
import pickle
from importlib import import_module
from typing import Any

from ._errors import ResumeError


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
        return {"pickled": base64.b64encode(_pickled(value)).decode("ascii")}
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


class _Pickler(pickle.Pickler):
    """Pickles tensors by their values, so that equal states are equal texts: torch's way has the address of the memory.

    It also has the whole memory of a view. Other tensors than those with plain values in main memory go torch's way.
    """

    def reducer_override(self, obj: Any) -> Any:
        kind = type(obj)
        if kind.__module__ != "torch" or kind.__qualname__ != "Tensor" or obj.requires_grad or vars(obj):
            return NotImplemented
        try:
            return _tensor, (obj.numpy(),)
        except (TypeError, RuntimeError):  # sparse, on a device, of a type that NumPy lacks
            return NotImplemented


def _pickled(value: Any) -> bytes:
    file = io.BytesIO()
    _Pickler(file).dump(value)
    return file.getvalue()


def _tensor(values: Any) -> Any:
    """Used by pickled states."""
    return import_module("torch").from_numpy(values)  # only a state that has tensors needs it


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
