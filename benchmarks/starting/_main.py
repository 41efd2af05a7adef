"""The command line: the contestants, and the result file."""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks._contest.client import Client, PeerError
from benchmarks._contest.environments import CHECKOUT, REPOSITORY
from benchmarks._contest.figures import Figure, figures_markdown, head, row, short
from benchmarks._contest.machine import describe_run

QUESTION = "What does an epoch cost if its worker processes end with it?"
PEERS = ("spdl", "torch_fork", "torch_forkserver")
#: The maximum time of an epoch, as a multiple of torch's with forked workers.
REQUIRED = 1.5


def main(arguments: list[str]) -> int:
    """Measure, print, store.

    Returns:
        0; 2 if one failed or its output differs from the others, in which case nothing is reported; with ``--require``,
        1 if the requirement is not met.
    """
    options = _parser().parse_args(arguments)
    rounds = options.rounds or (2 if options.quick else 15)
    environment = describe_run("benchmarks/starting/run.py", arguments)
    try:
        with ExitStack() as stack:
            clients = [
                stack.enter_context(Client(name, CHECKOUT, "benchmarks.starting._worker", name))
                for name in options.peers
            ]
            versions = {client.name: client.ask("describe") for client in clients}
            given = {
                client.name: client.ask("digest") for client in clients
            }  # this is also the first epoch, which is discarded
            if any(each != given[clients[0].name] for each in given.values()):
                raise PeerError("the contestants give different batches")
            measured: dict[str, list[float]] = {client.name: [] for client in clients}
            for _ in range(rounds):
                for client in clients:
                    measured[client.name].append(client.ask("epoch"))
    except PeerError as exc:
        print(f"starting benchmark: {exc}", file=sys.stderr)
        return 2
    figure = figure_of(measured)
    print(page(environment, measured, figure))
    path = options.json or (None if options.quick else _default_path(environment))
    if path is not None:
        result = {
            "question": QUESTION,
            "environment": environment,
            "settings": {"rounds": rounds},
            "peers": versions,
            "figures": [figure.as_json()],
            "measured": measured,
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        print(f"written to {path}", file=sys.stderr)
    return int(options.require and not figure.passed)


def figure_of(measured: dict[str, list[float]]) -> Figure:
    """The time of an epoch over torch's, in pairs of the same round."""
    pairs = list(zip(measured.get("spdl", []), measured.get("torch_fork", []), strict=False))
    ratios = [ours / theirs for ours, theirs in pairs]
    return Figure(
        title="seconds of an epoch, against torch with fork",
        required=f"<= {REQUIRED:g} x",
        measured=median(ratios) if ratios else None,
        spread=(min(ratios), max(ratios)) if ratios else None,
        unit=" x",
        passed=bool(ratios) and median(ratios) <= REQUIRED,
    )


def page(environment: dict[str, Any], measured: dict[str, list[float]], figure: Figure) -> str:
    """The report in Markdown."""
    lines = head(["workers", "seconds of an epoch", "least", "most"])
    for name, seconds in measured.items():
        lines.append(row([name, short(median(seconds)), short(min(seconds)), short(max(seconds))]))
    where = (
        f"{environment['python']}, {environment['cpu']}, {environment['cores']} cores, {environment['os']},"
        f" {environment['date'][:10]}, revision {environment['revision']}. `{environment['command']}`"
    )
    return "\n\n".join(["\n".join(lines), figures_markdown([figure]), where])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="benchmarks/starting/run.py", description=QUESTION)
    parser.add_argument("--quick", action="store_true", help="a short trial run; nothing is stored")
    parser.add_argument("--require", action="store_true", help="exit with 1 if the requirement is not met")
    parser.add_argument("--rounds", type=int, help="epochs of each contestant (default 15)")
    text = f"comma-separated; default all of: {', '.join(PEERS)}"
    parser.add_argument("--peers", type=_names(PEERS), default=PEERS, help=text)
    parser.add_argument(
        "--json", type=Path, metavar="PATH", help="write the result to this file (default: in results/)"
    )
    return parser


def _names(known: Sequence[str]) -> Callable[[str], list[str]]:
    def parse(text: str) -> list[str]:
        for name in text.split(","):
            if name not in known:
                raise argparse.ArgumentTypeError(f"unknown name {name!r}; there are: {', '.join(known)}")
        return text.split(",")

    return parse


def _default_path(environment: dict[str, Any]) -> Path:
    stamp = environment["date"].replace(":", "").replace("+0000", "Z")
    name = f"{stamp}-{sys.implementation.cache_tag}-{environment['cores']}cores.json"
    return REPOSITORY / "benchmarks" / "starting" / "results" / name
