"""``Progress``: which batches of an epoch the consumer has taken.

An epoch is a sequence of numbered batches. For a map-style dataset they are the index batches of the sampler; for an
iterable dataset each *stream*, that is one pass over the dataset, numbers its own: there is one stream for each worker
process, and one in all for threads and for no workers.

Workers prefetch, so samplers and datasets are ahead of the consumer. Their states are therefore recorded with the
number of batches that they had given by then (``Recorded``), and the newest one at or before the consumer is used.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol

from spdl._reports import text_of
from spdl.resume._values import Residue, ResumeError, is_stateful, pack, unpack


class StateError(NamedTuple):
    """Takes the place of a state if the user's ``state_dict()`` raised an exception."""

    text: str


class Recorded(NamedTuple):
    """A state of the user's sampler or dataset.

    Attributes:
        num_given: Number of batches yielded when the state was recorded.
        where: The object that the state belongs to: ``"iterator"``, or the name of the object that is iterated.
            ``"before"``: it is the state of this object after the previous pass.
        state: A packed copy of the result of its ``state_dict()``, or a ``StateError``.
        has_ended: Whether the iterator had ended at that time.
        beside: With ``"iterator"``: the state of the object that is iterated, if it has one too.
    """

    num_given: int
    where: str
    state: Any
    has_ended: bool = False
    beside: Any = None


class Before(NamedTuple):
    """States after an epoch, from which the next one begins: of the sampler, and of the dataset of each stream."""

    sampler: Recorded | None = None
    streams: tuple[Recorded | None, ...] = ()


class Snapshots:
    """Recorded states, oldest first. States that are no longer needed are dropped."""

    __slots__ = ("_recorded",)

    def __init__(self, first: Recorded | None = None) -> None:
        self._recorded: deque[Recorded] = deque()
        if first is not None:
            self._recorded.append(first)

    def add(self, recorded: Recorded) -> None:
        self._recorded.append(recorded)

    def put_first(self, recorded: Recorded) -> None:
        """Replace the state before all batches."""
        if self._recorded and self._recorded[0].num_given == 0:
            self._recorded.popleft()
        self._recorded.appendleft(recorded)

    def newest(self, taken: int) -> Recorded | None:
        """The newest state recorded after at most ``taken`` batches. Older ones are dropped."""
        recorded = self._recorded
        while len(recorded) > 1 and recorded[1].num_given <= taken:
            recorded.popleft()
        return recorded[0] if recorded and recorded[0].num_given <= taken else None


@dataclass(slots=True)
class StreamStart:
    """Where a stream begins.

    Attributes:
        recorded: State to load first; ``None``: the dataset begins at its start.
        num_skipped: Number of batches to skip after that.
        taken: Total number of batches taken from this stream.
        is_between: Whether the state was saved between two epochs, before the draws of the next one.
    """

    recorded: Recorded | None = None
    num_skipped: int = 0
    taken: int = 0
    is_between: bool = False


class StreamMark(NamedTuple):
    """The position in a stream: the number of its batches taken, and a state at or before that."""

    taken: int
    recorded: Recorded | None


class Followed(Protocol):
    """A pass over a dataset in this process."""

    first: Recorded | None  #: state before its first batch
    residue: Residue | None  #: what loading has left in the dataset
    has_set_generator: bool  #: whether loading has set torch's global generator


class Mark(NamedTuple):
    """The position in an epoch at some moment. Immutable, and cheap to make.

    Attributes:
        taken: All batches with lower numbers were taken.
        above: Numbers of other batches that were taken, in completion order.
        last: Index batch number ``taken - 1``; ``None``: not known.
        sampler: State of the sampler.
        streams: Positions in the streams of a dataset that is iterable or has a state.
        turn: Number of the worker that returns the next batch.
        has_ended: Whether the consumer has received the end of the epoch.
    """

    taken: int
    above: frozenset[int]
    last: Any
    sampler: Recorded | None
    streams: tuple[StreamMark, ...]
    turn: int
    has_ended: bool


class _Stream:
    __slots__ = ("end", "snapshots", "taken")

    def __init__(self, start: StreamStart, before: Recorded | None) -> None:
        self.taken = start.taken
        self.snapshots = Snapshots(start.recorded or before)
        self.end: Recorded | None = None  # after the pass

    def mark(self) -> StreamMark:
        return StreamMark(self.taken, self.snapshots.newest(self.taken))


