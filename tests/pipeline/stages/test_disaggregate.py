"""``disaggregate``: the items of each iterable, one by one."""

import itertools
from collections.abc import Iterator

from tests.support.running import TIMEOUT, build_of, drain, run, running


def test_disaggregate_gives_the_items_of_each_iterable() -> None:
    """Strings and dicts are iterated; what cannot be iterated is a failed item; an empty one gives nothing."""
    items = [[1, 2], "ab", {"k": 1}, 5, [], (x for x in (3, 4)), {7}]
    pipeline = build_of(items, lambda b: b.disaggregate()).build(num_threads=2)
    assert drain(pipeline) == ([1, 2, "a", "b", "k", 3, 4, 7], None)
    stage = pipeline.stats().stages[1]
    assert stage.num_failures == 1
    assert isinstance(stage.failures[0].error, TypeError)
    assert stage.failures[0].origin == 3


def test_disaggregate_drops_none_elements() -> None:
    """As with anything that is yielded: ``None`` filters, falsy values pass."""
    assert run(build_of([[0, None, ""], [None]], lambda b: b.disaggregate())) == [0, ""]


def test_disaggregate_keeps_what_an_iterable_gave_before_it_raised() -> None:
    """The rest of that iterable is lost, counted as one failure."""

    def broken() -> Iterator[int]:
        yield 1
        yield 2
        raise ValueError("broken")

    pipeline = build_of([broken(), [3]], lambda b: b.disaggregate()).build(num_threads=2)
    assert drain(pipeline) == ([1, 2, 3], None)
    assert pipeline.stats().stages[1].num_failures == 1


def test_disaggregate_takes_an_endless_iterable_step_by_step() -> None:
    """It is not collected first."""
    with running(build_of([itertools.count()], lambda b: b.disaggregate())) as pipeline:
        assert [pipeline.get_item(timeout=TIMEOUT) for _ in range(10)] == list(range(10))
