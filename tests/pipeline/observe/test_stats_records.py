"""``PipelineStats``: means, intervals, the limiting stage and the table, on made-up numbers."""

from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from spdl.pipeline import PipelineBuilder
from spdl.pipeline._info import StageInfo
from spdl.pipeline._observe._document import document_of
from spdl.pipeline._observe._stats import ItemFailure, PipelineStats, StageStats
from spdl.pipeline._observe._units import rate, seconds


def stage(index: int, name: str, *, elapsed: float = 10.0, pipeline_id: int = 0, **kwargs: Any) -> StageStats:
    return StageStats(info=StageInfo(pipeline_id, str(index), name), elapsed=elapsed, **kwargs)


def pipeline(*stages: StageStats, **kwargs: Any) -> PipelineStats:
    defaults: dict[str, Any] = {
        "elapsed": stages[0].elapsed,
        "state": "running",
        "num_threads": 2,
        "num_items": 100,
        "consumer_wait": 0.0,
    }
    return PipelineStats(stages=stages, **(defaults | kwargs))


def limiting_name(stats: PipelineStats) -> str | None:
    found = stats.limiting_stage
    return None if found is None else found.info.stage_name


def test_means_and_shares_follow_from_the_sums() -> None:
    """Per-call times divide by the calls they were measured on, shares and rates by the elapsed time."""
    got = stage(
        1, "op", num_calls=6, num_failures=1, num_success=5, wall_time=2.0, cpu_time=0.6, num_cpu_samples=3,
        occupied=4.0, num_emitted=50,
    )  # fmt: skip
    assert got.wall_per_call == pytest.approx(0.4)
    assert got.cpu_per_call == pytest.approx(0.2)
    assert got.occupancy == pytest.approx(0.4)
    assert got.rate == pytest.approx(5.0)


def test_a_stage_that_has_not_run_has_zero_means_and_unknown_cpu_time() -> None:
    """Nothing divides by zero, and CPU time that was never measured is not 0 but unknown."""
    got = stage(1, "op", elapsed=0.0)
    assert (got.wall_per_call, got.cpu_per_call, got.occupancy, got.rate) == (0.0, None, 0.0, 0.0)


def test_records_are_frozen() -> None:
    """A record cannot be changed after it was taken."""
    with pytest.raises(FrozenInstanceError):
        stage(1, "op").num_calls = 3  # type: ignore[misc]


def test_difference_is_the_interval() -> None:
    """Counters are subtracted, means cover the interval only, momentary values are those of the later record."""
    old, new = ItemFailure("0:1:op", 3, "3", ValueError("old")), ItemFailure("0:1:op", 9, "9", ValueError("new"))
    a = pipeline(
        stage(1, "op", elapsed=10.0, num_success=10, num_calls=11, num_failures=1, wall_time=10.0, busy=11.0,
              queue_len=3, occupied=1.0, num_emitted=10, failures=(old,)),
        consumer_wait=2.0, num_items=10,
    )  # fmt: skip
    b = pipeline(
        stage(1, "op", elapsed=14.0, num_success=14, num_calls=16, num_failures=2, wall_time=12.0, busy=14.0,
              queue_len=1, occupied=3.0, num_emitted=18, failures=(old, new)),
        consumer_wait=5.0, num_items=30,
    )  # fmt: skip
    got = b - a
    assert (got.elapsed, got.num_items, got.consumer_wait, got.rate) == (4.0, 20, 3.0, 5.0)
    (op,) = got.stages
    assert (op.elapsed, op.num_calls, op.num_failures, op.num_success, op.busy) == (4.0, 5, 1, 4, 3.0)
    assert (op.wall_per_call, op.occupancy, op.rate, op.queue_len) == (0.5, 0.5, 2.0, 1)
    assert op.failures == (new,)