@dataclass(eq=False, slots=True)
class Progress:
    """The position in one epoch. Used in the thread that takes the batches.

    Workers count batches from 0, from where the epoch was resumed; all numbers here count from the start of the epoch.

    Attributes:
        taken: All batches with lower numbers were taken.
        above: Numbers of other batches that were taken.
        skipped: Those of ``above`` that were taken before the epoch was resumed: workers do not load them.
        first: Number of the workers' batch 0, without ``skipped``.
        starts: Where each stream begins, if the epoch was resumed.
        turn: Number of the worker that returns the next batch.
        snapshot_every: Number of batches after which a state is recorded.
        has_ended: Whether the consumer has received the end of the epoch.
        committed: The user's position, if other code prefetches for the user; ``None``: the position of this object.
        before: States after the previous epoch, in this process.
        residues: What loading has left in the sampler or the dataset, to be removed after the epoch.
        opening: Set once the only stream has begun, or never will, if another thread begins it; ``None``: none does.
        has_set_generator: Whether loading the state of the only stream has set torch's global generator.
    """

    taken: int = 0
    above: set[int] = field(default_factory=set)
    skipped: tuple[int, ...] = ()
    first: int = 0
    starts: tuple[StreamStart, ...] = ()
    turn: int = 0
    snapshot_every: int = 1
    has_ended: bool = False
    committed: Mark | None = None
    before: Before | None = None
    residues: list[Residue] = field(default_factory=list)
    opening: threading.Event | None = None
    has_set_generator: bool = False
    _sampler_end: Recorded | None = None
    _drawn: deque[tuple[int, Any]] = field(default_factory=deque)
    _sampler: Snapshots = field(default_factory=Snapshots)
    _streams: list[_Stream] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.skipped = tuple(sorted(self.above))

    def copy(self) -> Progress:
        """Return the progress of an epoch that begins at the same place."""
        return Progress(
            taken=self.taken,
            above=set(self.above),
            first=self.first,
            starts=self.starts,
            turn=self.turn,
            snapshot_every=self.snapshot_every,
        )

    def number_of(self, position: int) -> int:
        """The number of the workers' batch ``position``."""
        number = self.first + position
        for skipped in self.skipped:
            if skipped <= number:
                number += 1
        return number

    def take(self, position: int) -> None:
        """Record that the consumer has taken the workers' batch ``position``, or the exception raised instead."""
        number = self.number_of(position) if self.skipped else self.first + position
        if number != self.taken:
            self.above.add(number)
            return
        number += 1
        while self.above and number in self.above:
            self.above.remove(number)
            number += 1
        self.taken = number
        drawn = self._drawn
        while len(drawn) > 1 and drawn[1][0] < number:
            drawn.popleft()

    def note_drawn(self, number: int, indices: Any) -> None:
        """Record that the sampler has yielded index batch ``number``."""
        self._drawn.append((number, indices))

    @property
    def num_drawn(self) -> int:
        """Number of index batches that were drawn, with those taken before the epoch was resumed."""
        return self._drawn[-1][0] + 1 if self._drawn else self.first

    def note_sampler(self, recorded: Recorded) -> None:
        """Record a state of the sampler."""
        self._sampler.newest(self.taken)
        self._sampler.add(recorded)

    def open_streams(self, count: int) -> None:
        """Begin to count the batches of ``count`` streams."""
        starts = self.starts or (StreamStart(),) * count
        before = () if self.before is None else self.before.streams
        before = before if len(before) == count else (None,) * count
        self._streams = [_Stream(*each) for each in zip(starts, before, strict=True)]

    def start_of(self, stream: int) -> StreamStart:
        """Where a stream begins."""
        return self.starts[stream] if self.starts else StreamStart()

    def take_from(self, stream: int, recorded: Recorded | None = None, *, taken: int | None = None) -> None:
        """Record that a batch of a stream was taken, and the state that came with it.

        Args:
            stream: Its number.
            recorded: State of the dataset just after this batch.
            taken: All batches of the stream below this were taken; ``None``: one more than before.
        """
        this = self._streams[stream]
        this.taken = this.taken + 1 if taken is None else taken
        if recorded is not None:
            this.snapshots.newest(this.taken)
            this.snapshots.add(recorded)

    def follow(self, stream: Followed) -> None:
        """Note how the only pass has begun, which is in this process."""
        if stream.first is not None:
            self._streams[0].snapshots.put_first(stream.first)
        if stream.residue is not None:
            self.residues.append(stream.residue)
        self.has_set_generator = stream.has_set_generator

    def note_end(self, stream: int, recorded: Recorded | None) -> None:
        """Record the state of the dataset after the pass of a stream."""
        self._streams[stream].end = recorded

    def note_last(self) -> None:
        """Record that the newest states of the streams are those after their passes."""
        for stream in self._streams:
            newest = stream.snapshots.newest(stream.taken)
            stream.end = None if newest is None else newest._replace(num_given=0, where="before")

    def note_sampler_end(self, recorded: Recorded | None) -> None:
        """Record the state of the sampler after its pass."""
        self._sampler_end = recorded

    def after(self) -> Before:
        """The states after the epoch, if the consumer has received its end."""
        if not self.has_ended:
            return Before()
        return Before(self._sampler_end, tuple([stream.end for stream in self._streams]))

    def leave(self) -> None:
        """Remove what loading has left. Called before the next epoch begins, however this one has ended."""
        residues, self.residues = self.residues, []
        for residue in residues:
            residue.clear()

    def mark(self) -> Mark:
        """Return the current position in the epoch."""
        if self.opening is not None:
            self.opening.wait()
        drawn = self._drawn
        return Mark(
            self.taken,
            frozenset(self.above),
            drawn[0][1] if drawn and drawn[0][0] == self.taken - 1 else None,
            self._sampler.newest(self.taken),
            tuple([stream.mark() for stream in self._streams]),
            self.turn,
            self.has_ended,
        )


