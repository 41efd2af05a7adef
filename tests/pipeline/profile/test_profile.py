"""``profile_pipeline``: which runs it makes, on which items, and what it says of failures."""

import asyncio
import logging
import xml.etree.ElementTree as ElementTree
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from spdl.pipeline import (
    Pipeline,
    PipelineBuilder,
    ProfileHook,
    ProfileResult,
    ProfileResults,
    ProfileStats,
    config,
    profile_pipeline,
)
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
    SinkConfig,
    SourceConfig,
)
from tests.support.child import run_child
from tests.support.running import Recorder

CONCURRENCIES = [32, 16, 8, 4, 1]


def described(source: Any, *stages: Any) -> PipelineConfig[Any]:
    return PipelineConfig(SourceConfig(source), stages, SinkConfig(1))


def double(item: int) -> int:
    return 2 * item


def looker(seen: list[Any]) -> Any:
    """A stage that passes its items on, and keeps them."""

    def look(item: Any) -> Any:
        seen.append(item)
        return item

    return Pipe(look)


def name_and_runs(results: list[ProfileResult]) -> list[tuple[str, list[int]]]:
    return [(result.name, [run.concurrency for run in result.stats]) for result in results]


def test_each_stage_runs_alone_at_its_concurrencies() -> None:
    """Pipes five times, from 32 calls to one; aggregates and disaggregates once; source and sink not at all."""
    results = profile_pipeline(described(range(10), Pipe(double), Aggregate(4), Disaggregate(), Pipe(str)), 10)
    assert name_and_runs(results) == [
        ("double", CONCURRENCIES),
        ("aggregate(op=collate(4), drop_last=False)", [1]),
        ("disaggregate", [1]),
        ("str", CONCURRENCIES),
    ]
    assert [run.num_inputs for result in results for run in result.stats[-1:]] == [10, 10, 3, 10]
    assert all(run.qps > 0 and 0 <= run.occupancy_rate <= 1 for result in results for run in result.stats)


def test_stage_gets_the_outputs_of_the_one_before() -> None:
    """In their order, and in each of the runs."""
    seen: list[int] = []
    profile_pipeline(described(range(5), Pipe(double), looker(seen)), 5)
    assert sorted(seen) == sorted([0, 2, 4, 6, 8] * len(CONCURRENCIES))
    assert seen[-5:] == [0, 2, 4, 6, 8]


def test_no_more_items_are_taken_than_asked_for() -> None:
    """Also from an endless source, which is closed."""
    source = Recorder(iter(int, 1))
    [result] = profile_pipeline(described(source, Pipe(str)), 7)
    assert source.num_taken == 7
    assert source.num_closed == 1
    assert {run.num_inputs for run in result.stats} == {7}


async def _numbers() -> AsyncIterator[int]:
    for number in range(100):
        await asyncio.sleep(0)
        yield number


class _Numbers:
    def __aiter__(self) -> AsyncIterator[int]:
        return _numbers()


async def _later(item: int) -> int:
    await asyncio.sleep(0)
    return item


def _twice(item: Any) -> Iterator[Any]:
    yield item
    yield item


async def _twice_later(item: Any) -> AsyncIterator[Any]:
    for _ in range(2):
        await asyncio.sleep(0)
        yield item


def test_async_sources_and_all_kinds_of_ops_are_measured() -> None:
    """Async functions, generators and async generators; outputs are what their rate counts."""
    results = profile_pipeline(described(_Numbers(), Pipe(_later), Pipe(_twice), Pipe(_twice_later)), 6)
    assert [[run.num_outputs for run in result.stats] for result in results] == [[6] * 5, [12] * 5, [24] * 5]


def test_executor_of_the_stage_is_not_used() -> None:
    """The runs are on as many threads as calls, whatever the description says."""

    class Unused(ThreadPoolExecutor):
        def submit(self, *args: Any, **kwargs: Any) -> Any:
            raise AssertionError

    with Unused(1) as executor:
        [result] = profile_pipeline(described(range(3), Pipe(double, executor=executor, concurrency=2)), 3)
    assert [run.num_failures for run in result.stats] == [0] * 5


class _Sum(Aggregator[int, int]):
    total = 0

    def accumulate(self, item: int) -> None:
        self.total += item

    def flush(self) -> int:
        return self.total


def test_aggregators_are_flushed() -> None:
    """The remainder is an output."""
    seen: list[int] = []
    profile_pipeline(described(range(5), Aggregate(_Sum()), Pipe(seen.append, name="look")), 5)
    assert set(seen) == {10}


