"""``run_pipeline_in_subprocess``: the factory seen here without a subprocess, and the whole."""

import os
import pickle
import random
import threading
from fractions import Fraction
from typing import Any

import pytest

from spdl.pipeline import PipelineBuilder, PipelineError, WorkerError, run_pipeline_in_subprocess
from spdl.pipeline._info import PIPELINE_IDS
from spdl.pipeline._remote._run_pipeline_main import PipelineFactory, is_continuous, take_along
from spdl.pipeline.defs import Merge, Pipe, PipelineConfig, SinkConfig, SourceConfig
from tests.pipeline.remote import ops


def described(source: Any, *ops: Any, continuous: bool = False) -> PipelineConfig[Any]:
    builder: PipelineBuilder[Any, Any] = PipelineBuilder()
    builder.add_source(source, continuous=continuous)
    for op in ops:
        builder.pipe(op)
    return builder.add_sink(2).get_config()


def make(config: PipelineConfig[Any], **options: Any) -> Any:
    """What the subprocess iterates."""
    chosen: Any = {"num_threads": 1, **options}
    return PipelineFactory(config, chosen)()


def test_each_iteration_of_an_ordinary_source_is_a_pipeline() -> None:
    """The state of the source goes on."""
    iterable = make(described(ops.Epochs(3)))
    assert [list(iterable) for _ in range(2)] == [[(epoch, k) for k in range(3)] for epoch in range(2)]


def test_closing_an_iteration_ends_its_pipeline() -> None:
    """The check for leaks sees that its threads are gone; the next one begins anew."""
    iterable = make(described(ops.Epochs(100)))
    iterator = iter(iterable)
    assert next(iterator) == (0, 0)
    iterator.close()
    assert list(iterable) == [(1, k) for k in range(100)]


def test_an_epoch_that_was_given_up_is_dropped() -> None:
    """The next iteration is the next epoch, also if no item was taken of the one before."""
    iterable = make(described(ops.Epochs(20), continuous=True))
    assert next(iter(iterable)) == (0, 0)
    iter(iterable).close()
    assert list(iterable) == [(1, k) for k in range(20)]
    assert list(iterable) == [(2, k) for k in range(20)]


def test_a_failure_names_its_stages_in_its_text() -> None:
    """For only the text crosses."""
    with pytest.raises(PipelineError) as info:
        list(make(described(range(3), ops.refuse), max_failures=0))
    text = str(info.value)
    assert text.startswith("pipeline stages failed")
    assert "FailureLimitError: The pipeline stage" in text
    assert "refuse" in text
    assert "exceeds the threshold (0)" in text
    assert "because of ValueError: refused 0" in text


def test_a_failure_in_an_epoch_names_its_stages_too() -> None:
    """A continuous pipeline that failed stays so."""
    iterable = make(described(range(3), ops.refuse, continuous=True), max_failures=Fraction(1, 1))
    assert [list(iterable), list(iterable)] == [[], []]
    iterable = make(described(range(3), ops.refuse, continuous=True), max_failures=0)
    for _ in range(2):
        with pytest.raises(PipelineError, match="pipeline stages failed"):
            list(iterable)


def test_the_factory_pickles() -> None:
    """With its options."""
    factory = pickle.loads(pickle.dumps(PipelineFactory(described(range(3), ops.double), {"num_threads": 1})))
    assert list(factory()) == [0, 2, 4]


def test_a_merge_is_continuous_if_its_parts_are() -> None:
    """At any depth."""
    for continuous in (False, True):
        inner = described(range(2), continuous=continuous)
        config: PipelineConfig[Any] = PipelineConfig(Merge([inner]), [], SinkConfig(1))
        assert is_continuous(PipelineConfig(Merge([config]), [], SinkConfig(1))) == continuous
        assert is_continuous(PipelineConfig(SourceConfig(range(2), continuous), [], SinkConfig(1))) == continuous


