"""Save the state of a loader as a document, and begin an epoch from such a document."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

from spdl._numbers import int_or_none
from spdl.resume._document import decode, describe_difference, encode
from spdl.resume._ranges import RangeChain
from spdl.resume._values import ResumeError, unpack

from ._indices import checksum, is_plain
from ._progress import Before, Mark, Progress, Recorded, StateError, StreamStart, start_of
from ._random import CapturedStates, Generators, check_states, from_text

_KIND = "loader"


class Loader(Protocol):
    """The attributes of a loader that its state depends on."""

    dataset: Any
    sampler: Any
    batch_sampler: Any
    batch_size: int | None
    drop_last: bool
    in_order: bool
    num_workers: int
    persistent_workers: bool
    workers: Any


class Begun(NamedTuple):
    """An epoch of a loader.

    Attributes:
        progress: Position in the epoch.
        random: States of the random generators just before the epoch began.
        epoch: ``epoch`` of the sampler at that time; ``None``: it has none.
        is_seeded: Whether a base seed was drawn for its workers; persistent workers keep that of their first epoch.
        order: Global positions of its indices, if they were distributed again over the ranks.
    """

    progress: Progress
    random: CapturedStates
    epoch: int | None
    is_seeded: bool
    order: RangeChain | None = None


class Loaded(NamedTuple):
    """The contents of a checked document, as the next epoch of the loader needs them.

    Attributes:
        state: The state as the user gave it.
        random: States of random generators.
        is_seeded: Whether a base seed is drawn for the workers of this epoch.
        progress: Where the epoch begins; ``None``: at its beginning, and ``random`` was saved between epochs.
        sampler: State of the sampler to load.
        check: Checksum of the last index batch taken.
        epoch: What to call ``set_epoch`` with.
        num_discarded: Number of batches of an iterable dataset without a state that must be loaded again.
        order: Global positions of the indices of this epoch, if they were distributed again over the ranks.
        num_drawn: Number of index batches that had been drawn.
        shared: State of torch's global generator at that time; ``None``: not known.
        is_own: Whether the state was saved by this rank, so that the generators continue too.
        starts: Where the streams begin, if ``progress`` is ``None``.
    """

    state: dict[str, str]
    random: dict[str, Any]
    is_seeded: bool
    progress: Progress | None = None
    sampler: Recorded | None = None
    check: int | None = None
    epoch: int | None = None
    num_discarded: int = 0
    order: RangeChain | None = None
    num_drawn: int = 0
    shared: Any = None
    is_own: bool = True
    starts: tuple[StreamStart, ...] = ()


def save(loader: Loader, is_iterable: bool, begun: Begun | None, mark: Mark | None) -> dict[str, str]:
    """The state of a loader.

    Args:
        begun: The newest epoch; ``None``: there is none yet.
        mark: Position in this epoch.

    Raises:
        ResumeError: A ``state_dict()`` of the user's objects failed, or has a value that cannot be pickled.
    """
    rank, world = _rank_of(loader)
    document: dict[str, Any] = {
        "kind": _KIND,
        "fingerprint": _fingerprint(loader, is_iterable),
        "rank": rank,
        "world": world,
        "lockstep": loader.in_order and not is_iterable and (mark is None or mark.sampler is None),
    }
    if source_of(loader) is not None:
        document["sources"] = [_source_to_json(loader, begun, mark)]
    if begun is None or mark is None or mark.has_ended:
        is_seeded = begun is None or not loader.persistent_workers or loader.num_workers == 0
        document |= {"epoch": None, "seeded": is_seeded, "random": Generators.of(loader).capture().to_json()}
        after = _before_all(loader) if begun is None else begun.progress.after()
        if after.sampler is not None or any(after.streams):
            document["before"] = {
                "sampler": _recorded_to_json(after.sampler),
                "streams": [_recorded_to_json(each) for each in after.streams],
            }
        return encode(document)
    document["random"] = begun.random.to_json()
    document["now"] = {"drawn": begun.progress.num_drawn, **Generators([]).capture().to_json()}
    streams = mark.streams if is_iterable or any(each.recorded is not None for each in mark.streams) else ()
    document["epoch"] = {
        "number": begun.epoch,
        "seeded": begun.is_seeded,
        "taken": mark.taken,
        "above": sorted(mark.above),
        "check": None if mark.last is None else checksum(mark.last),
        "sampler": _recorded_to_json(mark.sampler),
        "turn": mark.turn,
        "streams": [{"taken": stream.taken, "recorded": _recorded_to_json(stream.recorded)} for stream in streams],
    }
    return encode(document)


def _before_all(loader: Loader) -> Before:
    """The states of the sampler and of the dataset before the first epoch."""
    sampler = loader.sampler if is_plain(loader.batch_sampler) else loader.batch_sampler
    in_this_process = loader.num_workers == 0 or loader.workers == "thread"
    return Before(start_of(sampler), (start_of(loader.dataset),) if in_this_process else ())


def load(loader: Loader, is_iterable: bool, state: Mapping[str, Any], snapshot_every: int) -> Loaded:
    """Check a state and return what the loader's next epoch needs. The loader is not changed.

    Raises:
        ResumeError: It is not a state, is damaged, or belongs to another loader, rank or world; the message says how
            they differ.
    """
    document = decode(state, "the loader")
    if document["kind"] == "gathered":
        document = _own_of(loader, document)
        state = encode(document)
    if document["kind"] != _KIND:
        raise ResumeError(f"cannot resume: a state of a loader is needed, got one of a {document['kind']}")
    own = _fingerprint(loader, is_iterable)
    try:
        return _load(loader, document, own, dict(state), snapshot_every, is_iterable)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError) as exc:
        if isinstance(exc, ResumeError):
            raise
        raise ResumeError(f"cannot read the state of the loader: it is damaged ({type(exc).__name__}: {exc})") from exc


def _load(
    loader: Loader,
    document: dict[str, Any],
    own: list[Any],
    state: dict[str, str],
    snapshot_every: int,
    is_iterable: bool,
) -> Loaded:
    difference = describe_difference(document["fingerprint"], own)
    if difference is not None:
        raise ResumeError(f"cannot resume: the state is that of another loader: {difference}")
    place, (rank, world) = (document["rank"], document["world"]), _rank_of(loader)
    if place != (rank, world) and (place[1] != world or not document["lockstep"]):
        raise ResumeError(
            f"cannot resume: the state is that of rank {place[0]} of {place[1]}, and this is rank {rank} of {world}; "
            "combine the states of all ranks with spdl.resume.gather()"
        )
    epoch = document["epoch"]
    check_states(document["random"], needs_global=epoch is not None)
    order = _order_of(loader, document)
    loaded = Loaded(state, document["random"], is_seeded=True, is_own=place == (rank, world) and order is None)
    if epoch is None:
        return _between(loader, document, loaded, is_iterable)
    loaded = loaded._replace(order=order, check=epoch["check"] if place == (rank, world) else None)
    return _within(loader, document, loaded, snapshot_every, is_iterable)


def _between(loader: Loader, document: dict[str, Any], loaded: Loaded, is_iterable: bool) -> Loaded:
    """With what was saved between two epochs."""
    shared = document["random"].get("global") if loaded.is_own else None  # earlier versions did not save it
    before = document.get("before") or {"sampler": None, "streams": []}
    starts = [StreamStart(_recorded_from_json(each, "the dataset"), is_between=True) for each in before["streams"]]
    _check_streams(loader, len(starts), is_iterable)
    return loaded._replace(
        sampler=_recorded_from_json(before["sampler"], "the sampler"),
        is_seeded=document.get("seeded", True) is True,
        shared=None if shared is None else from_text(shared),
        starts=tuple(starts),
    )


def _within(loader: Loader, document: dict[str, Any], loaded: Loaded, snapshot_every: int, is_iterable: bool) -> Loaded:
    """With what was saved within an epoch."""
    epoch = document["epoch"]
    now = document.get("now") or {"drawn": epoch["taken"]}  # earlier versions did not save it
    taken = [each["taken"] for each in epoch["streams"]]
    if not all(map(_is_number, [now["drawn"], epoch["taken"], epoch["turn"], *epoch["above"], *taken])):
        raise ValueError("a number is missing")
    if not all(each is None or _is_number(each) for each in (epoch["number"], epoch["check"])):
        raise ValueError("the number of the epoch, or a checksum, is none")
    if type(epoch["seeded"]) is not bool or not isinstance(epoch["streams"], list):
        raise ValueError("a value is of another kind")
    streams = [_stream_start(each) for each in epoch["streams"]]
    num_streams = _check_streams(loader, len(streams), is_iterable)
    discarded = sum(start.num_skipped for start in streams if start.recorded is None)
    return loaded._replace(
        progress=Progress(
            taken=epoch["taken"],
            first=epoch["taken"],
            above=set(epoch["above"]),
            starts=tuple(streams),
            turn=epoch["turn"] % num_streams,
            snapshot_every=snapshot_every,
        ),
        sampler=_recorded_from_json(epoch["sampler"], "the sampler"),
        epoch=epoch["number"],
        is_seeded=epoch["seeded"],
        num_discarded=discarded if is_iterable else 0,
        num_drawn=now["drawn"],
        shared=from_text(now["global"]) if loaded.is_own and "global" in now else None,
    )


def _check_streams(loader: Loader, num_saved: int, is_iterable: bool) -> int:
    """The number of streams of the loader.

    Raises:
        ResumeError: The state has another number of them.
    """
    num_streams = loader.num_workers if loader.num_workers > 0 and loader.workers != "thread" else 1
    if num_saved and num_saved != num_streams:
        raise ResumeError(
            f"cannot resume: the state has {num_saved} streams of "
            f"{'an iterable dataset' if is_iterable else 'a dataset with a state'}, one for each worker process, and "
            f"this loader has {num_streams}; make it with num_workers={num_saved} and the same kind of workers"
        )
    return num_streams


def _own_of(loader: Loader, gathered: dict[str, Any]) -> dict[str, Any]:
    """The document from which this rank resumes, made from those of all ranks."""
    # Imported late: needed only if the number of ranks changes.
    from spdl.resume._elastic import document_for

    rank, world = _rank_of(loader)
    states = gathered["states"]
    document = document_for(gathered, rank, world)
    if len(states) == world or document["kind"] != _KIND:
        return document
    base = next((each for each in states if each["epoch"] is not None), None)
    document |= {"rank": rank, "world": world}
    _, _, size, _ = document["fingerprint"][-1]
    if size is not None and loader.batch_size is not None:
        # Positions are divided, not batches: another number of ranks may use another batch size, for the same global
        # batch.
        document["fingerprint"][-1][2] = loader.batch_size
    if base is None:
        del document["sources"]
        return document
    if any(each["epoch"] is not None and each["epoch"]["streams"] for each in states):
        raise ResumeError(
            f"cannot load a state of {len(states)} ranks in a world of {world}: the dataset has a state, which cannot "
            "be divided. Load it in as many ranks as saved it"
        )
    dealt = document["sources"][0]["epochs"]
    if len(dealt) > 1:
        raise ResumeError(
            f"cannot load a state of {len(states)} ranks in a world of {world}: the ranks that saved were in epochs "
            f"{dealt[0]['epoch']} to {dealt[-1]['epoch']}. Take their states at the same step"
        )
    begun = {"number": dealt[0]["epoch"], "taken": 0, "above": [], "check": None, "sampler": None, "turn": 0}
    document["epoch"] = {**base["epoch"], **begun}
    document["random"] = base["random"]
    document.pop("now", None)
    return document


def source_of(loader: Loader) -> Any:
    """The sampler, if it knows the ranks and finds indices by global positions; else ``None``."""
    from torch.utils.data import BatchSampler

    sampler, batch_sampler = loader.sampler, loader.batch_sampler
    if batch_sampler is not None and (type(batch_sampler) is not BatchSampler or batch_sampler.sampler is not sampler):
        return None
    numbers = [getattr(sampler, name, None) for name in ("rank", "world_size", "num_global")]
    is_source = callable(getattr(sampler, "at_global", None)) and all(type(number) is int for number in numbers)
    return sampler if is_source else None


def _source_to_json(loader: Loader, begun: Begun | None, mark: Mark | None) -> dict[str, Any]:
    """The consumed positions of the sampler, in the format of a pipeline's document."""
    sampler = source_of(loader)
    order = None if begun is None else begun.order
    length = len(sampler) if order is None else len(order)
    size = 1 if loader.batch_sampler is None else loader.batch_size or 1
    number = epoch_of(loader) if begun is None else begun.epoch
    epoch: dict[str, Any] = {"epoch": number or 0, "high": 0, "holes": [], "parts": {}, "iterator": None}
    if mark is not None and mark.has_ended:
        epoch["high"] = length
    elif mark is not None:
        starts = sorted(mark.above)
        ends = [mark.taken, *(batch + 1 for batch in starts)]
        epoch["high"] = min(length, ends[-1] * size)
        epoch["holes"] = [
            [stop * size, start * size] for stop, start in zip(ends, starts, strict=False) if stop < start
        ]
    if order is not None:
        epoch["todo"] = order.to_json()
    found = {
        "kind": "indexed",
        "rank": sampler.rank,
        "world": sampler.world_size,
        "length": sampler.num_global,
        "lockstep": False,
        "epochs": [epoch],
        "ended": False,
    }
    return {**found, "drop_last": True} if getattr(sampler, "drop_last", False) is True else found


