"""``Retry``: what it accepts, what it covers, and how long it waits."""

import pickle
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.pipeline.defs import Retry


def _never_by_chance() -> float:
    return 0.0


def test_waits_grow_up_to_the_longest() -> None:
    """Each wait is ``backoff`` times the one before, and never above ``max_delay``."""
    retry = Retry(9, delay=1, backoff=3, max_delay=10)
    assert [retry.delay_before(attempt, _never_by_chance) for attempt in range(2, 7)] == [1, 3, 9, 10, 10]


def test_chance_only_shortens_a_wait() -> None:
    """A share of up to ``jitter`` is taken off."""
    retry = Retry(3, delay=8, jitter=0.25)
    assert retry.delay_before(2, lambda: 0.0) == 8
    assert retry.delay_before(2, lambda: 0.5) == 7


@given(
    delay=st.floats(0, 1e300),
    backoff=st.floats(1, 1e300),
    max_delay=st.floats(0, 1e300),
    jitter=st.floats(0, 1),
    attempt=st.integers(2, 100_000),
    seed=st.integers(0, 10),
)
def test_wait_is_never_negative_or_above_the_longest(
    delay: float, backoff: float, max_delay: float, jitter: float, attempt: int, seed: int
) -> None:
    """Whatever the numbers, also where the power is beyond a float."""
    retry = Retry(2, delay=delay, backoff=backoff, max_delay=max_delay, jitter=jitter)
    assert 0 <= retry.delay_before(attempt, random.Random(seed).random) <= max_delay


def test_no_delay_stays_none_for_any_attempt() -> None:
    """Nothing times a lot is nothing, also where the lot is beyond a float."""
    assert Retry(2, delay=0).delay_before(5000, _never_by_chance) == 0


def test_subclasses_are_covered_and_others_are_not() -> None:
    """As in an except clause."""
    retry = Retry(2, on=(OSError, KeyError))
    assert retry.covers(ConnectionResetError())
    assert retry.covers(KeyError())
    assert not retry.covers(ValueError())


def test_defaults() -> None:
    """Waits that double from a tenth of a second up to 30 s, for any exception."""
    retry = Retry(3)
    assert (retry.attempts, retry.on) == (3, (Exception,))
    assert (retry.delay, retry.backoff, retry.max_delay, retry.jitter) == (0.1, 2.0, 30.0, 0.5)


def test_default_covers_ordinary_exceptions_only() -> None:
    """A KeyboardInterrupt is never an item's failure."""
    assert Retry(2).covers(ValueError())
    assert not Retry(2).covers(KeyboardInterrupt())
    assert not Retry(2).covers(SystemExit())


@pytest.mark.parametrize(
    "arguments",
    [
        {"attempts": 0},
        {"delay": -0.1},
        {"delay": float("inf")},
        {"delay": float("nan")},
        {"backoff": 0.5},
        {"backoff": float("nan")},
        {"max_delay": -1},
        {"jitter": 1.5},
        {"jitter": -0.5},
        {"on": ()},
    ],
)
def test_number_out_of_range_is_refused_by_name(arguments: dict[str, Any]) -> None:
    """The message names the argument."""
    with pytest.raises(ValueError, match=f"^{next(iter(arguments))} must"):
        Retry(**{"attempts": 2, **arguments})


@pytest.mark.parametrize(
    "arguments",
    [
        {"attempts": 1.5},
        {"attempts": True},
        {"attempts": "3"},
        {"delay": "1"},
        {"jitter": False},
        {"on": ValueError()},
        {"on": KeyboardInterrupt},
        {"on": [OSError]},
        {"on": (OSError, "KeyError")},
        {"on": (int,)},
    ],
)
def test_wrong_type_is_refused_by_name(arguments: dict[str, Any]) -> None:
    """The message names the argument."""
    with pytest.raises(TypeError, match=f"^{next(iter(arguments))} must"):
        Retry(**{"attempts": 2, **arguments})


@pytest.mark.parametrize(
    ("retry", "text"),
    [
        (Retry(3), "Retry(3)"),
        (Retry(3, on=OSError, delay=1), "Retry(3, on=OSError, delay=1)"),
        (Retry(2, on=(OSError, KeyError), jitter=0), "Retry(2, on=OSError | KeyError, jitter=0)"),
    ],
)
def test_repr_leaves_out_defaults(retry: Retry, text: str) -> None:
    """Short enough for the description of a pipeline."""
    assert repr(retry) == text


def test_retry_is_frozen_compares_and_pickles() -> None:
    """It is a value."""
    retry = Retry(3, on=OSError)
    assert retry == Retry(3, on=(OSError,))
    assert pickle.loads(pickle.dumps(retry)) == retry
    with pytest.raises(AttributeError):
        retry.attempts = 5  # type: ignore[misc]  # what is tested
