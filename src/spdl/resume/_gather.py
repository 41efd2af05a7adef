"""One state of all ranks."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from ._document import decode, encode
from ._elastic import combine
from ._errors import ResumeError

__all__ = ["gather"]


def gather(state: Mapping[str, Any] | Sequence[Mapping[str, Any]], /, *, group: Any = None) -> dict[str, str]:
    """Make one state of those of all ranks: the same on each, and to be loaded by any number of ranks.

    .. code-block:: python

        state = resume.gather(loader.state_dict())  # on every rank, at the same step
        if rank == 0:
            resume.save("data.json", state)

        loader.load_state_dict(resume.load("data.json"))  # on every rank of the next run, however many there are

    With as many ranks as before, each goes on with what it had. With another number, the positions that no rank has
    consumed are distributed anew: each is issued exactly once. If the last of them do not go around, the sampler's
    ``ddp_drop_last_distributed_round`` decides whether they are dropped; that is logged. Another number of ranks needs
    sources that can be indexed and know their rank, such as :class:`spdl.source.DistributedKeyedSampler`.

    Args:
        state: The state of this rank. Then this is a **collective** call (``torch.distributed.all_gather_object``):
            every rank of the group has to make it. Without an initialised process group, there is one rank. Or a list
            of the states of all ranks: nothing is communicated. Its order matters only if the sources know no ranks.
        group: The process group; ``None``: all ranks.

    Returns:
        A state for ``load_state_dict``.

    Raises:
        ResumeError: A state cannot be read, one is missing, or they are of different pipelines or steps. In a
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
    """The states of all ranks, in their order."""
    # Where a process group has been initialised, the module has been imported.
    distributed: Any = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return [state]
    # A rank that raised before the collective call would leave the others waiting. So whatever can be wrong with a
    # state is found after it, and on all ranks.
    collected: list[Any] = [None] * distributed.get_world_size(group)
    distributed.all_gather_object(collected, _as_sent(state), group=group)
    return collected


def _as_sent(state: Mapping[str, Any]) -> dict[str, Any]:
    """The state, as something that can be pickled whatever it is."""
    return {
        key: value if isinstance(value, str | int | float | bool | None) else repr(type(value))
        for key, value in state.items()
        if isinstance(key, str)
    }
