"""The options of a build: one table, and every function that builds takes all of it and passes it on."""

import inspect
import itertools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import spdl.pipeline._build
import spdl.pipeline._remote._run_pipeline
from spdl.dataloader import DataLoader
from spdl.pipeline import PipelineBuilder, build_pipeline, run_pipeline_in_subinterpreter, run_pipeline_in_subprocess
from spdl.pipeline._options import OPTIONS, BuildOptions, _Option
from spdl.pipeline._remote._regions import spec_of
from spdl.pipeline.defs import MAIN_PROCESS, ProcessPoolExecutorConfig, Rate, Region, split_regions
from spdl.resume import replay
from tests.support import remote


def a_builder() -> PipelineBuilder[Any, Any]:
    return PipelineBuilder().add_source(range(3)).add_sink()


class _SeenError(Exception):
    """What the build would have used."""


SeenBy = Callable[[Callable[[], Any]], dict[str, Any]]


@pytest.fixture
def seen_by(monkeypatch: pytest.MonkeyPatch) -> SeenBy:
    """A function that returns the options that reach a build, which is given up there."""

    def stop(_config: Any, options: Any, **_: Any) -> Any:
        raise _SeenError(options)

    def see(build: Callable[[], Any]) -> dict[str, Any]:
        with pytest.raises(_SeenError) as found:
            build()
        return dict(found.value.args[0])

    monkeypatch.setattr(spdl.pipeline._build, "assemble", stop)
    monkeypatch.setattr(spdl.pipeline._remote._run_pipeline, "PipelineFactory", stop)
    return see


#: Those that take the options; what each is called with beside them.
BUILDS: dict[str, Callable[..., Any]] = {
    "build_pipeline": lambda **options: build_pipeline(a_builder().get_config(), **options),
    "PipelineBuilder.build": lambda **options: a_builder().build(**options),
    "run_pipeline_in_subprocess": lambda **options: run_pipeline_in_subprocess(a_builder(), **options),
    "DataLoader": lambda **options: iter(DataLoader([1, 2, 3], **options)),
}
SHOWN = build_pipeline, PipelineBuilder.build, run_pipeline_in_subprocess, run_pipeline_in_subinterpreter, DataLoader
#: Another value than the default.
VALUES: dict[str, Any] = {
    "num_threads": 3,
    "max_failures": Rate(0.5, per=10),
    "report_stats_interval": 7.5,
    "queue_class": remote.give,
    "task_hook_factory": remote.give,
    "stage_id": 5,
    "background_tasks": [remote.give],
    "use_thread_output_queue": True,
    "resumable": "best-effort",
    "seed": 11,
    "provenance": "/batches.jsonl",
    "stall_timeout": 60.0,
    "stall_action": "raise",
    "on_failure": remote.note,
    "quarantine": "/failed.jsonl",
}


@pytest.mark.parametrize("build", BUILDS.values(), ids=BUILDS)
@pytest.mark.parametrize("name", OPTIONS)
def test_each_option_is_passed_on(build: Callable[..., Any], name: str, seen_by: SeenBy) -> None:
    """And no other changes with it."""
    assert VALUES[name] != OPTIONS[name].default
    assert seen_by(lambda: build(**{name: VALUES[name]}))[name] == VALUES[name]


@pytest.mark.parametrize("build", BUILDS.values(), ids=BUILDS)
def test_a_new_option_needs_only_its_row(
    build: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, seen_by: SeenBy
) -> None:
    """Of the table: it is taken, checked and passed on."""

    def double(name: str, value: Any) -> Any:
        if value < 0:
            raise ValueError(f"{name} must be >= 0")
        return value

    monkeypatch.setitem(OPTIONS, "priority", _Option(0, double, "Priority of its threads.", is_for_regions=True))
    assert seen_by(lambda: build(priority=4))["priority"] == 4


@pytest.mark.parametrize("name", OPTIONS)
def test_regions_get_their_options(name: str) -> None:
    """Their workers build pipelines too."""
    region = next(
        part
        for part in split_regions(
            PipelineBuilder()
            .add_source([])
            .to(ProcessPoolExecutorConfig(1))
            .pipe(abs)
            .to(MAIN_PROCESS)
            .add_sink()
            .get_config()
            .pipes
        )
        if isinstance(part, Region)
    )
    options: Any = {name: VALUES[name]}
    assert spec_of(region, "stage", options).options == (options if OPTIONS[name].is_for_regions else {})


