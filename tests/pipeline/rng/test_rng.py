"""The numbers that an op gets depend on the run's seed, the epoch, the position and the stage, and on nothing else."""

import random
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest

from spdl.pipeline import InvalidOpError, PipelineBuilder, TaskHook, build_pipeline, run_pipeline_in_subprocess
from spdl.pipeline.defs import (
    MAIN_PROCESS,
    ExecutorConfig,
    Merge,
    Pipe,
    PipelineConfig,
    ProcessPoolExecutorConfig,
    Retry,
    SinkConfig,
    SourceConfig,
)
from spdl.resume import gather
from spdl.source import DistributedKeyedSampler
from tests.support.region_kinds import RegionKind
from tests.support.rng_ops import Draw, ThirdAttempt, adraw, adraw_twice, draw, draw_first, draw_twice, draw_with
from tests.support.timeouts import TIMEOUT

SIZE = 24
_TWO = ProcessPoolExecutorConfig(2)
SEED = 7


def built(source: Any = range(SIZE), op: Any = draw, *, continuous: bool = False, **options: Any) -> Any:
    options.setdefault("rng", True)
    return PipelineBuilder().add_source(source, continuous=continuous).pipe(op, **options).add_sink()


def outputs(builder: Any, **options: Any) -> list[Any]:
    pipeline = builder.build(**{"seed": SEED, **options})
    with pipeline.auto_stop():
        return list(pipeline)


@pytest.fixture(scope="module")
def expected() -> list[Any]:
    return outputs(built())


@pytest.fixture
def workers() -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(1) as pool:
        yield pool


def test_numbers_are_golden() -> None:
    """The numbers are the same on every machine, and in every release."""
    seeds = [seed for _, seed, _ in outputs(built(range(3), draw, rng="crop"), seed=0)]
    assert seeds == [15123098403322108352, 12120753828881982286, 16136524109619816876]


@pytest.mark.parametrize("num_threads", [1, 2, 16])
@pytest.mark.parametrize("output_order", ["completion", "input"])
def test_threads_make_no_difference(expected: list[Any], num_threads: int, output_order: str) -> None:
    """Any number of threads in any order gives every item the same numbers."""
    options: dict[str, Any] = {"concurrency": num_threads, "output_order": output_order}
    assert sorted(outputs(built(**options), num_threads=num_threads)) == expected
    assert sorted(outputs(built(call_timeout=TIMEOUT, **options), num_threads=num_threads)) == expected


def test_executors_make_no_difference(expected: list[Any], workers: ProcessPoolExecutor) -> None:
    """An op in an executor gets the numbers that it would get on a worker thread."""
    for order in ("completion", "input"):
        options: dict[str, Any] = {"concurrency": 2, "output_order": order}
        assert sorted(outputs(built(executor=workers, **options))) == expected
        with ThreadPoolExecutor(2) as threads:
            assert sorted(outputs(built(executor=threads, **options))) == expected


def test_isolation_makes_no_difference(expected: list[Any]) -> None:
    """An op in processes of its own gets the same numbers."""
    assert sorted(outputs(built(isolate=True))) == expected


def test_async_ops_get_the_same(expected: list[Any]) -> None:
    """An async op gets the numbers of a sync one with its name."""
    for order in ("completion", "input"):
        options: dict[str, Any] = {"rng": "draw", "concurrency": 3, "output_order": order}
        assert sorted(outputs(built(op=adraw, **options))) == expected
    assert sorted(outputs(built(op=adraw, rng="draw", call_timeout=TIMEOUT))) == expected


def _region(workers: ExecutorConfig = _TWO) -> Any:
    builder = PipelineBuilder().add_source(range(SIZE)).to(workers, buffer_size=3)
    builder.pipe(draw, rng=True, concurrency=2)
    return builder.to(MAIN_PROCESS).add_sink()


def test_regions_make_no_difference(kind: RegionKind, expected: list[Any]) -> None:
    """An op in the workers of a region gets the same numbers."""
    assert sorted(outputs(_region(kind.workers(2)))) == expected


