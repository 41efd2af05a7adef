"""Names of sources in memory: ``load_image_batch(names=...)``."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from spdl.io._errors import MediaError
from spdl.io._types import LoadFailure


def as_names(names: Iterable[str | None] | None, num_sources: int) -> list[str | None] | None:
    """Check the argument ``names``.

    Raises:
        TypeError: A name is not text, or ``names`` itself is text.
        ValueError: The number of names differs from the number of sources.
    """
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
