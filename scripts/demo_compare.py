"""The same photographs to the same batches by SPDL, by Pillow in threads and by torch's DataLoader, side by side.

All of them make uint8 batches of one size: each image is scaled to fit, centred and padded with black. The outputs are
compared before anything is timed. Then the contestants take turns in rounds, so that a slow phase of the machine
affects all of them; the table has the median over the rounds. torch is left out if it is not installed.

Usage: python scripts/demo_compare.py [--rounds N] [--count N] FOLDER
"""

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image

from spdl.io import load_image_batch, to_numpy
from spdl.pipeline import PipelineBuilder

WIDTH = HEIGHT = 224
BATCH = 32
# Mean over all pixels of the absolute difference, of 255. Two good antialiased resizes of one photograph differ by
# about 1 to 3; a picture that is shifted by a pixel, or has its channels swapped, by far more.
TOLERANCE = 4.0

Batches = Iterator[np.ndarray]


@dataclass(slots=True)
class Contestant:
    """One way to do the work. ``batches()`` starts it and yields every batch in order."""

    name: str
    batches: Callable[[], Iterable[np.ndarray]]
    seconds: list[float] = field(default_factory=list)


def split(paths: list[str]) -> list[list[str]]:
    return [paths[start : start + BATCH] for start in range(0, len(paths), BATCH)]


def by_spdl(paths: list[str], threads: int) -> Batches:
    def load(batch: list[str]) -> np.ndarray:
        return to_numpy(load_image_batch(batch, width=WIDTH, height=HEIGHT))

    pipeline = (
        PipelineBuilder()
        .add_source(paths)
        .aggregate(BATCH)
        .pipe(load, concurrency=threads, output_order="input")
        .add_sink(3)
        .build(num_threads=threads)
    )
    with pipeline.auto_stop():
        yield from pipeline


def fitted(path: str, *, draft: bool) -> np.ndarray:
    """One image by Pillow. ``draft`` lets libjpeg decode at half size if that is large enough: faster, and softer."""
    with Image.open(path) as image:
        scale = min(WIDTH / image.width, HEIGHT / image.height)
        width, height = max(1, round(image.width * scale)), max(1, round(image.height * scale))
        if draft:
            image.draft("RGB", (width, height))
        picture = image.convert("RGB")
    batch_slot = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    top, left = (HEIGHT - height) // 2, (WIDTH - width) // 2
    batch_slot[top : top + height, left : left + width] = picture.resize((width, height), Image.Resampling.BICUBIC)
    return batch_slot


def by_pillow(paths: list[str], threads: int, *, draft: bool) -> Batches:
    """Whole batches in threads, without a limit on the number that is prefetched."""

    def load(batch: list[str]) -> np.ndarray:
        return np.stack([fitted(path, draft=draft) for path in batch])

    with ThreadPoolExecutor(threads) as pool:
        yield from pool.map(load, split(paths))


class Photographs:
    """A map-style dataset for torch's ``DataLoader``."""

    def __init__(self, paths: list[str]) -> None:
        self._paths = paths

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, index: int) -> np.ndarray:
        return fitted(self._paths[index], draft=False)


def by_dataloader(paths: list[str], workers: int) -> Contestant | None:
    """Persistent worker processes, so that starting them is not timed."""
    try:
        import torch
        from torch.utils.data import DataLoader
    except ImportError:
        return None
    torch.set_num_threads(1)
    loader = DataLoader(Photographs(paths), batch_size=BATCH, num_workers=workers, persistent_workers=True)  # type: ignore[arg-type]
    return Contestant(f"torch DataLoader, {workers} processes (Pillow)", lambda: (batch.numpy() for batch in loader))


def first_batches(contestant: Contestant, num: int) -> np.ndarray:
    """Run the contestant to its end, which also warms it up, and return its first batches."""
    # Not all batches, which would be a gigabyte.
    return np.concatenate([batch for index, batch in enumerate(contestant.batches()) if index < num])


def compare(contestants: list[Contestant], reference: Contestant) -> None:
    """Print how much the outputs differ from those of ``reference``.

    Raises:
        SystemExit: An output has another shape, or differs by more than ``TOLERANCE``.
    """
    expected = first_batches(reference, 4)
    for contestant in contestants:
        if contestant is reference:
            continue
        got = first_batches(contestant, 4)
        if got.shape != expected.shape or got.dtype != np.uint8:
            sys.exit(f"demo: {contestant.name} gives {got.dtype} {got.shape}, not uint8 {expected.shape}")
        difference = float(np.abs(got.astype(np.int16) - expected).mean())
        if difference > TOLERANCE:
            sys.exit(f"demo: {contestant.name} differs from {reference.name} by {difference:.1f} of 255 on average")
        print(f"  {contestant.name}: differs from {reference.name} by {difference:.2f} of 255 on average")


def take_turns(contestants: list[Contestant], rounds: int) -> None:
    """Time each contestant once per round."""
    for turn in range(rounds):
        for contestant in contestants:
            if sys.stderr.isatty():
                print(f"\r\x1b[Kround {turn + 1} of {rounds}: {contestant.name}", end="", file=sys.stderr, flush=True)
            start = time.perf_counter()
            for _ in contestant.batches():
                pass
            contestant.seconds.append(time.perf_counter() - start)
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def table(contestants: list[Contestant], count: int) -> str:
    """Print one contestant per line; the ratio is its time over that of the first."""
    width = max(len(contestant.name) for contestant in contestants)
    best = statistics.median(contestants[0].seconds)
    lines = [f"  {'':<{width}}  images/s  lowest..highest  time against {contestants[0].name}"]
    for contestant in contestants:
        rates = sorted(count / seconds for seconds in contestant.seconds)
        lines.append(
            f"  {contestant.name:<{width}}  {statistics.median(rates):8.0f}  {rates[0]:6.0f}..{rates[-1]:<7.0f}"
            f"  {statistics.median(contestant.seconds) / best:.2f} x"
        )
    return "\n".join(lines)


def main() -> int:
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    parser = argparse.ArgumentParser(description="Compare loading photographs with SPDL and with other libraries.")
    parser.add_argument("--rounds", type=int, default=3, help="number of rounds (default: %(default)s)")
    parser.add_argument(
        "--count", type=int, default=1500, help="maximum number of photographs per round (default: %(default)s)"
    )
    parser.add_argument("--workers", type=int, default=cpus, help="threads, or processes (default: usable CPUs)")
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    paths = [str(path) for path in sorted(arguments.folder.rglob("*.jpg"))][: arguments.count]
    if not paths or arguments.rounds < 1 or arguments.workers < 1:
        parser.error(f"needs photographs in {arguments.folder}, and at least one round and worker")
    workers = arguments.workers

    spdl = Contestant(f"SPDL, {workers} threads", lambda: by_spdl(paths, workers))
    pillow = Contestant(f"Pillow, {workers} threads", lambda: by_pillow(paths, workers, draft=False))
    draft = Contestant(f"Pillow, {workers} threads, draft mode", lambda: by_pillow(paths, workers, draft=True))
    loader = by_dataloader(paths, workers)
    contestants = [spdl, pillow, draft, *([loader] if loader is not None else [])]

    print(f"{len(paths)} photographs to uint8 batches of {BATCH} x {WIDTH}x{HEIGHT}; outputs compared first:")
    compare(contestants, pillow)
    print(f"then {arguments.rounds} rounds in turns (median):")
    take_turns(contestants, arguments.rounds)
    print(table(contestants, len(paths)))
    if loader is None:
        print("  (torch is not installed: its DataLoader is left out)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
