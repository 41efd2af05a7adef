"""What ``spdl load`` says at the end: which stage limits it, and how file names are printed."""

import pytest

from spdl._cli._report import busy_share, one_line, verdict
from spdl._reports import printable
from spdl.pipeline import PipelineStats, StageInfo, StageStats


def _stage(name: str, index: int, concurrency: int | None = None, **counts: float) -> StageStats:
    info = StageInfo(0, str(index), name, concurrency)
    return StageStats(info=info, elapsed=10.0, **counts)  # type: ignore[arg-type]


def _stats(*stages: StageStats, consumer_wait: float = 9.9, num_items: int = 10) -> PipelineStats:
    return PipelineStats(
        elapsed=10.0,
        state="ended",
        num_threads=2,
        num_items=num_items,
        consumer_wait=consumer_wait,
        stages=stages,
    )


SOURCE = _stage("src", 0, busy=0.1, num_calls=100, num_success=100, blocked=9.0)
SINK = _stage("sink", 2)


def test_stage_that_computes_is_named_with_what_would_help() -> None:
    """Busy threads that compute: more cores would help, more threads would not."""
    load = _stage(
        "load", 1, 2, busy=19.6, num_calls=10, num_success=10, wall_time=19.6, cpu_time=19.0, num_cpu_samples=10
    )
    assert verdict(_stats(SOURCE, load, SINK)) == (
        "load holds the pipeline back: its 2 threads were busy 98% of the time, 97% of it computing:"
        " more cores or a smaller size would help."
    )


def test_stage_that_waits_is_told_from_one_that_computes() -> None:
    """Busy threads that wait: more threads may help."""
    load = _stage(
        "load", 1, 2, busy=19.6, num_calls=10, num_success=10, wall_time=19.6, cpu_time=4.9, num_cpu_samples=10
    )
    assert "75% of it waiting: for files (more threads would help)" in verdict(_stats(SOURCE, load, SINK))


def test_slow_consumer_is_named() -> None:
    """A consumer that never waits is what holds the pipeline back."""
    load = _stage("load", 1, 2, busy=1.0, num_calls=10, num_success=10, blocked=9.0)
    assert verdict(_stats(SOURCE, load, SINK, consumer_wait=0.1)).startswith("The consumer holds the pipeline back")


def test_slow_source_is_named() -> None:
    """A source that is always busy while all others starve."""
    source = _stage("src", 0, busy=9.9, num_calls=10, num_success=10)
    load = _stage("load", 1, 2, busy=0.1, num_calls=10, num_success=10, starved=9.9)
    assert verdict(_stats(source, load, SINK)).startswith("src holds the pipeline back")


def test_short_run_tells_nothing() -> None:
    """After a handful of batches the start-up outweighs the stages, so none of them is blamed."""
    load = _stage("load", 1, 2, busy=19.6, num_calls=9, num_success=9)
    assert verdict(_stats(SOURCE, load, SINK, num_items=9)).startswith("Too few batches to tell")
    idle = PipelineStats(elapsed=0.0, state="new", num_threads=2, num_items=0, consumer_wait=0.0, stages=(SOURCE, SINK))
    assert verdict(idle).startswith("Too few batches to tell")


def test_share_counts_only_threads_there_are() -> None:
    """A stage of concurrency 8 in a pool of 2 threads is fully busy when both are."""
    load = _stage("load", 1, 8, busy=20.0)
    assert busy_share(load, _stats(SOURCE, load, SINK)) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain é 漢.jpg", "plain é 漢.jpg"),
        ("tab\there\x1b[31m", "tab\\there\\x1b[31m"),
        ("bad\udcff.jpg", "bad\\udcff.jpg"),
    ],
)
def test_names_cannot_disturb_the_terminal(text: str, shown: str) -> None:
    """File names may hold any byte; control characters and what is not UTF-8 are shown escaped."""
    assert printable(text) == shown
    printable(text).encode("utf-8")


def test_error_without_message_shows_its_type() -> None:
    """One line, always with something on it."""
    assert one_line(KeyError()) == "KeyError"
    assert one_line(ValueError("first\nsecond")) == "first"