class _Consumed:
    """Can be used once, as packets can."""

    def __init__(self) -> None:
        self.is_used = False

    def clone(self) -> "_Consumed":
        assert not self.is_used
        return _Consumed()

    def use(self) -> bool:
        assert not self.is_used
        self.is_used = True
        return True


def test_items_that_a_call_consumes_are_cloned() -> None:
    """So that all runs of a stage have the same inputs; in tuples, lists and dictionaries too."""
    source = [(_Consumed(), {"a": [_Consumed()]}) for _ in range(3)]
    [result] = profile_pipeline(described(source, Pipe(lambda item: item[0].use() and item[1]["a"][0].use())), 3)
    assert [run.num_failures for run in result.stats] == [0] * 5


def _odd(item: int) -> int:
    if item % 2:
        raise ValueError(f"bad {item}")
    return item


def test_failures_are_counted_not_logged_one_by_one(caplog: pytest.LogCaptureFixture) -> None:
    """One line per run says how many and shows one; a limit of the stage does not end the profile."""
    with caplog.at_level(logging.WARNING):
        first, second = profile_pipeline(described(range(10), Pipe(_odd, max_failures=0), Pipe(double)), 10)
    assert [run.num_failures for run in first.stats] == [5] * 5
    assert [run.num_inputs for run in second.stats] == [5] * 5
    assert [record.getMessage() for record in caplog.records] == [
        f"profile: stage _odd at concurrency {n}: 5 of 10 items failed, one of them with ValueError: bad {bad}"
        for n, bad in ((n, record.getMessage()[-1]) for n, record in zip(CONCURRENCIES, caplog.records, strict=True))
    ]


def test_stage_that_always_fails_is_an_error() -> None:
    """It names the stage, and the cause is that of the op."""
    with pytest.raises(RuntimeError, match="stage _odd at concurrency 32") as caught:
        profile_pipeline(described([1, 3], Pipe(_odd)), 2)
    cause = caught.value.__cause__
    assert isinstance(cause, ValueError) or isinstance(caught.value, ExceptionGroup)


def test_stages_behind_one_that_drops_all_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    """There is nothing to measure them with, and the log says so."""
    results = profile_pipeline(described(range(3), Pipe(lambda item: None, name="none"), Pipe(double)), 3)
    assert [result.name for result in results] == ["none"]
    assert "ends before stage double" in caplog.text


def test_source_without_items_is_an_error() -> None:
    """There is nothing to measure."""
    with pytest.raises(RuntimeError, match="its source has no items"):
        profile_pipeline(described([], Pipe(double)))


def test_merged_pipelines_are_measured_one_by_one() -> None:
    """Then the rest, on all their outputs."""
    a, b = described(range(3), Pipe(double, name="a")), described(range(10, 14), Pipe(double, name="b"))
    seen: list[int] = []
    results = profile_pipeline(PipelineConfig(Merge([a, b]), [looker(seen)], SinkConfig(1)), 100)
    assert [(result.name, result.stats[0].num_inputs) for result in results] == [("a", 3), ("b", 4), ("look", 7)]
    assert sorted(seen[-7:]) == [0, 2, 4, 20, 22, 24, 26]


def test_path_variants_are_skipped_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """They still run, so that the next stage gets what it expects."""
    seen: list[Any] = []
    variants = PathVariants(lambda item: item % 2, [[Pipe(str)], [Pipe(double)]])
    results = profile_pipeline(described(range(4), variants, looker(seen)), 4)
    assert [result.name for result in results] == ["look"]
    assert sorted(map(repr, seen[-4:])) == ["'0'", "'2'", "2", "6"]
    assert "skips path_variants" in caplog.text


def test_skipped_stages_at_the_end_do_not_run(caplog: pytest.LogCaptureFixture) -> None:
    """Nobody needs their outputs: no process is started for the region."""
    opened = PlacementConfig(ProcessPoolExecutorConfig(max_workers=1))
    results = profile_pipeline(described(range(4), Pipe(double), opened, Pipe(str), PlacementConfig(MAIN_PROCESS)), 4)
    assert [result.name for result in results] == ["double"]
    assert "skips subprocess_pipeline(str)" in caplog.text


