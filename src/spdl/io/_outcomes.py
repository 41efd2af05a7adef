"""What all ways to load a batch share: a list of sources, FFmpeg once a source needs it, the account of what failed."""

import logging
import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from spdl._reports import log

from . import _native
from ._errors import BatchLoadError, NativeLibraryError
from ._types import LoadFailure, Source

_LG = logging.getLogger(__name__)

_T = TypeVar("_T")


def as_sources(name: str, sources: Any) -> list[Source]:
    """The sources that an iterable gives.

    Raises:
        TypeError: It is a single source, whose letters or bytes are none.
    """
    require_several(name, sources)
    return list(sources)


def require_several(name: str, sources: object) -> None:
    """Raise ``TypeError`` for what is one source."""
    if isinstance(sources, str | bytes | bytearray | memoryview | os.PathLike):
        raise TypeError(f"{name} must be a list of sources, got one of type {type(sources).__name__}: put it in a list")


def with_general_way(load: Callable[[object], _T | None]) -> _T:
    """What ``load`` gives with FFmpeg's decoders, or without them if it needs none.

    Args:
        load: Takes the general way, as native code does; ``None`` where FFmpeg has not been loaded, and then gives
            ``None`` if it needs it. Or, where FFmpeg cannot be loaded, why.
    """
    loaded = load(_native.media.general_way() if "media" in vars(_native) else None)
    if loaded is None:
        try:
            general_way = _native.media.general_way()
        except NativeLibraryError as error:
            general_way = str(error)
        loaded = load(general_way)
        assert loaded is not None
    return loaded


def report(failures: Sequence[LoadFailure], num_sources: int, num_missing: int, *, most_missing: int) -> None:
    """Log what failed, and raise if that leaves too little.

    Args:
        failures: Of sources, and of spares, whose index is ``num_sources`` and above.
        num_sources: Size of the batch that was asked for.
        num_missing: How many images of it there are not.
        most_missing: How many may be missing.

    Raises:
        BatchLoadError: Too many are missing.
    """
    for failure in failures:
        if failure.index < num_sources:
            log(_LG, logging.ERROR, "Image %d of a batch of %d: %s", failure.index, num_sources, failure.error)
        else:
            log(
                _LG,
                logging.ERROR,
                "Spare %d of a batch of %d: %s",
                failure.index - num_sources,
                num_sources,
                failure.error,
            )
    if num_missing > most_missing:
        raise BatchLoadError(_summary(failures, num_sources, num_missing), failures=failures)


def _summary(failures: Sequence[LoadFailure], num_sources: int, num_missing: int) -> str:
    shown = 3
    lines = [f"  [{failure.index}] {failure.error}" for failure in failures[:shown]]
    if len(failures) > shown:
        lines.append(f"  and {len(failures) - shown} more, in .failures")
    return "\n".join([f"Failed to load some images. ({num_missing} of {num_sources})", *lines])
