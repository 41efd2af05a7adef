"""Reprs: short, naming places, never showing what a source or a container holds, never running the user's own."""

import functools
import inspect
import linecache
import re
import sys
import textwrap
import types
from collections.abc import Iterator
from concurrent.futures import Executor, Future
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.pipeline.defs import (
    MAIN_PROCESS,
    Aggregate,
    Aggregator,
    Disaggregate,
    Merge,
    PathVariants,
    Pipe,
    PipelineConfig,
    PlacementConfig,
    ProcessPoolExecutorConfig,
    Retry,
    SinkConfig,
    SourceConfig,
)

SECRET = "SECRET-CONTENT"


def op(item: Any) -> Any:
    return item


@functools.wraps(op)
def wrapped(item: Any) -> Any:
    return item


def router(item: Any) -> int:
    return 0


async def merge_op(info: Any, inputs: Any, output: Any) -> None: ...


class Refusing:
    """Whose repr must not be called."""

    def __repr__(self) -> str:
        raise RuntimeError("repr was called")

    __str__ = __repr__


class HostileSource(Refusing):
    def __iter__(self) -> Iterator[int]:
        yield 1


class HostileOp(Refusing):
    def __getattr__(self, name: str) -> Any:
        if name != "__name__":  # by which stages are named, and which callables may lack
            raise RuntimeError(f"{name} was asked for")
        raise AttributeError(name)

    def __call__(self, item: Any) -> Any:
        return item


class HostileExecutor(Refusing, Executor):
    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        raise NotImplementedError


class HostileAggregator(Refusing, Aggregator[Any, Any]):
    def accumulate(self, item: Any) -> None: ...

    def flush(self) -> None: ...


class HostileList(list[Any]):
    def __repr__(self) -> str:
        raise RuntimeError("repr was called")


class Outer:
    class Inner:
        def __iter__(self) -> Iterator[int]:
            yield 1

    def method(self, item: Any) -> Any:
        return item


def place_of(function: Any) -> str:
    """``file:line`` as the standard library sees it."""
    return f"{inspect.getsourcefile(function)}:{inspect.getsourcelines(function)[1]}"


def pipeline(*stages: Any) -> PipelineConfig[Any]:
    return PipelineConfig(SourceConfig([1]), stages, SinkConfig(3))


# -- pipes


def test_pipe_leaves_defaults_out() -> None:
    """Only the concurrency and the place of the op are always there."""
    assert repr(Pipe(op)) == f"op(concurrency=1, op={__name__}.op at {place_of(op)})"


def test_pipe_shows_what_was_chosen() -> None:
    """In a fixed order, the place last."""
    config = Pipe(
        op, name="x", concurrency=2, executor=HostileExecutor(), output_order="input", max_failures=Fraction(1, 3)
    )
    assert re.fullmatch(
        r"x\(concurrency=2, executor=<HostileExecutor object at 0x[0-9a-f]+>, output_order='input', "
        r"max_failures=1/3, op=.*\.op at .*test_defs_repr\.py:\d+\)",
        repr(config),
    )


def test_pipe_shows_what_becomes_of_failing_calls() -> None:
    """A plain number of attempts is shown as one."""
    config = Pipe(op, name="x", isolate=True, retry=3, call_timeout=20)
    assert repr(config).startswith("x(concurrency=1, isolate=True, retry=3, call_timeout=20, op=")
    assert "retry=Retry(3, delay=1), op=" in repr(Pipe(op, retry=Retry(3, delay=1)))


