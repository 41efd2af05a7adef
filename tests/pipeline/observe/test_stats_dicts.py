"""``PipelineStats.to_dict``: names and numbers for loggers."""

from spdl.pipeline import PipelineStats, StageInfo, StageStats


def stats_of(*names: str, cpu: float | None = None) -> PipelineStats:
    stages = tuple(
        StageStats(
            info=StageInfo(0, str(number), name),
            elapsed=2.0,
            num_calls=4,
            num_success=4,
            num_emitted=4,
            wall_time=1.0,
            cpu_time=cpu or 0.0,
            num_cpu_samples=0 if cpu is None else 4,
        )
        for number, name in enumerate(names)
    )
    return PipelineStats(elapsed=2.0, state="running", num_threads=8, num_items=4, consumer_wait=0.5, stages=stages)


def test_names_are_flat_and_values_are_numbers() -> None:
    """The attributes of the pipeline, and those of each stage behind its name."""
    found = stats_of("src", "decode").to_dict()
    assert {type(value) for value in found.values()} <= {int, float}
    assert found["spdl/rate"] == 2.0
    assert found["spdl/consumer_wait"] == 0.5
    assert found["spdl/decode/num_calls"] == 4
    assert found["spdl/decode/wall_per_call"] == 0.25
    assert {name.partition("/")[0] for name in stats_of("a").to_dict(prefix="load.")} == {"load.a"} | {
        f"load.{name}" for name in ("elapsed", "num_threads", "num_items", "rate", "consumer_wait")
    }


def test_what_was_not_measured_has_no_entry() -> None:
    """A logger takes no ``None``."""
    assert "spdl/decode/cpu_per_call" not in stats_of("decode").to_dict()
    assert stats_of("decode", cpu=0.5).to_dict()["spdl/decode/cpu_per_call"] == 0.125


def test_names_of_stages_are_clean_and_unique() -> None:
    """Only characters that loggers accept; stages of one name get their numbers."""
    found = stats_of("aggregate(op=collate(32), drop_last=False)", "a", "b", "a", "<>").to_dict("")
    keys = {name.split("/")[0] for name in found if "/" in name}
    assert keys == {"aggregate_op_collate_32_drop_last_False", "a.1", "a.3", "b", "stage"}
