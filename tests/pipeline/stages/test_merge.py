"""``Merge``: several sub-pipelines feed one stream, as items come or by an op of the user's."""

import asyncio
import itertools
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from spdl.pipeline import PipelineFailure, StageInfo, build_pipeline, is_eof
from spdl.pipeline.defs import Aggregate, Merge, MergeConfig, Pipe, PipelineConfig, SinkConfig, SourceConfig
from tests.support.running import TIMEOUT, Recorder, await_event, drain, run


def sub(source: Any, *stages: Any, sink: int = 1) -> PipelineConfig[Any]:
    return PipelineConfig(SourceConfig(source), list(stages), SinkConfig(sink))


def merged(*below: PipelineConfig[Any], op: Any = None, stages: Any = (), sink: int = 3) -> PipelineConfig[Any]:
    return PipelineConfig(Merge(list(below), op=op), list(stages), SinkConfig(sink))


def output_of(config: PipelineConfig[Any], **options: Any) -> list[Any]:
    items, failure = drain(build_pipeline(config, num_threads=2, **options))
    assert failure is None, failure.exceptions
    return items


async def one_after_the_other(info: StageInfo, inputs: Any, output: Any) -> None:
    """All of the first input, then all of the second …"""
    for queue in inputs:
        while not is_eof(item := await queue.get()):
            await output.put(item)


def test_everything_of_every_input_comes_out() -> None:
    """Order within an input is kept; empty inputs end at once; later stages see one stream."""
    config = merged(sub(range(10)), sub([]), sub(range(100, 105), Pipe(str)), stages=[Pipe(lambda item: item)])
    items = output_of(config)
    assert [item for item in items if isinstance(item, int)] == list(range(10))
    assert [item for item in items if isinstance(item, str)] == [str(item) for item in range(100, 105)]


def test_items_pass_as_they_come() -> None:
    """An input that blocks holds the others up for nothing."""
    release = threading.Event()

    def source() -> Iterator[str]:
        await_event(release)
        yield "late"

    pipeline = build_pipeline(merged(sub(source()), sub(range(5))), num_threads=1)
    with pipeline.auto_stop():
        assert [pipeline.get_item(timeout=TIMEOUT) for _ in range(5)] == list(range(5))
        release.set()
        assert pipeline.get_item(timeout=TIMEOUT) == "late"
        with pytest.raises(EOFError):
            pipeline.get_item(timeout=TIMEOUT)


@pytest.mark.parametrize("below", [[], ()])
def test_no_input_is_refused(below: Any) -> None:
    """By ``Merge`` and by ``MergeConfig``."""
    for make in (Merge, MergeConfig):
        with pytest.raises(ValueError, match="at least one upstream pipeline"):
            make(below)


def test_one_input_is_a_merge_too() -> None:
    """With and without an op."""
    assert output_of(merged(sub(range(5)))) == list(range(5))
    assert output_of(merged(sub(range(5)), op=one_after_the_other)) == list(range(5))


def test_merges_nest() -> None:
    """A sub-pipeline may be a merge, at any depth."""
    inner = merged(sub(range(3)), sub(range(10, 13)), stages=[Pipe(lambda item: -item)])
    assert sorted(output_of(merged(inner, merged(inner), sub([7])))) == sorted([0, -1, -2, -10, -11, -12] * 2 + [7])


def test_sinks_of_the_inputs_are_ignored() -> None:
    """Their size changes nothing."""
    for sink in (1, 1000):
        source = Recorder(itertools.count())
        pipeline = build_pipeline(merged(sub(source, sink=sink), sink=1), num_threads=1)
        with pipeline.auto_stop():
            assert pipeline.get_item(timeout=TIMEOUT) == 0
        assert source.num_taken <= 12
        assert source.num_closed == 1


def test_none_and_falsy_items_of_a_source_pass() -> None:
    """They are items, with and without an op."""
    items: list[Any] = [None, 0, "", []]
    assert output_of(merged(sub(items))) == items
    assert output_of(merged(sub(items), op=one_after_the_other)) == items


def test_an_op_reads_each_input_to_its_end() -> None:
    """In the order it likes: here one input after the other."""
    assert output_of(merged(sub(range(20)), sub("ab"), sub([]), op=one_after_the_other)) == [*range(20), "a", "b"]


