"""The pipelines, and the training step."""

import zlib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

import spdl.io
from benchmarks._contest.ours import spdl_version
from spdl.pipeline import PipelineBuilder, arena_slot, run_pipeline_in_subprocess
from spdl.pipeline.defs import MAIN_PROCESS, ProcessPoolExecutorConfig

BATCH, SIZE = 32, 224
#: The number of threads of a pipeline in one process, or of workers of a region.
NUM_AT_ONCE = 2
_SHAPE = (BATCH, SIZE, SIZE, 3)


def load_photos(paths: list[str]) -> Any:
    """One native call per batch, which needs no Python while it decodes. The batch is written where it is read."""
    memory = np.frombuffer(arena_slot(int(np.prod(_SHAPE))), np.uint8).reshape(_SHAPE)
    return spdl.io.to_numpy(spdl.io.load_image_batch(paths, width=SIZE, height=SIZE, storage=memory))


def parse_records(paths: list[str]) -> Any:
    """A stand-in for an op in pure Python: 0.3 ms per sample, holding the GIL all the time."""
    batch = np.frombuffer(arena_slot(BATCH * 8), np.int64)
    for place, path in enumerate(paths):
        value = zlib.crc32(path.encode())
        for step in range(4000):
            value = (value * 31 + step) & 0xFFFFFFFF
        batch[place] = value
    return batch


def versions() -> dict[str, str]:
    return {"spdl": spdl_version(), "numpy": np.__version__}


OPS = {"photos": load_photos, "python": parse_records}


@dataclass(frozen=True, slots=True)
class Batches:
    """A continuous source: ``num_batches`` lists of files in each epoch, starting over at the end of the files."""

    paths: tuple[str, ...]
    num_batches: int

    def __iter__(self) -> Iterator[list[str]]:
        for start in range(0, self.num_batches * BATCH, BATCH):
            yield [self.paths[index % len(self.paths)] for index in range(start, start + BATCH)]


def open_way(stack: ExitStack, way: str, case: str, source: Batches) -> Iterable[Any]:
    """Start the pipeline; each iteration is an epoch. It ends with the stack, or with the last reference."""
    builder = PipelineBuilder().add_source(source, continuous=True)
    op = OPS[case]
    if way == "region":
        builder.to(ProcessPoolExecutorConfig(max_workers=NUM_AT_ONCE)).pipe(op).to(MAIN_PROCESS)
    else:
        builder.pipe(op, concurrency=NUM_AT_ONCE)
    builder.add_sink(3)
    if way == "subprocess":
        return run_pipeline_in_subprocess(builder, num_threads=NUM_AT_ONCE)
    pipeline = builder.build(num_threads=NUM_AT_ONCE)
    stack.enter_context(pipeline.auto_stop())
    return pipeline


_LAUNCHES, _MEMORY = 100, bytes(8192)


def training_step() -> int:
    """A stand-in for a step that is bound by Python: a hundred times some Python and a call that releases the GIL.

    torch's operators, and all code that launches kernels, do the same: each call has to take the GIL back.
    """
    value = 0
    for launch in range(_LAUNCHES):
        for step in range(1000):
            value = (value * 31 + step) & 0xFFFFFFFF
        # Without the GIL from 5 kB on: Modules/zlibmodule.c.
        value ^= zlib.crc32(_MEMORY, launch)
    return value
