"""Runs the contestants in turn, and reports their times."""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._contest import client as _client
from benchmarks._contest.client import PeerError
from benchmarks._contest.environments import REPOSITORY, SetupError
from benchmarks._contest.machine import describe_run

from ._cases import HELD_CASES, Case, PhotoSet, make_cases
from ._compare import ALIKE_DB, likeness_of
from ._peers import OURS, PEERS, Peer, peer_named
from ._report import held_figures, page, rows_of

Photos = list[dict[str, Any]]


class Client(_client.Client):
    """A contestant's process."""

    def __init__(self, peer: Peer) -> None:
        super().__init__(peer.name, peer.environment, "benchmarks.images._worker", peer.name)
        self.peer = peer


@dataclass(slots=True)
class Measured:
    """The measurements of a case.

    Attributes:
        likeness: The PSNR against SPDL in dB, by peer, where batches can be compared.
        turns: The wall and CPU seconds of each turn, by peer.
        held: The time with the GIL in each round: see ``_held.measure_held``.
        num_photos: The number of photographs in a turn.
    """

    likeness: dict[str, float] = field(default_factory=dict)
    turns: dict[str, list[dict[str, float]]] = field(default_factory=dict)
    held: list[dict[str, float]] = field(default_factory=list)
    num_photos: int = 0


def main(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)
    cases = [case for case in make_cases() if any(fnmatchcase(case.name, each) for each in options.cases.split(","))]
    names = options.peers.split(",")
    peers = [peer_named(name) for name in ([] if OURS in names else [OURS]) + names]
    environment = describe_run("benchmarks/images/run.py", arguments)
    try:
        with ExitStack() as stack:
            clients, versions, missing = _start(stack, peers)
            sets = {case.photos.kind: case.photos for case in cases}
            photos = {kind: _photographs(each, clients[0], options.quick) for kind, each in sets.items()}
            measured = {}
            for case in cases:
                rounds = options.rounds or (2 if options.quick else case.photos.rounds)
                measured[case.name] = _measure(case, clients, photos[case.photos.kind], rounds)
    except (PeerError, SetupError) as exc:
        print(f"images benchmark: {exc}", file=sys.stderr)
        return 2
    tables = {
        case.name: rows_of(case, peers, measured[case.name].turns, measured[case.name].num_photos) for case in cases
    }
    held = held_figures({name: each.held for name, each in measured.items() if each.held})
    likeness = {name: each.likeness for name, each in measured.items()}
    print(page(environment, versions, missing, cases, tables, likeness, held))
    path = options.json or (None if options.quick else _default_path(environment))
    if path is not None:
        result = {
            "environment": environment,
            "versions": versions,
            "missing": missing,
            "photographs": {kind: _described(found) for kind, found in photos.items()},
            "cases": [
                {"name": case.name, "title": case.title, "work": asdict(case.work), "table": tables[case.name]}
                | asdict(measured[case.name])
                for case in cases
            ],
            "figures": [figure.as_json() for figure in held],
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"written to {path}", file=sys.stderr)
    missed = [
        f"{name}: {row['name']} {row['verdict']}"
        for name, rows in tables.items()
        for row in rows
        if row["verdict"] not in ("", "PASS")
    ]
    missed += [f"{figure.title} {figure.verdict}" for figure in held if not figure.passed]
    if missed:
        print(f"images benchmark: requirements not met: {'; '.join(missed)}", file=sys.stderr)
    return 1 if missed and options.require else 0


def _parser() -> argparse.ArgumentParser:
    known = [peer.name for peer in PEERS]

    def peer_names(text: str) -> str:
        for name in text.split(","):
            if name not in known:
                raise argparse.ArgumentTypeError(f"unknown name {name!r}; there are: {', '.join(known)}")
        return text

    def case_patterns(text: str) -> str:
        names = [case.name for case in make_cases()]
        for pattern in text.split(","):
            if not any(fnmatchcase(name, pattern) for name in names):
                raise argparse.ArgumentTypeError(f"no case is called {pattern!r}; there are: {', '.join(names)}")
        return text

    parser = argparse.ArgumentParser(
        prog="benchmarks/images/run.py", description="Files to batches of images, against peers."
    )
    parser.add_argument("--quick", action="store_true", help="a short trial run; nothing is stored")
    parser.add_argument("--rounds", type=int, help="turns of each contestant (default: 11, 7 or 5)")
    parser.add_argument(
        "--cases", type=case_patterns, default="*", help="comma-separated, * for any (web-*-uint8); default all"
    )
    parser.add_argument(
        "--peers", type=peer_names, default=",".join(known), help="comma-separated (default: %(default)s)"
    )
    parser.add_argument(
        "--json", type=Path, metavar="PATH", help="write the result to this file (default: in results/)"
    )
    parser.add_argument("--require", action="store_true", help="exit with 1 if a requirement is not met")
    return parser


