"""The command line: the cells, the peers, and the result file."""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks._contest.client import Client, PeerError
from benchmarks._contest.environments import REPOSITORY
from benchmarks._contest.machine import describe_run

from . import plot
from ._cases import CELLS, LAST, NUM_PHOTOS, NUM_PHOTOS_QUICK, PEERS, TORCH, Cell, cell_named
from ._figures import figures_of
from ._measure import (
    AUTO_DATASETS,
    Epochs,
    OutputMismatch,
    Settings,
    compare,
    measure_auto,
    measure_cells,
    measure_memory,
    worker,
)
from ._report import page
from ._result import Result

QUESTION = "What does each step from torch's DataLoader to SPDL gain?"
#: The whole of it has to fit in fifteen minutes on two cores.
FULL = Settings(rounds=(2, 4), seconds=1.0, memory_seconds=1.0, budget=400.0)
QUICK = Settings(rounds=(1, 1), seconds=0.05, memory_seconds=0.1, budget=0.0)
AUTO_ROUNDS = 5
QUICK_CELLS = (Cell(0, 1), Cell(32, 2))
NEEDS = {"torch": "bench-torch", "PIL": "bench"}


def main(arguments: list[str]) -> int:
    """Measure, print, store, draw.

    Returns:
        0; 1 if ``--require`` was given and a requirement is missed or could not be measured; 2 if a peer failed or its
        output differs from torch's loader, in which case nothing is reported.
    """
    start = time.monotonic()
    options = _parser().parse_args(arguments)
    is_stored = not options.quick or options.json is not None
    # Found now rather than after a quarter of an hour.
    problem = plot.missing() if not options.quick and not options.no_pictures else None
    if problem is not None:
        print(f"migration benchmark: {problem}, or give --no-pictures", file=sys.stderr)
        return 2
    environment = describe_run("benchmarks/migration/run.py", arguments)
    paths = _photographs(NUM_PHOTOS_QUICK if options.quick else NUM_PHOTOS)
    settings = QUICK if options.quick else FULL
    cells = options.cells or (QUICK_CELLS if options.quick else CELLS)
    try:
        with ExitStack() as stack:
            clients, versions, missing = _start(stack, options.peers)
            likeness = compare(clients, paths)
            turns = measure_cells(clients, cells, paths, settings, start)
        names = list(versions)
        watched = [name for name in names if name in (TORCH, LAST)] if options.quick else names
        memory = measure_memory(watched, cells, paths, settings.memory_seconds, start)
    except (PeerError, OutputMismatch) as exc:
        print(f"migration benchmark: {exc}", file=sys.stderr)
        return 2
    auto = {} if options.no_auto or "drop-in" not in names else _auto(paths, options.quick, missing, start)
    stored: dict[str, Any] = {
        "question": QUESTION,
        "environment": environment | {"seconds": round(time.monotonic() - start)},
        "settings": asdict(settings),
        "photographs": {"count": len(paths), "mean_bytes": sum(Path(p).stat().st_size for p in paths) // len(paths)},
        "peers": versions,
        "missing": missing,
        "likeness_db": likeness,
        "cells": [asdict(cell) | {"turns": turns[cell], "memory": memory.get(cell, {})} for cell in cells],
        "auto": auto,
    }
    result = Result(stored)
    figures = figures_of(result)
    stored["figures"] = [figure.as_json() for figure in figures]
    print(page(result))
    if is_stored:
        path = options.json or _default_path(environment)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(stored, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"written to {path}", file=sys.stderr)
        if not options.quick and not options.no_pictures:
            plot.into_guide(result)
    missed = [f"{figure.title} ({figure.verdict})" for figure in figures if not figure.passed]
    if missed and options.require:
        print(f"migration benchmark: requirements not met: {'; '.join(missed)}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="benchmarks/migration/run.py", description=QUESTION)
    parser.add_argument("--quick", action="store_true", help="a short trial run; nothing is stored")
    parser.add_argument(
        "--cells", type=_cells, help="comma-separated, BATCHxWORKERS; a batch of 0 is single samples; default all"
    )
    known = [peer.name for peer in PEERS]
    text = f"comma-separated; default all of: {', '.join(known)}"
    parser.add_argument("--peers", type=_names(known), default=known, help=text)
    parser.add_argument("--no-auto", action="store_true", help='leave out the epochs of workers="auto"')
    parser.add_argument("--no-pictures", action="store_true", help="leave docs/ as it is")
    parser.add_argument(
        "--json", type=Path, metavar="PATH", help="write the result to this file (default: in results/)"
    )
    parser.add_argument("--require", action="store_true", help="exit with 1 if a requirement is not met")
    return parser


def _cells(text: str) -> list[Cell]:
    try:
        return [cell_named(name) for name in text.split(",")]
    except ValueError as exc:
        raise argparse.ArgumentTypeError(str(exc)) from exc


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


def _start(stack: ExitStack, names: Sequence[str]) -> tuple[list[Client], dict[str, dict[str, str]], dict[str, str]]:
    """A worker for each peer that can run here, their versions, and the reasons why others cannot. torch's is first.

    Raises:
        PeerError: torch's loader cannot run, so there is nothing to compare with.
    """
    clients, versions, missing = [], {}, {}
    # All at once: importing takes seconds.
    for client in [stack.enter_context(worker(name)) for name in [TORCH, *(name for name in names if name != TORCH)]]:
        name = client.name
        try:
            versions[name] = client.ask("describe")
            clients.append(client)
        except PeerError as exc:
            if name == TORCH:
                extras = ", ".join(f"{package}: pip install '.[{extra}]'" for package, extra in NEEDS.items())
                raise PeerError(f"{exc}\ntorch's loader and Pillow are needed ({extras})") from exc
            # Results are public: they must not contain the path of the repository.
            missing[name] = str(exc).strip().splitlines()[-1].replace(f"{REPOSITORY}/", "")
            print(f"without {name}: {missing[name]}", file=sys.stderr)
    return clients, versions, missing


def _auto(paths: list[str], is_quick: bool, missing: dict[str, str], start: float) -> Epochs:
    """Keep the other measurements if this one fails; ``missing`` then has the reason."""
    sizes = dict.fromkeys(AUTO_DATASETS, 128) if is_quick else AUTO_DATASETS
    try:
        with worker("drop-in") as client:
            return measure_auto(client, paths, sizes, 1 if is_quick else AUTO_ROUNDS, start)
    except PeerError as exc:
        missing["auto"] = str(exc).strip().splitlines()[-1]
        print(f'without workers="auto": {exc}', file=sys.stderr)
        return {}


def _default_path(environment: dict[str, Any]) -> Path:
    stamp = environment["date"].replace(":", "").replace("+0000", "Z")
    name = f"{stamp}-{sys.implementation.cache_tag}-{environment['cores']}cores.json"
    return REPOSITORY / "benchmarks" / "migration" / "results" / name