def test_subprocesses_make_no_difference(expected: list[Any]) -> None:
    """A pipeline in a subprocess gives its ops the same numbers, also those in regions."""
    assert list(run_pipeline_in_subprocess(built(), seed=SEED, timeout=TIMEOUT)) == expected
    assert sorted(run_pipeline_in_subprocess(_region(), seed=SEED, timeout=TIMEOUT)) == expected


@pytest.mark.parametrize("resumable", [False, True])
def test_iterations_of_a_subprocess_are_epochs(resumable: bool) -> None:
    """Each iteration has its own numbers, those of the epochs of a continuous source."""
    items = run_pipeline_in_subprocess(built(range(4)), seed=SEED, timeout=TIMEOUT, resumable=resumable)
    pipeline = built(range(4), continuous=True).build(seed=SEED)
    with pipeline.auto_stop():
        assert [list(items) for _ in range(3)] == [list(pipeline) for _ in range(3)]


def test_generators_get_the_same_wherever_they_run(workers: ProcessPoolExecutor) -> None:
    """A generator has one set of numbers for each input, sync or async, in threads or processes."""
    plain = sorted(outputs(built(op=draw_twice)))
    assert len(set(plain)) == 2 * SIZE
    assert sorted(outputs(built(op=draw_twice, concurrency=4, output_order="input"))) == plain
    assert sorted(outputs(built(op=draw_twice, concurrency=4, call_timeout=TIMEOUT))) == plain
    assert sorted(outputs(built(op=adraw_twice, rng="draw_twice", concurrency=4))) == plain
    assert sorted(outputs(built(op=draw_twice, executor=workers))) == plain
    assert sorted(outputs(built(op=draw_twice, isolate=True))) == plain


def test_outputs_of_a_generator_get_different_numbers() -> None:
    """Each output of a generator has its own numbers in the stages behind it."""
    builder = PipelineBuilder().add_source(range(3)).pipe(lambda item: iter([item, item]), name="split").disaggregate()
    found = outputs(builder.pipe(draw, rng=True, concurrency=2).add_sink())
    assert len({seed for _, seed, _ in found}) == 6


def test_aggregates_fold_the_positions_of_their_members() -> None:
    """A batch has numbers that depend on all its members and on their order."""

    def seeds(source: Any) -> list[int]:
        builder = PipelineBuilder().add_source(source).aggregate(4).pipe(draw_first, rng=True).add_sink()
        return [number for _, number in outputs(builder)]

    assert seeds(range(8)) == seeds("abcdefgh")
    assert len({*seeds(range(8)), *seeds(range(6))}) == 3


class Hooks(TaskHook):
    """Notes what the hooks are given."""

    def __init__(self) -> None:
        self.items: list[Any] = []

    @asynccontextmanager
    async def task_hook(self, input_item: Any = None) -> AsyncIterator[None]:
        self.items.append(input_item)
        yield


@pytest.mark.parametrize("op", [draw, adraw], ids=["sync", "async"])
def test_hooks_see_the_items(expected: list[Any], op: Callable[..., Any]) -> None:
    """With task hooks, ops get the same numbers, and hooks the items themselves."""
    hooks = Hooks()
    found = outputs(built(op=op, rng="draw"), task_hook_factory=lambda info: [hooks])
    assert found == expected
    assert hooks.items == list(range(SIZE))


def test_hooked_generators_get_the_same() -> None:
    """With task hooks, generators get the same numbers."""
    hooks = Hooks()
    found = outputs(built(op=draw_twice), task_hook_factory=lambda info: [hooks])
    assert found == outputs(built(op=draw_twice))
    assert set(hooks.items) == set(range(SIZE))


def test_attempts_get_the_same_numbers(expected: list[Any]) -> None:
    """Each attempt at an item begins with the first number again."""
    found = outputs(built(op=ThirdAttempt(), rng="draw", retry=Retry(3, delay=0)), max_failures=0)
    assert found == expected


