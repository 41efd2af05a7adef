"""A benchmark of cases and peers, described; ``running.run`` carries it out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .columns import Column, Spread
from .environments import CHECKOUT, Environment
from .figures import Figure
from .result import Result

__all__ = ["Case", "Contest", "MoreRounds", "OutputMismatch", "Outputs", "Peer", "Required", "is_same"]

#: The outputs of a peer for a case, by name, so that two peers can be compared.
Outputs = Mapping[str, NDArray[Any]]


class OutputMismatch(RuntimeError):
    """A peer does not do the work of the case, so its time is meaningless."""


def is_same(ours: Outputs, theirs: Outputs) -> str | None:
    """A description of the difference; ``None`` if every array has the same name, shape and values."""
    if list(ours) != list(theirs):
        return f"it has {list(theirs)[:5]}…, SPDL has {list(ours)[:5]}…"
    for name, array in ours.items():
        other = theirs[name]
        if array.shape != other.shape or not np.array_equal(array, other):
            return f"{name} is {other.shape} of {other.dtype}, SPDL's {array.shape} of {array.dtype}, or values differ"
    return None


@dataclass(frozen=True, slots=True)
class Case:
    """One row of the table, or one table.

    Attributes:
        name: The name in ``--cases`` and for adapters.
        title: The name for readers.
        data: The inputs (paths and sizes) for the sessions, as JSON; a function that makes them if that takes time. It
            is called only if the case is measured.
        about: What the result file says of the case besides its name and title.
        num_threads: The number of threads that do the work at once, each all of it on its own input. Costs are then
            for the work of one thread: wall time divided by ``num_threads``.
        per: The number of units in a call (members, frames, seconds of audio); costs are per unit.
        differ: A function that describes how an output differs from that of ``Contest.standard``, or returns ``None``.
        check: A function that describes what is wrong with an output that is known in advance, or returns ``None``.
        likeness: A function of a peer's name, the outputs of ``Contest.standard`` and the peer's, for outputs that are
            only similar: the PSNR in dB, which is stored. ``None`` if the two are not compared. It raises
            ``OutputMismatch`` if they differ too much. It replaces ``differ``.
        peers: The peers that may take part; ``None`` for all.
        cost: The number by which peers are compared.
        columns: The columns of a table with a row per peer; ``None`` if the case is a row of the table of all cases.
        rounds: The number of rounds, if it is not that of the contest.
        is_alone: Whether each turn has a process of its own, while no process of another peer exists.
        is_quick: Whether a trial run measures it even if it is not named in ``--cases``.
    """

    name: str
    title: str
    data: Mapping[str, Any] | Callable[[], Mapping[str, Any]] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)
    num_threads: int = 1
    per: int = 1
    differ: Callable[[Outputs, Outputs], str | None] = is_same
    check: Callable[[Outputs], str | None] | None = None
    likeness: Callable[[str, Outputs, Outputs], float | None] | None = None
    peers: Sequence[str] | None = None
    cost: str = "wall_us"
    columns: Sequence[Column] | None = None
    rounds: int | None = None
    is_alone: bool = False
    is_quick: bool = True

    def inputs(self) -> dict[str, Any]:
        """``data``, made if necessary."""
        return dict(self.data() if callable(self.data) else self.data)


@dataclass(frozen=True, slots=True)
class Peer:
    """One contestant.

    Attributes:
        name: The name in ``--peers``.
        adapter: The module that does the work, importable from the repository.
        environment: The environment in which it runs.
        settings: What distinguishes it from other peers with the same adapter, as JSON.
    """

    name: str
    adapter: str
    environment: Environment = CHECKOUT
    settings: Mapping[str, Any] = field(default_factory=dict)


class Required(Protocol):
    """A requirement."""

    def cases(self) -> Sequence[str]:
        """The cases that it needs. It does not apply to a run in which none of them was chosen."""

    def measured(self, result: Result) -> Figure:
        """The requirement compared with what was measured."""


@dataclass(frozen=True, slots=True)
class MoreRounds:
    """Additional rounds for a case whose turns differ.

    Attributes:
        most: The maximum number of rounds.
        is_unsure: Whether the measurements of a peer differ too much.
        seconds: The seconds since the start of the run after which no case gets more rounds.
    """

    most: int
    is_unsure: Callable[[Mapping[str, Sequence[float]]], bool]
    seconds: float


@dataclass(frozen=True, slots=True)
class Contest:
    """A benchmark.

    Attributes:
        name: Its folder in ``benchmarks``.
        question: The question that it answers.
        ours: The name of the peer that is SPDL. It always takes part.
        unit: The unit of a cost, for the head of the table.
        make_cases: A function that returns the cases, given a folder that is kept, for inputs. Its second argument is
            true if small inputs are enough.
        standard: The name of the peer whose outputs the others must have; by default that of ``ours``. It always takes
            part.
        sessions: The module whose ``open`` makes the sessions (see ``session``).
        rounds: The number of turns of each peer in each case.
        warm_up: The number of rounds before these, which are discarded; none in a trial run.
        more_rounds: When a case gets more rounds.
        seconds: The length of a turn of sessions that can choose its size.
        cell: The cells of the table of all cases.
        tables: A function that makes the tables, with their headings, instead of the ones that the cases describe.
        publish: A function that is called with the result of a whole run, when it has been stored in ``results``.
        find_missing: A function that describes what is missing for ``publish``, or returns ``None``.
    """

    name: str
    question: str
    ours: str
    unit: str
    peers: Sequence[Peer]
    make_cases: Callable[[Path, bool], Sequence[Case]]
    required: Sequence[Required] = ()
    standard: str | None = None
    sessions: str = "benchmarks._contest.calls"
    rounds: int = 9
    warm_up: int = 0
    more_rounds: MoreRounds | None = None
    seconds: float = 0.3
    cell: Column = field(default_factory=lambda: Spread("wall (min to max)", "wall_us"))
    tables: Callable[[Result], Sequence[str]] | None = None
    publish: Callable[[Result], None] | None = None
    find_missing: Callable[[], str | None] | None = None
