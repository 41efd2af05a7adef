"""The measurements: outputs first, then turns, A B C, A B C."""

import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .contest import Case, Contest, OutputMismatch, Outputs
from .contestants import Contestant, start_one
from .result import add_turn

__all__ = ["Amount", "compare", "measure", "measure_alone", "outputs_of"]

#: The maximum number of rounds of a trial run.
QUICK_ROUNDS = 2
#: The measurements of a case, by peer: see ``Result``.
Costs = dict[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Amount:
    """How much is measured.

    Attributes:
        rounds: The number of rounds; ``None`` for that of the case or the contest.
        seconds: The length of a turn.
        started: The start of the run, by ``time.monotonic``.
        is_quick: Whether it is a trial run.
    """

    rounds: int | None
    seconds: float
    started: float
    is_quick: bool

    def rounds_of(self, contest: Contest, case: Case) -> int:
        wanted = case.rounds or contest.rounds
        return self.rounds or (min(wanted, QUICK_ROUNDS) if self.is_quick else wanted)

    def tell(self, text: str) -> None:
        print(f"{time.monotonic() - self.started:4.0f} s: {text}", file=sys.stderr, flush=True)


def compare(
    contest: Contest, contestants: Sequence[Contestant], case: Case, data: Mapping[str, Any]
) -> dict[str, float]:
    """Compare the outputs with those of the standard.

    Returns:
        The PSNR in dB, by peer, of outputs that are only similar.

    Raises:
        OutputMismatch: The output of a peer is wrong.
    """
    given: dict[str, Outputs] = {}
    likeness = {}
    with tempfile.TemporaryDirectory() as folder:
        for contestant in contestants:
            if contestant.open(case, data):
                outputs = outputs_of(contestant, Path(folder) / f"{contestant.name}.npz")
                if outputs:
                    given[contestant.name] = outputs
            contestant.client.ask("close")
    standard = given.get(contest.standard or contest.ours)
    for contestant in contestants:
        name = contestant.name
        if name not in given:
            continue
        problem = None if case.check is None else case.check(given[name])
        if problem is None and standard is not None and case.check is None and case.likeness is None:
            problem = case.differ(standard, given[name])
        if problem is not None:
            raise OutputMismatch(f"{name} does not do the work of {case.name!r}: {problem}")
        if case.likeness is not None and standard is not None:
            alike = case.likeness(contestant.role, standard, given[name])
            if alike is not None:
                likeness[name] = alike
    return likeness


def outputs_of(contestant: Contestant, path: Path) -> Outputs:
    """The outputs of a contestant, which has opened a case.

    Args:
        path: A file for arrays, which is removed.
    """
    saved = contestant.client.ask("save", to=str(path))
    outputs = {name: np.array(value) for name, value in saved["lists"].items()}
    if saved["is_saved"]:
        with np.load(path) as arrays:
            outputs |= {name: arrays[name] for name in arrays.files}
        path.unlink()
    return outputs


def measure(
    contest: Contest, contestants: Sequence[Contestant], case: Case, data: Mapping[str, Any], amount: Amount
) -> Costs:
    """Take turns in a case."""
    able = [contestant for contestant in contestants if contestant.open(case, data)]
    costs: Costs = {each.name: dict(each.client.ask("calibrate", seconds=amount.seconds)) for each in able}
    for _ in range(0 if amount.is_quick else contest.warm_up):
        for each in able:
            each.client.ask("measure")
    wanted = amount.rounds_of(contest, case)
    number = 0
    while number < wanted or _gets_another(contest, costs, number, amount):
        for each in able:
            add_turn(costs[each.name], each.client.ask("measure"))
        number += 1
    for each in able:
        costs[each.name] |= each.client.ask("finish")
        each.client.ask("close")
    amount.tell(f"{case.name}: {number} rounds of {len(able)} peers")
    return costs


def _gets_another(contest: Contest, costs: Costs, number: int, amount: Amount) -> bool:
    more = contest.more_rounds
    if (
        more is None
        or amount.rounds is not None
        or amount.is_quick
        or number >= more.most
        or time.monotonic() - amount.started > more.seconds
    ):
        return False
    return any(more.is_unsure(taken) for taken in costs.values())


def measure_alone(
    contest: Contest, contestants: Sequence[Contestant], case: Case, data: Mapping[str, Any], amount: Amount
) -> Costs:
    """Take turns in a case with a process for each turn, which is the only one then.

    Args:
        contestants: Those that can run. Their workers have ended.
    """
    costs: Costs = {}
    rounds = amount.rounds_of(contest, case)
    for _ in range(rounds):
        for each in contestants:
            with ExitStack() as stack:
                fresh = start_one(stack, contest, each.peer, each.role)
                if fresh.open(case, data):
                    fresh.client.ask("calibrate", seconds=amount.seconds)
                    add_turn(costs.setdefault(each.name, {}), fresh.client.ask("measure"))
                    fresh.client.ask("close")
    amount.tell(f"{case.name}: {rounds} rounds of {len(costs)} peers")
    return costs
