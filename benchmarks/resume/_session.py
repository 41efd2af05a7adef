"""Sessions of this benchmark: items through a shape, states, steps of a loader, first batches, generators.

They import no NumPy, as those of ``engine``: the garbage collector would have more to do.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any

from benchmarks._contest.session import Session, Task
from benchmarks._contest.worker import cpu_seconds
from benchmarks.engine._session import Items
from benchmarks.engine._shapes import SHAPES


def open(adapter: Any, task: Task) -> Session | None:
    kind = task.data["kind"]
    if kind == "items":
        [shape] = [shape for shape in SHAPES if shape.name == task.data["shape"]]
        return Items(shape, adapter.make(shape, task.settings))
    if kind == "state":
        return States(adapter.hold(task.data))
    if kind == "steps":
        return Steps(adapter.loader(task.data), task.data, is_asked=task.settings["is_resuming"])
    if kind == "first":
        start = adapter.starts(task.data, task.settings)
        return None if start is None else Firsts(start, task.data)
    draw = getattr(adapter, task.data["function"], None)
    return None if draw is None else Draws(draw)


class States(Session):
    """``state_dict()`` of a pipeline whose sink is full."""

    def __init__(self, held: Any) -> None:
        self._held = held
        self._num_calls = 1

    def outputs(self) -> Mapping[str, Any]:
        """The items that a pipeline gives that goes on from the state."""
        items: list[int] = self._held.resumed(self._held.state())
        return {"items": items}

    def calibrate(self, seconds: float) -> Mapping[str, float]:
        self.measure()
        self._num_calls = max(5, round(seconds / 2e-4))
        return {"num_calls": self._num_calls}

    def measure(self) -> Mapping[str, float]:
        """Microseconds of a call, and the bytes of the state."""
        state = self._held.state
        cpu, start = cpu_seconds(), time.perf_counter()
        for _ in range(self._num_calls):
            found = state()
        wall, cpu = time.perf_counter() - start, cpu_seconds() - cpu
        scale = 1e6 / self._num_calls
        return {"wall_us": wall * scale, "cpu_us": cpu * scale, "bytes": len(found["spdl"])}

    def close(self) -> None:
        self._held.stop()


class Steps(Session):
    """Epochs of a loader that is asked for its state after every batch, or never."""

    def __init__(self, loader: Any, data: Mapping[str, Any], *, is_asked: bool) -> None:
        self._loader, self._data, self._is_asked = loader, data, is_asked

    def outputs(self) -> Mapping[str, Any]:
        """All items of an epoch; of it again, going on in the middle from the state there."""
        whole = sorted(number for batch in self._loader for number in batch)
        if not self._is_asked:
            return {"whole": whole, "parts": whole}
        parts: list[int] = []
        state = None
        for number, batch in enumerate(self._loader, start=1):
            parts += batch
            state = self._loader.state_dict()
            if number == self._data["num_batches"] // 2:
                break
        self._loader.load_state_dict(state)
        parts += [number for batch in self._loader for number in batch]
        return {"whole": whole, "parts": sorted(parts)}

    def calibrate(self, seconds: float) -> Mapping[str, float]:
        self.measure()  # imports, threads
        return {}

    def measure(self) -> Mapping[str, float]:
        """Microseconds of a step, wall and CPU, the end of the workers included; ``ask_us``: of asking."""
        loader, asked, num_batches = self._loader, 0.0, 0
        cpu, start = cpu_seconds(), time.perf_counter()
        if self._is_asked:
            for _ in loader:
                before = time.perf_counter()
                loader.state_dict()
                asked += time.perf_counter() - before
                num_batches += 1
        else:
            for _ in loader:
                num_batches += 1
        wall, cpu = time.perf_counter() - start, cpu_seconds() - cpu
        if num_batches != self._data["num_batches"]:
            raise ValueError(f"an epoch of {self._data['num_batches']} batches has had {num_batches}")
        scale = 1e6 / num_batches
        found = {"wall_us": wall * scale, "cpu_us": cpu * scale}
        return {**found, "ask_us": asked * scale} if self._is_asked else found


class Firsts(Session):
    """From before a loader is made to its first batch, at the beginning or where a state is loaded."""

    def __init__(self, start: Callable[[], tuple[list[int], Callable[[], object]]], data: Mapping[str, Any]) -> None:
        self._start, self._data = start, data

    def outputs(self) -> Mapping[str, Any]:
        batch, stop = self._start()
        stop()
        return {"first": batch}

    def calibrate(self, seconds: float) -> Mapping[str, float]:
        self.measure()
        return {}

    def measure(self) -> Mapping[str, list[float]]:
        """Milliseconds: ``ms``."""
        found = []
        for _ in range(self._data["repeats"]):
            start = time.perf_counter()
            _, stop = self._start()
            found.append(1e3 * (time.perf_counter() - start))
            stop()
        return {"ms": found}


class Draws(Session):
    """Calls of a function of an index."""

    def __init__(self, draw: Callable[[int], Any]) -> None:
        self._draw = draw
        self._num_calls = 1

    def outputs(self) -> Mapping[str, Any]:
        """Numbers of a few indices, and those of a second time, in the opposite order."""
        indices = range(20)
        return {
            "once": [self._number(index) for index in indices],
            "again": [self._number(index) for index in reversed(indices)][::-1],
        }

    def _number(self, index: int) -> float:
        drawn = self._draw(index)
        return float(drawn if isinstance(drawn, int) else drawn.random())

    def calibrate(self, seconds: float) -> Mapping[str, float]:
        self._num_calls = 1000
        one = self.measure()["wall_us"] * 1e-6
        self._num_calls = max(1000, round(seconds / one))
        return {"num_calls": self._num_calls}

    def measure(self) -> Mapping[str, float]:
        """Microseconds of a call; those of a loop without one are subtracted."""
        draw, indices = self._draw, range(self._num_calls)
        start = time.perf_counter()
        for _ in indices:
            pass
        empty = time.perf_counter() - start
        cpu, start = cpu_seconds(), time.perf_counter()
        for index in indices:
            draw(index)
        wall, cpu = time.perf_counter() - start, cpu_seconds() - cpu
        scale = 1e6 / self._num_calls
        return {"wall_us": (wall - empty) * scale, "cpu_us": (cpu - empty) * scale}