def _order_of(loader: Loader, document: dict[str, Any]) -> RangeChain | None:
    """The global positions to use, if they were distributed again."""
    (source,) = document.get("sources") or [None]
    todo = None if source is None else source["epochs"][0].get("todo")
    if todo is None:
        return None
    if source_of(loader) is None:
        raise ResumeError(
            f"cannot load a state of other ranks: {type(loader.sampler).__qualname__} does not find indices by their "
            "global position. Use spdl.source.DistributedKeyedSampler"
        )
    return RangeChain.from_json(todo)


def epoch_of(loader: Loader) -> int | None:
    """The number that a sampler was given by ``set_epoch``; ``None`` if there is no such sampler."""
    for sampler in _samplers_of(loader):
        epoch = int_or_none(getattr(sampler, "epoch", None))
        if epoch is not None and callable(getattr(sampler, "set_epoch", None)):
            return epoch
    return None


def _samplers_of(loader: Loader) -> tuple[Any, ...]:
    return loader.batch_sampler, loader.sampler, getattr(loader.batch_sampler, "sampler", None)


def _fingerprint(loader: Loader, is_iterable: bool) -> list[Any]:
    dataset, sampler, batch_sampler = loader.dataset, loader.sampler, loader.batch_sampler
    length = None
    if not is_iterable:
        with suppress(TypeError):
            length = len(dataset)
    order = [] if is_iterable else [["sampler", type(sampler).__qualname__]]
    batches = ["batches", type(batch_sampler).__qualname__, loader.batch_size, loader.drop_last]
    return [["dataset", type(dataset).__qualname__, length], *order, batches]


