"""The passes over one source: from the beginning, or continued by a resumed pipeline.

A pass that was begun in an earlier run has *holes*: positions that were issued and not consumed. They are issued again,
in ascending order; then come the positions from ``high`` on, which were never issued. How a position is found depends
on the kind of the source:

- ``indexed``: by ``source[position]``;
- ``stateful``: from the newest saved state at or before the first hole, skipping consumed items;
- ``iterable``: from the beginning, skipping consumed items.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Sequence
from itertools import chain
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from spdl._errors import PipelineError
from spdl._numbers import int_or_none
from spdl._random import ItemPlace, ItemPosition
from spdl._reports import name_of

from ._exclusion import Exclusion, Keys
from ._source_state import Snapshot, Snapshots, SourceState

if TYPE_CHECKING:
    from ._core import Core
    from ._counters import Counters
    from ._origin import Path, Positions
    from ._refill import Refill

SourceKind: TypeAlias = Literal["indexed", "stateful", "iterable"]

_EXHAUSTED: Final = object()
#: Maximum share of the time that is spent on saving states of the source.
_SNAPSHOT_SHARE: Final = 0.01


class Plan(NamedTuple):
    """A pass that was begun before the pipeline was resumed.

    ``order``: for a source of several ranks, the global positions that it issues, instead of its own.
    ``document``: the part of the state that describes it, unchanged.
    """

    epoch: int
    high: int
    holes: tuple[range, ...]
    parts: dict[Path, tuple[range, ...]]
    iterator: tuple[int, dict[str, Any]] | None
    order: Sequence[int] | None
    document: dict[str, Any]
    num_lost: int = 0  #: number of lost positions, for a source that refills


class CapturedSource(NamedTuple):
    """What a state needs to know about a source, copied under the lock."""

    pending: list[int]
    starts: list[int]
    next_index: int
    epoch: int
    entered: int | None
    plans: list[Plan]
    snapshots: list[Snapshot]
    lost: dict[int, int]  #: by epoch: number of lost positions, for a source that refills


class Passes:
    """Begins the passes over a source, on its thread or task. The engine's lock guards what is captured."""

    __slots__ = (
        "engine",
        "entered",
        "exclusion",
        "first_epoch",
        "first_of_all",
        "get_at",
        "given",
        "is_continuous",
        "is_iterator",
        "is_watched",
        "keys",
        "kind",
        "last_start",
        "limit",
        "next_epoch",
        "next_snapshot",
        "number",
        "plans",
        "rank",
        "refill",
        "replace",
        "rng_epoch",
        "set_epoch",
        "snapshots",
        "source",
        "state",
        "world",
    )

    def __init__(
        self, engine: Core, number: int, source: Any, *, is_continuous: bool, limit: int | None = None
    ) -> None:
        self.engine = engine
        self.number = number
        self.source = source
        self.is_continuous = is_continuous
        self.limit = limit  # number of passes, those before a resume included
        self.first_of_all = 0  # number of the first epoch of all runs
        self.is_iterator = hasattr(type(source), "__next__") or hasattr(type(source), "__anext__")
        self.last_start = 0  # the index at which the newest pass began
        self.kind: SourceKind = "iterable"
        self.is_watched = False  # whether to look for states of the source or its iterators, and save them
        self.state = SourceState(source)
        self.get_at: Callable[[int], Any] | None = None  # the item at a global position
        self.set_epoch: Callable[[int], Any] | None = None
        self.first_epoch = 0  # number of the first epoch, if the source does not number its epochs
        self.next_epoch = 0
        self.plans: dict[int, Plan] = {}  # by epoch
        self.entered: int | None = None  # the newest epoch that has begun
        self.snapshots = Snapshots()
        self.next_snapshot = 0.0
        if callable(getattr(type(source), "set_epoch", None)):
            self.set_epoch = source.set_epoch
        self.rank, self.world = rank_and_world(source)
        self.rng_epoch: int | None = None  # the epoch in places, if it is not the number of the epoch
        self.keys: Keys | None = None  # the values that the source gave; ``None``: not kept
        self.given: Sequence[ItemPlace] | None = None  # the places of the items, in a replay
        self.refill: Refill | None = None
        self.replace: Callable[[int], Any] | None = None  # the item of a spare, by its global position
        self.exclusion: Exclusion | None = None  # consumes excluded items instead of emitting them

        self.number_epochs()

    @property
    def positions(self) -> Positions:
        return self.engine.ledger.sources[self.number]

    def number_epochs(self) -> None:
        """Number the epochs from the source's epoch, if it has one. Called before the first pass."""
        epoch = getattr(self.source, "epoch", None) if self.set_epoch is not None else None
        number = int_or_none(epoch)
        self.next_epoch = self.positions.epoch = self.first_epoch if number is None else number
        self.first_of_all = self.next_epoch

    def resume(self, plans: list[Plan]) -> None:
        """Continue with these passes, and then with the next one. Under the lock, before the start."""
        self.engine.is_resumed = True
        self.plans = {plan.epoch: plan for plan in plans}
        self.next_epoch = self.positions.epoch = plans[0].epoch

    # -- beginning a pass

    def has_next(self) -> bool:
        """Return whether another pass follows. Raises ``PipelineError`` if the source is an iterator and exhausted."""
        if self.entered is None:
            if not self.plans:
                self.number_epochs()
        elif not self.is_continuous:
            return False
        else:
            self.check_gave_items()
        return self.limit is None or self.next_epoch < self.first_of_all + self.limit

    def check_gave_items(self) -> None:
        """Check that an iterator has begun anew: one that can be read only once gives nothing in its second pass."""
        if self.is_iterator and 0 < self.positions.next_index == self.last_start:
            raise PipelineError(
                f"the continuous source {name_of(self.source)} gave no item in epoch {self.entered}: it is an "
                "iterator, and can be iterated only once. Give an object that makes a new iterator for each iter()"
            )

    def begin(self) -> Iterator[Any]:
        """Return the iterator of the next pass. Not under the lock: runs user code."""
        iterator = self.begin_unkept()
        if self.exclusion is not None:
            iterator = self.exclusion.seen(iterator)
        return iterator if self.keys is None else self.keys.seen(iterator)

    def begin_unkept(self) -> Iterator[Any]:
        plan, start = self.enter()
        if self.refill is not None:
            return self.refilled(plan, start, self.refill)
        if plan is None:
            iterator = self.open(None)
            return iterator if self.state.owner is None else self.watched(iterator, start, 0)
        if self.kind == "indexed":
            return chain.from_iterable(self.indexed(plan, start))
        return self.replayed(plan, start)

    def refilled(self, plan: Plan | None, start: int, refill: Refill) -> Generator[Any, None, None]:
        """Yield the items of a pass, and then one spare for each lost item."""
        yield from iter(self.source) if plan is None else chain.from_iterable(self.indexed(plan, start))
        assert self.replace is not None
        positions = self.positions
        while refill.await_spare(positions.next_index - start):
            yield self.replace(self.global_position(positions.next_index - start, plan))

    def begin_async(self) -> AsyncIterator[Any]:
        """Same as ``begin``, for an async source."""
        plan, start = self.enter()
        iterator: AsyncIterator[Any] = aiter(self.source)
        if plan is not None:
            iterator = self.replayed_async(iterator, plan, start)
        if self.exclusion is not None:
            iterator = self.exclusion.seen_async(iterator)
        return iterator if self.keys is None else self.keys.seen_async(iterator)

    def enter(self) -> tuple[Plan | None, int]:
        """Record that the next pass begins, and pass its epoch to the source."""
        self.last_start = self.positions.next_index
        if self.entered is None and not self.plans:
            self.number_epochs()
        epoch = self.next_epoch
        plan = self.plans.get(epoch)
        if self.set_epoch is not None and (self.is_continuous or plan is not None):
            self.set_epoch(epoch)
        planned = 0 if self.refill is None else self.size_of(plan)
        with self.engine.lock:
            positions, ledger = self.positions, self.engine.ledger
            if self.refill is not None:
                self.refill.begin(epoch, positions.epoch, planned, 0 if plan is None else plan.num_lost)
            start = positions.starts[-1]
            self.next_epoch += 1
            self.entered = epoch
            for old in [number for number in self.plans if number < positions.epoch]:
                del self.plans[old]
            if plan is not None:
                positions.pending.update(start + position for hole in plan.holes for position in hole)
                for (position, *rest), done in plan.parts.items():
                    ledger.rest[(self.number, start + position, *rest)] = done
        return plan, start

    def jump(self, index: int) -> None:
        """Give the next item this index."""
        with self.engine.lock:
            self.positions.jump(index)

    def open(self, state: dict[str, Any] | None, *, is_start: bool = False) -> Iterator[Any]:
        """Iterate the source, from its saved state if there is one.

        ``is_start``: it is from before the first item, as the pass before has left it.
        """
        if not self.is_watched:
            return iter(self.source)
        iterator = self.state.open(state, is_start=is_start, is_iterator=self.is_iterator)
        if self.state.owner is not None:
            self.kind = "stateful"
        return iterator

    def indexed(self, plan: Plan, start: int) -> Iterator[Iterator[Any]]:
        """Yield iterators over the items of a pass. The caller exhausts each before it takes the next."""
        source, order = self.source, plan.order
        size = self.size_of(plan)
        self.check_size(plan, size + plan.num_lost)

        def spare(position: int) -> Any:
            assert self.replace is not None
            return self.replace(self.global_position(position, plan))

        def items(positions: range) -> Iterator[Any]:
            if positions.stop > size:
                own, spares = range(positions.start, size), range(max(positions.start, size), positions.stop)
                return chain(items(own), map(spare, spares))
            if order is None:
                return map(source.__getitem__, positions)
            assert self.get_at is not None
            return map(self.get_at, map(order.__getitem__, positions))

        for hole in plan.holes:
            self.jump(start + hole.start)
            yield items(hole)
        self.jump(start + plan.high)
        iterate_from = getattr(source, "iterate_from", None)
        # Samplers compute many items at once. There may be a billion items left, so this matters.
        yield iterate_from(plan.high) if order is None and iterate_from else items(range(plan.high, size))

    def size_of(self, plan: Plan | None) -> int:
        """Return the number of items of a pass over an indexed source, without spares."""
        order = None if plan is None else plan.order
        return len(self.source) if order is None else len(order)

    def check_size(self, plan: Plan, size: int) -> None:
        if size < plan.high:
            raise PipelineError(
                f"cannot resume: source {name_of(self.source)} has {size} items in epoch {plan.epoch}, and "
                f"{plan.high} had been read when the state was saved; give it the data that it had then"
            )

    def replayed(self, plan: Plan, start: int) -> Generator[Any, None, None]:
        """Iterate from a saved state or the beginning, and skip consumed items."""
        position, state = (0, None) if plan.iterator is None else plan.iterator
        iterator = self.open(state, is_start=position == 0)
        try:
            for wanted in (*plan.holes, range(plan.high, sys.maxsize)):
                while position < wanted.start:
                    if next(iterator, _EXHAUSTED) is _EXHAUSTED:
                        self.check_size(plan, position)
                    position += 1
                self.jump(start + position)
                if wanted.start == plan.high:
                    loaded = state if plan.iterator is not None and plan.iterator[0] == position else None
                    yield from iterator if self.state.owner is None else self.watched(iterator, start, position, loaded)
                    return
                for position in wanted:
                    value = next(iterator, _EXHAUSTED)
                    if value is _EXHAUSTED:
                        self.check_size(plan, position)
                    yield value
                    value = None
                    if self.state.owner is not None:
                        self.watch(start + position + 1)
                position = wanted.stop
        finally:
            if (close := getattr(iterator, "close", None)) is not None:
                close()
            self.state.leave()

    async def replayed_async(self, iterator: AsyncIterator[Any], plan: Plan, start: int) -> AsyncIterator[Any]:
        position = 0
        holes = list(plan.holes)
        try:
            async for value in iterator:
                if position >= plan.high or (holes and position >= holes[0].start):
                    if position == plan.high or (holes and position == holes[0].start):
                        self.jump(start + position)
                    yield value
                    if holes and position == holes[0].stop - 1:
                        del holes[0]
                position += 1
            self.check_size(plan, position)
            if position == plan.high:
                self.jump(start + position)
        finally:
            if (aclose := getattr(iterator, "aclose", None)) is not None:
                await aclose()

    # -- processing of each item, and places

    def exclude(self, excludes: Callable[[Any], bool], counters: Counters) -> None:
        """Consume items for which ``excludes`` returns true, instead of emitting them. Call before the start."""
        self.exclusion = Exclusion(self.engine, self.number, excludes, counters)

    def keep_keys(self) -> None:
        """Keep the keys (values that are numbers or texts) of pending items. Call before the start."""
        self.keys = Keys(self.engine, self.number)

    def place(self, index: int) -> ItemPlace:
        """Return the place of a pending index. Under the lock."""
        if self.given is not None:
            return self.given[index]
        epoch, position = self.positions.place(index)
        position = self.global_position(position, self.plans.get(epoch) if self.plans else None)
        if self.rng_epoch is not None:
            epoch = self.rng_epoch
        return ItemPosition(epoch, position, self.number, None if self.keys is None else self.keys.of.get(index))

    def global_position(self, position: int, plan: Plan | None) -> int:
        """Return the position in the order of all ranks. Positions of spares follow all others."""
        order = None if plan is None else plan.order
        if self.refill is not None:
            num_own = self.refill.planned if order is None else len(order)
            if position >= num_own:
                return self.refill.num_global + self.rank + self.world * (position - num_own)
        return self.rank + self.world * position if order is None else order[position]

    def places_of(self, origins: tuple[Any, ...]) -> tuple[int, list[int]] | None:
        """Return the epoch and the global positions of pending indices. Under the lock.

        ``None``: they cannot be computed this simply, for example because several epochs are live.
        """
        if len(self.positions.starts) != 1 or self.plans or self.refill is not None or set(map(type, origins)) != {int}:
            return None
        epoch = self.positions.epoch if self.rng_epoch is None else self.rng_epoch
        start = self.positions.starts[0]
        if self.world == 1:
            return epoch, [index - start for index in origins] if start else list(origins)
        return epoch, [self.rank + self.world * (index - start) for index in origins]

    # -- states of the source

    def watched(
        self, iterator: Iterator[Any], start: int, position: int, loaded: dict[str, Any] | None = None
    ) -> Generator[Any, None, None]:
        """Yield the rest of a pass, and save states on the way.

        ``loaded``: the state that it begins from. A generator has nothing of it yet, and so has its source.
        """
        index = start + position
        # With ``set_epoch`` a new pass needs no state, and some sources still have the state of the old pass's end.
        may_be_old = self.set_epoch is not None and self.state.is_of_source
        try:
            if not may_be_old:
                self.save_state(index, loaded)
            for value in iterator:
                yield value
                index += 1
                self.watch(index)
            if not may_be_old and self.state.is_of_source:
                self.save_state(index, is_end=True)
        finally:
            if (close := getattr(iterator, "close", None)) is not None:
                close()

    def watch(self, index: int) -> None:
        if perf_counter() >= self.next_snapshot:
            self.save_state(index)

    def save_state(self, index: int, state: dict[str, Any] | None = None, *, is_end: bool = False) -> None:
        """Save the state of the source before the item with this index, and drop those that are no longer needed."""
        began = perf_counter()
        if state is None:
            state = self.state.pack(is_end=is_end)
        now = perf_counter()
        self.next_snapshot = now + (now - began) / _SNAPSHOT_SHARE
        with self.engine.lock:
            # ``next_epoch`` is the epoch of the next pass; the current pass has begun.
            self.snapshots.add(Snapshot(self.next_epoch - (not is_end), index, state), self.positions)

    # -- under the lock

    def capture(self) -> CapturedSource:
        positions = self.positions
        return CapturedSource(
            list(positions.pending),
            list(positions.starts),
            positions.next_index,
            positions.epoch,
            self.entered,
            list(self.plans.values()),
            list(self.snapshots.saved),
            {} if self.refill is None else dict(self.refill.lost),
        )

    def forget(self) -> None:
        self.source = self.get_at = self.set_epoch = self.exclusion = None
        self.state.forget()


def rank_and_world(source: object) -> tuple[int, int]:
    """Return the rank of a source and the number of ranks; 0 and 1 if it knows of none."""
    # ``num_replicas``: as torch's ``DistributedSampler`` has it.
    rank = int_or_none(getattr(source, "rank", 0))
    world = int_or_none(getattr(source, "world_size", getattr(source, "num_replicas", 1)))
    if rank is None or world is None or not 0 <= rank < world:
        return 0, 1
    return rank, world
