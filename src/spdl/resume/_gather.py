"""Merges the states of all ranks."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from ._document import decode, encode
from ._elastic import combine
from ._errors import ResumeError


def gather(state: Mapping[str, Any] | Sequence[Mapping[str, Any]], /, *, group: Any = None) -> dict[str, str]:
    """Merge the states of all ranks into one, the same on each rank. Any number of ranks can load it.

    .. code-block:: python

        state = resume.gather(loader.state_dict())  # on every rank, at the same step
        if rank == 0:
            resume.save("data.json", state)

        loader.load_state_dict(resume.load("data.json"))  # on every rank of the next run, however many there are

    With the same number of ranks, each continues where it was. With another number, the positions that no rank has
    consumed are redistributed: each is issued exactly once. If the remainder is smaller than the number of ranks, the
    sampler's ``ddp_drop_last_distributed_round`` decides whether it is dropped, which is logged. Another number of
    ranks needs sources that can be indexed and know their rank, such as :class:`spdl.source.DistributedKeyedSampler`.

    Args:
        state: The state of this rank. This is then a **collective** call (``torch.distributed.all_gather_object``):
            every rank of the group must make it. Without an initialised process group, there is one rank. Or a list of
            the states of all ranks: nothing is communicated. Its order matters only if the sources do not know their
            ranks.
        group: The process group; ``None``: all ranks.

    Returns:
        A state for ``load_state_dict``.

    Raises:
        ResumeError: A state cannot be read or is missing, or the states are from different pipelines or steps. In a
            collective call, all ranks raise.
    """
    if isinstance(state, Mapping):
        collected = _collect(state, group)
    elif isinstance(state, list | tuple):
        collected = list(state)
    else:
        raise ResumeError(
            "cannot gather states: the state of this rank was expected, or a list of those of all ranks, got an object "
            f"of type {type(state).__qualname__}"
        )
    documents = [decode(each, f"number {number} of {len(collected)}") for number, each in enumerate(collected)]
    return encode(combine(documents))


def _collect(state: Mapping[str, Any], group: Any) -> list[Any]:
    """The states of all ranks, in rank order."""
    # If a process group is initialised, the module is already imported.
    distributed: Any = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return [state]
    # A rank that raised before the collective call would leave the others waiting. So states are checked after it, on
    # all ranks.
    collected: list[Any] = [None] * distributed.get_world_size(group)
    distributed.all_gather_object(collected, _as_sent(state), group=group)
    return collected


def _as_sent(state: Mapping[str, Any]) -> dict[str, Any]:
    """The state in a form that can always be pickled."""
    return {
        key: value if isinstance(value, str | int | float | bool | None) else repr(type(value))
        for key, value in state.items()
        if isinstance(key, str)
    }
