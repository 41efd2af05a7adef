"""Ops that take random numbers: ``pipe(rng=...)``.

When a call is claimed, its input is wrapped together with its place (``Placed``). So the place travels with the item
to wherever the op runs: a thread, an executor, another process. There ``SeededOp`` computes the seed and calls the op.
Stages without random numbers use neither and have no cost.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from spdl._random import ItemPosition, Rng, RngKey, StageSeeds
from spdl.pipeline._engine._places import Placed

from ._call import CallStage
from ._hooked import HookedGenerator, HookedOp, HookLog

if TYPE_CHECKING:
    from spdl.pipeline._engine._ticket import Ticket


class SeededStage(CallStage):
    """Base class of stages with random numbers."""

    def take(self, now: float) -> Ticket:
        ticket = super().take(now)
        if type(ticket.value) is not Placed:  # already wrapped if this is the next step of a generator
            ticket.value = Placed(ticket.value, self.engine.places.of(ticket.origin))
        return ticket


@lru_cache
def seeded(cls: type[CallStage]) -> type[CallStage]:
    """Return a subclass of ``cls`` whose stages have random numbers."""
    return type(f"Seeded{cls.__name__}", (SeededStage, cls), {"__doc__": f"``{cls.__name__}`` with random numbers."})


class SeededOp:
    """Calls the user's op with an item and its random numbers. Pickles if the op pickles.

    Each call makes a new ``Rng``, so another attempt gets the same numbers again.
    """

    __slots__ = ("op", "seeds")

    def __init__(self, op: Callable[..., Any], seeds: StageSeeds) -> None:
        self.op = op
        self.seeds = seeds

    def __call__(self, placed: Placed) -> Any:
        seeds, place = self.seeds, placed.place
        if type(place) is ItemPosition:
            seed = seeds.at(place.epoch, place.position, place.source)
        else:
            seed = seeds.of(place)
        return self.op(placed.item, rng=Rng(seed, RngKey(seeds.seed, seeds.stage, place)))


class SeededHookedOp:
    """``HookedOp`` for an op with random numbers: hooks get the item without its place."""

    def __init__(self, log: HookLog, hooks: list[Any], call: Callable[[Any], Any]) -> None:
        self.log = log
        self.hooks = hooks
        self.call = call

    async def __call__(self, placed: Placed) -> Any:
        return await HookedOp(self.log, self.hooks, lambda _: self.call(placed))(placed.item)


class SeededHookedGenerator:
    """``HookedGenerator`` for an op with random numbers: hooks get the item without its place."""

    def __init__(self, log: HookLog, hooks: list[Any], make: Callable[[Any], AsyncIterator[Any]]) -> None:
        self.log = log
        self.hooks = hooks
        self.make = make

    def __call__(self, placed: Placed) -> AsyncIterator[Any]:
        return HookedGenerator(self.log, self.hooks, lambda _: self.make(placed))(placed.item)
