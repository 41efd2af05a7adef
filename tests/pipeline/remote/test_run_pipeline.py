"""``run_pipeline_in_subprocess``: a pipeline that runs elsewhere, over and over."""

import multiprocessing
import os
import random
import sys
import threading
from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from spdl.pipeline import PipelineBuilder, WorkerDiedError, WorkerError, run_pipeline_in_subprocess
from spdl.pipeline.defs import Merge, PathVariants, Pipe, PipelineConfig, Retry, SinkConfig
from tests.support import ops, remote, remote_hooks
from tests.support.child import run_child
from tests.support.leaving import hurry, run_apart
from tests.support.running import TIMEOUT, build_of, run


def continuous(source: Any, *calls: Any) -> Any:
    """A builder with a continuous source."""
    builder: PipelineBuilder[Any, Any] = PipelineBuilder()
    builder.add_source(source, continuous=True)
    for call in calls:
        builder.pipe(call)
    return builder.add_sink(2)


# -- what it takes


def test_a_builder_is_moved_and_iterated() -> None:
    """As the guides show it: nothing but the builder is needed."""
    builder = PipelineBuilder[Any, Any]().add_source(range(5)).pipe(ops.double).add_sink(3)
    iterator = run_pipeline_in_subprocess(builder)
    items = []
    for item in iterator:
        items.append(item)  # noqa: PERF402 - the loop is what the guides show
    assert items == [0, 2, 4, 6, 8]


def test_a_config_is_taken_as_well() -> None:
    """Without a warning, as the builder is."""
    config = build_of(range(4), lambda b: b.pipe(ops.process_id)).get_config()
    pids = set(run_apart(config))
    assert len(pids) == 1
    assert pids != {os.getpid()}


@pytest.mark.parametrize("config", [None, 5, [1, 2]])
def test_anything_else_is_refused(config: Any) -> None:
    """Here, before a process is started."""
    with pytest.raises(TypeError):
        run_apart(config)


def test_a_bad_structure_is_told_here() -> None:
    """A builder without a sink is no pipeline."""
    with pytest.raises(RuntimeError):
        run_apart(PipelineBuilder[Any, Any]().add_source(range(3)))


def test_what_does_not_pickle_is_named() -> None:
    """Threads run here, so it cannot be forked either."""
    gate = threading.Event()
    thread = threading.Thread(target=gate.wait)
    thread.start()
    try:
        with pytest.raises(TypeError, match="lambda"):
            run_apart(build_of(range(3), lambda b: b.pipe(lambda item: item)))
    finally:
        gate.set()
        thread.join(TIMEOUT)


def test_every_kind_of_stage_runs_there() -> None:
    """Merge, path variants, generators, async ops, aggregates."""
    paths = PathVariants(ops.parity, [[Pipe(ops.double)], [Pipe(ops.same_async)]])
    config: PipelineConfig[Any] = PipelineConfig(
        Merge([build_of(range(start, 12, 2)).get_config() for start in (0, 1)]),
        [paths, Pipe(ops.twice)],
        SinkConfig(2),
    )
    builder_items = [item for even in range(0, 12, 2) for item in (2 * even, even + 1) for _ in range(2)]
    assert sorted(run_apart(config)) == sorted(builder_items)
    aggregated = build_of(range(7), lambda b: b.aggregate(3), lambda b: b.disaggregate(), lambda b: b.aggregate(2))
    assert list(run_apart(aggregated)) == [[0, 1], [2, 3], [4, 5], [6]]


def test_order_is_kept_there_as_here() -> None:
    """``output_order="input"`` at any concurrency."""
    builder = build_of(range(60), lambda b: b.pipe(ops.double, concurrency=4, output_order="input"))
    assert list(run_apart(builder, num_threads=4)) == list(range(0, 120, 2))


def test_it_can_be_the_source_of_a_pipeline_here() -> None:
    """Fast ops here, slow ones there."""
    apart = run_apart(build_of(range(6), lambda b: b.pipe(ops.double)))
    builder = build_of(apart, lambda b: b.pipe(ops.double))
    assert [run(builder, num_threads=1) for _ in range(2)] == [[0, 4, 8, 12, 16, 20]] * 2