def test_difference_of_different_pipelines_is_refused() -> None:
    """Statistics of two pipelines with the same stages do not subtract: the message names both."""
    with pytest.raises(ValueError, match=r"different pipelines: \[0:1:op\] and \[1:1:op\]"):
        pipeline(stage(1, "op")) - pipeline(stage(1, "op", pipeline_id=1))


def test_difference_of_different_stages_is_refused() -> None:
    """Statistics of two stages do not subtract."""
    with pytest.raises(ValueError, match="different stages: 0:1:op and 0:2:op"):
        stage(1, "op") - stage(2, "op")


def test_difference_the_wrong_way_round_is_refused() -> None:
    """earlier - later is an error that says how to write it."""
    with pytest.raises(ValueError, match="later - earlier"):
        pipeline(stage(1, "op", elapsed=1.0)) - pipeline(stage(1, "op", elapsed=2.0))


@pytest.mark.parametrize("record", [stage(1, "op"), pipeline(stage(1, "op"))])
def test_difference_with_something_else_is_a_type_error(record: Any) -> None:
    """A record minus a number is no record."""
    with pytest.raises(TypeError):
        record - 1


def test_slow_source_limits() -> None:
    """Everything behind the source starves, the consumer waits."""
    got = pipeline(
        stage(0, "src", busy=9.9),
        stage(1, "decode", busy=3.0, starved=9.5),
        stage(2, "sink", starved=9.8),
        consumer_wait=9.7,
    )
    assert limiting_name(got) == "src"


def test_slow_pipe_limits() -> None:
    """Before the slow stage all are blocked, behind it all starve; how many slots it has does not matter."""
    got = pipeline(
        stage(0, "src", busy=0.5, blocked=9.4),
        stage(1, "download", busy=30.0, blocked=8.0, starved=1.0),
        stage(2, "decode", busy=19.0, blocked=0.1, starved=0.2),
        stage(3, "convert", busy=4.0, starved=9.0),
        stage(4, "sink", starved=9.6),
        consumer_wait=9.3,
    )
    assert limiting_name(got) == "decode"


def test_slow_consumer_limits() -> None:
    """When every stage is blocked and the consumer never waits, the sink stands for the consumer."""
    got = pipeline(
        stage(0, "src", busy=0.2, blocked=9.7),
        stage(1, "decode", busy=4.0, blocked=9.1),
        stage(2, "sink", blocked=9.8),
        consumer_wait=0.1,
    )
    assert limiting_name(got) == "sink"


def test_a_source_that_has_ended_does_not_limit() -> None:
    """A stage that is done neither starves nor is blocked, but its calls no longer run either."""
    got = pipeline(
        stage(0, "src", busy=0.1),
        stage(1, "decode", busy=8.5, starved=1.4),
        stage(2, "sink", starved=9.0),
        consumer_wait=9.9,
    )
    assert limiting_name(got) == "decode"


def test_among_stages_short_of_threads_the_longest_runner_limits() -> None:
    """Two stages that share too few threads are both never idle; the one that uses more of them is named."""
    got = pipeline(
        stage(0, "src", busy=0.1, blocked=9.8),
        stage(1, "decode", busy=12.0),
        stage(2, "resize", busy=10.5),
        stage(3, "sink", starved=9.0),
        consumer_wait=9.9,
    )
    assert limiting_name(got) == "decode"


def test_nothing_limits_before_anything_ran() -> None:
    """A new pipeline, and one that has started and done nothing, have no limiting stage."""
    stages = (stage(0, "src", elapsed=0.0), stage(1, "op", elapsed=0.0), stage(2, "sink", elapsed=0.0))
    assert pipeline(*stages, num_items=0, state="new").limiting_stage is None
    stages = (stage(0, "src"), stage(1, "op"), stage(2, "sink"))
    assert pipeline(*stages, num_items=0, consumer_wait=1.0).limiting_stage is None