def test_numbers_of_pipelines_go_on() -> None:
    """They never go back."""
    settle_in = pickle.loads(pickle.dumps(take_along()))
    number = PIPELINE_IDS.take()
    settle_in()
    assert PIPELINE_IDS.take() == number + 1
    PIPELINE_IDS.go_on_from(number + 10)
    assert PIPELINE_IDS.peek() == number + 10


# -- the whole


def run(config: PipelineConfig[Any], **options: Any) -> Any:
    return run_pipeline_in_subprocess(config, **{"num_threads": 1, "timeout": 30.0, **options})


def test_it_runs_over_and_over_in_one_process() -> None:
    """With a break in between."""
    items = run(described(ops.Epochs(5), ops.where))
    assert next(iter(items))[0] == (0, 0)
    rounds = [list(items) for _ in range(2)]
    assert [[item for item, *_ in each] for each in rounds] == [[(epoch, k) for k in range(5)] for epoch in (1, 2)]
    assert len({pid for each in rounds for _, pid, _ in each} | {os.getpid()}) == 2


def test_each_iteration_of_a_continuous_source_is_an_epoch() -> None:
    """A break drops the rest of it."""
    items = run(described(ops.Epochs(5), ops.double_first, continuous=True))
    assert next(iter(items)) == (0, 0)
    assert [list(items) for _ in range(2)] == [[(2 * epoch, k) for k in range(5)] for epoch in (1, 2)]


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"num_threads": 0}, ValueError, "num_threads must be >= 1"),
        ({"num_threads": True}, TypeError, "num_threads must be an int"),
        ({"max_failures": Fraction(3, 2)}, ValueError, r"must be in range \(0, 1\]"),
        ({"max_failures": 0.5}, TypeError, "Fraction"),
        ({"no_such_option": 1}, TypeError, "no_such_option"),
    ],
)
def test_bad_options_are_refused_here(options: dict[str, Any], error: type[Exception], words: str) -> None:
    """Before a process is started."""
    with pytest.raises(error, match=words):
        run(described(range(3)), **options)


def test_what_is_no_pipeline_is_refused() -> None:
    """By its type."""
    with pytest.raises(TypeError, match="PipelineConfig or a PipelineBuilder, got list"):
        run_pipeline_in_subprocess([1])  # type: ignore[arg-type]


def test_the_part_that_does_not_pickle_is_named() -> None:
    """By its stage; a thread keeps it from being forked."""
    gate = threading.Event()
    thread = threading.Thread(target=gate.wait)
    thread.start()
    try:
        with pytest.raises(TypeError, match=r"(?s)stage mine.*lambda"):
            run(
                PipelineConfig(
                    SourceConfig(range(3)), [Pipe(ops.double), Pipe(lambda x: x, name="mine")], SinkConfig(1)
                )
            )
        with pytest.raises(TypeError, match=r"(?s)the source.*lambda"):
            run(described([lambda: None]))
        with pytest.raises(TypeError, match=r"(?s)task_hook_factory.*lambda"):
            run(described(range(3)), task_hook_factory=lambda info: [])
    finally:
        gate.set()
        thread.join()


def test_a_failure_has_its_stages_in_its_text() -> None:
    """And the traceback from there; then nothing can be iterated any more."""
    items = run(described(range(3), ops.refuse), max_failures=0)
    with pytest.raises(WorkerError, match="Failed to fetch the next item: pipeline stages failed") as info:
        list(items)
    assert "refuse" in str(info.value)
    assert "ValueError: refused 0" in (info.value.remote_traceback or "")
    with pytest.raises(RuntimeError, match="Cannot iterate again"):
        list(items)


def test_the_users_initializers_run_after_ours() -> None:
    """So a seed that they set stays."""
    state = random.getstate()
    try:
        items = run(described(range(2), ops.draw), initializer=ops.seed)
        assert next(iter(items)) == random.Random(5).random()
        assert random.getstate() == state
    finally:
        random.setstate(state)
