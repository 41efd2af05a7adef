"""Load FFmpeg on demand, and name and report failures. Shared by all functions that load a batch."""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from spdl._failure_log import log_failed
from spdl._reports import printable
from spdl.io import _native
from spdl.io._errors import BatchLoadError, MediaError, NativeLibraryError
from spdl.io._types import LoadFailure

_LG = logging.getLogger("spdl.io")
#: Failures of this process so far, by kind. A function has no epochs that could count apart.
_SEEN: Final[Counter[str]] = Counter()

_T = TypeVar("_T")


def with_ffmpeg_on_demand(load: Callable[[object], _T | None]) -> _T:
    """Call ``load``, and load FFmpeg only if a source needs it.

    The argument of ``load`` is the loader that native code falls back to (``fallback_loader``). While FFmpeg is not
    loaded, it is ``None``, and ``load`` returns ``None`` if a source needs FFmpeg. If FFmpeg cannot be loaded, it is
    the reason, as text.
    """
    loaded = load(fallback_if_loaded())
    if loaded is None:
        loaded = load(fallback_on_demand())
        assert loaded is not None
    return loaded


def fallback_if_loaded() -> object:
    """The loader that native code falls back to; ``None`` if FFmpeg has not been loaded yet."""
    return _native.media.fallback_loader() if "media" in _native.__dict__ else None


def fallback_on_demand() -> object:
    """Load FFmpeg now, and return the loader that native code falls back to, or the reason for a failure as text."""
    try:
        return _native.media.fallback_loader()
    except NativeLibraryError as error:
        return str(error)


def report_failures(
    failures: Sequence[LoadFailure], num_sources: int, num_missing: int, *, most_missing: int, kind: str = "image"
) -> None:
    """Log the failures, as all failures of items are logged. Raises ``BatchLoadError`` if too many are missing.

    The index of a failed spare is ``num_sources`` and above. ``kind`` names the items in messages.
    """
    for failure in failures:
        if failure.index < num_sources:
            what = f"{kind.capitalize()} {failure.index}"
            if failure.name is not None:
                what += f" ({printable(failure.name)})"
        else:
            what = f"Spare {failure.index - num_sources}"
        log_failed(_LG, _SEEN, kind, "%s of a batch of %d", what, num_sources, error=failure.error)
    if num_missing > most_missing:
        raise BatchLoadError(_summary(failures, num_sources, num_missing, kind), failures=failures)
    if num_missing:
        _count_lost(num_missing)


def _count_lost(number: int) -> None:
    """Count the missing items in the statistics of the pipeline that runs on this thread, if there is one."""
    note_lost = getattr(threading.current_thread(), "note_lost", None)
    if note_lost is not None:
        note_lost(number)


def _summary(failures: Sequence[LoadFailure], num_sources: int, num_missing: int, kind: str) -> str:
    shown = 3
    lines = [
        f"  [{failure.index}] {'' if failure.name is None else f'{failure.name}: '}{failure.error}"
        for failure in failures[:shown]
    ]
    if len(failures) > shown:
        lines.append(f"  and {len(failures) - shown} more, in .failures")
    return "\n".join([f"Failed to load some {kind}s. ({num_missing} of {num_sources})", *lines])


def as_names(names: Iterable[str | None] | None, num_sources: int) -> list[str | None] | None:
    """Check the argument ``names``: text or ``None`` for each source. Raises ``TypeError`` or ``ValueError``."""
    if names is None:
        return None
    if isinstance(names, str):
        raise TypeError("names must be an iterable of one name for each source, got a str")
    found = list(names)
    for name in found:
        if name is not None and not isinstance(name, str):
            raise TypeError(f"names must hold str or None, got {name!r} of type {type(name).__name__}")
    if len(found) != num_sources:
        raise ValueError(f"names must have one name for each of the {num_sources} sources, got {len(found)}")
    return found


def with_names(failures: Sequence[LoadFailure], names: Sequence[str | None] | None) -> tuple[LoadFailure, ...]:
    """Return the failures with the names of their sources, also in their messages. Spares have no names."""
    if names is None:
        return tuple(failures)
    return tuple(
        _named(failure, name) if failure.index < len(names) and (name := names[failure.index]) is not None else failure
        for failure in failures
    )


def _named(failure: LoadFailure, name: str) -> LoadFailure:
    error = failure.error
    if isinstance(error, MediaError) and error.source and error.args and isinstance(error.args[0], str):
        error.args = (error.args[0].replace(error.source, name), *error.args[1:])
        error.source = name
    return replace(failure, name=name)