def test_an_op_puts_what_it_wants() -> None:
    """It may combine, drop and invent."""

    async def add_pairs(info: StageInfo, inputs: Any, output: Any) -> None:
        await output.put("first")
        while True:
            items = [await queue.get() for queue in inputs]
            if any(is_eof(item) for item in items):
                break
            if items[0] != 2:
                await output.put(sum(items))
        await output.put("last")

    assert output_of(merged(sub(range(5)), sub(range(10, 14)), op=add_pairs)) == ["first", 10, 12, 16, "last"]


def test_an_op_may_ask_before_it_waits() -> None:
    """Its queues have the names and the rules of asyncio's; each goes one way."""
    refused: list[type[BaseException]] = []

    async def careful(info: StageInfo, inputs: Any, output: Any) -> None:
        for call in (inputs[0].put(0), output.get()):
            try:
                await call
            except TypeError as exc:
                refused.append(type(exc))
        for wrong in (lambda: inputs[0].put_nowait(0), output.get_nowait):
            try:
                wrong()
            except TypeError as exc:
                refused.append(type(exc))
        for queue in inputs:
            while True:
                if queue.empty():
                    item = await queue.get()
                else:
                    assert queue.qsize() > 0
                    item = queue.get_nowait()
                if is_eof(item):
                    break
                if output.full():
                    await output.put(item)
                else:
                    output.put_nowait(item)
                assert output.empty() in (False, True)  # the consumer takes items meanwhile

    assert output_of(merged(sub(range(20)), sub(range(20, 30)), op=careful, sink=3)) == list(range(30))
    assert refused == [TypeError] * 4


def test_a_queue_of_a_merge_that_has_nothing_says_so() -> None:
    """``QueueEmpty`` and ``QueueFull``, as of asyncio's."""
    seen: list[str] = []
    begin = threading.Event()

    def source() -> Iterator[int]:
        await_event(begin)
        yield 1

    async def eager(info: StageInfo, inputs: Any, output: Any) -> None:
        try:
            inputs[0].get_nowait()
        except asyncio.QueueEmpty:
            seen.append("empty")
        try:
            for item in itertools.count():
                output.put_nowait(item)
        except asyncio.QueueFull:
            seen.append("full")
        begin.set()
        while not is_eof(await inputs[0].get()):
            pass

    assert output_of(merged(sub(source()), op=eager, sink=1))[0] == 0
    assert seen == ["empty", "full"]


def test_the_end_mark_stays() -> None:
    """Reading an ended input again gives the end mark again."""
    seen: list[bool] = []

    async def read_on(info: StageInfo, inputs: Any, output: Any) -> None:
        for _ in range(4):
            seen.append(is_eof(await inputs[0].get()))

    assert output_of(merged(sub([1]), op=read_on)) == []
    assert seen == [False, True, True, True]


def test_is_eof_is_false_for_items() -> None:
    """Whatever they are."""
    for item in (None, 0, "", EOFError, object(), [], is_eof):
        assert is_eof(item) is False


def test_an_op_gets_its_stage_and_one_queue_per_input() -> None:
    """The info is that of the merge stage."""
    got: list[Any] = []

    async def op(info: StageInfo, inputs: Any, output: Any) -> None:
        got.append((info, len(inputs)))

    config = merged(sub([1]), sub([2]), sub([3]), op=op)
    pipeline = build_pipeline(config, num_threads=1)
    assert drain(pipeline) == ([], None)
    ((info, num_inputs),) = got
    assert isinstance(info, StageInfo)
    assert info in [stage.info for stage in pipeline.stats().stages]
    assert num_inputs == 3


def test_an_op_that_returns_early_ends_the_pipeline_normally() -> None:
    """What it put comes out; stages before it are cancelled, their sources closed; stages after it finish."""
    sources = [Recorder(itertools.count()), Recorder(itertools.count())]

    async def take_three(info: StageInfo, inputs: Any, output: Any) -> None:
        for _ in range(3):
            await output.put(await inputs[1].get())

    config = merged(*[sub(source, Pipe(str)) for source in sources], op=take_three, stages=[Pipe(int), Aggregate(2)])
    assert output_of(config) == [[0, 1], [2]]
    assert [source.num_closed for source in sources] == [1, 1]


def test_an_op_that_raises_fails_the_stage() -> None:
    """After what it put has come out; no limit allows it."""
    failure = ValueError("merge")

    async def op(info: StageInfo, inputs: Any, output: Any) -> None:
        await output.put(await inputs[0].get())
        raise failure

    source = Recorder(itertools.count())
    items, raised = drain(build_pipeline(merged(sub(source), op=op), num_threads=1, max_failures=-1))
    assert items == [0]
    assert raised is not None
    assert raised.exceptions == (failure,)
    assert any(":merge" in note for note in failure.__notes__)
    assert source.num_closed == 1


