"""``PipelineBuilder``: which call raises what, and what description comes out."""

import pickle
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor, Future
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl._errors import InvalidOpError, PipelineStructureError, UnsupportedPythonError
from spdl.pipeline._builder import PipelineBuilder
from spdl.pipeline.defs import (
    MAIN_PROCESS,
    Aggregate,
    Disaggregate,
    InterpreterPoolExecutorConfig,
    PathVariants,
    Pipe,
    PipelineConfig,
    PlacementConfig,
    ProcessPoolExecutorConfig,
    SinkConfig,
    SourceConfig,
)

WORKERS = ProcessPoolExecutorConfig(2)

Builder = PipelineBuilder[Any, Any]


def op(item: Any) -> Any:
    return item


def router(item: Any) -> int:
    return 0


async def async_op(item: Any) -> Any:
    return item


async def async_generator_op(item: Any) -> AsyncIterator[Any]:
    yield item


class LiveExecutor(Executor):
    """Starts nothing, but is an executor."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        raise NotImplementedError


CALLS: dict[str, Callable[[Builder], Builder]] = {
    "add_source": lambda builder: builder.add_source([1]),
    "pipe": lambda builder: builder.pipe(op),
    "aggregate": lambda builder: builder.aggregate(2),
    "disaggregate": lambda builder: builder.disaggregate(),
    "path_variants": lambda builder: builder.path_variants(router, [[Pipe(op)]]),
    "to": lambda builder: builder.to(WORKERS),
    "add_sink": lambda builder: builder.add_sink(),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_every_method_returns_the_builder(call: Callable[[Builder], Builder]) -> None:
    """So calls can be chained."""
    builder: Builder = PipelineBuilder()
    assert call(builder) is builder


def test_description_has_everything_in_order() -> None:
    """Each call becomes the description that the declarative form makes of the same arguments."""
    executor = LiveExecutor()
    config = (
        PipelineBuilder[int, Any]()
        .add_source([1, 2], continuous=True)
        .pipe(op, concurrency=2, executor=executor, name="x", output_order="input", max_failures=Fraction(1, 2))
        .disaggregate()
        .path_variants(router, [[Pipe(op)], [Disaggregate()]], "paths", True)
        .to(WORKERS, buffer_size=4)
        .pipe(op, isolate=True, retry=3, call_timeout=2)
        .to(MAIN_PROCESS, buffer_size=5)
        .add_sink(7)
        .get_config()
    )
    assert config == PipelineConfig(
        SourceConfig([1, 2], continuous=True),
        [
            Pipe(op, concurrency=2, executor=executor, name="x", output_order="input", max_failures=Fraction(1, 2)),
            Disaggregate(),
            PathVariants(router, [[Pipe(op)], [Disaggregate()]], "paths", True),
            PlacementConfig(WORKERS, buffer_size=4),
            Pipe(op, isolate=True, retry=3, call_timeout=2),
            PlacementConfig(MAIN_PROCESS, buffer_size=5),
        ],
        SinkConfig(7),
    )


def test_defaults_are_those_of_the_contract() -> None:
    """One epoch, three waiting outputs, incomplete lists are kept."""
    config = PipelineBuilder[Any, Any]().add_source([1]).aggregate(2).add_sink().get_config()
    assert config.src == SourceConfig([1], continuous=False)
    assert [repr(stage) for stage in config.pipes] == [repr(Aggregate(2, drop_last=False))]
    assert config.sink == SinkConfig(3)


@given(st.permutations(["add_source", "pipe", "add_sink", "disaggregate"]))
def test_source_and_sink_can_come_at_any_time(names: list[str]) -> None:
    """Only the order of the stages among each other counts."""
    builder: Builder = PipelineBuilder()
    for name in names:
        CALLS[name](builder)
    stages = [CALLS[name] for name in names if name in ("pipe", "disaggregate")]
    expected = [Pipe(op) if call is CALLS["pipe"] else Disaggregate() for call in stages]
    assert builder.get_config().pipes == expected


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda b: b.add_source(5), ValueError, "source must have"),
        (lambda b: b.add_source([1]).add_source([2]), ValueError, "a source is set already"),
        (lambda b: b.add_sink(0), ValueError, "buffer_size must be >= 1, got 0"),
        (lambda b: b.add_sink("3"), ValueError, "buffer_size must be an int"),
        (lambda b: b.add_sink(1).add_sink(1), ValueError, "a sink is set already"),
        (lambda b: b.pipe(None), InvalidOpError, "op must be"),
        (lambda b: b.pipe(op, concurrency=0), ValueError, "concurrency must be >= 1"),
        (lambda b: b.pipe(op, output_order="x"), ValueError, "output_order must be"),
        (lambda b: b.pipe(async_op, executor=LiveExecutor()), ValueError, "executor cannot be given"),
        (lambda b: b.pipe(async_generator_op, output_order="input"), ValueError, "output_order='input' does not work"),
        (lambda b: b.pipe(op, max_failures=0.5), TypeError, "Fraction"),
        (lambda b: b.aggregate("3"), TypeError, "an int .* or an Aggregator"),
        (lambda b: b.aggregate(True), TypeError, "an int .* or an Aggregator"),
        (lambda b: b.aggregate(0), ValueError, "must be >= 1"),
        (lambda b: b.path_variants(router, []), ValueError, "at least one path"),
        (lambda b: b.to(LiveExecutor()), TypeError, "not a live Executor"),
        (lambda b: b.to("processes"), TypeError, "target must be a ProcessPoolExecutorConfig"),
        (lambda b: b.to(WORKERS, buffer_size=0), ValueError, "buffer_size must be >= 1"),
    ],
)
def test_mistake_is_raised_by_its_call(call: Callable[[Any], Any], error: type[Exception], text: str) -> None:
    """Not later, by ``get_config`` or ``build``."""
    with pytest.raises(error, match=text):
        call(PipelineBuilder())


def test_refused_call_changes_nothing() -> None:
    """After a mistake one can go on."""
    builder: Builder = PipelineBuilder()
    builder.add_source([1]).pipe(op).add_sink()
    with pytest.raises(ValueError, match="concurrency"):
        builder.pipe(op, concurrency=0)
    with pytest.raises(ValueError, match="set already"):
        builder.add_source([2])
    assert builder.get_config() == PipelineConfig(SourceConfig([1]), [Pipe(op)], SinkConfig(3))


@pytest.mark.parametrize("method", ["get_config", "build"])
def test_pipeline_needs_source_and_sink(method: str) -> None:
    """The error says which is missing; it is a RuntimeError."""
    builder: Builder = PipelineBuilder()
    with pytest.raises(PipelineStructureError, match="no source: call add_source"):
        getattr(builder.add_sink(), method)()
    builder = PipelineBuilder()
    with pytest.raises(PipelineStructureError, match="no sink: call add_sink"):
        getattr(builder.add_source([1]), method)()
    assert issubclass(PipelineStructureError, RuntimeError)


@pytest.mark.parametrize("method", ["get_config", "build"])
@pytest.mark.parametrize(
    ("add", "text"),
    [
        (lambda b: b.to(WORKERS).pipe(op), "must be closed with"),
        (lambda b: b.to(WORKERS).to(MAIN_PROCESS), "has no stages"),
        (lambda b: b.to(WORKERS).pipe(op, output_order="input").to(MAIN_PROCESS), "output_order='input'"),
        (
            lambda b: b.to(WORKERS).path_variants(router, [[Pipe(op, output_order="input")]]).to(MAIN_PROCESS),
            "output_order='input'",
        ),
    ],
)
def test_bad_regions_are_refused(add: Callable[[Builder], Builder], text: str, method: str) -> None:
    """They can only be judged when the pipeline is complete."""
    builder = add(PipelineBuilder[Any, Any]().add_source([1])).add_sink()
    with pytest.raises(ValueError, match=text):
        getattr(builder, method)()


def test_interpreter_region_needs_a_newer_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """``to`` takes it on any Python; the whole is refused with a RuntimeError."""
    monkeypatch.setattr("sys.version_info", (3, 13, 0))
    builder: Builder = PipelineBuilder()
    builder.add_source([1]).to(InterpreterPoolExecutorConfig(1)).pipe(op).to(MAIN_PROCESS).add_sink()
    with pytest.raises(UnsupportedPythonError, match=r"requires Python 3\.14"):
        builder.get_config()


def test_description_does_not_change_with_the_builder() -> None:
    """Later calls are for later descriptions."""
    builder = PipelineBuilder[Any, Any]().add_source([1]).pipe(op).add_sink()
    config = builder.get_config()
    builder.pipe(op)
    assert len(config.pipes) == 1
    assert len(builder.get_config().pipes) == 2


def test_builder_pickles() -> None:
    """It can be finished in another process."""
    builder = PipelineBuilder[Any, Any]().add_source([1, 2]).pipe(op, concurrency=2).to(WORKERS).pipe(op)
    restored = pickle.loads(pickle.dumps(builder))
    restored.to(MAIN_PROCESS).add_sink(2)
    assert restored.get_config() == builder.to(MAIN_PROCESS).add_sink(2).get_config()


def test_builder_shows_no_items() -> None:
    """Neither of its source nor of its containers."""
    builder = PipelineBuilder().add_source(["SECRET"]).pipe({"SECRET": "SECRET"}).pipe({"SECRET": 0}.get)
    assert "SECRET" not in repr(builder)


def test_built_pipelines_do_not_know_each_other() -> None:
    """A builder can be built several times; each pipeline starts its source again."""
    builder = PipelineBuilder[Any, Any]().add_source(range(5)).pipe(op).aggregate(2).add_sink()
    first, second = builder.build(num_threads=1), builder.build(num_threads=1)
    assert list(first) == [[0, 1], [2, 3], [4]]
    assert list(second) == [[0, 1], [2, 3], [4]]


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"max_failures": Fraction(3, 2)}, ValueError, r"must be in range \(0, 1\]"),
        ({"max_failures": 0.5}, TypeError, "Fraction"),
        ({"num_threads": 0}, ValueError, "num_threads"),
    ],
)
def test_build_refuses_bad_arguments(arguments: dict[str, Any], error: type[Exception], text: str) -> None:
    """Those of ``build`` reach the build."""
    with pytest.raises(error, match=text):
        PipelineBuilder[Any, Any]().add_source([1]).add_sink().build(**arguments)


def test_build_checks_the_limits_of_stages() -> None:
    """A fraction that is no share is found at build, in a path too."""
    bad = Pipe(op, max_failures=Fraction(3, 2))
    in_line = PipelineBuilder[Any, Any]().add_source([1]).pipe(op, max_failures=Fraction(3, 2)).add_sink()
    in_path = PipelineBuilder[Any, Any]().add_source([1]).path_variants(router, [[bad]]).add_sink()
    for builder in (in_line, in_path):
        builder.get_config()
        with pytest.raises(ValueError, match=r"must be in range \(0, 1\]"):
            builder.build()
