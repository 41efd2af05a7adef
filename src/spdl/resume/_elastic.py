"""Elastic resume: distributes the positions that one number of ranks has not consumed over another number of ranks.

Each rank of a world has every ``world``-th position of an order that all ranks agree on. When the ranks stop, some of
their positions are consumed, some are issued but not consumed, and all later ones were never issued. The positions of
an epoch that no rank has consumed, in ascending order, are again an order that all ranks agree on; rank ``r`` of the
new world gets every ``world``-th of *these*. So each position is issued exactly once, whatever the two worlds are, and
if the ranks had stopped at the same step, global batches of a fixed size have the same positions in every world.

The last round may have fewer positions than there are ranks. The sampler's ``ddp_drop_last_distributed_round`` decides
whether they are dropped, as at the end of every epoch. Dropped positions are stored in the documents (``"dropped"``)
and logged.

Terms: a *local* number counts the positions of one rank, in the order in which it issues them: 0, 1, 2 ... A *global*
position counts those of all ranks.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from spdl import _reports

from ._document import decode, describe_difference, encode
from ._ranges import RangeChain, Ranges
from ._values import ResumeError

Document = dict[str, Any]

#: How many epochs may have remaining positions at the same time. Ranks at the same step have two.
_MAX_EPOCHS: Final = 1000


def combine(documents: Sequence[Document]) -> Document:
    """Merge the documents of all ranks of one world into one, from which each rank of any world can continue.

    Args:
        documents: In any order if their sources know their rank. Ranks that read the same positions, as in tensor
            parallelism, may all pass theirs; documents of the same rank must then be equal.

    Returns:
        A document of kind ``"gathered"``, with the documents in the order of their ranks.

    Raises:
        ResumeError: They are not the documents of all ranks of one world, or are from different pipelines.
    """
    if not documents:
        raise ResumeError("cannot gather states: there are none")
    for number, document in enumerate(documents):
        if document["kind"] == "gathered":
            raise ResumeError(
                f"cannot gather states: number {number} of {len(documents)} is the result of gather() already. Gather "
                "the states that state_dict() returned"
            )
        if document["kind"] != documents[0]["kind"]:
            raise ResumeError(
                f"cannot gather states: number 0 is of a {documents[0]['kind']}, number {number} of a "
                f"{document['kind']}"
            )
    if documents[0]["kind"] == "pipeline" or all("sources" in document for document in documents):
        documents = _one_per_rank(documents)
    return {"kind": "gathered", "states": copy.deepcopy(list(documents))}


def document_for(document: Document, rank: int, world: int) -> Document:
    """Return the document from which rank ``rank`` of ``world`` ranks continues.

    Args:
        document: Result of :func:`spdl.resume._document.decode`: of one rank, or gathered from all.
        rank: Rank of the sources that continue: the rank of the process if its samplers have one, else 0.
        world: The number of ranks.

    Returns:
        A document of the same kind as the gathered ones, never ``"gathered"``. In a world of the same size, it is the
        document that this rank saved. In another world, each epoch has ``"todo"``: the rank's global positions, which
        it issues before the next epoch.

    Raises:
        ResumeError: It belongs to another rank or world, or it cannot be distributed over other ranks.
    """
    if document["kind"] != "gathered":
        return _moved(document, rank, world)
    states = document["states"]
    if len(states) == world:
        own: Document = copy.deepcopy(states[rank])
        _await_end(own, states)
        return own
    if any("sources" not in state for state in states):
        raise ResumeError(
            f"cannot load a state of {len(states)} ranks in a world of {world}: states of a {states[0]['kind']} can be "
            "loaded only by as many ranks as saved them, unless its sampler finds indices by global position, such as "
            "spdl.source.DistributedKeyedSampler"
        )
    found = copy.deepcopy(states[0])
    if found["kind"] == "pipeline":
        found["approximate"] = sorted({reason for state in states for reason in state["approximate"]})
    found["sources"] = [
        _deal([state["sources"][number] for state in states], number, rank, world)
        for number in range(len(found["sources"]))
    ]
    return found  # type: ignore[no-any-return]  # a copy of a document


def _await_end(own: Document, states: Sequence[Document]) -> None:
    """Take a rank that has read the end of its epoch back before it, if another has consumed all and not read it.

    Otherwise one would begin the next epoch while the other gets the end, and they would wait for each other.
    """
    for number, source in enumerate(own.get("sources", [])):
        waiting = {epoch for state in states if (epoch := _at_end(state, number)) is not None}
        if source["kind"] != "indexed" or source["length"] is None or len(waiting) != 1:
            continue
        (epoch,) = waiting
        first = source["epochs"][0]["epoch"] if source["epochs"] else None
        if own["kind"] != "pipeline":
            other = next(state["epoch"] for state in states if _at_end(state, number) is not None)
            if own["epoch"] is None and first == epoch and "global" in own["random"]:
                begun: Document = {"above": [], "check": None, "sampler": None, "turn": 0, "streams": []}
                own["epoch"] = {**begun, "number": epoch, "seeded": True, "taken": other["taken"]}
                own["now"] = {"drawn": other["taken"], "global": own["random"]["global"]}
        elif source["ended"] and first == epoch:
            source["ended"] = False
        elif first == epoch + 1 and not any(_has_consumed(each) for each in source["epochs"]):
            over: Document = {
                "epoch": epoch,
                "high": len(issue_order(source, None)),
                "holes": [],
                "parts": {},
                "iterator": None,
            }
            source["epochs"].insert(0, over)


def _at_end(state: Document, number: int) -> int | None:
    """The epoch in which a rank has consumed all of a source, without having read the end."""
    source = state["sources"][number]
    if source["ended"] or not source["epochs"] or source["kind"] != "indexed" or source["length"] is None:
        return None
    if state["kind"] != "pipeline" and state["epoch"] is None:
        return None
    epoch = source["epochs"][0]
    is_over = not epoch.get("parts") and not unconsumed(epoch, len(issue_order(source, epoch)))
    return int(epoch["epoch"]) if is_over else None


def _has_consumed(epoch: Document) -> bool:
    return "todo" in epoch or bool(epoch.get("parts")) or bool(_consumed(epoch))


def _consumed(epoch: Document) -> Ranges:
    """The local numbers that a rank has consumed in an epoch."""
    return Ranges([(0, epoch.get("high", 0))]) - Ranges.from_json(epoch.get("holes", []))


def issue_order(source: Document, epoch: Document | None) -> RangeChain:
    """Return the global positions that a rank issues in an epoch, in this order; ``None``: in a new one."""
    if epoch is not None and "todo" in epoch:
        return RangeChain.from_json(epoch["todo"])
    return RangeChain([range(source["rank"], _dealt_length(source), source["world"])])


def unconsumed(epoch: Document, length: int) -> Ranges:
    """Return which of a rank's ``length`` local numbers it has not consumed in an epoch of a pipeline's document."""
    high: int = epoch.get("high", 0)
    return Ranges.from_json(epoch.get("holes", [])) | Ranges([(high, length)])


def _dealt_length(source: Document) -> int:
    length: int = source["length"]
    return length - length % source["world"] if source.get("drop_last", False) else length


# One rank or many


def _one_per_rank(documents: Sequence[Document]) -> list[Document]:
    """The documents of pipelines in the order of their ranks, one per rank."""
    for number, document in enumerate(documents):
        difference = describe_difference(documents[0]["fingerprint"], document["fingerprint"])
        if difference is not None or len(document["sources"]) != len(documents[0]["sources"]):
            raise ResumeError(
                f"cannot gather states: those of number 0 and number {number} are of different pipelines"
                + (f": {difference}" if difference else "")
            )
        _check_worlds(document, documents[0], number)
    world = max((source["world"] for source in documents[0]["sources"]), default=1)
    by_rank: dict[int, Document] = {}
    for number, document in enumerate(documents):
        rank = max((source["rank"] for source in document["sources"]), default=0)
        if rank not in by_rank:
            by_rank[rank] = document
        elif _what_is_left(document) != _what_is_left(by_rank[rank]):
            raise ResumeError(_of_one_rank(number, rank, world))
    missing = next((rank for rank in range(world) if rank not in by_rank), None)  # a damaged world may be huge
    if missing is not None:
        raise ResumeError(
            f"cannot gather states: there are {len(documents)}, of a world of {world}, and that of rank {missing} "
            "is missing. Give those of all ranks; within torch.distributed, every rank has to call gather()"
        )
    return [by_rank[rank] for rank in range(world)]


def _of_one_rank(number: int, rank: int, world: int) -> str:
    if world == 1:
        return (
            f"cannot gather states: the sources know of no ranks, and the states number 0 and {number} differ. Give "
            "the sampler rank= and world_size=, or let each rank save its own state, and load it in the same rank"
        )
    return (
        f"cannot gather states: there are two of rank {rank} of {world}, which differ. Take them at the same step, "
        "from samplers of which each has its own rank"
    )


def _check_worlds(document: Document, first: Document, number: int) -> None:
    for place, (own, other) in enumerate(zip(document["sources"], first["sources"], strict=True)):
        for key in ("kind", "world", "length", "lockstep", "drop_last"):
            if own.get(key) != other.get(key):
                raise ResumeError(
                    f"cannot gather states: source {place} has the {key} {other.get(key)!r} in number 0 and "
                    f"{own.get(key)!r} in number {number}"
                )
    ranks = {(source["rank"], source["world"]) for source in document["sources"] if source["world"] > 1}
    if len(ranks) > 1:
        raise ResumeError(
            f"cannot gather states: the sources of number {number} have different ranks and worlds: "
            + ", ".join(f"rank {rank} of {world}" for rank, world in sorted(ranks))
        )


def _what_is_left(document: Document) -> object:
    """A value that is equal for two documents with the same remaining items, however far each has read ahead."""
    sources = []
    for source in document["sources"]:
        epochs = []
        for epoch in source["epochs"]:
            consumed = _consumed(epoch)
            parts = {key: done for key, done in epoch.get("parts", {}).items() if done}
            if consumed or parts or "todo" in epoch:
                epochs.append((epoch["epoch"], consumed, epoch.get("todo"), parts))
        sources.append((source["rank"], source["world"], epochs))
    return sources


def _moved(document: Document, rank: int, world: int) -> Document:
    """Convert the document of one rank to that of another rank of the same world, if both issue the same positions."""
    found = copy.deepcopy(document)
    for number, source in enumerate(found.get("sources", [])):
        saved = source["rank"], source["world"]
        if saved == (rank, world) or source["world"] == 1:
            continue
        if source["lockstep"] and source["world"] == world:
            source["rank"] = rank
            continue
        raise ResumeError(
            f"cannot load a state of rank {saved[0]} of {saved[1]} in rank {rank} of {world}: source {number} issues "
            "other positions there. Save what spdl.resume.gather() makes of the states of all ranks, and load that"
        )
    return found


# From one world to another


@dataclass(frozen=True, slots=True)
class _Part:
    """One rank's part of one epoch."""

    order: RangeChain  #: its global positions
    left: Ranges  #: local numbers of positions that are not consumed
    parts: dict[str, Any]  #: consumed outputs of positions that are not fully consumed
    dropped: Ranges | None  #: positions dropped by the distribution that made ``todo``; ``None``: there was none
    dropped_parts: dict[str, Any]  #: consumed outputs of the dropped positions, by global position
    is_over: bool  #: the rank has reached the end of the epoch