def test_ops_of_all_kinds_are_called(expected: list[Any]) -> None:
    """Objects, functions with keyword-only and with any keywords take ``rng``."""
    assert outputs(built(op=Draw(), rng="draw")) == expected
    seeds = [each[1] for each in expected]
    assert [seed for _, seed in outputs(built(op=draw_with, rng="draw"))] == seeds


@pytest.mark.parametrize("num_before", [0, 1, 9, SIZE])
@pytest.mark.parametrize("concurrency", [1, 3])
def test_resumed_runs_go_on_with_the_same_numbers(expected: list[Any], num_before: int, concurrency: int) -> None:
    """What a resumed pipeline gives has the numbers that it would have had."""
    builder = built(concurrency=concurrency)
    first = builder.build(seed=SEED, resumable=True)
    with first.auto_stop():
        found = [first.get_item(timeout=TIMEOUT) for _ in range(num_before)]
        state = first.state_dict()
    second = builder.build(seed=SEED, resumable=True)
    second.load_state_dict(state)
    with second.auto_stop():
        found += list(second)
    assert sorted(found) == expected


def test_another_seed_cannot_be_resumed() -> None:
    """A state is not loaded where the numbers would differ."""
    state = built().build(seed=1, resumable=True).state_dict()
    with pytest.raises(ValueError, match="seed 1"):
        built().build(seed=2, resumable=True).load_state_dict(state)


def _on_ranks(world: int, **options: Any) -> list[Any]:
    found = []
    for rank in range(world):
        sampler = DistributedKeyedSampler(SIZE, rank=rank, world_size=world, seed=1)
        found += outputs(built(sampler, **options))
    return sorted(found)


@pytest.mark.parametrize("world", [2, 3, 4, 8])
def test_ranks_make_no_difference(world: int) -> None:
    """An item gets the same numbers on any number of ranks."""
    assert _on_ranks(world, concurrency=2) == _on_ranks(1)


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 3), (4, 1), (3, 4)])
def test_resumed_on_other_ranks(before: int, after: int) -> None:
    """A run that goes on with another number of ranks has the same numbers."""

    def pipeline(rank: int, world: int) -> Any:
        sampler = DistributedKeyedSampler(
            SIZE, rank=rank, world_size=world, seed=1, ddp_drop_last_distributed_round=False
        )
        return built(sampler, concurrency=2).build(seed=SEED, resumable=True)

    found, states = [], []
    for rank in range(before):
        first = pipeline(rank, before)
        with first.auto_stop():
            found += [first.get_item(timeout=TIMEOUT) for _ in range(2)]
            states.append(first.state_dict())
    state = gather(states)
    for rank in range(after):
        second = pipeline(rank, after)
        second.load_state_dict(state)
        with second.auto_stop():
            found += list(second)
    assert sorted(found) == _on_ranks(1)


def test_epochs_differ() -> None:
    """Each pass over a continuous source has its own numbers, the same in every run."""

    def epochs() -> list[list[Any]]:
        pipeline = built(range(4), continuous=True, concurrency=2, output_order="input").build(seed=SEED)
        with pipeline.auto_stop():
            return [list(pipeline) for _ in range(3)]

    first = epochs()
    assert first == epochs()
    assert len({seed for epoch in first for _, seed, _ in epoch}) == 12


def test_sources_told_the_epoch_decide() -> None:
    """The epoch of a sampler is that of the numbers."""
    sampler = DistributedKeyedSampler(SIZE, rank=0, world_size=1, seed=1)
    first = outputs(built(sampler))
    sampler.set_epoch(1)
    second = outputs(built(sampler))
    assert not {seed for _, seed, _ in first} & {seed for _, seed, _ in second}


def test_seeds_and_names_make_a_difference(expected: list[Any]) -> None:
    """Another seed, or another name of the stage, gives other numbers; the op's name makes none if one is given."""
    assert outputs(built(), seed=SEED + 1) != expected
    assert outputs(built(name="other")) != expected
    assert outputs(built(name="other", rng="draw")) == expected


def test_the_default_seed_is_zero() -> None:
    """A run without a seed can be repeated."""
    pipeline = built().build()
    with pipeline.auto_stop():
        assert list(pipeline) == outputs(built(), seed=0)


