"""Runs the contestants in turn, and says who was how fast."""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from ._environments import REPOSITORY, SetupError, environ_of, interpreter_of
from ._peers import BATCH, OURS, PEERS, Peer, peer_named

# Peers resample with different filters; a wrong place, order of channels or picture is far below this.
ALIKE_DB = 22.0


class PeerError(RuntimeError):
    """A contestant failed at what it was asked, or ended."""


class Client:
    """A contestant's process. Leaving the ``with`` block waits for its end."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self._process = subprocess.Popen(
            [interpreter_of(peer.environment), "-m", "benchmarks.images._worker", peer.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=REPOSITORY,
            env=environ_of(peer.environment),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()

    def ask(self, command: str, paths: list[str], **arguments: object) -> Any:
        """What the worker answers.

        Raises:
            PeerError: It raised (the message has its traceback), or ended.
        """
        assert self._process.stdin is not None  # it is a pipe, like stdout
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps({"do": command, "paths": paths, **arguments}) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = self._process.stdout.readline()
        if not line:
            raise PeerError(f"{self.peer.name} ended with exit code {self._process.wait()}")
        answer = json.loads(line)
        if "error" in answer:
            raise PeerError(f"{self.peer.name} failed at {command!r}:\n{answer['error']}")
        return answer["ok"]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Files to batches of images, against peers.")
    parser.add_argument("--rounds", type=int, default=11, help="turns of each contestant (default: %(default)s)")
    parser.add_argument("--photos", type=int, default=384, help="photographs a turn (default: %(default)s)")
    parser.add_argument("--peers", default=",".join(peer.name for peer in PEERS), help="default: %(default)s")
    parser.add_argument("--json", type=Path, help="where to write the numbers and what they were measured on")
    parser.add_argument("--require", action="store_true", help="exit with 1 if a promised ratio is not reached")
    options = parser.parse_args(arguments)
    names = options.peers.split(",")
    peers = [peer_named(name) for name in ([] if OURS in names else [OURS]) + names]
    paths = make_photographs(options.photos)
    with ExitStack() as stack:
        clients = [stack.enter_context(client) for peer in peers if (client := start(peer)) is not None]
        versions = {client.peer.name: client.ask("describe", paths[:1]) for client in clients}
        likeness = compare(clients, paths[:BATCH])
        print({name: f"{value:.1f} dB from ours" for name, value in likeness.items()}, file=sys.stderr)
        turns = measure(clients, paths, options.rounds)
    table = summarize(peers, turns, len(paths))
    print_table(table)
    if options.json:
        result = {
            "measured": datetime.now(UTC).isoformat(timespec="seconds"),
            "command": "python benchmarks/images/run.py " + " ".join(arguments),
            "machine": describe_machine(),
            "versions": versions,
            "photographs": {"count": len(paths), "mean_bytes": mean_size(paths)},
            "psnr_from_ours_db": likeness,
            "table": table,
            "wall_seconds": {name: [turn["wall"] for turn in turn_list] for name, turn_list in turns.items()},
        }
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    missed = [row["name"] for row in table if row["required"] is not None and row["ratio"] < row["required"]]
    if missed:
        print(f"below what is required: {', '.join(missed)}", file=sys.stderr)
    return 1 if missed and options.require else 0


def make_photographs(count: int) -> list[str]:
    """Paths of the photographs, which are made if need be."""
    folder = REPOSITORY / ".cache" / "bench" / f"photos-{count}"
    script = REPOSITORY / "scripts" / "make_photos.py"
    subprocess.run([sys.executable, str(script), "--count", str(count), str(folder)], check=True, stdout=sys.stderr)
    return sorted(map(str, folder.rglob("*.jpg")))


def mean_size(paths: list[str]) -> int:
    return sum(os.path.getsize(path) for path in paths) // len(paths)


def start(peer: Peer) -> Client | None:
    """The contestant, unless it cannot run here, which is said and is no reason to stop."""
    try:
        client = Client(peer)
    except SetupError as exc:
        print(f"without {peer.name}: {exc}", file=sys.stderr)
        return None
    try:
        client.ask("describe", [])
    except PeerError as exc:
        print(f"without {peer.name}: {exc}", file=sys.stderr)
        client.__exit__(None, None, None)
        return None
    return client


def compare(clients: list[Client], paths: list[str]) -> dict[str, float]:
    """How alike the batches are to ours.

    Raises:
        PeerError: One is another batch altogether.
    """
    batches = {}
    with tempfile.TemporaryDirectory() as folder:
        for client in clients:
            file = Path(folder) / f"{client.peer.name}.npy"
            if client.ask("save", paths, to=str(file)):
                batches[client.peer.name] = np.load(file).astype(np.float64)
    likeness = {}
    for name, batch in batches.items():
        mean_square = ((batch - batches[OURS]) ** 2).mean() if batch.shape == batches[OURS].shape else 255.0**2
        likeness[name] = round(min(99.0, 10 * float(np.log10(255**2 / max(mean_square, 1e-9)))), 1)
        if likeness[name] < ALIKE_DB:
            raise PeerError(f"{name} gives another batch than {OURS}: {likeness[name]} dB")
    return likeness


def measure(clients: list[Client], paths: list[str], rounds: int) -> dict[str, list[dict[str, float]]]:
    """Times of each turn. The first round warms up and is not kept."""
    turns: dict[str, list[dict[str, float]]] = {client.peer.name: [] for client in clients}
    for number in range(rounds + 1):
        for client in clients:
            turn = client.ask("time", paths)
            if number > 0:
                turns[client.peer.name].append(turn)
    return turns


def summarize(peers: list[Peer], turns: dict[str, list[dict[str, float]]], num_photos: int) -> list[dict[str, Any]]:
    """A row a peer: milliseconds a photograph, and how many times as fast ours was in the same round."""
    table = []
    for peer in peers:
        if peer.name not in turns:
            continue
        walls = [turn["wall"] for turn in turns[peer.name]]
        ratios = [wall / ours["wall"] for wall, ours in zip(walls, turns[OURS], strict=True)]
        fastest = min(walls) / min(turn["wall"] for turn in turns[OURS])
        if peer.num_threads > 1:  # here the question is how much faster it is than one thread
            ratios, fastest = [1 / ratio for ratio in ratios], 1 / fastest
        table.append(
            {
                "name": peer.name,
                "ms": round(1e3 * statistics.median(walls) / num_photos, 3),
                "cpu_ms": round(1e3 * statistics.median(turn["cpu"] for turn in turns[peer.name]) / num_photos, 3),
                "ratio": round(statistics.median(ratios), 3),
                "ratio_min": round(min(ratios), 3),
                "ratio_max": round(max(ratios), 3),
                "ratio_of_fastest": round(fastest, 3),
                "required": peer.required,
            }
        )
    return table


def print_table(table: list[dict[str, Any]]) -> None:
    print("| contestant | ms a photograph | CPU ms | time / ours: median (spread) | of the fastest turns | required |")
    print("|---|---:|---:|---:|---:|---:|")
    for row in table:
        spread = f"{row['ratio']:.2f} ({row['ratio_min']:.2f} to {row['ratio_max']:.2f})"
        required = "" if row["required"] is None else f">= {row['required']}"
        cells = [row["name"], f"{row['ms']:.3f}", f"{row['cpu_ms']:.3f}", spread, f"{row['ratio_of_fastest']:.2f}"]
        print("| " + " | ".join([*cells, required]) + " |")


def describe_machine() -> dict[str, Any]:
    """What the numbers depend on besides the versions."""
    cpuinfo = Path("/proc/cpuinfo")
    model = platform.processor()
    if cpuinfo.exists():
        lines = cpuinfo.read_text(encoding="utf-8").splitlines()
        model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), model)
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
    }