@pytest.mark.parametrize(
    ("call", "location"),
    [
        (functools.partial(functools.partial(op), item=SECRET), f"{__name__}.op at {place_of(op)}"),
        (wrapped, f"{__name__}.op at {place_of(op)}"),
        (Outer().method, f"{__name__}.Outer.method at {place_of(Outer.method)}"),
        (HostileOp(), f"{__name__}.HostileOp at {place_of(HostileOp)}"),
        (HostileOp, f"{__name__}.HostileOp at {place_of(HostileOp)}"),
        (len, "len"),
        (str, "str"),
        (str.upper, "str.upper"),
        ([].append, "list.append"),
        (functools.reduce, "_functools.reduce"),
        ([SECRET], "list.__getitem__"),
        ({SECRET: SECRET}, "dict.__getitem__"),
        (range(3), "range.__getitem__"),
        (HostileList([SECRET]), f"{__name__}.HostileList.__getitem__"),
    ],
)
def test_location_is_where_the_op_is_written(call: Any, location: str) -> None:
    """Through partials, decorators and methods; of objects it is the class; what is built in has a name only."""
    assert Pipe(call)._location == location


def test_location_of_a_script_has_no_module() -> None:
    """``__main__`` says nothing."""
    scope: dict[str, Any] = {"__name__": "__main__"}
    exec(compile("def f(item): ...", "script.py", "exec"), scope)
    assert repr(Pipe(scope["f"])) == "f(concurrency=1, op=f at script.py:1)"


# -- sources


def test_source_of_a_known_class_shows_its_place() -> None:
    """That says more than an address."""
    assert repr(SourceConfig(HostileSource())) == f"SourceConfig(source=<HostileSource at {place_of(HostileSource)}>)"
    assert repr(SourceConfig(Outer.Inner())) == f"SourceConfig(source=<Inner at {place_of(Outer.Inner)}>)"


@pytest.mark.parametrize("source", [[1], range(3), {1: 2}, "text", iter([1])])
def test_source_of_a_builtin_class_shows_its_address(source: Any) -> None:
    """Class and address, as every object has them."""
    assert repr(SourceConfig(source)) == f"SourceConfig(source=<{type(source).__name__} object at {id(source):#x}>)"


def test_continuous_source_says_so() -> None:
    """Only if it is."""
    assert repr(SourceConfig([1], continuous=True)).endswith(", continuous=True)")


@pytest.mark.parametrize("has_module", [True, False])
def test_class_without_a_known_place_shows_its_address(monkeypatch: pytest.MonkeyPatch, has_module: bool) -> None:
    """Code typed at a prompt, and a class whose module is gone, have no file."""
    scope: dict[str, Any] = {"__name__": "made_at_a_prompt"}
    if has_module:
        monkeypatch.setitem(sys.modules, "made_at_a_prompt", types.ModuleType("made_at_a_prompt"))
    exec("class Source:\n    def __iter__(self): yield 1", scope)
    assert re.fullmatch(r"SourceConfig\(source=<Source object at 0x\w+>\)", repr(SourceConfig(scope["Source"]())))
    assert Pipe(scope["Source"])._location == "made_at_a_prompt.Source"


