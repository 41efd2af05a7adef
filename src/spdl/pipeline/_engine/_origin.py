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

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from ._positions import Positions

__all__ = ["Branch", "Ledger", "Origin", "Part", "SourcePosition", "describe"]


class SourcePosition(NamedTuple):
    """The ``position``-th item of the ``source``-th source; used where a pipeline merges several."""

    source: int
    position: int


class Branch:
    """One call with several outputs. Counts the live ones; when the last is released, releases its parent."""

    __slots__ = ("batch", "live", "num_outputs", "on_gone", "open", "parent")

    def __init__(self, parent: Origin, on_gone: Callable[[], None] | None = None) -> None:
        self.parent = parent
        self.live = 0
        self.num_outputs = 0
        self.open = True  # more outputs may come
        self.on_gone = on_gone  # called instead of releasing the parent
        self.batch: object = None  # batched path variants: the batch that the sub-batch belongs to

    def output(self) -> Part:
        """Return the origin of the next output."""
        part = Part(self, self.num_outputs)
        self.num_outputs += 1
        self.live += 1
        return part


class Part:
    """Origin of one output of a ``Branch``."""

    __slots__ = ("branch", "index")

    def __init__(self, branch: Branch, index: int) -> None:
        self.branch = branch
        self.index = index


Origin: TypeAlias = "int | SourcePosition | Part | tuple[Origin, ...]"


class Ledger:
    """The positions of all sources of a pipeline."""

    __slots__ = ("sources",)

    def __init__(self, num_sources: int) -> None:
        self.sources = [Positions() for _ in range(num_sources)]

    def release(self, origin: Origin) -> None:
        """Release ``origin``. Iterative: origins may be nested as deeply as the pipeline is long."""
        if type(origin) is int:
            self.sources[0].consume(origin)
            return
        rest: list[Origin] = []
        while True:
            if type(origin) is int:
                self.sources[0].consume(origin)
            elif isinstance(origin, Part):
                branch = origin.branch
                branch.live -= 1
                if not branch.live and not branch.open:
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
        """The consumer has read the end of an epoch, which is the same for all sources."""
        for positions in self.sources:
            positions.end_epoch()

    def end_branch(self, branch: Branch) -> None:
        """No more outputs will come from ``branch``."""
        branch.open = False
        if branch.live == 0:
            if branch.on_gone is not None:
                branch.on_gone()
            else:
                self.release(branch.parent)


class _Around(NamedTuple):
    """Marks that the last ``num`` descriptions belong in one tuple."""

    num: int
    output: int | None  # number of the output; ``None``: an aggregate


def describe(origin: Origin) -> object:
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