def test_a_call_that_does_not_return_limits_a_standstill() -> None:
    """In an interval in which no call ended, the stage that holds the calls is named."""
    got = pipeline(
        stage(0, "src", blocked=10.0), stage(1, "op", num_in_flight=2), stage(2, "sink", starved=10.0),
        num_items=0, consumer_wait=0.0,
    )  # fmt: skip
    assert limiting_name(got) == "op"


def test_table_has_a_line_for_each_stage_and_marks_the_limiting_one() -> None:
    """The table names all stages in order, with counters in aligned columns, and marks one."""
    got = pipeline(
        stage(0, "src", busy=0.5, blocked=9.4, num_calls=100),
        stage(1, "decode", busy=19.0, num_calls=98, num_failures=3, num_success=95, wall_time=19.0, num_dropped=2,
              num_in_flight=4, cpu_time=9.5, num_cpu_samples=95, queue_len=1, queue_capacity=4, occupied=2.5,
              num_emitted=93),
        stage(2, "sink", starved=9.6),
        consumer_wait=9.3,
    )  # fmt: skip
    lines = str(got).splitlines()
    assert lines[0] == "running, 10.0 s, 2 threads: 100 items, 10.0/s; the consumer waited 93% of the time"
    assert " ".join(lines[1].split()) == (
        "stage calls failed dropped running mean CPU busy starved blocked queue items/s"
    )
    assert [line.split()[0] for line in lines[2:5]] == ["0:0:src", "->", "0:2:sink"]
    assert " ".join(lines[3].split()) == "-> 0:1:decode 98 3 2 4 200 ms 50% 100% 0% 0% 1/4 9.3"
    assert len({len(line) for line in lines[1:5]}) == 1
    assert lines[5] == "-> limiting stage: 0:1:decode"


@pytest.mark.parametrize(
    ("blamed", "marked"), [("decode", "0:2:decode"), ("fetch", "0:1:fetch"), (None, "0:1:fetch"), ("gone", "0:1:fetch")]
)
def test_table_marks_the_stage_that_the_verdict_blames(blamed: str | None, marked: str) -> None:
    """Not the one that is busy because it waits for the GIL; without a sure verdict, the busiest."""
    got = pipeline(
        stage(0, "src"),
        stage(1, "fetch", busy=9.0, num_calls=100),
        stage(2, "decode", busy=0.5, starved=9.4, num_calls=100),
        stage(3, "sink", starved=9.6),
        consumer_wait=9.3,
        explain=lambda stats: (blamed, "decode is GIL-bound."),
    )
    lines = str(got).splitlines()
    assert [line.split()[1] for line in lines if line.startswith("-> 0")] == [marked]
    assert lines[-2:] == [f"-> limiting stage: {marked}", "decode is GIL-bound."]
    assert limiting_name(got) == "fetch"
    assert document_of(got)["limiting"] == marked.split(":")[1]


def test_table_fits_in_100_columns() -> None:
    """Long names are cut in the middle, so that numbered stages can be told apart, and large numbers are rounded."""
    got = pipeline(
        stage(0, "src", num_calls=123_456_789, num_success=1, wall_time=1e-6, num_emitted=123_456_789),
        *(
            stage(index, f"{'a_long_name_' * 12}{index}", num_calls=99_999, num_failures=10**7, num_dropped=99_999,
                  num_in_flight=64, num_success=99_999, wall_time=99_999 * 3599.4, cpu_time=99_999 * 3599.4,
                  num_cpu_samples=99_999, busy=1e9, starved=99.0, blocked=99.0, occupied=99.0,
                  queue_len=64, queue_capacity=64)
            for index in (1, 2)
        ),
        stage(3, "sink"),
        num_items=10**9,
    )  # fmt: skip
    lines = str(got).splitlines()[:6]
    assert max(len(line) for line in lines) <= 100
    first, second = (line.removeprefix("->").split()[0] for line in lines[3:5])
    assert first != second
    assert "123M" in lines[2]


