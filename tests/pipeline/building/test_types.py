"""What type checkers know of a pipeline: mypy reads this file in ``make check``, pyright in the last test."""

from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any, assert_type

from spdl.pipeline import Pipeline, PipelineBuilder
from spdl.pipeline.batching import LengthBuckets
from spdl.pipeline.defs import MAIN_PROCESS, ProcessPoolExecutorConfig
from tests.support.checkers import assert_pyright_agrees
from tests.support.running import TIMEOUT


def read(path: str) -> bytes:
    return path.encode()


def length(data: bytes) -> int:
    return len(data)


def even(number: int) -> int | None:
    return None if number % 2 else number


async def fetch(path: str) -> bytes:
    return path.encode()


async def find(path: str) -> bytes | None:
    return path.encode() or None


def each_byte(data: bytes) -> Iterator[int]:
    yield from data


async def each_line(path: str) -> AsyncIterator[bytes]:
    for line in path.splitlines():
        yield line.encode()


class Scale:
    def __call__(self, number: int) -> float:
        return number / 2


def drawn(item: str, *, rng: Any) -> float:
    return float(rng.python().random())


def paths() -> PipelineBuilder[str, str]:
    return PipelineBuilder().add_source(["a", "bc"])


def test_a_stage_emits_what_its_op_returns() -> None:
    """Or yields; not the ``None`` by which an op drops an item, and not the awaitable of an async function."""
    assert_type(paths().pipe(read), PipelineBuilder[str, bytes])
    assert_type(paths().pipe(read, concurrency=2, output_order="input").pipe(length), PipelineBuilder[str, int])
    assert_type(paths().pipe(read).pipe(length).pipe(even), PipelineBuilder[str, int])
    assert_type(paths().pipe(fetch), PipelineBuilder[str, bytes])
    assert_type(paths().pipe(find), PipelineBuilder[str, bytes])
    assert_type(paths().pipe(read).pipe(each_byte), PipelineBuilder[str, int])
    assert_type(paths().pipe(each_line), PipelineBuilder[str, bytes])
    assert_type(paths().pipe(len).pipe(Scale()), PipelineBuilder[str, float])
    assert_type(paths().pipe(partial(read)), PipelineBuilder[str, bytes])
    assert_type(paths().pipe({"a": 1.5, "bc": 2.5}), PipelineBuilder[str, float])
    assert_type(paths().pipe(lambda path: path + "/"), PipelineBuilder[str, str])


def test_batches_are_lists_or_what_the_aggregator_makes() -> None:
    """And what takes them apart gives their elements."""
    assert_type(paths().pipe(read).aggregate(2), PipelineBuilder[str, list[bytes]])
    assert_type(paths().pipe(read).aggregate(2).disaggregate(), PipelineBuilder[str, bytes])
    buckets: LengthBuckets[bytes] = LengthBuckets([4, 8], batch_size=2)
    assert_type(paths().pipe(read).aggregate(buckets), PipelineBuilder[str, list[bytes]])


def test_a_pipeline_gives_what_its_last_stage_emits() -> None:
    """Placement and the sink change nothing."""
    region = paths().to(ProcessPoolExecutorConfig(max_workers=1)).pipe(read).to(MAIN_PROCESS)
    assert_type(region, PipelineBuilder[str, bytes])
    pipeline = paths().pipe(read).add_sink().build(num_threads=1)
    assert_type(pipeline, Pipeline[bytes])
    with pipeline.auto_stop():
        for item in pipeline.get_iterator(timeout=TIMEOUT):
            assert_type(item, bytes)


def test_what_has_no_types_is_anything() -> None:
    """An op with random numbers, too: it may take any item."""
    untyped: Any = read
    assert_type(paths().pipe(untyped), PipelineBuilder[str, Any])
    assert_type(paths().pipe(drawn, rng=True), PipelineBuilder[str, Any])


def test_wrong_chains_are_errors_of_the_checker() -> None:
    """mypy complains of each ``ignore`` that it does not need, so each of these is an error."""
    paths().pipe(length)  # type: ignore[arg-type]
    paths().pipe(read).aggregate(2).pipe(length)  # type: ignore[arg-type]
    paths().pipe(len).disaggregate()  # type: ignore[misc]
    sizes: dict[str, int] = {"a": 1}
    PipelineBuilder().add_source(range(3)).pipe(sizes)  # type: ignore[arg-type]


def test_pyright_agrees() -> None:
    """It finds the same errors and no others, where it is installed."""
    assert_pyright_agrees(__file__)
