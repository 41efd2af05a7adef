"""The pipelines, on either interpreter."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import thread_time
from typing import Any

from benchmarks._contest.ours import spdl_version
from spdl.pipeline import Pipeline, PipelineBuilder

__all__ = ["BATCHES", "make", "noop", "timed_native_calls", "value_of", "versions"]

#: How many photographs a call takes, by case.
BATCHES = {"batches": 32, "batches-128": 128}


def versions() -> dict[str, str]:
    is_free = not getattr(sys, "_is_gil_enabled", lambda: True)()
    return {"spdl": spdl_version(), "gil": "off" if is_free else "on"}


def noop(item: Any) -> Any:
    return item


def make(case: str, paths: list[str], num_items: int, num_threads: int) -> Pipeline[Any]:
    """``items``: three no-op stages. ``images``: a call for each photograph. ``batches``: one for many of them."""
    if case == "items":
        builder: PipelineBuilder[Any, Any] = PipelineBuilder().add_source(range(num_items))
        for _ in range(3):
            builder.pipe(noop, concurrency=num_threads)
        return builder.add_sink(100).build(num_threads=num_threads)

    from spdl.io import load_image_batch, to_numpy

    def load(chosen: list[str]) -> Any:
        return to_numpy(load_image_batch(chosen, width=224, height=224))

    chosen = [paths[number % len(paths)] for number in range(num_items)]
    builder = PipelineBuilder().add_source(chosen)
    if case in BATCHES:
        builder.aggregate(BATCHES[case]).pipe(load, concurrency=num_threads)
    else:
        builder.pipe(lambda path: load([path]), concurrency=num_threads)
    return builder.add_sink(2 * num_threads).build(num_threads=num_threads)


def value_of(case: str, output: Any) -> int:
    """A number whose sum over all outputs does not depend on their order, nor on the batches."""
    return int(output) if case == "items" else int(output.sum(dtype="int64"))


@contextmanager
def timed_native_calls() -> Iterator[list[float]]:
    """Note the CPU seconds of each native call that loads images: the work without the GIL."""
    from spdl.io import _native

    load, spent = _native.core.load_slots, []

    def timed(*args: Any, **kwargs: Any) -> Any:
        began = thread_time()
        try:
            return load(*args, **kwargs)
        finally:
            spent.append(thread_time() - began)

    core: Any = _native.core
    core.load_slots = timed
    try:
        yield spent
    finally:
        core.load_slots = load