def test_retry_works_there() -> None:
    """As it does here."""
    builder = build_of(range(3), lambda b: b.pipe(ops.third_time_lucky, retry=Retry(3, delay=0)))
    assert list(run_apart(builder, num_threads=1)) == [(0, 3), (1, 3), (2, 3)]


# -- over and over


def test_an_ordinary_source_gives_a_fresh_pipeline_each_time() -> None:
    """In the same process; whatever state the source keeps is kept there."""
    apart = run_apart(build_of(remote.Epochs(3), lambda b: b.pipe(ops.with_process_id)))
    rounds = [list(apart) for _ in range(3)]
    assert [[item for item, _ in each] for each in rounds] == [[(epoch, k) for k in range(3)] for epoch in range(3)]
    assert len({pid for each in rounds for _, pid in each}) == 1


def test_a_source_that_shuffles_itself_advances_there_and_not_here() -> None:
    """Each epoch its own order; the source here is as it was."""
    source = remote.Shuffling(20)
    apart = run_apart(build_of(source))
    orders = [list(apart) for _ in range(3)]
    expected = remote.Shuffling(20)
    assert orders == [list(expected) for _ in range(3)]
    assert len({tuple(order) for order in orders}) == 3
    assert list(source) == orders[0]


def test_break_gives_a_fresh_pipeline_the_next_time() -> None:
    """What was in flight is dropped with the old one."""
    apart = run_apart(build_of(remote.Epochs(40), lambda b: b.pipe(ops.same)))
    for epoch in range(3):
        assert next(iter(apart)) == (epoch, 0)
    assert list(apart) == [(3, k) for k in range(40)]


def test_a_continuous_source_gives_one_epoch_each_time() -> None:
    """In the same process and threads; the pipeline is built once."""
    apart = run_apart(continuous(remote.Epochs(4), ops.with_thread), num_threads=1)
    epochs = [list(apart) for _ in range(4)]
    assert [[item for item, *_ in each] for each in epochs] == [[(epoch, k) for k in range(4)] for epoch in range(4)]
    assert len({(pid, thread) for each in epochs for _, pid, thread in each}) == 1


def test_a_continuous_pipeline_is_initialized_and_built_once(tmp_path: Path) -> None:
    """Whatever the number of epochs."""
    builds = tmp_path / "builds"
    apart = run_apart(
        continuous(range(2), ops.same),
        initializer=partial(remote_hooks.set_build_callback, builds),
        num_threads=1,
    )
    assert [list(apart) for _ in range(3)] == [[0, 1]] * 3
    assert builds.read_text().split() == ["built"]
    builds.unlink()
    apart = run_apart(build_of(range(2)), initializer=partial(remote_hooks.set_build_callback, builds), num_threads=1)
    assert [list(apart) for _ in range(3)] == [[0, 1]] * 3
    assert builds.read_text().split() == ["built"] * 3


def test_empty_epochs_are_empty() -> None:
    """They are told apart from the end."""
    apart = run_apart(continuous(remote.Sizes(0, 2, 0, 0, 1)))
    assert [list(apart) for _ in range(5)] == [[], [(1, 0), (1, 1)], [], [], [(4, 0)]]


def test_a_break_in_a_continuous_epoch_drops_the_rest_of_it() -> None:
    """The next ``iter()`` drops leftovers and starts anew."""
    apart = run_apart(continuous(remote.Epochs(30), ops.same))
    for epoch in range(3):
        iterator = iter(apart)
        assert [next(iterator), next(iterator)] == [(epoch, 0), (epoch, 1)]
    assert list(apart) == [(3, k) for k in range(30)]


# -- random numbers


