"""The pipelines, and plain threads that do the same, on either interpreter."""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from time import perf_counter
from typing import Any

from benchmarks._contest.ours import spdl_version
from benchmarks._contest.worker import cpu_seconds
from spdl.pipeline import Pipeline, PipelineBuilder

__all__ = ["measure", "outputs", "prepare", "versions"]

_BATCH = 8


def versions() -> dict[str, str]:
    is_free = not getattr(sys, "_is_gil_enabled", lambda: True)()
    return {"spdl": spdl_version(), "gil": "off" if is_free else "on"}


def _noop(item: int) -> int:
    return item


def _python(item: int) -> int:
    """Some 0.2 ms that hold the GIL."""
    number = item
    for _ in range(3000):
        number = (number * 1103515245 + 12345) & 0x7FFFFFFF
    return number


def _make(case: str, data: dict[str, Any]) -> Pipeline[Any]:
    kind = case.partition("-")[0]
    threads, items = data["num_threads"], data["num_items"]
    op: Callable[[Any], Any]
    if kind == "images":
        from spdl.io import load_image_batch, to_numpy

        paths = data["paths"]

        def op(item: int) -> Any:
            chosen = [paths[(item * _BATCH + offset) % len(paths)] for offset in range(_BATCH)]
            return to_numpy(load_image_batch(chosen, width=224, height=224))

    else:
        op = _noop if kind == "noop" else _python
    builder = PipelineBuilder().add_source(range(items)).pipe(op, concurrency=1 if kind == "noop" else threads)
    return builder.add_sink(2 * threads).build(num_threads=threads)


def _plain(threads: int, num_items: int) -> list[int]:
    """The same work in threads that share nothing but the list of results: each has a part of the numbers."""
    results: list[list[int]] = [[] for _ in range(threads)]

    def work(part: int) -> None:
        results[part] = [_python(item) for item in range(part, num_items, threads)]

    workers = [threading.Thread(target=work, args=(part,)) for part in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return [item for part in results for item in part]


def prepare(case: str, data: dict[str, Any]) -> Callable[[], list[Any]]:
    def call() -> list[Any]:
        if case.startswith("plain"):
            return _plain(data["num_threads"], data["num_items"])
        pipeline = _make(case, data)
        with pipeline.auto_stop():
            return list(pipeline)

    return call


def outputs(case: str, result: list[Any]) -> dict[str, Any]:
    """In the order of the source, which no stage promises."""
    import numpy as np

    if case.startswith("images"):
        sums = sorted(int(batch.astype(np.int64).sum()) for batch in result)
        return {"sums": np.array(sums), "first": np.array(result[0].shape)}
    return {"items": np.array(sorted(result))}


@contextmanager
def _busy(count: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Other processes that want a core, each in a session of its own, so that none shares our part of the time."""
    command = [sys.executable, "-c", "print(flush=True)\nwhile True: pass"]
    processes = []
    with ExitStack() as stack:
        for _ in range(count):
            process = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True))
            stack.callback(process.kill)
            assert process.stdout is not None
            process.stdout.readline()
            processes.append(process)
        yield processes


@contextmanager
def _polled(pipeline: Pipeline[Any], count: int) -> Iterator[None]:
    is_over = threading.Event()

    def poll() -> None:
        while not is_over.is_set():
            pipeline.stats()

    threads = [threading.Thread(target=poll) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        is_over.set()
        for thread in threads:
            thread.join()


def measure(case: str, data: dict[str, Any], num_calls: int) -> dict[str, float]:
    """Whole runs of the pipeline: from before it is built to after it has ended."""
    with _busy(data.get("num_busy", 0)):
        cpu, wall = cpu_seconds(), perf_counter()
        for _ in range(num_calls):
            if case.startswith("plain"):
                _plain(data["num_threads"], data["num_items"])
                continue
            pipeline = _make(case, data)
            with pipeline.auto_stop(), _polled(pipeline, data.get("num_polling", 0)):
                for _ in pipeline:
                    pass
        return {"wall": perf_counter() - wall, "cpu": cpu_seconds() - cpu}
