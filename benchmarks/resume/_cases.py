"""Cases, peers and requirements."""

from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks._contest.columns import Median, RatioTo, Spread
from benchmarks._contest.contest import Case, Contest, Outputs, Peer, Required
from benchmarks._contest.environments import CHECKOUT, Environment
from benchmarks._contest.required import AtMost, Ratio
from benchmarks.engine._cases import TORCH, check_items
from benchmarks.engine._shapes import SHAPES, Shape

__all__ = ["CONTEST", "FAR", "check_batch", "check_draws", "check_pending", "check_steps", "make_cases"]

#: What can be resumed, and the same without. A peer's name ends in ``-off`` where it is not asked to resume.
OURS, OURS_OFF = "spdl", "spdl-off"
LOADER, LOADER_OFF = "loader", "loader-off"
TORCHDATA, TORCHDATA_OFF = "torchdata", "torchdata-off"
GRAIN = "grain"

_ADAPTERS = "benchmarks.resume.adapters"
_PIPELINE, _LOADER, _TORCHDATA = (
    f"{_ADAPTERS}.{name}" for name in ("spdl_pipeline", "spdl_loader", "torchdata_loader")
)
_ON, _OFF = {"is_resuming": True}, {"is_resuming": False}
_TORCHDATA_AT = CHECKOUT if all(find_spec(name) is not None for name in ("torch", "torchdata")) else TORCH

PEERS = (
    Peer(OURS, _PIPELINE, settings=_ON),
    Peer(OURS_OFF, _PIPELINE, settings=_OFF),
    Peer(LOADER, _LOADER, settings=_ON),
    Peer(LOADER_OFF, _LOADER, settings=_OFF),
    Peer(TORCHDATA, _TORCHDATA, _TORCHDATA_AT, _ON),
    Peer(TORCHDATA_OFF, _TORCHDATA, _TORCHDATA_AT, _OFF),
    Peer(GRAIN, f"{_ADAPTERS}.grain_rng", Environment("grain", ("grain==0.2.18",))),
)

NUM_PENDING = 1000
#: Where the states are taken.
FAR = 1_000_000_000
#: Batches of a loader's epoch, and samples of a batch.
NUM_BATCHES, NUM_BATCHES_QUICK, BATCH = 100, 6, 32
#: Number of items of the sources of which the first batch is read, in the middle of an epoch.
LENGTHS = {"first": 1_000_000_000, "first-million": 1_000_000}


def check_pending(stride: int, outputs: Outputs) -> str | None:
    """The pending items, far from the beginning, in their order."""
    wanted = list(range(FAR, FAR + stride * NUM_PENDING, stride))
    found = outputs["items"].tolist()
    return None if found == wanted else f"it goes on with {found[:5]}..., expected {wanted[:5]}..."


def check_steps(num_items: int, outputs: Outputs) -> str | None:
    """Each item once; also in an epoch that was resumed."""
    for name in ("whole", "parts"):
        if outputs[name].tolist() != list(range(num_items)):
            return f"an epoch ({name}) has {len(outputs[name])} items, which are not the integers below {num_items}"
    return None


def check_batch(length: int, outputs: Outputs) -> str | None:
    """A batch of different items."""
    first = outputs["first"].tolist()
    is_good = len(set(first)) == len(first) == BATCH and min(first) >= 0 and max(first) < length
    return None if is_good else f"its first batch is {first}"


def check_draws(outputs: Outputs) -> str | None:
    """The same numbers for an index each time, and other numbers for other indices."""
    once, again = outputs["once"].tolist(), outputs["again"].tolist()
    if once != again:
        return f"it draws {once[:3]}... and then {again[:3]}... for the same indices"
    return None if len(set(once)) == len(once) else "it draws the same for several indices"


def _items(shape: Shape) -> Case:
    return Case(
        shape.name,
        shape.title,
        {"kind": "items", "shape": shape.name},
        check=partial(check_items, shape),
        peers=(OURS, OURS_OFF),
        cost="cpu_us",
        columns=(
            Spread("CPU µs an item (min to max)", "cpu_us"),
            RatioTo("CPU / not resumable (min to max)", OURS_OFF, "cpu_us"),
            Spread("wall µs (min to max)", "wall_us"),
        ),
    )


def _state(name: str, title: str, stride: int) -> Case:
    data = {"kind": "state", "stride": stride, "num_pending": NUM_PENDING, "position": FAR}
    columns = (Spread("µs (min to max)", "wall_us"), Median("CPU µs", "cpu_us"), Median("bytes", "bytes"))
    return Case(name, title, data, check=partial(check_pending, stride), peers=(OURS,), columns=columns)


