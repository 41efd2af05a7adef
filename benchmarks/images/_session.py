"""Sessions of this benchmark: all photographs as batches, and the time with the GIL.

An adapter is a module with ``versions() -> dict[str, str]`` and ``prepare(work, photos)``, which returns a function
that loads all photographs and iterates over the batches, as arrays; or ``None``, if the peer cannot do the work.
``prepare`` is called once per session, the function in each turn. The settings of a peer are the fields of the work in
which it differs from the case.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks._contest.session import Session, Task

from ._held import measure_held
from ._work import Photo, Work, work_of

Load = Callable[[], Iterable[Any]]


def open(adapter: Any, task: Task) -> Session | None:
    work = work_of(Work(**task.data["work"]), task.settings)
    photos = [Photo(**photo) for photo in task.data["photos"]]
    load = None if work is None else adapter.prepare(work, photos)
    if load is None:
        return None
    return Held(load) if task.data["is_held"] else Batches(load, photos)


class Batches(Session):
    """All photographs, in batches."""

    def __init__(self, load: Load, photos: Sequence[Photo]) -> None:
        self._load, self._photos = load, photos

    def outputs(self) -> Mapping[str, Any]:
        import numpy as np

        # Only the first batch is compared. The others are loaded too, because some peers continue where they stopped.
        batches = iter(self._load())
        first = next(batches, None)
        if first is not None:
            first = np.array(first)  # a copy: some write every batch to the same memory
        for _ in batches:
            pass
        return {} if first is None else {"batch": first}

    def calibrate(self, seconds: float) -> Mapping[str, float]:
        """A turn is all photographs."""
        num_photos = len(self._photos)
        return {
            "num_photos": num_photos,
            "mean_bytes": sum(Path(photo.path).stat().st_size for photo in self._photos) // num_photos,
        }

    def measure(self) -> Mapping[str, float]:
        """Microseconds per photograph; CPU time is that of all threads of this process."""
        cpu, wall = time.process_time(), time.perf_counter()
        for _ in self._load():
            pass
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        a_photo = 1e6 / len(self._photos)
        return {"wall_us": wall * a_photo, "cpu_us": cpu * a_photo}


class Held(Session):
    """The time with the GIL while all photographs are loaded."""

    def __init__(self, load: Load) -> None:
        self._load = load

    def measure(self) -> Mapping[str, float]:
        """Seconds: see ``measure_held``."""
        return {f"{name}_s": seconds for name, seconds in measure_held(self._load).items()}
