"""The measurements: outputs first, then turns, then memory, then ``workers="auto"``."""

import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._contest.client import Client
from benchmarks._contest.environments import CHECKOUT

from ._cases import MEMORY_BATCHES, PEERS, SIZE, TORCH, Cell, peers_in
from ._memory import Watcher, memory_of_tree
from ._photos import Photos

#: Of each measurement, by cell and peer.
Turns = dict[Cell, dict[str, list[dict[str, float]]]]
#: By data set and by ``workers``, one value a round.
Epochs = dict[str, dict[str, list[dict[str, Any]]]]

MODES = ("thread", "process", "auto")
#: Data sets of the last measurement, and how many samples make an epoch of some seconds on two cores.
AUTO_DATASETS = {"photographs": 2400, "python": 3600}
#: A cell in which two turns of a peer differ by more gets another round, if there is time.
WIDE_SPREAD = 0.06


class OutputMismatch(RuntimeError):
    """The output of a peer differs from torch's loader, so its time is meaningless."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The amount of measurement.

    Attributes:
        rounds: The minimum and the maximum number of turns.
        seconds: The minimum length of the timed part of a turn.
        memory_seconds: The minimum time for which memory is sampled.
        budget: The seconds after which no cell gets more than the minimum number of turns.
    """

    rounds: tuple[int, int]
    seconds: float
    memory_seconds: float
    budget: float


def worker(name: str) -> Client:
    return Client(name, CHECKOUT, "benchmarks.migration._worker", name)


def compare(clients: Sequence[Client], paths: list[str]) -> dict[str, float | None]:
    """Compare the first samples of each peer, with two workers, with torch's.

    Returns:
        The PSNR in dB of peers whose pixels may differ; ``None`` for the others.

    Raises:
        OutputMismatch: Labels, sizes or pixels are wrong.
    """
    likeness: dict[str, float | None] = {}
    with tempfile.TemporaryDirectory() as folder:
        for cell in (Cell(32, 2), Cell(0, 2)):
            taking_part = peers_in(cell, [client.name for client in clients])
            expected: Mapping[str, Any] | None = None
            for client in sorted(clients, key=lambda client: client.name != TORCH):
                if client.name not in taking_part:
                    continue
                path = Path(folder) / f"{client.name}-{cell.name}.npz"
                client.ask("save", paths=paths, batch=cell.batch, workers=cell.workers, num_samples=96, to=str(path))
                with np.load(path) as arrays:
                    given = {name: arrays[name] for name in arrays.files}
                check_samples(client.name, cell, given, paths)
                expected = expected or given
                [peer] = [peer for peer in PEERS if peer.name == client.name]
                likeness.setdefault(client.name, likeness_to(expected, given, peer.name, peer.least_psnr))
    return likeness


def check_samples(name: str, cell: Cell, given: Mapping[str, Any], paths: list[str]) -> None:
    """Check labels (those of the files, in order), shapes, dtypes and batch sizes.

    Raises:
        OutputMismatch: One of them is wrong.
    """
    photos, images = Photos.of(paths), given["images"]
    labels = [photos.sample(index)[1] for index in range(len(given["labels"]))]
    if given["labels"].tolist() != labels:
        raise OutputMismatch(f"{name} gives other labels than the files have, or in another order")
    if images.shape[1:] != (3, SIZE, SIZE) or images.dtype != np.uint8:
        raise OutputMismatch(f"{name} gives {images.dtype} of {images.shape[1:]}, not uint8 of (3, {SIZE}, {SIZE})")
    if set(given["sizes"].tolist()) != {cell.batch}:
        raise OutputMismatch(f"{name} gives batches of {given['sizes'].tolist()}, not of {cell.batch}")


