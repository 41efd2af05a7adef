"""Runs the contestants in turn, and says who was how fast."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._contest import client as _client
from benchmarks._contest.client import PeerError
from benchmarks._contest.environments import REPOSITORY, SetupError
from benchmarks._contest.machine import describe_run

from ._peers import BATCH, OURS, PEERS, Peer, peer_named

# Peers resample with different filters; a wrong place, order of channels or picture is far below this.
ALIKE_DB = 22.0


class Client(_client.Client):
    """A contestant's process."""

    def __init__(self, peer: Peer) -> None:
        super().__init__(peer.name, peer.environment, "benchmarks.images._worker", peer.name)
        self.peer = peer


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
    environment = describe_run("benchmarks/images/run.py", arguments)
    with ExitStack() as stack:
        clients = [stack.enter_context(client) for peer in peers if (client := start(peer)) is not None]
        versions = {client.peer.name: client.ask("describe") for client in clients}
        likeness = compare(clients, paths[:BATCH])
        print({name: f"{value:.1f} dB from ours" for name, value in likeness.items()}, file=sys.stderr)
        turns = measure(clients, paths, options.rounds)
    table = summarize(peers, turns, len(paths))
    print_table(table)
    if options.json:
        result = {
            "environment": environment,
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
        client.ask("describe")
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
            if client.ask("save", paths=paths, to=str(file)):
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
            turn = client.ask("time", paths=paths)
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