def _start(stack: ExitStack, peers: Sequence[Peer]) -> tuple[list[Client], dict[str, Any], dict[str, str]]:
    """The contestants that can run here, their versions, and the reasons why others cannot. SPDL is first.

    Raises:
        PeerError: SPDL cannot run.
    """
    clients, versions, missing = [], {}, {}
    for peer in sorted(peers, key=lambda peer: peer.name != OURS):
        try:
            client = stack.enter_context(Client(peer))
            versions[peer.name] = client.ask("describe")
            clients.append(client)
        except (SetupError, PeerError) as exc:
            if peer.name == OURS:
                raise
            # Results are public: they must not contain the path of the repository.
            missing[peer.name] = str(exc).strip().splitlines()[-1].replace(f"{REPOSITORY}/", "")
            print(f"without {peer.name}: {exc}", file=sys.stderr)
    return clients, versions, missing


def _photographs(photos: PhotoSet, ours: Client, quick: bool) -> Photos:
    """The photographs, made if necessary, each with the crop that SPDL draws for the training transform."""
    count = photos.quick_count if quick else photos.count
    folder = REPOSITORY / ".cache" / "bench" / f"photos-{photos.kind}-{count}"
    command = [sys.executable, str(REPOSITORY / "scripts" / "make_photos.py")]
    subprocess.run([*command, "--kind", photos.kind, "--count", str(count), str(folder)], check=True, stdout=sys.stderr)
    drawn: Photos = ours.ask("draw", paths=sorted(map(str, folder.rglob("*.jpg"))))
    return drawn


def _described(photos: Photos) -> dict[str, int]:
    return {
        "count": len(photos),
        "mean_bytes": sum(Path(each["path"]).stat().st_size for each in photos) // len(photos),
    }


def _measure(case: Case, clients: Sequence[Client], photos: Photos, rounds: int) -> Measured:
    """Outputs first, then turns. The first round warms up and is discarded."""
    if case.work.transform != "train":
        photos = [{"index": each["index"], "path": each["path"]} for each in photos]
    able = {}
    for client in clients:
        work = client.peer.work_in(case.work)
        if work is not None:
            able[client] = {"work": asdict(work), "photos": photos}
    result = Measured(num_photos=len(photos))
    result.likeness, able = _compare(case, able)
    for number in range(rounds + 1):
        for client, asked in able.items():
            turn = client.ask("time", **asked)
            if number > 0:
                result.turns.setdefault(client.peer.name, []).append(turn)
    if case.name in HELD_CASES:
        [ours] = [client for client in able if client.peer.name == OURS]
        result.held = [ours.ask("held", **able[ours]) for _ in range(rounds)]
    print(f"{case.name}: {rounds} rounds of {len(able)} contestants", file=sys.stderr, flush=True)
    return result


def _compare(
    case: Case, asked_of: dict[Client, dict[str, Any]]
) -> tuple[dict[str, float], dict[Client, dict[str, Any]]]:
    """The PSNR of the outputs against SPDL's, and the contestants that can do the case.

    Raises:
        PeerError: A contestant gives a wrong batch.
    """
    batches, able = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for client, asked in asked_of.items():
            file = Path(folder) / f"{client.peer.name}.npy"
            answer = client.ask("save", **asked, to=str(file))
            if answer["is_able"]:
                able[client] = asked
            if answer["has_output"]:
                batches[client.peer.name] = np.load(file)
    ours = batches[OURS]
    likeness = {}
    for name, batch in batches.items():
        peer = peer_named(name)
        work = peer.work_in(case.work)
        assert work is not None
        if work.dtype != case.work.dtype or (peer.draws and work.transform == "train"):
            continue
        likeness[name] = likeness_of(ours, batch, work)
        if likeness[name] < ALIKE_DB:
            raise PeerError(f"{name} does not do the work of {case.name}: PSNR {likeness[name]} dB against SPDL")
    return likeness, able


def _default_path(environment: dict[str, Any]) -> Path:
    stamp = environment["date"].replace(":", "").replace("+0000", "Z")
    name = f"{stamp}-{sys.implementation.cache_tag}-{environment['cores']}cores.json"
    return REPOSITORY / "benchmarks" / "images" / "results" / name
