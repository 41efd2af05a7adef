"""Ids and names of stages, in every shape a pipeline can have, and what is called once per stage."""

import copy
import dataclasses
import pickle
from collections.abc import Iterator
from typing import Any

import pytest

from spdl.pipeline import (
    AsyncQueue,
    PipelineBuilder,
    StageInfo,
    StatsQueue,
    TaskHook,
    TaskStatsHook,
    build_pipeline,
)
from spdl.pipeline.defs import (
    Aggregate,
    Aggregator,
    Disaggregate,
    Merge,
    PathVariants,
    Pipe,
    PipelineConfig,
    SinkConfig,
    SourceConfig,
)


def one(item: Any) -> Any:
    return item


def two(item: Any) -> Any:
    return item


class Shape:
    """A built pipeline, and for which stages hooks and queues were made."""

    def __init__(self, pipes: list[Any], src: Any = None, *, sink: int = 3, stage_id: int = 0) -> None:
        self.hooks: list[StageInfo] = []
        self.queues: list[tuple[StageInfo, int]] = []
        config: PipelineConfig[Any] = PipelineConfig(
            SourceConfig(range(4)) if src is None else src, pipes, SinkConfig(sink)
        )
        self.pipeline = build_pipeline(
            config,
            num_threads=1,
            task_hook_factory=self.make_hooks,
            queue_class=self.make_queue,
            stage_id=stage_id,
        )

    def make_hooks(self, info: StageInfo) -> list[TaskHook]:
        self.hooks.append(info)
        return [TaskStatsHook(info)]

    def make_queue(self, info: StageInfo, buffer_size: int) -> AsyncQueue:
        self.queues.append((info, buffer_size))
        return StatsQueue(info, buffer_size=buffer_size)

    @property
    def stages(self) -> list[str]:
        return [short(stage.info) for stage in self.pipeline.stats().stages]

    @property
    def hooked(self) -> list[str]:
        return [short(info) for info in self.hooks]

    @property
    def queued(self) -> list[str]:
        return [short(info) for info, _ in self.queues]


def short(info: StageInfo) -> str:
    """Without the pipeline's number, which depends on the tests before."""
    return str(info).partition(":")[2]


def sub(*pipes: Any) -> PipelineConfig[Any]:
    return PipelineConfig(SourceConfig(range(4)), list(pipes), SinkConfig(1))


# -- the class


@pytest.mark.parametrize(
    ("concurrency", "text"), [(None, "3:7:decode"), (2, "3:7:decode[2]"), (1, "3:7:decode[1]"), (16, "3:7:decode[16]")]
)
def test_str_of_an_info(concurrency: int | None, text: str) -> None:
    """Numbers and name with colons; concurrency in brackets where it is set."""
    assert str(StageInfo(3, "7", "decode", concurrency)) == text


def test_info_is_a_frozen_value() -> None:
    """Equal by value, hashable, picklable, with concurrency None by default; attributes cannot be set."""
    info = StageInfo(0, "1", "name")
    assert info.concurrency is None
    assert info == StageInfo(pipeline_id=0, stage_id="1", stage_name="name", concurrency=None)
    assert {info: 1}[copy.copy(info)] == 1
    assert pickle.loads(pickle.dumps(info)) == info
    with pytest.raises(dataclasses.FrozenInstanceError):
        info.stage_name = "other"  # type: ignore[misc]


# -- shapes


def test_ids_of_a_chain() -> None:
    """Source, stages in order, sink; concurrency is told where it is more than one."""
    shape = Shape([Pipe(one), Pipe(two, concurrency=3), Aggregate(2, drop_last=True), Disaggregate()])
    collate = "3:aggregate(op=collate(2), drop_last=True)"
    assert shape.stages == ["0:src", "1:one", "2:two[3]", collate, "4:disaggregate", "5:sink"]
    assert shape.hooked == ["1:one", "2:two[3]", collate, "4:disaggregate"]
    assert shape.queued == shape.stages


def test_ids_without_stages() -> None:
    """Source and sink alone are 0 and 1, and have no hooks."""
    shape = Shape([])
    assert shape.stages == ["0:src", "1:sink"]
    assert shape.hooked == []
    assert shape.queued == ["0:src", "1:sink"]


def test_ids_start_where_the_build_says() -> None:
    """stage_id is the number of the source; all others follow."""
    assert Shape([Pipe(one)], stage_id=10).stages == ["10:src", "11:one", "12:sink"]
    pipeline = PipelineBuilder().add_source(range(0)).add_sink().build(num_threads=1, stage_id=5)
    assert [stage.info.stage_id for stage in pipeline.stats().stages] == ["5", "6"]


def test_stages_are_in_order_of_number_not_of_text() -> None:
    """With more than ten stages, 10 comes after 9."""
    shape = Shape([Pipe(one) for _ in range(12)])
    assert [stage.info.stage_id for stage in shape.pipeline.stats().stages] == [str(k) for k in range(14)]
    assert [info.stage_id for info, _ in shape.queues] == [str(k) for k in range(14)]


def test_merge_takes_its_id_before_its_inputs() -> None:
    """merge, then each sub-pipeline's source and stages (no sink), then the rest."""
    shape = Shape([Pipe(two)], Merge([sub(Pipe(one, concurrency=2)), sub()]))
    expected = ["0:merge", "1:src", "2:one[2]", "3:src", "4:two", "5:sink"]
    assert shape.stages == expected
    assert shape.queued == expected
    assert shape.hooked == ["0:merge", "2:one[2]", "4:two"]


