"""Runs a ``Contest``: compares outputs, takes turns A B C, A B C, then checks figures and writes the result file.

Adapters are modules that run in the interpreters of their peers (see ``adapter_worker``), so this process needs none of
their imports.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from .client import Client, PeerError
from .contest import Case, Contest, Outputs, Peer, Turn, Turns
from .environments import REPOSITORY, SetupError
from .figures import NOTHING, Figure, figures_markdown, head, row, short
from .machine import describe_run

__all__ = ["OutputMismatch", "run"]


class OutputMismatch(RuntimeError):
    """A peer does not do the work of the case, so its time is meaningless."""


def run(contest: Contest, arguments: list[str]) -> int:
    """Measure, print, store.

    Returns:
        0; 1 if ``--require`` was given and a requirement is missed or could not be measured; 2 if outputs differ or a
        peer failed, in which case nothing is reported.
    """
    options = _parser(contest).parse_args(arguments)
    environment = describe_run(f"benchmarks/{contest.name}/run.py", arguments)
    folder = REPOSITORY / ".cache" / "bench" / f"{contest.name}-data"
    folder.mkdir(parents=True, exist_ok=True)
    cases = [case for case in contest.make_cases(folder, options.quick) if case.name in (options.cases or [case.name])]
    chosen = options.peers or [peer.name for peer in contest.peers]
    peers = [peer for peer in contest.peers if peer.name in {contest.ours, *chosen}]
    rounds, seconds = (options.rounds or 3, 0.02) if options.quick else (options.rounds or 9, options.seconds)
    try:
        with ExitStack() as stack:
            clients, versions, missing = _start(stack, peers)
            able = _compare(contest, clients, cases)
            turns = _measure(clients, cases, able, rounds, seconds)
    except (PeerError, SetupError, OutputMismatch) as exc:
        print(f"{contest.name} benchmark: {exc}", file=sys.stderr)
        return 2
    figures = [required.measured(turns) for required in contest.required]
    print(_page(contest, environment, versions, missing, cases, turns, figures))
    path = options.json or (None if options.quick else _default_path(contest, environment))
    if path is not None:
        result = {
            "question": contest.question,
            "environment": environment,
            "settings": {"rounds": rounds, "seconds_a_turn": seconds, "unit": contest.unit},
            "peers": versions,
            "missing": missing,
            "cases": [_case_as_json(case, turns) for case in cases],
            "figures": [figure.as_json() for figure in figures],
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"written to {path}", file=sys.stderr)
    missed = [f"{figure.title} ({figure.verdict})" for figure in figures if not figure.passed]
    if missed and options.require:
        print(f"{contest.name} benchmark: requirements not met: {'; '.join(missed)}", file=sys.stderr)
        return 1
    return 0


def _parser(contest: Contest) -> argparse.ArgumentParser:
    known = [peer.name for peer in contest.peers]

    def peer_names(text: str) -> list[str]:
        for name in text.split(","):
            if name not in known:
                raise argparse.ArgumentTypeError(f"unknown name {name!r}; there are: {', '.join(known)}")
        return text.split(",")

    parser = argparse.ArgumentParser(prog=f"benchmarks/{contest.name}/run.py", description=contest.question)
    parser.add_argument("--quick", action="store_true", help="a short trial run; nothing is stored")
    parser.add_argument("--rounds", type=int, help="turns of each peer in each case (default 9)")
    parser.add_argument("--seconds", type=float, default=0.3, help="minimum length of a turn (default %(default)s)")
    parser.add_argument("--cases", type=lambda text: text.split(","), help="comma-separated; default all")
    parser.add_argument("--peers", type=peer_names, help="comma-separated; default all of: " + ", ".join(known))
    parser.add_argument(
        "--json", type=Path, metavar="PATH", help="write the result to this file (default: in results/)"
    )
    parser.add_argument("--require", action="store_true", help="exit with 1 if a requirement is not met")
    return parser


def _start(stack: ExitStack, peers: Sequence[Peer]) -> tuple[list[Client], dict[str, Any], dict[str, str]]:
    """A worker for each peer that can run here, their versions, and the reasons why the others cannot run."""
    clients, versions, missing = [], {}, {}
    for peer in peers:
        try:
            client = stack.enter_context(
                Client(peer.name, peer.environment, "benchmarks._contest.adapter_worker", peer.adapter)
            )
            versions[peer.name] = client.ask("describe")
            clients.append(client)
        except (SetupError, PeerError) as exc:
            # Results are public: they must not contain the path of the repository.
            missing[peer.name] = str(exc).strip().splitlines()[-1].replace(f"{REPOSITORY}/", "")
            print(f"without {peer.name}: {exc}", file=sys.stderr)
    return clients, versions, missing


def _compare(contest: Contest, clients: list[Client], cases: Sequence[Case]) -> set[tuple[str, str]]:
    """The peers that can do each case.

    Raises:
        OutputMismatch: The output of a peer differs from SPDL's.
    """
    able = set()
    with tempfile.TemporaryDirectory() as folder:
        for case in cases:
            given: dict[str, Outputs] = {}
            for client in clients:
                path = Path(folder) / f"{case.name}-{client.name}.npz"
                if client.ask("save", case=case.name, data=dict(case.data), to=str(path)):
                    able.add((case.name, client.name))
                    with np.load(path) as arrays:
                        given[client.name] = {name: arrays[name] for name in arrays.files}
                    path.unlink()
            for name, outputs in given.items():
                difference = case.differ(given[contest.ours], outputs) if contest.ours in given else None
                if difference is not None:
                    raise OutputMismatch(f"{name} does not do the work of {case.name!r}: {difference}")
    return able


def _measure(
    clients: list[Client], cases: Sequence[Case], able: set[tuple[str, str]], rounds: int, seconds: float
) -> dict[tuple[str, str], Turn]:
    turns: dict[tuple[str, str], Turn] = {}
    for case in cases:
        taking_part = [client for client in clients if (case.name, client.name) in able]
        work = {"case": case.name, "data": dict(case.data), "num_threads": case.num_threads}
        for client in taking_part:  # also warms up
            one = max(client.ask("time", **work, num_calls=1)["wall"] for _ in range(2))
            turns[case.name, client.name] = Turn([], [], max(1, round(seconds / max(one, 1e-7))))
        for _ in range(rounds):
            for client in taking_part:
                turn = turns[case.name, client.name]
                answer = client.ask("time", **work, num_calls=turn.num_calls)
                scale = 1e6 / (turn.num_calls * case.num_threads * case.per)
                turn.wall_us.append(answer["wall"] * scale)
                turn.cpu_us.append(answer["cpu"] * scale)
        print(f"{case.name}: {rounds} rounds of {len(taking_part)} peers", file=sys.stderr, flush=True)
    return turns


def _page(
    contest: Contest,
    environment: dict[str, Any],
    versions: dict[str, Any],
    missing: dict[str, str],
    cases: Sequence[Case],
    turns: Turns,
    figures: list[Figure],
) -> str:
    names = list(versions)
    lines = head([f"µs {contest.unit}, wall (min to max)", *names])
    for case in cases:
        cells = [case.title]
        for name in names:
            turn = turns.get((case.name, name))
            walls = turn.wall_us if turn else []
            spread = f"{short(median(walls))} ({short(min(walls))} to {short(max(walls))})" if walls else NOTHING
            cells.append(spread)
        lines.append(row(cells))
    packages = {f"{package} {number}": None for peer in versions.values() for package, number in peer.items()}
    where = (
        f"{environment['python']}, {environment['cpu']}, {environment['cores']} cores, {environment['os']},"
        f" {environment['date'][:10]}, revision {environment['revision']}; {', '.join(packages)}."
    )
    left_out = f" Without {', '.join(missing)}." if missing else ""
    shown = [figures_markdown(figures)] if figures else []
    return "\n\n".join([*shown, "\n".join(lines), f"{where}{left_out} `{environment['command']}`"])


def _case_as_json(case: Case, turns: Turns) -> dict[str, Any]:
    costs = {
        peer: {"num_calls": turn.num_calls, "wall_us": turn.wall_us, "cpu_us": turn.cpu_us}
        for (name, peer), turn in turns.items()
        if name == case.name
    }
    return {"name": case.name, "title": case.title, "num_threads": case.num_threads, "per": case.per, "costs": costs}


def _default_path(contest: Contest, environment: dict[str, Any]) -> Path:
    stamp = environment["date"].replace(":", "").replace("+0000", "Z")
    name = f"{stamp}-{sys.implementation.cache_tag}-{environment['cores']}cores.json"
    return REPOSITORY / "benchmarks" / contest.name / "results" / name
