"""Cases, peers and comparison of outputs."""

from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._contest import result as _contest
from benchmarks._contest.contest import Case, Contest, MoreRounds, OutputMismatch, Outputs, Peer
from benchmarks._contest.photos import make_photos

from . import plot
from ._cells import (
    AUTO_DATASETS,
    CELLS,
    LAST,
    LOADERS,
    MEMORY_BATCHES,
    MODES,
    NUM_PHOTOS,
    NUM_PHOTOS_QUICK,
    SIZE,
    TORCH,
    Cell,
    loaders_in,
)
from ._figures import requirements
from ._photos import Photos
from ._report import tables
from ._result import Result

__all__ = ["CONTEST", "check_samples", "is_unsure", "likeness_to", "make_cases"]

#: A cell in which two turns of a peer differ by more gets another round, if there is time.
WIDE_SPREAD = 0.06
#: Cells of a trial run.
QUICK_CELLS = (Cell(0, 1), Cell(32, 2))
AUTO_ROUNDS, QUICK_SAMPLES = 5, 128
#: The minimum number of samples that are compared in a cell.
NUM_CHECKED, NUM_CHECKED_QUICK = 96, 8

_ADAPTERS = "benchmarks.migration.adapters"
PEERS = (
    *(Peer(loader.name, f"{_ADAPTERS}.{loader.adapter}") for loader in LOADERS),
    *(Peer(mode, f"{_ADAPTERS}.drop_in", settings={"mode": mode}) for mode in MODES),
)


def check_samples(cell: Cell, paths: Sequence[str], given: Outputs) -> str | None:
    """A description of wrong labels (those of the files, in order), shapes, dtypes or batch sizes."""
    photos, images = Photos.of(list(paths)), given["images"]
    labels = [photos.sample(index)[1] for index in range(len(given["labels"]))]
    if given["labels"].tolist() != labels:
        return "it gives other labels than the files have, or in another order"
    if images.shape[1:] != (3, SIZE, SIZE) or images.dtype != np.uint8:
        return f"it gives {images.dtype} of {images.shape[1:]}, not uint8 of (3, {SIZE}, {SIZE})"
    if set(given["sizes"].tolist()) != {cell.batch}:
        return f"it gives batches of {given['sizes'].tolist()}, not of {cell.batch}"
    return None


def _check(cell: Cell, is_quick: bool, given: Outputs) -> str | None:
    return check_samples(cell, _paths(is_quick), given)


def likeness_to(name: str, expected: Outputs, given: Outputs) -> float | None:
    """PSNR of the worst picture, in dB; ``None`` if all must be equal, and are.

    Raises:
        OutputMismatch: A picture differs by more than allowed.
    """
    [loader] = [loader for loader in LOADERS if loader.name == name]
    if loader.least_psnr is None:
        if not np.array_equal(expected["images"], given["images"]):
            raise OutputMismatch(f"{name} gives other pixels than torch's loader")
        return None
    num_images = min(len(expected["images"]), len(given["images"]))
    theirs, ours = (each["images"][:num_images].astype(np.float32) for each in (expected, given))
    errors = np.square(theirs - ours).mean(axis=(1, 2, 3))
    worst = float(10 * np.log10(255**2 / max(float(errors.max()), 1e-9)))
    if worst < loader.least_psnr:
        raise OutputMismatch(
            f"{name} gives a picture that is {worst:.1f} dB from torch's, not {loader.least_psnr:g} or more"
        )
    return worst


def is_unsure(costs: Mapping[str, Sequence[float]]) -> bool:
    """Whether the throughput of the turns differs too much for a median."""
    walls = costs.get("wall_us", ())
    return bool(walls) and max(walls) > (1 + WIDE_SPREAD) * min(walls)


@cache
def _paths(is_quick: bool) -> list[str]:
    return make_photos("web", NUM_PHOTOS_QUICK if is_quick else NUM_PHOTOS)


def _inputs(is_quick: bool, **data: Any) -> Mapping[str, Any]:
    return data | {"paths": _paths(is_quick), "num_checked": NUM_CHECKED_QUICK if is_quick else NUM_CHECKED}


def make_cases(folder: Path, is_quick: bool) -> Sequence[Case]:
    """The cells, then their memory, then the epochs of ``workers="auto"``."""
    cases = []
    for cell in CELLS:
        title = f"{f'batches of {cell.batch}' if cell.batch else 'single samples'}, workers: {cell.workers}"
        case = Case(
            cell.name,
            title,
            partial(_inputs, is_quick, batch=cell.batch, workers=cell.workers, is_memory=False),
            about={"batch": cell.batch, "workers": cell.workers},
            check=partial(_check, cell, is_quick),
            likeness=likeness_to,
            peers=loaders_in(cell),
            is_quick=cell in QUICK_CELLS,
        )
        cases.append(case)
    for cell in CELLS:
        if cell.batch in MEMORY_BATCHES:
            memory = Case(
                f"{cell.name}-memory",
                f"memory, batches of {cell.batch}, workers: {cell.workers}",
                partial(_inputs, is_quick, batch=cell.batch, workers=cell.workers, is_memory=True),
                about={"batch": cell.batch, "workers": cell.workers},
                peers=loaders_in(cell),
                cost="peak",
                rounds=1,
                is_alone=True,
                is_quick=cell in QUICK_CELLS,
            )
            cases.append(memory)
    for dataset, num_samples in AUTO_DATASETS.items():
        num = QUICK_SAMPLES if is_quick else num_samples
        epochs = Case(
            f"auto-{dataset}",
            f"an epoch of {num} samples of {dataset}",
            partial(_inputs, is_quick, dataset=dataset, num_samples=num),
            about={"num_samples": num},
            peers=MODES,
            cost="wall_s",
            rounds=AUTO_ROUNDS,
        )
        cases.append(epochs)
    return cases


def _tables(result: _contest.Result) -> list[str]:
    return tables(Result(result.stored))


def _publish(result: _contest.Result) -> None:
    plot.into_guide(Result(result.stored))


CONTEST = Contest(
    name="migration",
    question="What does each step from torch's DataLoader to SPDL gain?",
    ours=LAST,
    unit="an image",
    peers=PEERS,
    make_cases=make_cases,
    required=requirements(),
    standard=TORCH,
    sessions="benchmarks.migration._session",
    rounds=2,
    # The whole of it has to fit in fifteen minutes on two cores.
    more_rounds=MoreRounds(most=4, is_unsure=is_unsure, seconds=400.0),
    seconds=1.0,
    tables=_tables,
    publish=_publish,
    find_missing=plot.missing,
)
