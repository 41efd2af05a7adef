"""The log style of item errors: one line, or with traceback."""

import os
from dataclasses import dataclass

from spdl._reports import name_of, text_of

__all__ = ["describe_error", "is_compact_log", "raised_at", "set_compact_log"]

_VARIABLE = "SPDL_PIPELINE_COMPACT_LOG"


@dataclass
class _Setting:
    """Process-wide state: a program sets the log style once for all pipelines."""

    compact: bool | None = None


_SETTING = _Setting()


def set_compact_log(value: bool | None) -> None:
    """Set the log style of item errors for this process.

    Args:
        value: ``True``: one line, with the location that raised. ``False``: with the traceback. ``None``: one line if
            the environment variable ``SPDL_PIPELINE_COMPACT_LOG`` is ``1``, ``true``, ``yes`` or ``on``, otherwise with
            the traceback.

    Raises:
        TypeError: ``value`` is neither a bool nor ``None``.
    """
    if value is not None and not isinstance(value, bool):
        raise TypeError(f"compact_log must be a bool or None, got {value!r}")
    _SETTING.compact = value


def is_compact_log() -> bool:
    """Return whether item errors are logged in one line."""
    if _SETTING.compact is not None:
        return _SETTING.compact
    return os.environ.get(_VARIABLE, "").strip().lower() in ("1", "true", "yes", "on")


def describe_error(exc: BaseException) -> str:
    """Describe an exception and where it was raised, in one line: ``ValueError: bad size (decode.py:12:resize)``."""
    first_line, _, rest = text_of(exc).partition("\n")
    text = name_of(exc) + (f": {first_line}" if first_line else "") + (" …" if rest else "")
    where = raised_at(exc)
    return text if where is None else f"{text} ({where})"


def raised_at(exc: BaseException) -> str | None:
    """Return ``<file>:<line>:<function>`` of an exception's innermost frame; ``None`` if it was never raised."""
    tb = exc.__traceback__
    if tb is None:
        return None
    while tb.tb_next is not None:
        tb = tb.tb_next
    code = tb.tb_frame.f_code
    return f"{code.co_filename}:{tb.tb_lineno}:{code.co_name}"
