"""``run_pipeline_in_subprocess``: what runs in the subprocess, seen here without one."""

import itertools
import pickle
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pytest

from spdl.pipeline import PipelineBuilder, PipelineError
from spdl.pipeline._pipeline_ids import PIPELINE_IDS
from spdl.pipeline._workers._run_pipeline import PipelineFactory, is_continuous, take_along
from spdl.pipeline.defs import Merge, PipelineConfig, SinkConfig, SourceConfig


class Epochs:
    """The k-th time ``(k, 0) … (k, size - 1)``."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.numbers = itertools.count()

    def __iter__(self) -> Iterator[tuple[int, int]]:
        epoch = next(self.numbers)
        return iter([(epoch, k) for k in range(self.size)])


def double(item: int) -> int:
    return 2 * item


def refuse(item: int) -> int:
    raise ValueError(f"refused {item}")


def described(source: Any, *ops: Any, continuous: bool = False) -> PipelineConfig[Any]:
    builder: PipelineBuilder[Any, Any] = PipelineBuilder()
    builder.add_source(source, continuous=continuous)
    for op in ops:
        builder.pipe(op)
    return builder.add_sink(2).get_config()


def make(config: PipelineConfig[Any], **options: Any) -> Any:
    """What the subprocess iterates."""
    return PipelineFactory(config, {"num_threads": 1, **options})()


def test_each_iteration_of_an_ordinary_source_is_a_pipeline() -> None:
    """The state of the source goes on."""
    iterable = make(described(Epochs(3)))
    assert [list(iterable) for _ in range(2)] == [[(epoch, k) for k in range(3)] for epoch in range(2)]


def test_closing_an_iteration_ends_its_pipeline() -> None:
    """The check for leaks sees that its threads are gone; the next one begins anew."""
    iterable = make(described(Epochs(100)))
    iterator = iter(iterable)
    assert next(iterator) == (0, 0)
    iterator.close()
    assert list(iterable) == [(1, k) for k in range(100)]


def test_an_epoch_that_was_given_up_is_dropped() -> None:
    """The next iteration is the next epoch, also if no item was taken of the one before."""
    iterable = make(described(Epochs(20), continuous=True))
    assert next(iter(iterable)) == (0, 0)
    iter(iterable).close()
    assert list(iterable) == [(1, k) for k in range(20)]
    assert list(iterable) == [(2, k) for k in range(20)]


def test_a_failure_names_its_stages_in_its_text() -> None:
    """For only the text crosses."""
    with pytest.raises(PipelineError) as info:
        list(make(described(range(3), refuse), max_failures=0))
    text = str(info.value)
    assert text.startswith("pipeline stages failed")
    assert "FailureLimitError: The pipeline stage" in text
    assert "refuse" in text
    assert "exceeds the threshold (0)" in text


def test_a_failure_in_an_epoch_names_its_stages_too() -> None:
    """A continuous pipeline that failed stays so."""
    iterable = make(described(range(3), refuse, continuous=True), max_failures=Fraction(1, 1))
    assert [list(iterable), list(iterable)] == [[], []]
    iterable = make(described(range(3), refuse, continuous=True), max_failures=0)
    for _ in range(2):
        with pytest.raises(PipelineError, match="pipeline stages failed"):
            list(iterable)


def test_the_factory_pickles() -> None:
    """With its options."""
    factory = pickle.loads(pickle.dumps(PipelineFactory(described(range(3), double), {"num_threads": 1})))
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