def _rank_of(loader: Loader) -> tuple[int, int]:
    """Rank and number of ranks of the sampler; 0 and 1 if it has none."""
    for sampler in _samplers_of(loader):
        rank = int_or_none(getattr(sampler, "rank", None))
        world = int_or_none(getattr(sampler, "num_replicas", getattr(sampler, "world_size", None)))
        if rank is not None and world is not None:
            return rank, world
    return 0, 1


def _stream_start(stream: dict[str, Any]) -> StreamStart:
    recorded, taken = _recorded_from_json(stream["recorded"], "the dataset"), stream["taken"]
    num_given = 0 if recorded is None else recorded.num_given
    if not 0 <= num_given <= taken:
        raise ValueError("a state is newer than its batches")
    return StreamStart(recorded, taken - num_given, taken)


def _recorded_to_json(recorded: Recorded | None) -> dict[str, Any] | None:
    if recorded is None:
        return None
    for state in (recorded.state, recorded.beside):
        if isinstance(state, StateError):
            raise ResumeError(f"there is no state of the loader: {state.text}")
    found = {"count": recorded.num_given, "where": recorded.where, "state": recorded.state, "ended": recorded.has_ended}
    return found if recorded.beside is None else {**found, "beside": recorded.beside}


def _is_number(value: Any) -> bool:
    """Whether a value is one that counts something: larger ones than these are of no loader."""
    return type(value) is int and 0 <= value <= sys.maxsize


def _recorded_from_json(value: dict[str, Any] | None, what: str) -> Recorded | None:
    if value is None:
        return None
    if not _is_number(value["count"]) or type(value["where"]) is not str or type(value["ended"]) is not bool:
        raise ValueError(f"the state of {what} is not where it was saved")
    beside = value.get("beside")
    for state in (value["state"], beside):
        if state is not None:
            unpack(state, what)  # raises if it is damaged
    return Recorded(value["count"], value["where"], value["state"], value["ended"], beside)
