"""Serving requests: who gets which message, and what ends it."""

import contextlib
from collections.abc import Iterator

import pytest

from spdl._processes._calls import await_end, failure_of, serve_requests
from spdl._processes._transport._connecting import link_pair
from spdl._processes._transport._connection import Message
from spdl._processes._transport._link import Link


@contextlib.contextmanager
def pair() -> Iterator[tuple[Link, Link]]:
    here, end = link_pair(0)
    with here, end.open() as there:
        yield here, there


def test_each_kind_has_its_handler_until_the_other_end_closes() -> None:
    """What was sent before the end is served, in order."""
    served: list[tuple[str, int, object]] = []

    def note(name: str, frame: Message) -> None:
        served.append((name, frame.number, frame.load()))

    with pair() as (here, there):
        for number in range(3):
            here.send(1, number, "a")
            here.send(2, number, "b")
        here.close()
        serve_requests(there, {1: lambda frame: note("one", frame), 2: lambda frame: note("two", frame)})
    assert served == [(name, number, value) for number in range(3) for name, value in (("one", "a"), ("two", "b"))]


def test_serving_ends_if_an_answer_cannot_be_sent() -> None:
    """The process that asked is gone: further requests are not served."""
    served: list[int] = []

    def answer(frame: Message) -> None:
        served.append(frame.number)
        raise BrokenPipeError

    with pair() as (here, there):
        here.send(1, 1)
        here.send(1, 2)
        serve_requests(there, {1: answer})
    assert served == [1]


def test_errors_of_handlers_are_raised() -> None:
    """They are not taken for the end; nor is a message without a handler."""

    def fail(_: Message) -> None:
        raise ValueError("mine")

    with pair() as (here, there):
        here.send(1)
        here.send(2)
        with pytest.raises(ValueError, match="mine"):
            serve_requests(there, {1: fail})
        with pytest.raises(KeyError, match="2"):
            serve_requests(there, {1: fail})


def test_the_end_is_awaited_whatever_is_still_sent() -> None:
    """Messages that come first are discarded."""
    with pair() as (here, there):
        here.send(1, 0, b"x" * 1000)
        here.send(2)
        here.close()
        await_end(there)


def test_a_failure_of_user_code_is_described() -> None:
    """A ``sys.exit()`` in it is one too; a function that returns has none."""

    def leave(code: int) -> None:
        raise SystemExit(code)

    assert failure_of(len, "abc") is None
    failure = failure_of(leave, 3)
    assert failure is not None
    assert (failure.type_name, failure.message) == ("SystemExit", "3")
