"""Chains of stages that regroup items, with several outputs and deadlines anywhere in them: nothing is lost."""

from collections.abc import Callable, Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from spdl.pipeline import Pipeline, PipelineBuilder
from spdl.pipeline.batching import CostBudget, LengthBuckets, MaxWait
from tests.strategies.profiles import cases
from tests.strategies.watch import nothing_left
from tests.support.running import TIMEOUT, drain
from tests.support.watching import Log, hooked

from .aggregators import AtOnce, Grouped


def numbers_of(item: Any) -> Iterator[int]:
    """The numbers in nested lists, in order."""
    if isinstance(item, list):
        for each in item:
            yield from numbers_of(each)
    else:
        yield item


def size_of(item: Any) -> int:
    return sum(1 for _ in numbers_of(item))


def is_round(held: list[Any]) -> bool:
    """A deadline that has passed now and then."""
    return bool(held) and size_of(held) % 3 == 0


Add = Callable[[Any], Any]
#: All keep the order of the numbers, whatever items they are in.
STAGES: dict[str, Add] = {
    "pipe": lambda b: b.pipe(lambda item: item),
    "ordered": lambda b: b.pipe(lambda item: item, concurrency=3, output_order="input"),
    "lists": lambda b: b.aggregate(2),
    "grouped": lambda b: b.aggregate(Grouped(3)),
    "at once": lambda b: b.aggregate(AtOnce(is_round)),
    "budget": lambda b: b.aggregate(CostBudget(5, cost=size_of, oversized="alone")),
    "buckets": lambda b: b.aggregate(LengthBuckets([1000], 2, length=size_of)),
    "waiting": lambda b: b.aggregate(MaxWait(3, 1e-5)),
    "taken apart": lambda b: b.pipe(lambda item: item if isinstance(item, list) else [item]).disaggregate(),
}
CHAINS = st.lists(st.sampled_from(sorted(STAGES)), min_size=1, max_size=4)


def chain(source: Any, names: list[str], *, has_hooks: bool = False, continuous: bool = False) -> Pipeline[Any]:
    builder = PipelineBuilder[Any, Any]().add_source(source, continuous=continuous)
    for name in names:
        STAGES[name](builder)
    options: Any = {"task_hook_factory": hooked(Log())} if has_hooks else {}
    return builder.add_sink(1).build(num_threads=2, **options)


@cases(150)
@given(names=CHAINS, num_items=st.integers(0, 25), has_hooks=st.booleans())
def test_every_number_comes_out_once_in_order(names: list[str], num_items: int, has_hooks: bool) -> None:
    """And every position is consumed."""
    with nothing_left():
        pipeline = chain(range(num_items), names, has_hooks=has_hooks)
        with pipeline.auto_stop():
            outputs = list(pipeline.get_iterator(timeout=TIMEOUT))
    assert list(numbers_of(outputs)) == list(range(num_items))
    assert pipeline._engine.ledger.sources[0].num_consumed == num_items
    assert [stage.num_in_flight for stage in pipeline.stats().stages] == [0] * len(pipeline.stats().stages)


@cases(80)
@given(names=CHAINS, num_items=st.integers(0, 8))
def test_no_number_crosses_an_epoch_end(names: list[str], num_items: int) -> None:
    """Each epoch has its own, all of them."""
    with nothing_left():
        pipeline = chain(range(num_items), names, continuous=True)
        with pipeline.auto_stop():
            for _ in range(3):
                outputs = list(pipeline.get_iterator(timeout=TIMEOUT))
                assert list(numbers_of(outputs)) == list(range(num_items))


@cases(100)
@given(names=CHAINS, num_read=st.integers(0, 10), has_hooks=st.booleans())
def test_a_stop_at_any_point_ends(names: list[str], num_read: int, has_hooks: bool) -> None:
    """What was read, and what stays readable, is where the stream began; what was not read is not consumed."""
    with nothing_left():
        pipeline = chain(range(10_000), names, has_hooks=has_hooks)
        with pipeline.auto_stop():
            outputs = [pipeline.get_item(timeout=TIMEOUT) for _ in range(num_read)]
        outputs += pipeline.get_iterator(timeout=TIMEOUT)
    read = list(numbers_of(outputs))
    assert read == list(range(len(read)))
    assert pipeline._engine.ledger.sources[0].num_consumed <= len(read)


@cases(80)
@given(names=CHAINS, num_items=st.integers(1, 20), data=st.data())
def test_a_failing_source_leaves_what_came_before(names: list[str], num_items: int, data: st.DataObject) -> None:
    """Stages after it drain: their rest comes out, then the failure."""
    fails_at = data.draw(st.integers(0, num_items - 1))

    def source() -> Iterator[int]:
        yield from range(fails_at)
        raise OSError(fails_at)

    with nothing_left():
        outputs, failure = drain(chain(source(), names))
    assert failure is not None
    assert [str(each) for each in failure.exceptions] == [str(fails_at)]
    assert list(numbers_of(outputs)) == list(range(fails_at))