def test_global_generators_are_untouched(expected: list[Any]) -> None:
    """Neither ``random`` nor NumPy's global generator changes, and neither makes a difference."""
    before = random.getstate(), str(np.random.get_state(legacy=False))
    assert sorted(outputs(built(concurrency=4))) == expected
    assert (random.getstate(), str(np.random.get_state(legacy=False))) == before


def test_the_key_tells_position_and_item() -> None:
    """``rng.key`` has the position and what the source gave."""
    (key,) = outputs(built(["a/b.jpg"], lambda item, rng: rng.key, name="load"))
    assert (key.seed, key.stage) == (SEED, "load")
    assert (key.place.epoch, key.place.position, key.place.item) == (0, 0, "a/b.jpg")


def test_failures_name_the_item(caplog: pytest.LogCaptureFixture) -> None:
    """The report of a failure shows the item of the user."""

    def fail(item: int, rng: Any) -> None:
        raise ValueError("no")

    assert outputs(built([4711], fail, max_failures=-1)) == []
    assert "4711" in caplog.text


def test_merged_sources_have_different_numbers() -> None:
    """Items at the same position of two sources have different numbers."""
    subs: list[PipelineConfig[Any]] = [
        PipelineConfig(SourceConfig(range(3)), [Pipe(draw, rng=True)], SinkConfig(2)) for _ in range(2)
    ]
    config: PipelineConfig[Any] = PipelineConfig(Merge(subs), [Pipe(draw_first, rng=True)], SinkConfig(2))
    pipeline = build_pipeline(config, seed=SEED)
    with pipeline.auto_stop():
        found = list(pipeline)
    assert len({seed for (_, seed, _), _ in found}) == len({number for _, number in found}) == 6


# What is refused


def test_an_op_without_the_parameter_is_refused() -> None:
    """An op that cannot take ``rng`` is refused at once."""
    with pytest.raises(InvalidOpError, match="no parameter 'rng'"):
        built(op=lambda item: item)
    with pytest.raises(TypeError, match="rng must be a bool or a str"):
        built(rng=3)
    with pytest.raises(ValueError, match="empty name"):
        built(rng="")


def test_equal_names_are_refused() -> None:
    """Two stages with the same name would give an item the same numbers twice."""
    builder = PipelineBuilder().add_source(range(2)).pipe(draw, rng=True).pipe(draw, rng=True).add_sink()
    with pytest.raises(ValueError, match="rng='draw-2'"):
        builder.build()
    with pytest.raises(ValueError, match="rng='draw-2'"):
        run_pipeline_in_subprocess(builder)


def test_paths_may_share_a_name() -> None:
    """An item takes one path only."""
    builder = PipelineBuilder().add_source(range(4))
    builder.path_variants(lambda item: item % 2, [[Pipe(draw, rng=True)], [Pipe(draw, rng=True)]]).add_sink()
    assert sorted(outputs(builder)) == outputs(built(range(4)))


def test_a_custom_merge_is_refused() -> None:
    """Behind a merge op of the user nobody knows the positions."""

    async def op(info: Any, queues: Any, output: Any) -> None:
        raise AssertionError

    sub: PipelineConfig[Any] = PipelineConfig(SourceConfig(range(3)), [], SinkConfig(2))
    config: PipelineConfig[Any] = PipelineConfig(Merge([sub, sub], op), [Pipe(draw, rng=True)], SinkConfig(2))
    with pytest.raises(ValueError, match=r"stage 'draw'.*merge op"):
        build_pipeline(config)


def test_a_stage_behind_an_aggregating_region_is_refused() -> None:
    """A region does not tell the order in its aggregates."""
    builder = PipelineBuilder().add_source(range(3)).to(ProcessPoolExecutorConfig(max_workers=1)).aggregate(2)
    builder.to(MAIN_PROCESS).pipe(draw, rng=True).add_sink()
    with pytest.raises(ValueError, match=r"stage 'draw'.*region"):
        builder.build()