def test_merge_inside_a_merge() -> None:
    """The rule is the same at every depth."""
    inner: PipelineConfig[Any] = PipelineConfig(Merge([sub(), sub(Pipe(one))]), [Pipe(two)], SinkConfig(1))
    shape = Shape([], Merge([inner, sub()]))
    assert shape.stages == ["0:merge", "1:merge", "2:src", "3:src", "4:one", "5:two", "6:src", "7:sink"]


def test_merge_with_an_op_has_the_same_ids() -> None:
    """A custom op changes neither name nor number, and is told its own info."""
    told: list[StageInfo] = []

    async def op(info: StageInfo, inputs: Any, output: Any) -> None:
        told.append(info)
        told.extend(queue.info for queue in inputs)
        told.append(output.info)

    shape = Shape([], Merge([sub(), sub(Pipe(one))], op))
    assert shape.stages == ["0:merge", "1:src", "2:src", "3:one", "4:sink"]
    assert list(shape.pipeline) == []
    assert [short(info) for info in told] == ["0:merge", "1:src", "3:one", "0:merge"]


def test_path_variants_number_router_paths_and_merge() -> None:
    """One id for the router, shared by the channels of its paths, one per stage in the paths, one for the merge."""
    variants = PathVariants(lambda item: 0, [[Pipe(one), Pipe(two, concurrency=3)], [Pipe(two)]])
    shape = Shape([variants, Pipe(one)])
    assert shape.stages == [
        "0:src",
        "1:path_variants",
        "2:one",
        "3:two[3]",
        "4:two",
        "5:path_variants_merge",
        "6:one",
        "7:sink",
    ]
    assert shape.queued == [
        "0:src",
        "1:path_variants_path0",
        "1:path_variants_path1",
        "2:one",
        "3:two[3]",
        "4:two",
        "5:path_variants_merge",
        "6:one",
        "7:sink",
    ]
    assert shape.hooked == [name for name in shape.stages if name not in ("0:src", "7:sink")]


@pytest.mark.parametrize("batched", [False, True])
def test_name_of_path_variants_is_that_of_the_router(batched: bool) -> None:
    """A name given to path variants names the router alone."""
    shape = Shape([PathVariants(lambda item: 0, [[Pipe(one)]], name="by size", batched=batched)])
    assert shape.stages == ["0:src", "1:by size", "2:one", "3:path_variants_merge", "4:sink"]


def test_nested_path_variants() -> None:
    """Inner variants take all their ids where they stand in their path."""
    inner = PathVariants(lambda item: 0, [[Pipe(one)]], name="inner")
    shape = Shape([PathVariants(lambda item: 0, [[inner, Pipe(two)], [Pipe(two)]], name="outer")])
    assert shape.stages == [
        "0:src",
        "1:outer",
        "2:inner",
        "3:one",
        "4:path_variants_merge",
        "5:two",
        "6:two",
        "7:path_variants_merge",
        "8:sink",
    ]
    ids = [int(info.stage_id) for info, _ in shape.queues]
    assert ids == sorted(ids)


# -- names


class Named:
    def __call__(self, item: Any) -> Any:
        return item


class Counting(Aggregator[Any, Any]):
    def accumulate(self, item: Any) -> Any:
        return None

    def flush(self) -> Any:
        return None


def generator(item: Any) -> Iterator[Any]:
    yield item


@pytest.mark.parametrize(
    ("config", "name"),
    [
        (Pipe(one), "one"),
        (Pipe(one, name="given"), "given"),
        (Pipe(Named()), "Named"),
        (Pipe(generator), "generator"),
        (Pipe({}), "__getitem__"),
        (Pipe([1], name="table"), "table"),
        (Disaggregate(), "disaggregate"),
        (Aggregate(3), "aggregate(op=collate(3), drop_last=False)"),
    ],
)
def test_name_of_a_stage_is_that_of_its_config(config: Any, name: str) -> None:
    """What the config says is what statistics, hooks and queues are told."""
    shape = Shape([config])
    assert shape.hooks[0].stage_name == name
    assert shape.pipeline.stats().stages[1].info.stage_name == name
    assert config.name == name


def test_name_of_an_aggregate_of_ones_own_is_the_configs() -> None:
    """An Aggregator's stage is called as its config is."""
    config = Aggregate(Counting())
    shape = Shape([config])
    assert shape.hooks[0].stage_name == config.name
    assert "Counting" in config.name or "aggregate" in config.name


def test_concurrency_of_one_is_not_told() -> None:
    """concurrency is None for 1, and the number for more."""
    shape = Shape([Pipe(one), Pipe(one, concurrency=1), Pipe(one, concurrency=2)])
    assert [info.concurrency for info in shape.hooks] == [None, None, 2]


def test_queues_are_made_with_the_size_of_their_channel() -> None:
    """Two items between stages; the sink's size at the end."""
    shape = Shape([Pipe(one), Pipe(two)], sink=7)
    sizes = {short(info): size for info, size in shape.queues}
    assert sizes["0:src"] == sizes["1:one"] == 2
    assert sizes["3:sink"] == 7


# -- numbers of pipelines


def test_pipeline_ids_count_up() -> None:
    """Each build gets a number of its own, larger than those before; all stages of a pipeline have the same."""
    shapes = [Shape([Pipe(one)]) for _ in range(3)]
    ids = [{stage.info.pipeline_id for stage in shape.pipeline.stats().stages} for shape in shapes]
    assert all(len(numbers) == 1 for numbers in ids)
    flat = [number for numbers in ids for number in numbers]
    assert flat == sorted(set(flat))


def test_sub_pipelines_share_the_number_of_the_whole() -> None:
    """A merge is one pipeline."""
    shape = Shape([], Merge([sub(Pipe(one)), sub()]))
    assert len({stage.info.pipeline_id for stage in shape.pipeline.stats().stages}) == 1