def test_place_of_a_redefined_class_is_that_of_its_own_statement(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Of two classes with one name in a file, each is found by where its methods are."""
    text = textwrap.dedent(
        """
        class Source:
            def __iter__(self): yield 1
        First = Source
        class Source:
            def __iter__(self): yield 2
        class Empty(Source): ...
        """
    )
    path = tmp_path / "twice.py"
    path.write_text(text)
    module = types.ModuleType("twice")
    module.__file__ = str(path)
    monkeypatch.setitem(sys.modules, "twice", module)
    exec(compile(text, str(path), "exec"), module.__dict__)
    linecache.checkcache(str(path))
    lines = [repr(SourceConfig(cls())) for cls in (module.First, module.Source, module.Empty)]
    assert lines == [
        f"SourceConfig(source=<Source at {path}:2>)",
        f"SourceConfig(source=<Source at {path}:5>)",
        f"SourceConfig(source=<Empty at {path}:7>)",
    ]


# -- other stages


def test_other_stages_show_their_name() -> None:
    """Aggregates say how, aggregators of the user's own by class."""
    assert repr(Aggregate(3, drop_last=True)) == "aggregate(op=collate(3), drop_last=True)"
    assert repr(Aggregate(HostileAggregator())) == "aggregate(op=HostileAggregator, drop_last=False)"
    assert repr(Disaggregate()) == "disaggregate"
    assert repr(SinkConfig(4)) == "SinkConfig(buffer_size=4)"


def test_path_variants_show_their_paths() -> None:
    """Each path with its stages in order."""
    config = PathVariants(router, [[Pipe(op), Disaggregate()], [Aggregate(2)]])
    assert repr(config) == f"PathVariants(path0=[{Pipe(op)!r}, disaggregate], path1=[{Aggregate(2)!r}])"


def test_placement_shows_target_and_size() -> None:
    """What initializes the workers is named by its place, what it is given by its number."""
    assert repr(PlacementConfig(MAIN_PROCESS)) == "placement(MAIN_PROCESS)"
    target = ProcessPoolExecutorConfig(2, op, (SECRET, Refusing()), mp_context="spawn")
    text = repr(PlacementConfig(target, buffer_size=3))
    assert text == (
        "placement(ProcessPoolExecutorConfig(max_workers=2, "
        f"initializer={__name__}.op at {place_of(op)}, initargs=<2 values>, mp_context='spawn'), buffer_size=3)"
    )
    assert repr(ProcessPoolExecutorConfig()) == "ProcessPoolExecutorConfig()"


# -- whole pipelines


def test_pipeline_lists_its_parts() -> None:
    """One line each."""
    config = pipeline(Pipe(op), Disaggregate())
    assert repr(config).split("\n") == [
        "PipelineConfig",
        f" - Source: {config.src!r}",
        " - Pipes:",
        f"   - {Pipe(op)!r}",
        "   - disaggregate",
        " - Sink: SinkConfig(buffer_size=3)",
    ]


def test_merge_lists_its_pipelines() -> None:
    """Each under its number, indented."""
    first, second = pipeline(), pipeline(Disaggregate())
    assert repr(Merge([first, second], op=merge_op)).split("\n") == [
        "MergeConfig(",
        f"  op={__name__}.merge_op at {place_of(merge_op)}",
        "  Pipeline 1:",
        "    PipelineConfig",
        f"     - Source: {first.src!r}",
        "     - Pipes:",
        "     - Sink: SinkConfig(buffer_size=3)",
        "  Pipeline 2:",
        "    PipelineConfig",
        f"     - Source: {second.src!r}",
        "     - Pipes:",
        "       - disaggregate",
        "     - Sink: SinkConfig(buffer_size=3)",
        ")",
    ]
    assert "op=" not in repr(Merge([first]))


def test_merge_as_a_source_is_indented() -> None:
    """The outer pipeline's own parts stay at the left."""
    merge = Merge([pipeline()])
    config: PipelineConfig[Any] = PipelineConfig(merge, [], SinkConfig(1))
    lines = repr(config).split("\n")
    assert lines[:3] == ["PipelineConfig", " - Source:", "   MergeConfig("]
    assert lines[-2:] == [" - Pipes:", " - Sink: SinkConfig(buffer_size=1)"]


def test_nothing_of_the_users_is_asked_for_its_repr() -> None:
    """Not even when everything in a pipeline refuses."""
    config: PipelineConfig[Any] = PipelineConfig(
        SourceConfig(HostileSource()),
        [
            Pipe(HostileOp(), executor=HostileExecutor()),
            Pipe(HostileList([1])),
            Aggregate(HostileAggregator()),
            PathVariants(HostileOp(), [[Pipe(HostileOp())]]),
            PlacementConfig(ProcessPoolExecutorConfig(initializer=HostileOp(), initargs=(Refusing(),))),
        ],
        SinkConfig(1),
    )
    assert "HostileSource" in repr(Merge([config]))


@given(st.lists(st.text("xyz", min_size=1).map(lambda text: f"{SECRET}{text}"), min_size=1, max_size=500))
def test_reprs_never_show_items(items: list[str]) -> None:
    """However much a source or a container holds, its repr is short and has none of it."""
    config: PipelineConfig[Any] = PipelineConfig(
        SourceConfig(items),
        [Pipe(items), Pipe(dict.fromkeys(items)), Pipe(functools.partial(op, items))],
        SinkConfig(1),
    )
    text = repr(config)
    assert SECRET not in text
    assert len(text) < 1000
