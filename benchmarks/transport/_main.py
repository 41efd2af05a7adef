"""The command line: the cases, the peers, and the result file."""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks._contest.client import PeerError
from benchmarks._contest.environments import REPOSITORY, SetupError
from benchmarks._contest.machine import describe_run

from ._cases import CASES, REQUIRED
from ._measure import Client, OutputMismatch, measure_case, measure_start
from ._peers import OURS, PEERS, Peer, peer_named
from ._report import page, rows_of, start_figures

QUESTION = "What does it cost to move a batch out of another process?"
#: Measured in addition to the cases; valid in ``--cases`` too.
START = "start"


def main(arguments: list[str]) -> int:
    """Measure, print, store.

    Returns:
        0; 1 if ``--require`` was given and a requirement is missed or could not be measured; 2 if a peer failed or its
        output differs from the others, in which case nothing is reported.
    """
    options = _parser().parse_args(arguments)
    rounds, seconds = (options.rounds or 2, 0.05) if options.quick else (options.rounds or 9, options.seconds)
    environment = describe_run("benchmarks/transport/run.py", arguments)
    peers = [peer_named(name) for name in options.peers]
    cases = [case for case in CASES if case.name in options.cases]
    try:
        with ExitStack() as stack:
            clients, versions, missing = _start(stack, peers)
            measured = {case.name: measure_case(case, clients, rounds, seconds) for case in cases}
        started = [peer for peer in peers if peer.name in (OURS, "reference") and peer.name in versions]
        starts = measure_start(started, rounds) if START in options.cases and started else {}
    except (PeerError, SetupError, OutputMismatch) as exc:
        print(f"transport benchmark: {exc}", file=sys.stderr)
        return 2
    passes = {name: each.passes for name, each in measured.items()}
    tables = [(case, rows_of(case, passes[case.name])) for case in cases]
    figures = [required.measured(passes) for required in REQUIRED] + start_figures(starts)
    print(page(environment, versions, missing, tables, starts, figures))
    path = options.json or (None if options.quick else _default_path(environment))
    if path is not None:
        result = {
            "question": QUESTION,
            "environment": environment,
            "settings": {"rounds": rounds, "seconds_a_pass": seconds},
            "peers": versions,
            "missing": missing,
            "cases": [
                {"name": case.name, "title": case.title, "work": asdict(case.work), "table": rows}
                | asdict(measured[case.name])
                for case, rows in tables
            ],
            "start_ms": starts,
            "figures": [figure.as_json() for figure in figures],
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"written to {path}", file=sys.stderr)
    missed = [f"{figure.title} ({figure.verdict})" for figure in figures if not figure.passed]
    if missed and options.require:
        print(f"transport benchmark: requirements not met: {'; '.join(missed)}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    cases, peers = [*(case.name for case in CASES), START], [peer.name for peer in PEERS]
    parser = argparse.ArgumentParser(prog="benchmarks/transport/run.py", description=QUESTION)
    parser.add_argument("--quick", action="store_true", help="a short trial run; nothing is stored")
    parser.add_argument("--rounds", type=int, help="passes of each peer in each case (default 9)")
    parser.add_argument("--seconds", type=float, default=0.4, help="length of a pass (default %(default)s)")
    for name, known in (("cases", cases), ("peers", peers)):
        text = f"comma-separated; default all of: {', '.join(known)}"
        parser.add_argument(f"--{name}", type=_names(known), default=known, help=text)
    parser.add_argument(
        "--json", type=Path, metavar="PATH", help="write the result to this file (default: in results/)"
    )
    parser.add_argument("--require", action="store_true", help="exit with 1 if a requirement is not met")
    return parser


def _names(known: Sequence[str]) -> Callable[[str], list[str]]:
    def parse(text: str) -> list[str]:
        for name in text.split(","):
            if name not in known:
                raise argparse.ArgumentTypeError(f"unknown name {name!r}; there are: {', '.join(known)}")
        return text.split(",")

    return parse


def _start(stack: ExitStack, peers: Sequence[Peer]) -> tuple[list[Client], dict[str, Any], dict[str, str]]:
    """The consumers that can run here, their versions, and the reasons why the others cannot run."""
    clients, versions, missing = [], {}, {}
    for peer in peers:
        try:
            client = stack.enter_context(Client(peer))
            versions[peer.name] = client.ask("describe")
            clients.append(client)
        except (SetupError, PeerError) as exc:
            # Results are public: they must not contain the path of the repository.
            missing[peer.name] = str(exc).strip().splitlines()[-1].replace(f"{REPOSITORY}/", "")
            print(f"without {peer.name}: {exc}", file=sys.stderr)
    return clients, versions, missing


def _default_path(environment: dict[str, Any]) -> Path:
    stamp = environment["date"].replace(":", "").replace("+0000", "Z")
    name = f"{stamp}-{sys.implementation.cache_tag}-{environment['cores']}cores.json"
    return REPOSITORY / "benchmarks" / "transport" / "results" / name
