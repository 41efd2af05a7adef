"""A region of SPDL's; ``way`` is who runs it."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from importlib import metadata
from typing import Any
from unittest.mock import patch

from benchmarks.ray._work import fill, load
from spdl.pipeline import PipelineBuilder
from spdl.pipeline.defs import MAIN_PROCESS, ProcessPoolExecutorConfig

OPS: dict[str, Callable[..., Any]] = {"photos": load, "fill": fill}
NUM_WORKERS = 2


def versions() -> dict[str, str]:
    return {package: metadata.version(package) for package in ("ray", "numpy")}


def open_batches(stack: ExitStack, way: str, work: str, chunks: Sequence[Sequence[str]]) -> Iterable[Any]:
    """An iterable over the batches, which can be iterated again while the stack is open."""
    if way.startswith("actors"):
        from spdl.ray import RayActors

        if way == "actors-far":  # they are not let in: all goes through Ray, as from other nodes
            stack.enter_context(patch("spdl.ray._workers.open_door", lambda *_: None))
        target: Any = RayActors(NUM_WORKERS)
    else:
        target = ProcessPoolExecutorConfig(NUM_WORKERS, mp_context="forkserver")
    builder: Any = PipelineBuilder().add_source(list(chunks), continuous=True).to(target).pipe(OPS[work])
    pipeline = builder.to(MAIN_PROCESS).add_sink(2).build(num_threads=1)
    stack.enter_context(pipeline.auto_stop())
    return pipeline  # type: ignore[no-any-return]
