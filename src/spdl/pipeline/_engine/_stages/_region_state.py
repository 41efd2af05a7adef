"""What a region's stage knows of its workers, and what it sends to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from spdl.pipeline._engine._failures import short_repr

if TYPE_CHECKING:
    from spdl.pipeline._engine._origin import Branch, Origin
    from spdl.pipeline._engine._region_workers import StageCounts, Then

__all__ = ["Held", "Order", "WorkerState"]

#: Types whose values are kept to name an item held by a dead worker. Of others, only the type: they may be large.
_NAMED: Final = (bool, int, float, str)


class Held:
    """An item sent to a worker and not yet accounted for."""

    __slots__ = ("branch", "name", "origin")

    def __init__(self, value: Any, origin: Origin) -> None:
        self.origin = origin
        self.branch: Branch | None = None  # has had outputs and may have more
        self.name: Any = value if type(value) in _NAMED else type(value)

    def describe(self) -> str:
        return f"<{self.name.__name__} object>" if isinstance(self.name, type) else short_repr(self.name)


class WorkerState:
    """The state of one worker process. A replacement gets a new object."""

    __slots__ = (
        "busy",
        "ended",
        "generation",
        "held",
        "is_away",
        "num_calls",
        "num_credits",
        "num_dropped",
        "num_inward",
        "num_lost",
        "num_outward",
        "num_substituted",
        "stages",
    )

    def __init__(self, generation: int) -> None:
        self.generation = generation  # number of replacements
        self.held: dict[int, Held] = {}
        self.num_inward = 0  # transfers sent and not yet read by it
        self.num_outward = 0  # transfers received and waiting for room
        self.num_credits = 0  # transfers emitted but not yet acknowledged
        self.is_away = False  # dead, or a replacement that is still starting: gets no items
        self.ended = False
        self.num_dropped = 0
        self.num_calls = 0
        self.num_substituted = 0
        self.num_lost = 0
        self.stages: tuple[StageCounts, ...] = ()
        self.busy = 0.0


class Order(NamedTuple):
    """A message to one worker."""

    worker: int
    generation: int
    transfer: list[tuple[int, Any]]
    num_credits: int
    then: Then
