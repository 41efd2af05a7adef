"""One contestant in one process: ``python -m benchmarks.images._worker PEER``, by the peer's interpreter."""

import importlib
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

from benchmarks._contest.worker import serve

from ._held import measure_held
from ._peers import peer_named
from ._work import Photo, Work

Load = Callable[[], Iterable[Any]]


class Contestant:
    """An adapter, with the work that it prepared last, which is freed before the next is prepared."""

    def __init__(self, adapter: Any) -> None:
        self._adapter = adapter
        self._prepared: tuple[object, Load | None] = (None, None)

    def load(self, work: dict[str, Any], photos: list[dict[str, Any]]) -> Load | None:
        if self._prepared[0] != (work, photos):
            self._prepared = (None, None)
            chosen = [Photo(**photo) for photo in photos]
            self._prepared = ((work, photos), self._adapter.prepare(Work(**work), chosen))
        return self._prepared[1]

    def draw(self, paths: list[str]) -> list[dict[str, Any]]:
        drawn: list[dict[str, Any]] = self._adapter.draw(paths)
        return drawn

    def save(self, work: dict[str, Any], photos: list[dict[str, Any]], to: str) -> dict[str, bool]:
        load = self.load(work, photos)
        if load is None:
            return {"is_able": False, "has_output": False}
        import numpy as np

        # Only the first batch is compared. The others are loaded too, because some peers continue where they stopped.
        has_output = False
        for batch in load():
            if not has_output:
                np.save(to, batch)
            has_output = True
        return {"is_able": True, "has_output": has_output}

    def time(self, work: dict[str, Any], photos: list[dict[str, Any]]) -> dict[str, float]:
        load = self.load(work, photos)
        assert load is not None  # called only after a successful save
        cpu, wall = time.process_time(), time.perf_counter()
        for _ in load():
            pass
        return {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}

    def held(self, work: dict[str, Any], photos: list[dict[str, Any]]) -> dict[str, float]:
        load = self.load(work, photos)
        assert load is not None
        return measure_held(load)


def main(peer_name: str) -> None:
    def make() -> dict[str, Callable[..., Any]]:
        adapter = importlib.import_module(f".adapters.{peer_named(peer_name).adapter}", __package__)
        contestant = Contestant(adapter)
        return {
            "describe": adapter.versions,
            "draw": contestant.draw,
            "save": contestant.save,
            "time": contestant.time,
            "held": contestant.held,
        }

    serve(make)


if __name__ == "__main__":
    main(sys.argv[1])
