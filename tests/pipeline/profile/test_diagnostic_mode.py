"""Diagnostic mode: the first read of a pipeline profiles its stages and ends the program."""

from collections.abc import Callable
from typing import Any

import pytest

from spdl.pipeline import Pipeline, PipelineBuilder, run_pipeline_in_subprocess
from tests.support.child import run_child


@pytest.fixture
def pipeline(monkeypatch: pytest.MonkeyPatch) -> Pipeline[Any]:
    monkeypatch.setenv("SPDL_PIPELINE_DIAGNOSTIC_MODE", "1")
    monkeypatch.setenv("SPDL_PIPELINE_DIAGNOSTIC_MODE_NUM_ITEMS", "3")
    return PipelineBuilder().add_source(range(10)).aggregate(2).add_sink().build()


@pytest.mark.parametrize("read", [lambda each: each.get_item(), lambda each: next(iter(each))])
def test_first_read_profiles_and_ends_the_program(
    pipeline: Pipeline[Any], read: Callable[[Any], Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """With as many items as the variable says."""
    with pytest.raises(SystemExit) as ended:
        read(pipeline)
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith(
        "aggregate(op=collate(2), drop_last=False): 3 items, concurrency 1 only\n"
    )


def test_start_and_stop_do_nothing(pipeline: Pipeline[Any]) -> None:
    """A program that starts its pipeline gets as far as its first read."""
    with pipeline.auto_stop():
        assert pipeline.stats().state == "new"
        with pytest.raises(SystemExit):
            pipeline.get_item()


def test_pipeline_for_another_process_is_profiled_in_this_one(
    pipeline: Pipeline[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """So that the program ends, and not the other process."""
    builder = PipelineBuilder().add_source(range(10)).aggregate(5).add_sink()
    with pytest.raises(SystemExit):
        next(iter(run_pipeline_in_subprocess(builder)))
    assert "aggregate(op=collate(5), drop_last=False): 3 items" in capsys.readouterr().out


def test_number_of_items_is_checked_when_the_pipeline_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not at the first read, which may come late."""
    monkeypatch.setenv("SPDL_PIPELINE_DIAGNOSTIC_MODE", "1")
    monkeypatch.setenv("SPDL_PIPELINE_DIAGNOSTIC_MODE_NUM_ITEMS", "many")
    with pytest.raises(ValueError, match="NUM_ITEMS"):
        PipelineBuilder().add_source(range(10)).add_sink().build()


def test_program_prints_the_tables_and_ends_well() -> None:
    """Also if a coroutine reads the pipeline."""
    run_child(
        """
        import asyncio, os
        os.environ["SPDL_PIPELINE_DIAGNOSTIC_MODE"] = "yes"
        from spdl.pipeline import PipelineBuilder

        async def read():
            async for _ in PipelineBuilder().add_source(range(3)).pipe(lambda item: None, name="x").add_sink().build():
                print("an item")

        try:
            asyncio.run(read())
        except SystemExit as exc:
            print("code", exc.code)
            raise
        """
    ).check_no_complaint()