@pytest.mark.slow
def test_region_runs_for_the_stage_behind_it() -> None:
    """In its processes, unmeasured."""
    opened = PlacementConfig(ProcessPoolExecutorConfig(max_workers=1))
    stages = opened, Pipe(double), PlacementConfig(MAIN_PROCESS), Pipe(str)
    [result] = profile_pipeline(described(range(4), *stages), 4)
    assert (result.name, result.stats[0].num_inputs) == ("str", 4)


class _Hook(ProfileHook):
    def __init__(self) -> None:
        self.said: list[Any] = []

    @contextmanager
    def stage_profile_hook(self, stage: str, concurrency: int) -> Iterator[None]:
        self.said.append((stage, concurrency))
        yield

    @contextmanager
    def pipeline_profile_hook(self) -> Iterator[None]:
        self.said.append("begin")
        yield
        self.said.append("end")


def test_hooks_and_callback_are_called() -> None:
    """Around the profile and around each run; the callback after each stage."""
    hook = _Hook()
    results: list[ProfileResult] = []
    profile_pipeline(described([1], Pipe(double), Aggregate(1)), 1, hook=hook, callback=results.append)
    runs = [("double", n) for n in CONCURRENCIES] + [("aggregate(op=collate(1), drop_last=False)", 1)]
    assert hook.said == ["begin", *runs, "end"]
    assert [result.name for result in results] == [name for name, _ in runs[4:]]


def test_defaults_are_used_when_none_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of ``spdl.pipeline.config``."""
    hook = _Hook()
    results: list[ProfileResult] = []
    config.set_default_profile_hook(hook)
    config.set_default_profile_callback(results.append)
    try:
        profile_pipeline(described([1], Aggregate(1)), 1)
    finally:
        config.set_default_profile_hook(None)
        config.set_default_profile_callback(None)
    assert len(results) == 1
    assert hook.said[0] == "begin"


def test_hook_that_returns_no_context_manager_is_an_error() -> None:
    """The message says what is probably missing."""

    class Wrong(ProfileHook):
        def stage_profile_hook(self, stage: str, concurrency: int) -> AbstractContextManager[Any]:
            raise AssertionError

        def pipeline_profile_hook(self) -> AbstractContextManager[Any]:
            return None  # type: ignore[return-value] # on purpose

    with pytest.raises(TypeError, match="@contextmanager missing"):
        profile_pipeline(described([1], Aggregate(1)), 1, hook=Wrong())


@pytest.mark.parametrize(
    ("given", "words"),
    [({"hook": 3}, "hook must be a ProfileHook, got"), ({"callback": 3}, "callback must be callable")],
)
def test_wrong_arguments_are_errors_before_anything_runs(given: dict[str, Any], words: str) -> None:
    """The source is not touched."""
    source = Recorder(range(3))
    with pytest.raises(TypeError, match=words):
        profile_pipeline(described(source, Aggregate(1)), **given)
    with pytest.raises(TypeError, match=r"pass builder\.get_config\(\)"):
        profile_pipeline(PipelineBuilder())  # type: ignore[arg-type] # on purpose
    assert source.num_taken == 0


def test_defaults_of_pipelines_are_not_used() -> None:
    """Neither the build callback nor background tasks see the pipelines that a profile makes."""
    built: list[Any] = []
    config.set_default_build_callback(built.append)
    try:
        profile_pipeline(described([1], Aggregate(1)), 1)
    finally:
        config.set_default_build_callback(None)
    assert built == []


@pytest.mark.parametrize(("rank", "num_results"), [("0", 1), ("", 1), ("1", 0)])
def test_one_process_of_a_machine_measures(rank: str, num_results: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others get no results, and touch neither source nor stages."""
    monkeypatch.setenv("LOCAL_RANK", rank)
    assert len(profile_pipeline(described([1], Aggregate(1)), 1)) == num_results


@pytest.mark.parametrize("number", [0, -1])
def test_number_of_inputs_is_positive(number: int) -> None:
    """Nothing can be measured with no items."""
    with pytest.raises(ValueError, match="num_inputs must be >= 1"):
        profile_pipeline(described([1]), number)


def test_interrupt_in_a_callback_ends_the_profile() -> None:
    """It propagates; no thread is left."""

    def interrupt(result: ProfileResult) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        profile_pipeline(described(range(10), Pipe(double)), callback=interrupt)