def likeness_to(
    expected: Mapping[str, Any], given: Mapping[str, Any], name: str, least_psnr: float | None
) -> float | None:
    """PSNR of the worst picture, in dB; ``None`` if all must be equal, and are.

    Raises:
        OutputMismatch: A picture differs by more than allowed.
    """
    if least_psnr is None:
        if not np.array_equal(expected["images"], given["images"]):
            raise OutputMismatch(f"{name} gives other pixels than torch's loader")
        return None
    num_images = min(len(expected["images"]), len(given["images"]))
    theirs, ours = (each["images"][:num_images].astype(np.float32) for each in (expected, given))
    errors = np.square(theirs - ours).mean(axis=(1, 2, 3))
    worst = float(10 * np.log10(255**2 / max(float(errors.max()), 1e-9)))
    if worst < least_psnr:
        raise OutputMismatch(f"{name} gives a picture that is {worst:.1f} dB from torch's, not {least_psnr:g} or more")
    return worst


def measure_cells(
    clients: Sequence[Client], cells: Sequence[Cell], paths: list[str], settings: Settings, start: float
) -> Turns:
    """Take turns A B C, A B C in each cell; more of them where they differ much.

    Args:
        start: The start of the run, by ``time.monotonic``.
    """
    turns: Turns = {}
    for cell in cells:
        able = [client for client in clients if client.name in peers_in(cell, [each.name for each in clients])]
        taken = turns[cell] = {client.name: [] for client in able}
        for number in range(settings.rounds[1]):
            if number >= settings.rounds[0] and (
                time.monotonic() - start > settings.budget or not any(map(is_unsure, taken.values()))
            ):
                break
            for client in able:
                taken[client.name].append(
                    client.ask("time", paths=paths, batch=cell.batch, workers=cell.workers, seconds=settings.seconds)
                )
        _tell(start, f"{cell.name}: {len(next(iter(taken.values())))} rounds of {len(able)} peers")
    return turns


def is_unsure(turns: Sequence[Mapping[str, float]]) -> bool:
    """Whether the throughput of the turns differs too much for a median."""
    rates = [turn["images"] / turn["wall"] for turn in turns]
    return max(rates) > (1 + WIDE_SPREAD) * min(rates)


def measure_memory(
    names: Sequence[str], cells: Sequence[Cell], paths: list[str], seconds: float, start: float
) -> dict[Cell, dict[str, dict[str, int]]]:
    """Memory in bytes of a fresh process of each peer, one after the other, with all descendants.

    Returns:
        ``before``: with everything imported. ``peak`` and ``pss_peak``: while it iterates; see ``Watcher``.
    """
    measured: dict[Cell, dict[str, dict[str, int]]] = {}
    for cell in cells:
        if cell.batch not in MEMORY_BATCHES:
            continue
        for name in peers_in(cell, list(names)):
            with worker(name) as client:
                pid = client.ask("pid")
                before, _ = memory_of_tree(pid)
                with Watcher(pid) as watcher:
                    client.ask("run", paths=paths, batch=cell.batch, workers=cell.workers, seconds=seconds)
                measured.setdefault(cell, {})[name] = {
                    "before": before,
                    "peak": watcher.peak,
                    "pss_peak": watcher.pss_peak,
                }
        _tell(start, f"{cell.name}: memory")
    return measured


def measure_auto(client: Client, paths: list[str], sizes: Mapping[str, int], rounds: int, start: float) -> Epochs:
    """Epochs of both data sets with threads, with processes, and with ``workers="auto"``."""
    epochs: Epochs = {}
    for dataset, num_samples in sizes.items():
        taken = epochs[dataset] = {mode: [] for mode in MODES}
        for _ in range(rounds):
            for mode in MODES:
                taken[mode].append(
                    client.ask("epoch", dataset=dataset, mode=mode, paths=paths, num_samples=num_samples, workers=2)
                )
        _tell(start, f"{dataset}: {rounds} rounds of {len(MODES)} kinds of workers")
    return epochs


def _tell(start: float, what: str) -> None:
    print(f"{time.monotonic() - start:4.0f} s: {what}", file=sys.stderr, flush=True)