@pytest.mark.parametrize("context", ["spawn", "forkserver"])
def test_global_random_state_goes_along(context: str) -> None:
    """That of ``random`` as it is here; drawing there does not change it here."""
    if context not in multiprocessing.get_all_start_methods():
        pytest.skip("not on this platform")
    state = random.getstate()
    try:
        random.seed(8)
        expected = random.Random(8)
        apart = run_apart(build_of(range(5), lambda b: b.pipe(ops.draw)), num_threads=1, mp_context=context)
        assert list(apart) == [expected.random() for _ in range(5)]
        assert random.random() == random.Random(8).random()
        # The worker goes on from where it is; it is not set back for each iteration.
        assert list(apart) == [expected.random() for _ in range(5)]
    finally:
        random.setstate(state)


def test_global_random_state_of_numpy_goes_along() -> None:
    """The legacy one."""
    np = pytest.importorskip("numpy")
    state = np.random.get_state()
    try:
        np.random.seed(9)
        apart = run_apart(build_of(range(5), lambda b: b.pipe(ops.draw_numpy)), num_threads=1)
        assert list(apart) == list(np.random.RandomState(9).random_sample(5))
    finally:
        np.random.set_state(state)


@pytest.mark.slow
def test_global_random_state_of_torch_goes_along() -> None:
    """That of the CPU."""
    torch = pytest.importorskip("torch")
    state = torch.get_rng_state()
    try:
        torch.manual_seed(10)
        apart = run_apart(build_of(range(5), lambda b: b.pipe(ops.draw_torch)), num_threads=1)
        items = list(apart)
        assert items == [torch.rand(()).item() for _ in range(5)]
    finally:
        torch.set_rng_state(state)


@pytest.mark.slow
def test_modules_that_are_not_imported_here_are_not_imported_there() -> None:
    """Copying random state costs nobody an import."""
    run_child(
        """
        from spdl.pipeline import PipelineBuilder, run_pipeline_in_subprocess
        from tests.support import remote, ops

        if __name__ == "__main__":
            builder = PipelineBuilder().add_source(["numpy", "torch"]).pipe(ops.is_imported).add_sink()
            print(list(run_pipeline_in_subprocess(builder, num_threads=1)))
        """,
        fresh=True,
    ).check("[False, False]")


# -- options


def test_options_of_the_worker_go_along() -> None:
    """``initializer``, ``buffer_size``, ``mp_context``, ``daemon``."""
    apart = run_apart(
        build_of(range(1), lambda b: b.pipe(ops.noted_by_now)),
        initializer=[partial(remote.note, "one"), partial(remote.note, "two")],
        buffer_size=1,
        mp_context="spawn",
        daemon=True,
    )
    assert list(apart) == [(True, ["one", "two"])]


def test_options_of_the_build_go_along() -> None:
    """``num_threads``, hooks, queues and background tasks are those of the pipeline there."""
    apart = run_apart(
        build_of(range(4), lambda b: b.pipe(remote_hooks.seen_by_observers, concurrency=3)),
        num_threads=1,
        task_hook_factory=remote_hooks.make_hooks,
        queue_class=remote_hooks.NotingQueue,
        background_tasks=[remote_hooks.NotingTask],
        report_stats_interval=-1,
        use_thread_output_queue=True,
    )
    threads, seen = zip(*apart, strict=True)
    assert len(set(threads)) == 1
    assert {"hook", "queue", "task"} <= {word for words in seen for word in words}


@pytest.mark.parametrize("limit", [0, 2, Fraction(1, 1)])
def test_the_limit_of_failures_goes_along(limit: int | Fraction) -> None:
    """Items first; then a WorkerError that has the text of the failure."""
    apart = run_apart(build_of(range(10), lambda b: b.pipe(ops.odd_fails)), num_threads=1, max_failures=limit)
    if isinstance(limit, Fraction):
        assert list(apart) == [0, 2, 4, 6, 8]
        return
    iterator = iter(apart)
    assert [next(iterator) for _ in range(limit + 1)] == list(range(0, 2 * limit + 1, 2))
    with pytest.raises(WorkerError, match="Failed to fetch the next item: pipeline stages failed") as info:
        next(iterator)
    assert f"failed {limit + 1} times, which exceeds the threshold ({limit})" in str(info.value)
    with pytest.raises(RuntimeError, match="Cannot iterate again"):
        next(iter(apart))


