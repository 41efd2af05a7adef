"""``CostBudget``: lists that cost at most so much, judged by a model that tries every item."""

import math
import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.pipeline.batching import CostBudget
from spdl.pipeline.defs import Outputs
from tests.strategies.profiles import cases

from .feeding import feed


def cost_of(costs: list[int], padded: bool) -> int:
    return max(costs, default=0) * len(costs) if padded else sum(costs)


def model(costs: list[int], budget: int, padded: bool, max_items: float, oversized: str) -> list[list[int]]:
    """Positions in each list: greedy, every candidate list costed anew."""
    lists: list[list[int]] = []
    current: list[int] = []
    for position, cost in enumerate(costs):
        if cost > budget:
            if oversized == "alone":
                lists += [current, [position]]
                current = []
            continue
        if cost_of([costs[k] for k in [*current, position]], padded) > budget:
            lists.append(current)
            current = []
        current.append(position)
        if len(current) == max_items:
            lists.append(current)
            current = []
    return [each for each in [*lists, current] if each]


@cases(200)
@given(
    costs=st.lists(st.integers(0, 12)),
    budget=st.integers(1, 20),
    padded=st.booleans(),
    max_items=st.one_of(st.none(), st.integers(1, 5)),
    oversized=st.sampled_from(["alone", "drop"]),
)
def test_lists_are_those_of_the_model(
    costs: list[int], budget: int, padded: bool, max_items: int | None, oversized: Any
) -> None:
    """Whatever the costs: the same lists, in the same order, within the budget; the counts add up."""
    aggregator = CostBudget[tuple[int, int]](
        budget, cost=lambda item: item[1], padded=padded, max_items=max_items, oversized=oversized
    )
    lists = feed(aggregator, enumerate(costs))
    positions = [[position for position, _ in each] for each in lists]
    assert positions == model(costs, budget, padded, max_items or math.inf, oversized)
    kept = [cost for cost in costs if cost <= budget or oversized == "alone"]
    assert aggregator.num_dropped == len(costs) - len(kept)
    assert aggregator.num_items == len(kept) == sum(map(len, lists))
    assert aggregator.num_batches == len(lists)
    assert aggregator.num_tokens == sum(kept)
    padded_cost = sum(cost_of([cost for _, cost in each], padded) for each in lists)
    assert aggregator.num_tokens + aggregator.num_padding == padded_cost
    assert aggregator.fill_rate == (sum(kept) / padded_cost if padded_cost else 1.0)


def test_a_list_that_nothing_fits_into_does_not_wait() -> None:
    """It leaves with its last item, where that can be known."""
    assert feed(CostBudget[str](6, max_items=2), ["a", "a"], flush=False) == [["a", "a"]]
    assert feed(CostBudget[str](6, padded=True), ["aaa", "a"], flush=False) == [["aaa", "a"]]
    assert feed(CostBudget[str](6), ["aaa", "aaa"], flush=False) == []
    assert feed(CostBudget[str](6), ["aaa", "aaa", "", "a"], flush=False) == [["aaa", "aaa", ""]]


@cases(200)
@given(items=st.lists(st.text(max_size=8)), cut=st.integers(0, 20))
def test_a_flush_starts_anew(items: list[str], cut: int) -> None:
    """What follows a flush is batched as if it were the start, and a pickled copy goes on where it was."""
    aggregator = CostBudget[str](10, padded=True)
    feed(aggregator, items[:cut])
    half = len(items[cut:]) // 2
    before = feed(aggregator, items[cut:][:half], flush=False)
    aggregator = pickle.loads(pickle.dumps(aggregator))
    assert before + feed(aggregator, items[cut:][half:]) == feed(CostBudget[str](10, padded=True), items[cut:])


def test_items_that_cost_nothing_always_fit() -> None:
    """They are bounded by ``max_items`` only."""
    assert feed(CostBudget[str](3), [""] * 5 + ["ab"]) == [[""] * 5 + ["ab"]]
    assert feed(CostBudget[str](3, max_items=2), [""] * 5) == [["", ""], ["", ""], [""]]


@pytest.mark.parametrize("cost", [2.5, np.int64(2), np.float32(2.5), Fraction(5, 2)])
def test_costs_are_numbers_of_any_kind(cost: Any) -> None:
    """Also those of NumPy; they are added up as ``int`` or ``float``."""
    aggregator = CostBudget[int](5.0, cost=lambda _: cost)
    assert feed(aggregator, range(3)) == [[0, 1], [2]]
    assert type(aggregator.num_tokens) in (int, float)


@pytest.mark.parametrize("cost", [None, "3", b"3", 1j, [3], True, np.ones(2)])
def test_a_cost_that_is_no_number_is_refused(cost: Any) -> None:
    """With the item's name."""
    with pytest.raises(TypeError, match=r"cost of item 'the item' must be a number, got"):
        CostBudget[str](5, cost=lambda _: cost).accumulate("the item")


@pytest.mark.parametrize("cost", [-1, -0.5, math.nan, np.float64("nan"), np.int8(-3)])
def test_a_cost_that_cannot_be_is_refused(cost: Any) -> None:
    """Negative, or not a number; with the item's name."""
    with pytest.raises(ValueError, match=r"cost of item 'the item' must be >= 0, got"):
        CostBudget[str](5, cost=lambda _: cost).accumulate("the item")


@pytest.mark.parametrize("cost", [6, math.inf])
def test_an_oversized_item_is_an_error_unless_said_otherwise(cost: Any) -> None:
    """The message says what can be done."""
    with pytest.raises(ValueError, match=r'item 7 costs .*max_cost=5; oversized="alone" .* oversized="drop"'):
        CostBudget[int](5, cost=lambda _: cost).accumulate(7)
    result = CostBudget[int](5, cost=lambda _: cost, oversized="drop").accumulate(7)
    assert isinstance(result, Outputs)
    assert result.dropped
    assert result.values == ()


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"max_cost": 0}, ValueError, "max_cost must be > 0"),
        ({"max_cost": -1}, ValueError, "max_cost must be >= 0"),
        ({"max_cost": math.nan}, ValueError, "max_cost"),
        ({"max_cost": "8"}, TypeError, "max_cost must be a number, got '8'"),
        ({"max_cost": True}, TypeError, "max_cost must be a number"),
        ({"max_cost": 8, "cost": 3}, TypeError, "cost must be a function"),
        ({"max_cost": 8, "max_items": 0}, ValueError, "max_items must be >= 1, got 0"),
        ({"max_cost": 8, "max_items": 1.5}, TypeError, "max_items must be an int"),
        ({"max_cost": 8, "oversized": "skip"}, ValueError, "oversized must be one of 'error', 'alone', 'drop'"),
    ],
)
def test_arguments_are_checked(arguments: dict[str, Any], kind: type[Exception], message: str) -> None:
    """When it is made, with the argument's name."""
    with pytest.raises(kind, match=message):
        CostBudget(**arguments)
