"""``pipe(on_error=...)``: what a stage does with an item when its op raises."""

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

from ._repr import describe_callable

#: Drop the item, fail the pipeline, or call a function that returns a substitute for the output.
OnError: TypeAlias = Literal["skip", "raise"] | Callable[[Any, Exception], Any]


def check_on_error(value: Any, kind_of: Callable[[Any], str]) -> OnError:
    """Return ``value`` if ``on_error`` accepts it.

    Raises:
        TypeError: ``value`` is neither a ``str`` nor callable.
        ValueError: ``value`` is another ``str`` than ``"skip"`` and ``"raise"``, or an async or a generator function.
    """
    accepted = "on_error must be 'skip', 'raise', or a function (item, error) -> substitute"
    if isinstance(value, str):
        if value not in ("skip", "raise"):
            raise ValueError(f"{accepted}, got {value!r}")
        return value  # type: ignore[return-value] # one of the two
    if not callable(value):
        raise TypeError(f"{accepted}, got {value!r} of type {type(value).__qualname__}")
    if (kind := kind_of(value)) != "sync":
        what = {"async": "an async function", "generator": "a generator function"}.get(kind, "an async generator")
        raise ValueError(f"{accepted}, got {what}: {describe_callable(value)}")
    return value  # type: ignore[no-any-return]
