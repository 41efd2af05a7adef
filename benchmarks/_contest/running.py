"""Runs a ``Contest``: compares outputs, takes turns A B C, A B C, then checks figures and writes the result file.

Adapters are modules that run in the interpreters of their peers (see ``adapter_worker``), so this process needs none of
their imports.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from .client import PeerError
from .contest import Case, Contest, OutputMismatch
from .contestants import Started, start
from .environments import REPOSITORY, SetupError
from .figures import Figure
from .machine import describe_run
from .options import chosen, parser_of
from .page import page
from .result import Result
from .turns import Amount, compare, measure, measure_alone

__all__ = ["run"]

#: The length of a turn in a trial run.
QUICK_SECONDS = 0.02


def run(contest: Contest, arguments: list[str]) -> int:
    """Measure, print, store.

    Returns:
        0; 1 if ``--require`` was given and a requirement is missed or could not be measured; 2 if outputs differ or a
        peer failed, in which case nothing is reported.
    """
    began = time.monotonic()
    parser = parser_of(contest)
    options = parser.parse_args(arguments)
    environment = describe_run(f"benchmarks/{contest.name}/run.py", arguments)
    folder = REPOSITORY / ".cache" / "bench" / f"{contest.name}-data"
    folder.mkdir(parents=True, exist_ok=True)
    cases = chosen(parser, contest.make_cases(folder, options.quick), options)
    is_whole = not (options.quick or options.cases or options.peers or options.json or options.spdl_tree)
    # Found now rather than after a quarter of an hour.
    problem = contest.find_missing() if is_whole and contest.find_missing is not None else None
    if problem is not None:
        print(f"{contest.name} benchmark: {problem}, or store the result elsewhere with --json", file=sys.stderr)
        return 2
    seconds = QUICK_SECONDS if options.quick else options.seconds
    amount = Amount(options.rounds, seconds, began, options.quick)
    try:
        started, measured = _measure(contest, cases, options, amount)
    except (PeerError, SetupError, OutputMismatch) as exc:
        print(f"{contest.name} benchmark: {exc}", file=sys.stderr)
        return 2
    stored: dict[str, Any] = {
        "question": contest.question,
        "environment": environment | {"seconds": round(time.monotonic() - began)},
        "settings": {
            "rounds": options.rounds or contest.rounds,
            "seconds_a_turn": amount.seconds,
            "unit": contest.unit,
        },
        "peers": started.versions,
        "missing": started.missing,
        "cases": measured,
    }
    result = Result(stored)
    figures = _figures(contest, result, is_whole=options.cases is None)
    stored["figures"] = [figure.as_json() for figure in figures]
    print(page(contest, cases, result, figures))
    is_stored = options.json is not None or not (options.quick or options.spdl_tree)
    if is_stored:
        _store(options.json or _default_path(contest, environment), stored)
    if is_whole and contest.publish is not None:
        contest.publish(result)
    missed = [f"{figure.title} ({figure.verdict})" for figure in figures if not figure.passed]
    if missed and options.require:
        print(f"{contest.name} benchmark: requirements not met: {'; '.join(missed)}", file=sys.stderr)
        return 1
    return 0


def _measure(
    contest: Contest, cases: Sequence[Case], options: argparse.Namespace, amount: Amount
) -> tuple[Started, list[dict[str, Any]]]:
    """All cases, as they are stored, in the order in which they are given."""
    measured: dict[str, dict[str, Any]] = {case.name: {} for case in cases}
    with ExitStack() as stack:
        started = start(stack, contest, options.peers, options.spdl_tree)
        inputs = {case.name: case.inputs() for case in cases}
        together = [case for case in cases if not case.is_alone]
        likeness = {case.name: compare(contest, started.contestants, case, inputs[case.name]) for case in together}
        for case in together:
            costs = measure(contest, started.contestants, case, inputs[case.name], amount)
            measured[case.name] = _as_json(case, costs, likeness[case.name])
    for case in cases:
        if case.is_alone:
            costs = measure_alone(contest, started.contestants, case, inputs[case.name], amount)
            measured[case.name] = _as_json(case, costs, {})
    return started, list(measured.values())


def _as_json(case: Case, costs: dict[str, dict[str, Any]], likeness: dict[str, float]) -> dict[str, Any]:
    stored = {"name": case.name, "title": case.title, **case.about, "num_threads": case.num_threads, "per": case.per}
    return stored | ({"likeness": likeness} if likeness else {}) | {"costs": costs}


def _figures(contest: Contest, result: Result, is_whole: bool) -> list[Figure]:
    """All requirements; of a run of some cases, those that apply to them."""
    measured = set(result.cases)
    return [
        required.measured(result)
        for required in contest.required
        if is_whole or not measured.isdisjoint(required.cases())
    ]


def _store(path: Path, stored: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(stored, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"written to {path}", file=sys.stderr)


def _default_path(contest: Contest, environment: dict[str, Any]) -> Path:
    stamp = environment["date"].replace(":", "").replace("+0000", "Z")
    name = f"{stamp}-{sys.implementation.cache_tag}-{environment['cores']}cores.json"
    return REPOSITORY / "benchmarks" / contest.name / "results" / name
