"""SPDL's pipelines: with ``resumable=True`` and without, and the random numbers of an item."""

import time
from collections.abc import Callable, Mapping
from typing import Any, Literal

from benchmarks._contest.ours import spdl_version
from benchmarks.engine._adapter import Reader, Run, Settings, noop, noop_async
from benchmarks.engine._shapes import NUM_THREADS, SINK_SIZE, Shape
from spdl import resume
from spdl._random import StageSeeds
from spdl.pipeline import Pipeline, PipelineBuilder, Rng
from spdl.source import DistributedKeyedSampler

_BATCH = 32


def versions() -> dict[str, str]:
    return {"spdl": spdl_version()}


def make(shape: Shape, settings: Settings) -> Run:
    op = noop_async if shape.kind == "async" else noop
    output_order: Literal["input", "completion"] = "input" if shape.ordered else "completion"
    resumable = settings["is_resuming"]

    def run(n: int, read: Reader) -> Any:
        builder: PipelineBuilder[Any, Any] = PipelineBuilder().add_source(range(n))
        for _ in range(shape.num_stages):
            builder.pipe(op, concurrency=shape.concurrency, output_order=output_order)
        if shape.batch_size is not None:
            builder.aggregate(shape.batch_size)
        pipeline = builder.add_sink(SINK_SIZE).build(num_threads=NUM_THREADS, resumable=resumable)
        with pipeline.auto_stop():
            return read(pipeline)

    return run


class Held:
    """A pipeline with ``num_pending`` items in its sink, far from the beginning: all, or every other position."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self._data = data
        pipeline = self._build()
        # The state of a run that has come so far, which nobody waits for.
        self._pipeline = self._build()
        self._pipeline.load_state_dict(resume.skip(pipeline.state_dict(), batches=range(data["position"])))
        self._pipeline.start()
        self.state = self._pipeline.state_dict
        deadline = time.monotonic() + 30
        while max(stage.queue_len for stage in self._pipeline.stats().stages) < data["num_pending"]:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the sink has not been filled within 30 s: {self._pipeline.stats()}")
            time.sleep(0.01)

    def _build(self) -> Pipeline[list[int]]:
        stride, num_pending = self._data["stride"], self._data["num_pending"]

        def keep(item: int) -> int | None:
            return item if item % stride == 0 else None

        builder = PipelineBuilder().add_source(range(2 * self._data["position"]))
        return builder.pipe(keep).aggregate(1).add_sink(num_pending).build(num_threads=1, resumable=True)

    def resumed(self, state: dict[str, str]) -> list[int]:
        pipeline = self._build()
        pipeline.load_state_dict(state)
        with pipeline.auto_stop():
            return [pipeline.get_item(timeout=30)[0] for _ in range(self._data["num_pending"])]

    def stop(self) -> None:
        self._pipeline.stop()


def hold(data: Mapping[str, Any]) -> Held:
    return Held(data)


def starts(data: Mapping[str, Any], settings: Settings) -> Callable[[], tuple[list[int], Callable[[], object]]]:
    """Builds a pipeline over a keyed sampler and reads its first batch, at the beginning or at a position."""

    def build() -> Pipeline[list[int]]:
        sampler = DistributedKeyedSampler(data["length"], rank=0, world_size=1, seed=3)
        builder = PipelineBuilder().add_source(sampler).pipe(noop, concurrency=4)
        return builder.aggregate(_BATCH).add_sink(3).build(num_threads=NUM_THREADS, resumable=True)

    state = None
    if settings["is_resuming"]:
        state = resume.skip(build().state_dict(), batches=range(data["position"] // _BATCH))

    def start() -> tuple[list[int], Callable[[], object]]:
        pipeline = build()
        if state is not None:
            pipeline.load_state_dict(state)
        pipeline.start()
        return pipeline.get_item(timeout=60), pipeline.stop

    return start


_SEEDS = StageSeeds(0, "augment")


def seed(index: int) -> int:
    return _SEEDS.at(3, index)


def numpy(index: int) -> Any:
    """What ``rng.numpy()`` costs an op: the seed is known."""
    return Rng(12345678901234567 + index).numpy()