@pytest.mark.parametrize("exception", [SystemExit(1), KeyboardInterrupt()])
def test_an_op_that_raises_a_bare_base_exception_fails_the_stage(exception: BaseException) -> None:
    """It reaches the consumer."""

    async def op(info: StageInfo, inputs: Any, output: Any) -> None:
        raise exception

    items, raised = drain(build_pipeline(merged(sub(range(3)), op=op), num_threads=1))
    assert items == []
    assert raised is not None
    (error,) = raised.exceptions
    assert exception in (error, error.__cause__)


def test_an_op_that_takes_other_parameters_fails_the_stage() -> None:
    """With the TypeError of its call."""

    async def op(inputs: Any) -> None: ...

    _, raised = drain(build_pipeline(merged(sub(range(3)), op=op), num_threads=1))
    assert raised is not None
    assert isinstance(raised.exceptions[0], TypeError)


def test_an_op_may_use_tasks_of_its_own() -> None:
    """One per input, all of which put; nobody's item is lost when all wait for room."""

    async def op(info: StageInfo, inputs: Any, output: Any) -> None:
        async def copy(queue: Any) -> None:
            while not is_eof(item := await queue.get()):
                await output.put(item)

        await asyncio.gather(*[copy(queue) for queue in inputs])

    config = merged(*[sub(range(k, k + 20)) for k in (0, 100, 200)], op=op, sink=1)
    assert sorted(output_of(config)) == [*range(20), *range(100, 120), *range(200, 220)]


def test_an_op_that_waits_is_cancelled_by_stop() -> None:
    """And may clean up."""
    waiting = threading.Event()
    events: list[str] = []

    async def op(info: StageInfo, inputs: Any, output: Any) -> None:
        await inputs[0].get()
        waiting.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            events.append("cancelled")
            raise

    pipeline = build_pipeline(merged(sub(itertools.count()), op=op), num_threads=1)
    pipeline.start()
    await_event(waiting)
    pipeline.stop()
    assert events == ["cancelled"]


@pytest.mark.parametrize("op", [None, one_after_the_other])
def test_a_source_that_fails_below_a_merge(op: Any) -> None:
    """Its items, and those of the other inputs, come out first."""

    def source() -> Iterator[int]:
        yield 1
        raise OSError("source")

    items, raised = drain(build_pipeline(merged(sub(source()), sub([2, 3]), op=op), num_threads=1))
    assert sorted(items) == [1, 2, 3]
    assert raised is not None
    assert [type(error) for error in raised.exceptions] == [OSError]


def test_a_failing_stage_after_a_merge_cancels_all_inputs() -> None:
    """Endless sources are closed."""
    sources = [Recorder(itertools.count()) for _ in range(3)]

    def refuse(item: int) -> int:
        raise ValueError(item)

    config = merged(*[sub(source) for source in sources], stages=[Pipe(refuse)])
    _, raised = drain(build_pipeline(config, num_threads=1, max_failures=0))
    assert isinstance(raised, PipelineFailure)
    assert [source.num_closed for source in sources] == [1, 1, 1]


def test_async_sources_merge_with_sync_ones() -> None:
    """Each on its own kind of lane."""

    async def source() -> Any:
        for item in range(3):
            await asyncio.sleep(0)
            yield item

    assert sorted(output_of(merged(sub(source()), sub(range(10, 13))))) == [0, 1, 2, 10, 11, 12]


def test_no_input_starves() -> None:
    """Two endless inputs that always have items: both come out."""
    pipeline = build_pipeline(merged(sub(itertools.repeat("a")), sub(itertools.repeat("b"))), num_threads=1)
    with pipeline.auto_stop():
        seen = {pipeline.get_item(timeout=TIMEOUT)}
        while seen != {"a", "b"}:
            seen.add(pipeline.get_item(timeout=TIMEOUT))


def test_a_merge_in_a_builder_is_refused() -> None:
    """``add_source`` takes what can be iterated; merges are made with ``PipelineConfig``."""
    from spdl.pipeline import PipelineBuilder

    with pytest.raises(ValueError):
        PipelineBuilder[Any, Any]().add_source(Merge([sub([1])]))  # type: ignore[arg-type]
    assert run(PipelineBuilder[Any, Any]().add_source([1]).add_sink(1)) == [1]