def test_columns_of_losses_are_shown_when_something_was_lost() -> None:
    """A pipeline that has lost nothing needs no columns for that."""
    got = str(pipeline(stage(0, "src", num_calls=1), stage(1, "op", num_calls=1), stage(2, "sink")))
    assert "failed" not in got
    assert "dropped" not in got
    assert "substitute" not in got
    assert "missing" not in got


def test_substitutes_and_missing_parts_have_a_line_below_the_table() -> None:
    """It stands whatever columns there is room for, and in 100 columns too."""
    name = "a_long_name_" * 12
    got = pipeline(
        stage(0, "src"),
        stage(1, "decode", num_failures=3, num_substituted=2),
        stage(2, "load", num_lost=7),
        stage(3, name, num_failures=10**7, num_substituted=10**7, num_lost=10**7),
        stage(4, "sink"),
    )
    lines = str(got).splitlines()
    assert max(len(line) for line in lines) <= 100
    below = "\n".join(lines[7:])
    assert "   0:1:decode: 2 of 3 failed calls have a substitute\n" in below
    assert "   0:2:load: 7 parts, such as images of a batch, are missing from results\n" in below
    assert below.count("substitute") == below.count("missing") == 2


def test_one_substitute_and_one_missing_part_are_told_as_one() -> None:
    """The numbers agree with their words."""
    got = str(pipeline(stage(0, "src"), stage(1, "a", num_failures=3, num_substituted=1), stage(2, "b", num_lost=1)))
    assert "   0:1:a: 1 of 3 failed calls has a substitute\n" in got
    assert "   0:2:b: 1 part, such as an image of a batch, is missing from results" in got
    got = str(pipeline(stage(0, "src"), stage(1, "a", num_redealt=1), stage(2, "b", num_redealt=2)))
    assert "   0:1:a: 1 item was sent again because a worker died\n" in got
    assert "   0:2:b: 2 items were sent again because a worker died" in got


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0 s"), (3.25e-6, "3.25 us"), (0.0004, "400 us"), (0.99999, "1 s"), (0.0123, "12.3 ms"),
        (75.0, "75.0 s"), (3599.9, "3600 s"), (7500.0, "2:05 h"),
    ],
)  # fmt: skip
def test_durations_have_three_digits_and_a_unit(value: float, text: str) -> None:
    """From microseconds to hours."""
    assert seconds(value) == text


@pytest.mark.parametrize(("value", "text"), [(0.0, "0"), (9.3, "9.3"), (9999.4, "9999"), (12_345.0, "12.3k")])
def test_rates_have_at_most_six_characters(value: float, text: str) -> None:
    """Whatever runs a million times per second is still readable."""
    assert rate(value) == text


def test_table_says_that_the_sink_stands_for_the_consumer() -> None:
    """A limiting sink is explained, because no op of the user is behind it."""
    got = pipeline(stage(0, "src", blocked=10.0, busy=0.1), stage(1, "sink", blocked=10.0))
    assert "-> limiting stage: 0:1:sink, which stands for the consumer" in str(got)


def test_table_of_a_new_pipeline_marks_nothing() -> None:
    """Before the start nothing limits."""
    text = str(pipeline(stage(0, "src", elapsed=0.0), num_items=0, state="new"))
    assert text.startswith("new, 0 s, 2 threads: 0 items")
    assert "->" not in text


def test_table_can_be_narrow() -> None:
    """As many columns as the format says; another format is refused."""
    pipeline = PipelineBuilder().add_source(range(20)).pipe(str, name="a_stage_with_a_long_name").add_sink().build()
    assert len(list(pipeline)) == 20
    stats = pipeline.stats()
    assert f"{stats}" == str(stats)
    assert max(map(len, f"{stats:72}".splitlines())) <= 72
    for spec in ("wide", ">80", "0", "-3"):
        with pytest.raises(ValueError, match="number of columns"):
            format(stats, spec)