def test_an_impossible_limit_is_told() -> None:
    """As building it here would."""
    with pytest.raises((ValueError, WorkerError), match=r"must be in range \(0, 1\]"):
        list(run_apart(build_of(range(3)), max_failures=Fraction(3, 2)))


def test_unknown_options_are_refused() -> None:
    """By name."""
    with pytest.raises(TypeError, match="no_such_option"):
        run_apart(build_of(range(3)), no_such_option=1)


# -- failures


def test_failed_items_are_dropped_there() -> None:
    """As they are here."""
    assert list(run_apart(build_of(range(7), lambda b: b.pipe(ops.odd_fails)))) == [0, 2, 4, 6]


def test_a_failing_source_is_told_after_its_items() -> None:
    """Every stage that failed, with the traceback from there."""
    source = remote.fail_after(3, OSError(5, "broken disk"))
    iterator = iter(run_apart(build_of(source, lambda b: b.pipe(ops.double))))
    assert [next(iterator) for _ in range(3)] == [0, 2, 4]
    with pytest.raises(RuntimeError, match="Failed to fetch the next item: pipeline stages failed") as info:
        next(iterator)
    assert isinstance(info.value, WorkerError)
    assert "broken disk" in str(info.value)
    assert "OSError" in (info.value.remote_traceback or "")


def test_a_dead_worker_is_told() -> None:
    """An op that kills the process kills the pipeline: use a region, or ``isolate``, for such."""
    builder = build_of(range(9), lambda b: b.pipe(partial(ops.die, at=4, how=7)))
    iterator = iter(run_pipeline_in_subprocess(builder, num_threads=1, buffer_size=1))
    items: list[int] = []
    with pytest.raises(WorkerDiedError, match=r"The worker subprocess exited unexpectedly\.") as info:
        items.extend(iterator)
    assert info.value.exit_code == 7


def test_a_silent_pipeline_is_given_up() -> None:
    """After ``timeout`` seconds without an item."""
    iterable = run_apart(build_of(range(3), lambda b: b.pipe(ops.block)))
    iterator = iter(iterable)
    hurry(iterable)
    with pytest.raises(TimeoutError, match="The worker subprocess did not produce any data for"):
        next(iterator)


# -- numbers of pipelines, forks


def test_numbers_of_pipelines_go_on_from_those_here() -> None:
    """So that a stage's name in the log is of one pipeline only."""
    here = build_of(range(1)).build(num_threads=1)
    number = here.stats().stages[0].info.pipeline_id
    here.stop()
    apart = run_apart(
        build_of(range(1), lambda b: b.pipe(remote_hooks.names_of_stages)),
        num_threads=1,
        task_hook_factory=remote_hooks.note_stage,
    )
    ((name,),) = apart
    assert int(name.partition(":")[0]) > number


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
@pytest.mark.parametrize("threads", [0, 1])
def test_a_fork_next_to_other_threads_is_warned_of(threads: int) -> None:
    """RuntimeWarning ``can deadlock``; without threads there is none, for warnings are errors in that script."""
    run_child(
        f"""
        import threading, warnings
        from spdl.pipeline import PipelineBuilder, run_pipeline_in_subprocess

        gate = threading.Event()
        started = [threading.Thread(target=gate.wait) for _ in range({threads})]
        for thread in started:
            thread.start()
        builder = PipelineBuilder().add_source(range(3)).pipe(lambda item: 2 * item).add_sink()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            apart = run_pipeline_in_subprocess(builder, num_threads=1, mp_context="fork", timeout=100)
        told = [each.category.__name__ for each in caught if "can deadlock" in str(each.message)]
        gate.set()
        print(list(apart), told)
        """
    ).check("[0, 2, 4] " + ("['RuntimeWarning']" if threads else "[]"))


def _lazily(builder: Any) -> Iterator[Any]:
    yield from run_apart(builder)


def test_an_abandoned_pipeline_ends() -> None:
    """The check for leaks sees its process."""
    assert next(_lazily(build_of(range(10_000), lambda b: b.pipe(ops.same)))) == 0