def _deal(sources: list[Document], number: int, rank: int, world: int) -> Document:
    """The entry of one source in the document of rank ``rank`` of ``world``, computed from the entries of all ranks."""
    first = sources[0]
    _check_dealt(sources, number, world)
    found = {**first, "rank": rank, "world": world, "epochs": [], "ended": all(source["ended"] for source in sources)}
    listed = [epoch["epoch"] for source in sources for epoch in source["epochs"]]
    # Includes the epochs in between: a rank may be past an epoch that another has not begun.
    numbers = range(min(listed), max(listed) + 1) if listed else range(0)
    if len(numbers) > _MAX_EPOCHS:
        raise ResumeError(
            f"cannot load a state of {len(sources)} ranks in a world of {world}: the ranks that saved are "
            f"{len(numbers) - 1} epochs apart. Take their states at the same step"
        )
    for each in numbers:
        dealt = _deal_epoch([_part_of(source, each) for source in sources], first, each, rank, world)
        # Finished epochs are left out, as long as the remaining ones are consecutive and there is at least one.
        if found["epochs"] or dealt["todo"] or dealt["dropped"] or each == numbers[-1]:
            found["epochs"].append(dealt)
    return found


def _check_dealt(sources: list[Document], number: int, world: int) -> None:
    first = sources[0]
    reason = None
    if first["kind"] != "indexed":
        reason = f"it is {first['kind']}, and only positions of indexed sources can be distributed anew"
    elif first["length"] is None:
        reason = "its length is not known"
    elif len(sources) > 1 and first["world"] == 1:
        reason = "it does not know its rank. Give its sampler rank= and world_size="
    elif any(epoch.get("iterator") is not None for source in sources for epoch in source["epochs"]):
        reason = "it has the state of an iterator, which cannot be divided"
    elif any(epoch.get("lost") for source in sources for epoch in source["epochs"]):
        reason = (
            "it has refilled positions that were lost in this epoch, and their replacements belong to the ranks that "
            "saved. Continue with the same number of ranks until the epoch ends"
        )
    if reason is not None:
        raise ResumeError(
            f"cannot load a state of {len(sources)} ranks in a world of {world}: source {number}: {reason}"
        )