def _steps(workers: str, is_quick: bool) -> Case:
    num_batches = NUM_BATCHES_QUICK if is_quick else NUM_BATCHES
    return Case(
        f"steps-{workers}",
        f"a step of a loader with two workers, its state asked for or not; SPDL's workers: {workers}",
        {"kind": "steps", "workers": workers, "num_batches": num_batches, "batch_size": BATCH},
        about={"batch_size": BATCH, "num_batches": num_batches},
        check=partial(check_steps, num_batches * BATCH),
        peers=(LOADER, LOADER_OFF, TORCHDATA, TORCHDATA_OFF),
        cost="cpu_us" if workers == "thread" else "wall_us",
        columns=(
            Spread("wall µs a step (min to max)", "wall_us"),
            RatioTo("wall / SPDL's, not asked (min to max)", LOADER_OFF, "wall_us"),
            RatioTo("wall / torchdata's, not asked (min to max)", TORCHDATA_OFF, "wall_us"),
            Spread("CPU µs a step (min to max)", "cpu_us"),
            RatioTo("CPU / SPDL's, not asked (min to max)", LOADER_OFF, "cpu_us"),
            Median("of it µs asking", "ask_us"),
        ),
        is_quick=workers == "thread",
    )


def _first(name: str, is_quick: bool) -> Case:
    length = LENGTHS[name]
    return Case(
        name,
        f"the first batch, ms: position {length // 2} of {length}, and (-off) the beginning",
        {"kind": "first", "length": length, "position": length // 2, "repeats": 2 if is_quick else 20},
        check=partial(check_batch, length),
        peers=(OURS, OURS_OFF, TORCHDATA, TORCHDATA_OFF),
        cost="ms",
        columns=(
            Spread("ms (min to max)", "ms"),
            RatioTo("ms / SPDL's at the beginning (min to max)", OURS_OFF, "ms"),
            RatioTo("ms / torchdata's at the beginning (min to max)", TORCHDATA_OFF, "ms"),
        ),
    )


def _draws(name: str, title: str, function: str, peers: Sequence[str]) -> Case:
    data: dict[str, Any] = {"kind": "draws", "function": function}
    columns = (Spread("µs (min to max)", "wall_us"), Median("CPU µs", "cpu_us"))
    return Case(name, title, data, check=check_draws, peers=peers, columns=columns)


def make_cases(folder: Path, is_quick: bool) -> Sequence[Case]:
    return [
        *map(_items, SHAPES),
        _state("state-block", f"a state with {NUM_PENDING} pending items in a row", 1),
        _state("state-apart", f"a state with {NUM_PENDING} pending items that are apart", 2),
        *(_steps(workers, is_quick) for workers in ("thread", "process")),
        *(_first(name, is_quick) for name in LENGTHS),
        # Last, because they import NumPy.
        _draws("rng-seed", "the seed of an item", "seed", (OURS,)),
        _draws("rng-numpy", "a NumPy generator for an item", "numpy", (OURS, GRAIN)),
    ]


REQUIRED: tuple[Required, ...] = (
    *(
        Ratio(f"{shape.title}: CPU, resumable / not", (shape.name, OURS, "cpu_us"), (shape.name, OURS_OFF, "cpu_us"),
              at_most=1.05, of_rounds=True)
        for shape in SHAPES
    ),
    *(
        AtMost(f"{what}, {NUM_PENDING} pending, {where}", (f"state-{where}", OURS, name), limit, unit=unit)
        for where in ("block", "apart")
        for what, name, limit, unit in (("state", "wall_us", 200, " µs"), ("its size", "bytes", 16384, " bytes"))
    ),
    *(
        Ratio(f"a step, workers {workers}: {time}, asked / not", (f"steps-{workers}", LOADER, figure),
              (f"steps-{workers}", LOADER_OFF, figure), at_most=1.02, of_rounds=True)
        # The CPU time of worker processes is not known here, and without it a step costs next to nothing.
        for workers, time, figure in (("thread", "CPU", "cpu_us"), ("process", "time", "wall_us"))
    ),
    Ratio("first batch, position 5e8 of 1e9 / the beginning", ("first", OURS, "ms"), ("first", OURS_OFF, "ms"),
          at_most=1.2),
    AtMost("seed of an item", ("rng-seed", OURS), 1.0),
    AtMost("rng.numpy()", ("rng-numpy", OURS), 3.0),
)  # fmt: skip

CONTEST = Contest(
    name="resume",
    question="What does it cost that a run can be resumed?",
    ours=OURS,
    unit="an item",
    peers=PEERS,
    make_cases=make_cases,
    required=REQUIRED,
    sessions="benchmarks.resume._session",
    rounds=15,
    seconds=0.5,
)
