"""One contestant in one process: ``python -m benchmarks.images._worker PEER``, by the peer's interpreter."""

import importlib
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from benchmarks._contest.worker import serve

from ._peers import BATCH, peer_named


def main(peer_name: str) -> None:
    peer = peer_named(peer_name)
    with ThreadPoolExecutor(peer.num_threads) as pool:

        def make() -> dict[str, Callable[..., Any]]:
            adapter = importlib.import_module(f".adapters.{peer.adapter}", __package__)
            return {
                "describe": adapter.versions,
                "save": lambda paths, to: _save(adapter.load, paths, to),
                "time": lambda paths: _time(adapter.load, pool if peer.num_threads > 1 else None, paths),
            }

        serve(make)


def _save(load: Callable[[list[str]], Any], paths: list[str], to: str) -> bool:
    batch = load(paths)
    if batch is None:
        return False
    import numpy as np

    np.save(to, batch)
    return True


def _time(load: Callable[[list[str]], Any], pool: ThreadPoolExecutor | None, paths: list[str]) -> dict[str, float]:
    batches = [paths[start : start + BATCH] for start in range(0, len(paths), BATCH)]
    cpu, wall = time.process_time(), time.perf_counter()
    if pool is None:
        for batch in batches:
            load(batch)
    else:
        for _ in pool.map(load, batches):
            pass
    return {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}


if __name__ == "__main__":
    main(sys.argv[1])