def test_interrupt_in_an_op_stops_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while the outputs are read: the pipeline of the run is stopped before it propagates."""
    stopped: list[int] = []

    def read(pipeline: Pipeline[Any], what: str, num_inputs: int) -> Iterator[Any]:
        yield next(iter(pipeline))
        stopped.append(pipeline._engine.pipeline_id)
        raise KeyboardInterrupt

    monkeypatch.setattr("spdl.pipeline._profiling._with_progress", read)
    with pytest.raises(KeyboardInterrupt):
        profile_pipeline(described(range(10), Pipe(double)))
    assert len(stopped) == 1


def made(*rates: tuple[int, float]) -> ProfileResult:
    runs = [ProfileStats(n, qps, 0.5, 1.0, 100, 100, 2, 1.5e-3, None if n > 8 else 2e-4) for n, qps in rates]
    return ProfileResult("decode", runs)


def test_scaling_stops_where_more_calls_gain_little() -> None:
    """At the lowest concurrency with 90 % of the highest rate."""
    assert made((32, 795.0), (16, 800.0), (8, 790.0), (4, 500.0), (1, 130.0)).scales_to == 8
    assert made((32, 99.0), (1, 100.0)).scales_to == 1


def test_table_shows_the_runs_and_where_scaling_stops() -> None:
    """One line per run, from one call on, at most 100 columns."""
    text = str(made((32, 795.0), (16, 800.0), (8, 790.0), (4, 500.0), (1, 130.0)))
    assert max(map(len, text.splitlines())) <= 100
    assert text.splitlines() == [
        "decode: 100 items; stops scaling at concurrency 8",
        "concurrency  items/s  scaling  per call       CPU  occupied  failed",
        "          1      130     1.0x    1.5 ms  200.0 us      50 %       2  ████",
        "          4      500     3.8x    1.5 ms  200.0 us      50 %       2  ███████████████",
        "          8      790     6.1x    1.5 ms  200.0 us      50 %       2  ████████████████████████ <",
        "         16      800     6.2x    1.5 ms         -      50 %       2  ████████████████████████",
        "         32      795     6.1x    1.5 ms         -      50 %       2  ████████████████████████",
    ]


def test_chart_is_an_image_with_a_panel_per_stage(tmp_path: Path) -> None:
    """Well-formed, with the name, the runs and the mark; also as a file."""
    results = ProfileResults([made((32, 795.0), (1, 130.0)), ProfileResult("a<b", [ProfileStats(1, 2.0, 0.1)])])
    image = results.to_svg(tmp_path / "profile.svg")
    assert (tmp_path / "profile.svg").read_text(encoding="utf-8") == image == results._repr_html_()
    root = ElementTree.fromstring(image)
    words = [each.text for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"decode", "a<b", "795 items/s, stops scaling at 32", "2 items/s, concurrency 1 only"} <= set(words)
    assert "http" not in image.replace("http://www.w3.org/2000/svg", "")


def test_no_results_say_so() -> None:
    """As a table and as a chart."""
    assert str(ProfileResults()) == "no stage was profiled"
    assert "no stage was profiled" in ProfileResults().to_svg()


def test_long_runs_say_how_far_they_are(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """And each run says what it measured."""
    monkeypatch.setattr("spdl.pipeline._profiling._PROGRESS_INTERVAL", -1)
    with caplog.at_level(logging.INFO):
        profile_pipeline(described(range(3), Aggregate(1)), 3)
    name = "aggregate(op=collate(1), drop_last=False)"
    lines = [record.getMessage().replace(name, "stage") for record in caplog.records]
    assert lines[0] == "profile: taking up to 3 items from the source"
    assert lines[1].startswith("profile: the source gave 3 items, ")
    assert [" of 3 items in 0 s" in line for line in lines[2:-1]] == [True, True, True]
    assert lines[-1].startswith("profile: stage stage at concurrency 1: ")


def test_ctrl_c_leaves_at_once_and_leaves_no_thread() -> None:
    """While an op waits for what never comes."""
    run_child(
        """
        import os, signal, threading
        from spdl.pipeline import PipelineBuilder, profile_pipeline

        gate = threading.Event()

        def wait(item):
            while not gate.is_set():  # one that comes in the instant before a wait is noticed only after it
                os.kill(os.getpid(), signal.SIGINT)
                gate.wait(0.1)
            return item

        def handle(*args):
            if not gate.is_set():
                gate.set()
                raise KeyboardInterrupt

        config = PipelineBuilder().add_source([1]).pipe(wait).add_sink().get_config()
        signal.signal(signal.SIGINT, handle)
        try:
            profile_pipeline(config)
        except KeyboardInterrupt:
            print("interrupted", [t.name for t in threading.enumerate() if t.name.startswith("spdl-")])
        """
    ).check("interrupted []")
