"""Every way in which a stage can fail is told in the same way."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from fractions import Fraction
from typing import Any

import pytest

from spdl.pipeline import (
    FailureLimitError,
    PipelineBuilder,
    StageInfo,
    TaskHook,
    build_pipeline,
)
from spdl.pipeline.defs import Aggregator, Merge, Pipe, PipelineConfig, SinkConfig, SourceConfig
from tests.pipeline.failures import failing
from tests.pipeline.failures.failing import AsyncBreaking, Breaking, SourceError, refuse
from tests.support.running import build_of, drain, fail


class BadAccumulate(Aggregator[Any, Any]):
    def accumulate(self, item: Any) -> Any:
        raise ValueError("accumulate")

    def flush(self) -> Any:
        return None


class BadFlush(Aggregator[Any, Any]):
    def accumulate(self, item: Any) -> Any:
        return item

    def flush(self) -> Any:
        raise ValueError("flush")


async def two_parameters(first: Any, second: Any) -> Any:
    return first


class HookOnEntry(TaskHook):
    @asynccontextmanager
    async def stage_hook(self) -> AsyncIterator[None]:
        self.enter()
        yield

    def enter(self) -> None:
        raise ValueError("on entry")


class HookOnExit(TaskHook):
    @asynccontextmanager
    async def stage_hook(self) -> AsyncIterator[None]:
        yield
        raise ValueError("on exit")


async def bad_merge(info: StageInfo, inputs: Any, output: Any) -> None:
    await output.put(await inputs[0].get())
    raise ValueError("merge")


def merging(op: Any) -> PipelineConfig[Any]:
    sub: PipelineConfig[Any] = PipelineConfig(SourceConfig(range(3)), [], SinkConfig(1))
    return PipelineConfig(Merge([sub, sub], op), [], SinkConfig(3))


def config(source: Any, *stages: Callable[[PipelineBuilder[Any, Any]], Any]) -> PipelineConfig[Any]:
    cfg: PipelineConfig[Any] = build_of(source, *stages).get_config()
    return cfg


def raising_router(item: Any) -> int:
    raise ValueError("router")


async def async_router(item: Any) -> int:
    raise ValueError("router")


WAYS: dict[str, tuple[PipelineConfig[Any], dict[str, Any], str, type[BaseException], list[Any] | None]] = {
    "sync source": (config(Breaking(3), lambda b: b.pipe(int)), {}, "src", SourceError, [0, 1, 2]),
    "async source": (config(AsyncBreaking(), lambda b: b.pipe(int)), {}, "src", SourceError, [0, 1, 2]),
    "iter of the source": (config(Breaking(0)), {}, "src", SourceError, []),
    "limit of the pipeline": (
        config(range(9), lambda b: b.pipe(refuse, name="refuse")),
        {"max_failures": 2},
        "refuse",
        FailureLimitError,
        [],
    ),
    "limit of the stage": (
        config(range(9), lambda b: b.pipe(refuse, name="refuse", max_failures=0)),
        {},
        "refuse",
        FailureLimitError,
        [],
    ),
    "rate of the stage": (
        config(range(200), lambda b: b.pipe(refuse, name="refuse", max_failures=Fraction(1, 2))),
        {},
        "refuse",
        FailureLimitError,
        [],
    ),
    "hook on entry": (
        config(range(3), lambda b: b.pipe(int, name="op")),
        {"task_hook_factory": lambda info: [HookOnEntry()]},
        "op",
        ValueError,
        [],
    ),
    "hook on exit": (
        config(range(3), lambda b: b.pipe(int, name="op")),
        {"task_hook_factory": lambda info: [HookOnExit()]},
        "op",
        ValueError,
        [0, 1, 2],
    ),
    "router": (
        config(range(3), lambda b: b.path_variants(raising_router, [[Pipe(int)]], name="route")),
        {},
        "route",
        ValueError,
        [],
    ),
    "async router": (
        config(range(3), lambda b: b.path_variants(async_router, [[Pipe(int)]], name="route")),
        {},
        "route",
        ValueError,
        [],
    ),
    "index of the router": (
        config(range(3), lambda b: b.path_variants(lambda item: 1, [[Pipe(int)]], name="route")),
        {},
        "route",
        IndexError,
        [],
    ),
    "negative index of the router": (
        config(range(3), lambda b: b.path_variants(lambda item: -1, [[Pipe(int)]], name="route")),
        {},
        "route",
        IndexError,
        [],
    ),
    "count of the batch router": (
        config([[1, 2]], lambda b: b.path_variants(lambda batch: [0], [[Pipe(list)]], name="route", batched=True)),
        {},
        "route",
        ValueError,
        [],
    ),
    "merge op": (merging(bad_merge), {}, "merge", ValueError, [0]),
    "accumulate": (config(range(3), lambda b: b.aggregate(BadAccumulate())), {}, "aggregate", ValueError, []),
    "flush": (config(range(3), lambda b: b.aggregate(BadFlush())), {}, "aggregate", ValueError, [0, 1, 2]),
    "signature of an async op": (
        config(range(3), lambda b: b.pipe(two_parameters, name="op")),  # type: ignore[arg-type]
        {},
        "op",
        TypeError,
        [],
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_fail_is_told_in_the_same_way(way: str) -> None:
    """The failing stage's exception, of its own type, with a note that names the stage; items before it came out."""
    cfg, options, name, error_type, items = WAYS[way]
    pipeline = build_pipeline(cfg, num_threads=2, **options)
    got, failure = drain(pipeline)
    assert failure is not None
    assert got == items
    (error,) = failure.exceptions
    assert type(error) is error_type
    (note,) = [note for note in error.__notes__ if "Pipeline stage:" in note]
    infos = {
        f"Pipeline stage: {s.info.pipeline_id}:{s.info.stage_id}:{s.info.stage_name}" for s in pipeline.stats().stages
    }
    assert note in infos
    assert note.split(":", 3)[3].startswith(name)
    assert pipeline.stats().state == "failed"


def test_source_whose_iter_raises_fails_its_stage() -> None:
    """A source that cannot even make an iterator is a failed source."""

    class Unopened:
        def __iter__(self) -> Iterator[int]:
            raise SourceError("not today")

    items, error = fail(build_of(Unopened(), lambda b: b.pipe(int)))
    assert items == []
    assert type(error) is SourceError


def test_error_keeps_its_traceback() -> None:
    """The traceback of a stage's exception leads to the line of the user's code that raised it."""
    _, error = fail(build_of(Breaking(0)))
    names = []
    tb = error.__traceback__
    while tb is not None:
        names.append(tb.tb_frame.f_code.co_filename)
        tb = tb.tb_next
    assert failing.__file__ in names


def test_crossed_limit_has_the_failure_as_its_cause() -> None:
    """FailureLimitError says stage, count and threshold; its cause is the op's exception."""
    _, error = fail(build_of(range(5), lambda b: b.pipe(refuse, name="refuse", max_failures=1)))
    assert "failed 2 times, which exceeds the threshold (1)" in str(error)
    assert (error.num_failures, error.limit) == (2, 1)
    assert "refuse" in error.stage
    assert str(error.__cause__) == "refused 1"