_END: Final = object()


class Stater:
    """Records the state of an object that is iterated, of its iterator, or of both.

    Args:
        where: Which of the two ``of`` is: ``"iterator"``, or a name of the object.
        of: The one whose state is loaded last.
        beside: The object, if both have a state.
    """

    __slots__ = ("_beside", "_of", "where")

    def __init__(self, where: str, of: Any, beside: Any = None) -> None:
        self.where = where
        self._of = of
        self._beside = beside

    @classmethod
    def find(cls, iterator: Any, **iterated: Any) -> Stater | None:
        """Make one for those of the two that have a state; ``None`` if neither has. The object is passed by name."""
        ((where, of),) = iterated.items()
        if not is_stateful(iterator):
            return cls(where, of) if is_stateful(of) else None
        return cls("iterator", iterator, of if of is not iterator and is_stateful(of) else None)

    def record(self, count: int, *, has_ended: bool = False) -> Recorded:
        """Record the state after ``count`` batches, or the exception instead of it, so that loading continues."""
        beside = None if self._beside is None else _record(self._beside)
        return Recorded(count, self.where, _record(self._of), has_ended, beside)


def _record(what: Any) -> dict[str, Any] | StateError:
    try:
        return pack(what.state_dict())
    except Exception as exc:  # noqa: BLE001 - the user's; raised when the loader's state is requested
        return StateError(f"{type(what).__qualname__}.state_dict() raised {type(exc).__qualname__}: {text_of(exc)}")


def end_of(what: Any) -> Recorded | None:
    """Record the state of an object after a pass, for the next one; ``None`` if it has no state."""
    return Recorded(0, "before", _record(what)) if is_stateful(what) else None


def start_of(what: Any) -> Recorded | None:
    """Same as ``end_of``, before a pass; ``None`` also if there is no state before the first pass."""
    recorded = end_of(what)
    return None if recorded is None or isinstance(recorded.state, StateError) else recorded


def load_state(what: Any, state: Any, name: str) -> None:
    """Load a packed state into the object that it was recorded from.

    Raises:
        ResumeError: The object has no ``load_state_dict``, or the call failed.
    """
    if not is_stateful(what):
        raise ResumeError(
            f"cannot resume: the state has one of {name}, and {type(what).__qualname__} has no load_state_dict()"
        )
    try:
        what.load_state_dict(unpack(state, name))
    except Exception as exc:
        what_failed = f"{type(what).__qualname__}.load_state_dict() raised {type(exc).__qualname__}"
        raise ResumeError(f"cannot resume: {what_failed}: {text_of(exc)}") from exc


def load_passing(what: Any, state: Any, name: str) -> Residue:
    """Load the state of a pass. What must not stay for later passes is returned.

    Raises:
        ResumeError: As for ``load_state``.
    """
    residue = Residue(what)
    load_state(what, state, name)
    residue.note_loaded()
    return residue


def finish(what: Any, state: Any, name: str) -> None:
    """Load the state after a pass, so that the next ``iter()`` begins the pass that follows it.

    Nothing is loaded into an object that has this state, such as a new one before its first pass. If the state makes
    the next pass start at its end, this pass is gone through first. If the object had already been set back, it is as
    it should be.

    Raises:
        ResumeError: The object has no state, or it raised an exception.
    """
    if (current := start_of(what)) is not None and current.state == state:
        return
    residue = load_passing(what, state, name)
    try:
        iterator = iter(what)
        is_over = next(iterator, _END) is _END
        if callable(close := getattr(iterator, "close", None)):
            close()
    except Exception as exc:
        what_failed = f"{type(what).__qualname__} raised {type(exc).__qualname__} at the end of a pass"
        raise ResumeError(f"cannot resume: {what_failed}: {text_of(exc)}") from exc
    if not is_over:
        load_state(what, state, name)
    residue.clear()