def _part_of(source: Document, number: int) -> _Part:
    epochs = source["epochs"]
    epoch = next((epoch for epoch in epochs if epoch["epoch"] == number), None)
    order = issue_order(source, epoch)
    if epoch is None:
        # The rank has consumed all of the epochs before its oldest one or between two of them, and nothing after its
        # last one.
        has_begun = bool(epochs) and number < epochs[-1]["epoch"]
        is_over = has_begun or source["ended"]
        return _Part(order, Ranges() if is_over else Ranges([(0, len(order))]), {}, None, {}, is_over)
    dropped = Ranges.from_json(epoch["dropped"]) if "dropped" in epoch else None
    # A later epoch does not mean that this one is over: a distribution adds planned epochs before the rank reaches
    # them.
    high = epoch.get("high", 0)
    is_over = source["ended"] or (number < epochs[-1]["epoch"] and high >= len(order))
    left = unconsumed(epoch, high if is_over else len(order))
    return _Part(order, left, epoch.get("parts", {}), dropped, epoch.get("dropped_parts", {}), is_over)


def _deal_epoch(parts: list[_Part], source: Document, number: int, rank: int, world: int) -> Document:
    try:
        left = Ranges.joined(each for part in parts for each in _pieces(part))
    except OverflowError as exc:
        raise ResumeError(
            f"cannot distribute epoch {number} over {world} ranks: the ranks that saved have left {exc}. Take their "
            "states at the same step"
        ) from exc
    if not any(part.is_over for part in parts):
        # The positions that the ranks would have dropped at the end of the epoch, which no rank has reached.
        known = next((part.dropped for part in parts if part.dropped is not None), None)
        left |= Ranges([(_dealt_length(source), source["length"])]) if known is None else known
    dropped = Ranges()
    if source.get("drop_last", False):
        left, dropped = left.take(left.count() - left.count() % world)
    todo = left.every(world, rank)
    if dropped and rank == 0:
        _report(dropped, number, world)
    by_position = _parts_by_position(parts)
    consumed_parts = {
        f"{todo.index(position)}{rest}": done for (position, rest), done in by_position.items() if position in todo
    }
    # Partly consumed positions have been issued, so they are below `high`, as in every state.
    high = max((int(path.partition(".")[0]) + 1 for path in consumed_parts), default=0)
    return {
        "epoch": number,
        "todo": todo.to_json(),
        "high": high,
        "holes": Ranges([(0, high)]).to_json(),
        "parts": consumed_parts,
        "iterator": None,
        "dropped": dropped.to_json(),
        # Dropped positions may be issued after all if the world size changes again before a rank reaches the end of the
        # epoch.
        "dropped_parts": {
            f"{position}{rest}": done for (position, rest), done in by_position.items() if position in dropped
        },
    }


def _report(dropped: Ranges, number: int, world: int) -> None:
    import logging  # imported late: most users of this module only need its errors

    _reports.log(
        logging.getLogger("spdl.resume"),
        logging.INFO,
        "epoch %d does not divide among %d ranks: its last %d positions are dropped (%s)",
        number,
        world,
        dropped.count(),
        dropped.to_json(),
    )


def _pieces(part: _Part) -> tuple[range, ...]:
    return tuple(each for start, stop in part.left.pairs for each in part.order[start:stop].ranges)


def _parts_by_position(parts: list[_Part]) -> dict[tuple[int, str], Any]:
    """The consumed outputs, by global position and the rest of the path."""
    found = {}
    for part in parts:
        for path, done in part.parts.items():
            local, dot, below = path.partition(".")
            found[part.order[int(local)], dot + below] = done
        for path, done in part.dropped_parts.items():
            position, dot, below = path.partition(".")
            found[int(position), dot + below] = done
    return found


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
    # In a form that can always be pickled.
    sent = {
        key: value if isinstance(value, str | int | float | bool | None) else repr(type(value))
        for key, value in state.items()
        if isinstance(key, str)
    }
    distributed.all_gather_object(collected, sent, group=group)
    return collected
