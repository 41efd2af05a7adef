"""Origins: which source positions an item came from, and when a position is consumed.

An origin is one small value that travels with every item:

- ``int``: a position of the only source;
- ``SourcePosition``: a position of one of several merged sources;
- ``Part``: the k-th output of a call with several outputs (a generator, a sub-batch of a path);
- ``tuple``: the origins of all items in an aggregate.

``Ledger.release(origin)`` records that an item has left the pipeline: read by the consumer, dropped on purpose, or
failed. When no item that originates from a source position is left, the position is *consumed*. Items discarded by a
stop or a cancellation are never released, so their positions stay pending, as exact resume needs. The engine's lock
guards everything here.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

_INT_ONLY: Final = frozenset((int,))


class SourcePosition(NamedTuple):
    """The ``position``-th item of the ``source``-th source; used where a pipeline merges several."""

    source: int
    position: int


class Branch:
    """One call with several outputs. Counts the live ones; when the last is released, releases its parent."""

    __slots__ = ("batch", "done", "live", "num_outputs", "on_gone", "open", "parent", "parts")

    def __init__(self, parent: Origin, on_gone: Callable[[], None] | None = None) -> None:
        self.parent = parent
        self.live = 0
        self.num_outputs = 0
        self.open = True  # more outputs may come
        self.on_gone = on_gone  # called instead of releasing the parent
        self.batch: object = None  # batched path variants: the batch that the sub-batch belongs to
        # The next two are used by a ledger that tracks parts: see ``Ledger.track``.
        self.parts: set[int] | None = None  # numbers of the live outputs
        self.done: tuple[range, ...] = ()  # outputs that were consumed before the pipeline was resumed

    def output(self) -> Part:
        """Return the origin of the next output."""
        index = self.num_outputs
        self.num_outputs = index + 1
        self.live += 1
        if self.parts is not None:
            self.parts.add(index)
        return Part(self, index)

    def skip_if_done(self) -> bool:
        """Whether the next output was consumed before the pipeline was resumed. If so, it has been counted."""
        if not any(self.num_outputs in each for each in self.done):
            return False
        self.num_outputs += 1
        return True

    def done_parts(self) -> list[tuple[int, int]]:
        """Return the consumed outputs, as ``[start, stop)``: those made and not live, and those of earlier runs."""
        assert self.parts is not None
        made = self.num_outputs
        found: list[tuple[int, int]] = []
        start = 0
        for live in (*sorted(self.parts), made):
            if live > start:
                found.append((start, live))
            start = live + 1
        return found + [(max(each.start, made), each.stop) for each in self.done if each.stop > made]


class Part:
    """Origin of one output of a ``Branch``."""

    __slots__ = ("branch", "index")

    def __init__(self, branch: Branch, index: int) -> None:
        self.branch = branch
        self.index = index


Root: TypeAlias = "int | SourcePosition"
Origin: TypeAlias = "int | SourcePosition | Part | tuple[Origin, ...]"
#: A source, an index in it, and the number of the output at each call with several outputs on the way.
Path: TypeAlias = tuple[int, ...]


def path_of(origin: Origin) -> Path | None:
    """Return the path to an origin that one position leads to. ``None``: it has several, or is part of a batch."""
    numbers: list[int] = []
    while isinstance(origin, Part):
        if origin.branch.on_gone is not None:
            return None  # path variants remove such a part when they join the batch, before the consumer gets it
        numbers.append(origin.index)
        origin = origin.branch.parent
    if isinstance(origin, SourcePosition):
        return (origin.source, origin.position, *reversed(numbers))
    return (0, origin, *reversed(numbers)) if isinstance(origin, int) else None


class Ledger:
    """The positions of all sources of a pipeline, and, if tracked, which parts of a pending position are consumed."""

    __slots__ = ("branches", "pending", "rest", "sources", "tracks_epochs")

    def __init__(self, num_sources: int) -> None:
        self.sources = [Positions() for _ in range(num_sources)]
        self.pending = self.sources[0].pending  # an ``int`` origin belongs to the only source; kept here for speed
        self.branches: set[Branch] | None = None  # the live ones; ``None``: not tracked
        self.tracks_epochs = False
        self.rest: dict[Path, tuple[range, ...]] = {}  # parts done before the resume, of calls that have not begun

    def track(self) -> None:
        """Track, from now on, which outputs of a call are consumed, and which epoch a position is in."""
        self.branches = set()
        self.tracks_epochs = True

    def branch(self, parent: Origin) -> Branch:
        """Return a new branch at ``parent``, for a call that has several outputs."""
        branch = Branch(parent)
        if self.branches is not None:
            branch.parts = set()
            self.branches.add(branch)
            if self.rest and (path := path_of(parent)) is not None:
                branch.done = self.rest.pop(path, ())
        return branch

    def done_parts(self) -> dict[Path, list[tuple[int, int]]]:
        """Return the consumed parts of all pending positions, by the path of the call, as ``[start, stop)``."""
        found = {key: [(each.start, each.stop) for each in done] for key, done in self.rest.items()}
        for branch in self.branches or ():
            if (done := branch.done_parts()) and (path := path_of(branch.parent)) is not None:
                found[path] = done
        return {key: done for key, done in found.items() if key[1] in self.sources[key[0]].pending}

    def release(self, origin: Origin) -> None:
        """Release ``origin``. Iterative: origins may be nested as deeply as the pipeline is long."""
        pending = self.pending
        if type(origin) is int:
            pending.discard(origin)
            return
        if type(pending) is set and type(origin) is tuple and set(map(type, origin)) == _INT_ONLY:  # the usual batch
            pending.difference_update(origin)
            return
        rest: list[Origin] = []
        while True:
            if type(origin) is int:
                pending.discard(origin)
            elif isinstance(origin, Part):
                branch = origin.branch
                branch.live -= 1
                if branch.parts is not None:
                    branch.parts.discard(origin.index)
                if not branch.live and not branch.open:
                    if branch.parts is not None and self.branches is not None:
                        self.branches.discard(branch)
                    if branch.on_gone is None:
                        origin = branch.parent
                        continue
                    branch.on_gone()
            elif isinstance(origin, SourcePosition):
                self.sources[origin.source].consume(origin.position)
            else:
                assert isinstance(origin, tuple)
                rest.extend(reversed(origin))
            if not rest:
                return
            origin = rest.pop()

    def end_epoch(self) -> None:
        """Record that the consumer has read the end of an epoch, which ends for all sources."""
        for positions in self.sources:
            positions.end_epoch()

    def end_branch(self, branch: Branch) -> None:
        """Record that ``branch`` will have no more outputs."""
        branch.open = False
        if branch.live == 0:
            if branch.parts is not None and self.branches is not None:
                self.branches.discard(branch)
            if branch.on_gone is not None:
                branch.on_gone()
            else:
                self.release(branch.parent)


def roots_of(origin: Origin) -> tuple[Root, ...]:
    """Return the positions that an origin leads to, each once."""
    if type(origin) is int:
        return (origin,)
    found: dict[Root, None] = {}
    todo: list[Origin] = [origin]
    while todo:
        each = todo.pop()
        if isinstance(each, Part):
            todo.append(each.branch.parent)
        elif isinstance(each, int | SourcePosition):
            found[each] = None
        else:
            todo.extend(reversed(each))
    return tuple(found)


class _Around(NamedTuple):
    """Marks that the last ``num`` descriptions belong in one tuple."""

    num: int
    output: int | None  # number of the output; ``None``: an aggregate


def plain_origin(origin: Origin) -> object:
    """Return the origin as plain values: an index, ``(origin, k)``, or a tuple of origins."""
    if type(origin) is int:
        return origin
    todo: list[Origin | _Around] = [origin]
    done: list[object] = []
    while todo:
        each = todo.pop()
        if isinstance(each, _Around):
            inner = tuple(done[len(done) - each.num :])
            del done[len(done) - each.num :]
            done.append(inner if each.output is None else (*inner, each.output))
        elif isinstance(each, Part):
            todo += [_Around(1, each.index), each.branch.parent]
        elif isinstance(each, tuple) and not isinstance(each, SourcePosition):
            todo += [_Around(len(each), None), *reversed(each)]
        else:
            done.append(each)
    return done[0]


#: Maximum number of live epochs: more than the marks of epochs that fit into any pipeline.
_MOST_EPOCHS: Final = 100_000


class Positions:
    """The positions of one source: how many were issued, and which of them are not consumed.

    Holds only what is pending, so its size does not depend on the length of the run, even if one item is held back
    while millions pass by.
    """

    __slots__ = ("epoch", "next_index", "num_absent", "pending", "starts")

    def __init__(self) -> None:
        self.next_index = 0  # the index of the next item
        self.num_absent = 0  # number of indices below ``next_index`` that were not issued
        self.pending: set[int] = set()  # issued and not consumed
        self.epoch = 0  # number of the oldest live epoch
        self.starts: deque[int] = deque([0])  # the first index of each live epoch, oldest first; if tracked

    def consume(self, index: int) -> None:
        self.pending.discard(index)

    def is_consumed(self, index: int) -> bool:
        return index < self.next_index and index not in self.pending

    @property
    def num_issued(self) -> int:
        return self.next_index - self.num_absent

    @property
    def num_consumed(self) -> int:
        return self.num_issued - len(self.pending)

    @property
    def low(self) -> int:
        """The lowest index that may be pending: all below are consumed."""
        return min(self.pending, default=self.next_index)

    def jump(self, index: int) -> None:
        """Give the next item this index: positions in between were consumed before the pipeline was resumed."""
        self.num_absent += index - self.next_index
        self.next_index = index

    # -- epochs

    def begin_epoch(self) -> None:
        """Record that the source has ended a pass: items from now on belong to the next epoch."""
        self.starts.append(self.next_index)
        if len(self.starts) > _MOST_EPOCHS:  # a custom merge op does not pass their ends on
            low = self.low
            while len(self.starts) > 1 and self.starts[1] <= low:
                self.end_epoch()

    def end_epoch(self) -> None:
        """Record that the consumer has read the end of the oldest live epoch."""
        if len(self.starts) > 1:  # a custom merge op may end epochs that no source has ended
            self.starts.popleft()
            self.epoch += 1

    def place(self, index: int) -> tuple[int, int]:
        """Return the epoch of an index and its position in it. Only for live epochs."""
        number = bisect_right(self.starts, index) - 1
        # Of several epochs that begin with the same index, all but the last are empty.
        return self.epoch + number, index - self.starts[number]
