"""Both ends of a connection in the hands of a process that uses neither."""

import os

import pytest

from spdl._processes._transport._connecting import link_ends
from spdl._processes._transport._link import Link


def exchange(one: Link, other: Link, item: bytes) -> None:
    """Both ways."""
    for sender, receiver in ((one, other), (other, one)):
        sender.send(1, 2, item)
        assert receiver.recv(timeout=100).load() == item


@pytest.mark.parametrize("limit", [0, 1 << 20])
def test_ends_reach_each_other(limit: int) -> None:
    """What is small and what is large, with and without shared memory."""
    ends = link_ends(limit)
    with ends[0].open() as one, ends[1].open() as other:
        assert (one.sender is None) == (limit == 0)
        exchange(one, other, b"small")
        exchange(one, other, os.urandom(100_000))
    for end in ends:
        end.close()


def test_an_end_can_be_closed_before_the_other_is_opened() -> None:
    """As when it was sent: the memory stays until the other is sent too."""
    one, other = link_ends(1 << 20)
    one.close()
    one.close()
    with other.open() as link:
        assert link.sender is not None
        with pytest.raises(EOFError):
            link.recv(timeout=100)
    other.close()


def test_both_ends_closed_leave_nothing() -> None:
    """The check for leaks looks for descriptors."""
    for end in link_ends():
        end.close()
