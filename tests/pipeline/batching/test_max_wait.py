"""``MaxWait`` and ``ManualClock`` by hand; with a pipeline they are in ``test_deadlines``."""

import gc
import math
import pickle
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.pipeline.batching import CostBudget, LengthBuckets, ManualClock, MaxWait, PackedRow, PackSequences
from spdl.pipeline.defs import Aggregator, Collate
from tests.strategies.profiles import cases

from .feeding import feed, outputs_of


@cases(100)
@given(steps=st.lists(st.floats(0, 4)), max_items=st.integers(1, 4))
def test_the_deadline_is_that_of_the_oldest_item(steps: list[float], max_items: int) -> None:
    """It stays while the list grows and goes with the list."""
    clock = ManualClock(10.0)
    aggregator = MaxWait[int](max_items, 5.0, clock=clock)
    held: list[float] = []
    for item, step in enumerate(steps):
        clock.advance(step)
        held.append(clock())
        full = aggregator.accumulate(item)
        assert (full is None) == (len(held) < max_items)
        if full is not None:
            held = []
        assert aggregator.deadline() == (held[0] + 5.0 if held else None)
    assert len(aggregator.flush() or []) == len(held)
    assert aggregator.deadline() is None
    assert aggregator.flush() is None


def test_lists_are_full_if_nobody_waits() -> None:
    """As those of ``aggregate(n)``."""
    assert feed(MaxWait[int](3, math.inf), range(7)) == [[0, 1, 2], [3, 4, 5], [6]]


class Late(Aggregator[Any, list[Any]]):
    """Pairs; the item that completes one is kept for the next, and nobody is told."""

    def __init__(self) -> None:
        self.items: list[Any] = []

    def accumulate(self, item: Any) -> list[Any] | None:
        self.items.append(item)
        if len(self.items) < 3:
            return None
        done, self.items = self.items[:2], self.items[2:]
        return done

    def flush(self) -> list[Any] | None:
        done, self.items = self.items, []
        return done or None


INNER: dict[str, Callable[[], Aggregator[Any, Any]]] = {
    "budget": lambda: CostBudget(6, oversized="drop"),
    "buckets": lambda: LengthBuckets([2, 4], 3, max_cost=7, oversized="alone"),
    "packing": lambda: PackSequences(5, open_bins=2, too_long="split"),
    "packing, drop": lambda: PackSequences(5, open_bins=2, too_long="drop"),
    "lists": lambda: Collate(3),
    "late": Late,
}


#: The longest item that an aggregator does not drop.
LONGEST = {"budget": 6, "packing, drop": 5}


def numbers_in(output: Any) -> Counter[int]:
    """How many tokens of each item an output holds; a token is the number of its item."""
    if isinstance(output, PackedRow):
        return Counter(output.tokens[: output.num_tokens])
    return Counter(token for item in output for token in item)


@cases(200)
@given(
    name=st.sampled_from(sorted(INNER)), steps=st.lists(st.tuples(st.integers(1, 7), st.integers(0, 4)), max_size=20)
)
def test_around_another_aggregator(name: str, steps: list[tuple[int, int]]) -> None:
    """The batches are those of the other; the deadline is that of the oldest item that has not left it."""
    clock = ManualClock()
    alone = INNER[name]()
    aggregator = MaxWait[Any](INNER[name](), 10, clock=clock)
    held: dict[int, float] = {}
    rest: Counter[int] = Counter()
    for number, (size, pause) in enumerate(steps):
        clock.advance(pause)
        if size <= LONGEST.get(name, math.inf):
            held[number] = clock()
            rest[number] = size
        outputs = outputs_of(aggregator.accumulate([number] * size))
        assert outputs == outputs_of(alone.accumulate([number] * size))
        for output in outputs:
            rest -= numbers_in(output)
        held = {k: arrival for k, arrival in held.items() if rest[k]}
        assert aggregator.deadline() == (min(held.values()) + 10 if held else None)
    assert outputs_of(aggregator.flush()) == outputs_of(alone.flush())
    assert aggregator.deadline() is None


def test_an_aggregator_with_a_deadline_is_refused() -> None:
    """It has one already."""
    with pytest.raises(TypeError, match=r"MaxWait\(3, 2.0\) already has a deadline"):
        MaxWait(MaxWait[int](3, 2.0), 1.0)


def test_it_pickles() -> None:
    """With its clock."""
    copy = pickle.loads(pickle.dumps(MaxWait[int](3, 2.0)))
    assert repr(copy) == "MaxWait(3, 2.0)"
    copy = pickle.loads(pickle.dumps(MaxWait[int](3, 2.0, clock=ManualClock(7.0))))
    copy.accumulate(1)
    assert copy.deadline() == 9.0


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ((0, 1.0), ValueError, "max_items must be >= 1, got 0"),
        ((1.0, 1.0), TypeError, "max_items must be an int"),
        ((1, 0), ValueError, "seconds must be > 0, got 0"),
        ((1, -1.0), ValueError, "seconds must be > 0, got -1"),
        ((1, math.nan), ValueError, "seconds"),
        ((1, "1"), TypeError, "seconds must be a number"),
    ],
)
def test_arguments_are_checked(arguments: tuple[Any, ...], kind: type[Exception], message: str) -> None:
    """When it is made, with the argument's name."""
    with pytest.raises(kind, match=message):
        MaxWait(*arguments)
    with pytest.raises(TypeError, match="clock must be a function"):
        MaxWait(1, 1.0, clock=5)  # type: ignore[arg-type]


def test_a_clock_moves_forward_only_and_tells() -> None:
    """Those whose object is still there are called after each move."""
    calls: list[float] = []
    clock = ManualClock(1.0)

    class Listener:
        def __init__(self, sign: float) -> None:
            self.sign = sign

        def look(self) -> None:
            calls.append(self.sign * clock())

    listeners = [Listener(1), Listener(-1)]
    for listener in listeners:
        clock.call_when_moved(listener.look)
    clock.advance(2.0)
    assert calls == [3.0, -3.0]
    del listener, listeners[1]
    gc.collect()
    clock.advance(0.0)
    assert calls == [3.0, -3.0, 3.0]
    with pytest.raises(ValueError, match="a clock does not go back"):
        clock.advance(-0.1)
