"""Checks of the source, the functions and the aggregator of a ``DataLoader``."""

import copy
import inspect
from collections.abc import Iterator
from typing import Any

from spdl._numbers import as_int, int_or_none
from spdl._reports import add_note, shown
from spdl.pipeline.defs import Aggregator, Op, Pipe


def check_source(source: object) -> None:
    if isinstance(source, Iterator) and not callable(getattr(source, "load_state_dict", None)):
        raise ValueError(
            f"a loader cannot be resumed over {shown(source)}: it is an iterator, which cannot restart, so the "
            "loader cannot know how much of it earlier iterations have consumed. Pass an iterable that restarts with "
            "each iter(), or that has state_dict() and load_state_dict()"
        )


def is_generator(op: Op) -> bool:
    return Pipe(op)._kind in ("generator", "async_generator")


def takes_rng(op: Op | None) -> bool:
    """Whether a function has a parameter named ``rng``."""
    if op is None:
        return False
    try:
        parameter = inspect.signature(op).parameters.get("rng")  # type: ignore[arg-type] # a container has none
    except (TypeError, ValueError):
        return False
    return parameter is not None and parameter.kind is not parameter.POSITIONAL_ONLY


def epoch_of(source: object) -> int | None:
    return int_or_none(getattr(source, "epoch", None)) if callable(getattr(source, "set_epoch", None)) else None


def as_batch_size(value: Any) -> int | Aggregator[Any, Any] | None:
    if value is None:
        return None
    if isinstance(value, Aggregator):
        return copy_of(value)
    if (number := int_or_none(value)) is None:
        given = f"{shown(value)} of type {type(value).__qualname__}"
        raise TypeError(f"batch_size must be an int (items per batch) or an Aggregator, got {given}")
    return as_int("batch_size", number, 1)


def copy_of(aggregator: Aggregator[Any, Any]) -> Aggregator[Any, Any]:
    """Return a copy with its own state, because an abandoned iteration must not leave items for the next one.

    Callables are shared, not copied: all copies use the same clock, and a tokenizer that measures lengths may be large.
    """
    called = [value for value in (aggregator.clock, *getattr(aggregator, "__dict__", {}).values()) if callable(value)]
    try:
        return copy.deepcopy(
            aggregator, {id(each): each for each in called if getattr(each, "__self__", None) is not aggregator}
        )
    except Exception as exc:
        add_note(exc, f"while copying {shown(aggregator)}: each iteration of a DataLoader works with its own copy")
        raise
