"""The command line: the pipelines, their places, and the result file."""

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks._contest.client import Client, PeerError
from benchmarks._contest.environments import CHECKOUT, REPOSITORY
from benchmarks._contest.machine import describe_run

from ._report import page, row_of

QUESTION = "How much of its interpreter does a training process keep when its loader runs elsewhere?"
WAYS = ("threads", "subprocess", "region")
TITLES = {
    "photos": "photographs of 500x375 to batches of 32x224x224x3, one native call each",
    "python": "32 samples a batch, 0.3 ms of Python for each",
}
#: The size of the workers' batches; as in ``_work``, which is not imported here.
BATCH = 32
#: Batches of an epoch that are not timed: more than any of the pipelines prefetches.
NUM_AHEAD = 16


def main(arguments: list[str]) -> int:
    """Measure, print, store.

    Returns:
        0; 2 if one failed or its output differs from the others, in which case nothing is reported.
    """
    options = _parser().parse_args(arguments)
    rounds, num_timed = (options.rounds or 2, 4) if options.quick else (options.rounds or 7, options.batches)
    environment = describe_run("benchmarks/placement/run.py", arguments)
    paths = _photographs(8 if options.quick else 384)
    measured, tables = {}, {}
    try:
        with ExitStack() as stack:
            clients = [
                stack.enter_context(Client(way, CHECKOUT, "benchmarks.placement._worker", way)) for way in options.ways
            ]
            versions = {client.name: client.ask("describe") for client in clients}
            for case in options.cases:
                measured[case] = _measure(case, clients, paths, num_timed, rounds)
                tables[case] = [row_of(way, num_timed * BATCH, **each) for way, each in measured[case].items()]
    except PeerError as exc:
        print(f"placement benchmark: {exc}", file=sys.stderr)
        return 2
    print(page(environment, versions, tables, TITLES))
    path = options.json or (None if options.quick else _default_path(environment))
    if path is not None:
        result = {
            "question": QUESTION,
            "environment": environment,
            "settings": {"rounds": rounds, "batches_timed": num_timed, "batches_ahead": NUM_AHEAD, "batch": BATCH},
            "peers": versions,
            "cases": [
                {"name": case, "title": TITLES[case], "table": tables[case], "measured": measured[case]}
                for case in measured
            ],
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"written to {path}", file=sys.stderr)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="benchmarks/placement/run.py", description=QUESTION)
    parser.add_argument("--quick", action="store_true", help="a short trial run; nothing is stored")
    parser.add_argument("--rounds", type=int, help="turns of every way in every case (default 7)")
    parser.add_argument("--batches", type=int, default=48, help="in a turn (default %(default)s)")
    for name, known in (("cases", list(TITLES)), ("ways", list(WAYS))):
        text = f"comma-separated; default all of: {', '.join(known)}"
        parser.add_argument(f"--{name}", type=_names(known), default=known, help=text)
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


def _photographs(count: int) -> list[str]:
    """The photographs of benchmarks/images, made if necessary."""
    folder = REPOSITORY / ".cache" / "bench" / f"photos-web-{count}"
    command = [sys.executable, str(REPOSITORY / "scripts" / "make_photos.py"), "--kind", "web", "--count", str(count)]
    subprocess.run([*command, str(folder)], check=True, stdout=sys.stderr)
    return sorted(map(str, folder.rglob("*.jpg")))


def _measure(
    case: str, clients: Sequence[Client], paths: list[str], num_timed: int, rounds: int
) -> dict[str, dict[str, Any]]:
    """The arguments of ``row_of``, by way.

    Raises:
        PeerError: Two ways give different batches.
    """
    given, num_batches = {}, NUM_AHEAD + num_timed
    for client in clients:
        client.ask("open", case=case, paths=paths, num_batches=num_batches)
        given[client.name] = client.ask("digest")
    if any(digest != given[clients[0].name] for digest in given.values()):
        raise PeerError(f"the ways of {case} give different batches")
    result: dict[str, dict[str, Any]] = {
        client.name: {"idle": [], "training": [], "steps": [], "pss": 0} for client in clients
    }
    for number in range(-1, rounds):  # the first one warms up and is discarded
        for client in clients:
            # By now its pipeline has filled its buffers for the next epoch and is idle.
            step = client.ask("step")
            idle, training = (client.ask("time", is_training=each, num_ahead=NUM_AHEAD) for each in (False, True))
            if number >= 0:
                result[client.name]["idle"].append(idle)
                result[client.name]["training"].append(training)
                result[client.name]["steps"].append(step * num_timed)
    for client in clients:
        result[client.name]["pss"] = client.ask("memory", num_batches=num_batches)
        client.ask("close")
    print(f"{case}: {rounds} rounds of {len(clients)} ways", file=sys.stderr, flush=True)
    return result


def _default_path(environment: dict[str, Any]) -> Path:
    stamp = environment["date"].replace(":", "").replace("+0000", "Z")
    name = f"{stamp}-{sys.implementation.cache_tag}-{environment['cores']}cores.json"
    return REPOSITORY / "benchmarks" / "placement" / "results" / name