@pytest.mark.parametrize("build", [*BUILDS.values(), DataLoader], ids=[*BUILDS, "DataLoader itself"])
@pytest.mark.parametrize("name", OPTIONS)
def test_what_is_no_value_is_refused_by_name(build: Callable[..., Any], name: str) -> None:
    """By all in the same words: an object that is nothing of what an option takes."""
    if name == "use_thread_output_queue":
        pytest.skip("it is ignored")
    with pytest.raises((TypeError, ValueError)) as found:
        build(**{"src": [1]} if build is DataLoader else {}, **{name: object()})
    assert name in str(found.value)


@pytest.mark.parametrize("build", [*BUILDS.values(), DataLoader], ids=[*BUILDS, "DataLoader itself"])
def test_a_task_that_is_no_factory_is_refused_with_its_position(build: Callable[..., Any]) -> None:
    """Not when the pipeline runs, where it would only be logged."""
    with pytest.raises(TypeError, match="background_tasks must be callable, got an object of type int at position 1"):
        build(**{"src": [1]} if build is DataLoader else {}, background_tasks=[remote.give, 5])


@pytest.mark.parametrize("given", [a_builder(), None], ids=["a builder", "nothing"])
def test_what_is_no_description_is_refused(given: Any) -> None:
    """With what to pass instead."""
    with pytest.raises(TypeError, match=r"pipeline_cfg must be a PipelineConfig, got \w+: pass builder.get_config"):
        build_pipeline(given)


@pytest.mark.parametrize("function", BUILDS)
@pytest.mark.parametrize("name", OPTIONS)
def test_a_slip_is_told_the_nearest_name(function: str, name: str) -> None:
    """As for arguments that are written out; and with the function that was called."""
    build = BUILDS[function]
    said = rf"^{function}\(\) got an unexpected keyword argument"
    with pytest.raises(TypeError, match=rf"{said} '{name}z'; did you mean {name}\?"):
        build(**{f"{name}z": 1})
    with pytest.raises(TypeError, match=rf"{said} 'xyzzy'(?!;)"):
        build(xyzzy=1)


@pytest.mark.parametrize("function", SHOWN, ids=lambda each: each.__qualname__)
def test_help_shows_every_option(function: Any) -> None:
    """Its default, its type and its text; and nothing of how they are taken."""
    parameters = inspect.signature(function).parameters
    assert [each for each in parameters if each in OPTIONS] == [*OPTIONS]
    assert "options" not in parameters
    documented = " ".join(function.__doc__.split())
    assert "**options" not in documented
    for name, option in OPTIONS.items():
        assert parameters[name].kind is inspect.Parameter.KEYWORD_ONLY
        assert parameters[name].default == (8 if (function, name) == (DataLoader, "num_threads") else option.default)
        assert f" {name}: {' '.join(option.text.split())} " in documented
    assert all(len(line) <= 120 for line in function.__doc__.splitlines())
    headings = re.findall(r"(?m)^ *(Args|Raises|Returns):$", function.__doc__)
    assert headings[0] == "Args"
    assert "Raises" in headings


def test_every_option_has_a_type_and_a_text() -> None:
    """And a default that it accepts."""
    assert set(BuildOptions.__annotations__) == set(OPTIONS) == set(VALUES)
    for name, option in OPTIONS.items():
        assert option.text.endswith(".")
        assert option.check(name, option.default) == option.default


@pytest.mark.slow
def test_outputs_of_another_process_can_be_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log of a pipeline in a subprocess is at the path as it is here."""
    monkeypatch.chdir(tmp_path)
    builder = PipelineBuilder().add_source(range(6)).aggregate(2).add_sink()
    items = list(run_pipeline_in_subprocess(builder, provenance="log.jsonl", initializer=None))
    assert [replay(builder, tmp_path / "log.jsonl", step=step) for step in range(3)] == items


def test_a_loader_logs_its_batches(tmp_path: Path) -> None:
    """Each iteration appends to the log: a line for each batch."""
    loader: Any = DataLoader(range(6), batch_size=2, provenance=tmp_path / "log.jsonl")
    assert list(itertools.chain(loader, loader)) == [[0, 1], [2, 3], [4, 5]] * 2
    builder = PipelineBuilder().add_source(range(6)).aggregate(2).add_sink()
    assert [replay(builder, tmp_path / "log.jsonl", step=step) for step in range(3)] == list(loader)
