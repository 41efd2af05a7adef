"""The short way to actors on the same node. Without Ray: a thread has the actor's part."""

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from queue import SimpleQueue
from typing import Any

import numpy as np
import pytest

from spdl._processes._transport._link import Link
from spdl.ray import _door
from spdl.ray._door import _HELLO, Door, DoorAddress, enter, open_door
from tests.support.running import TIMEOUT

Admitted = SimpleQueue[tuple[int, int, int, Link]]


@contextmanager
def opened() -> Iterator[tuple[Door, Admitted]]:
    """Yield a door, and what it lets in."""
    admitted: Admitted = SimpleQueue()
    door = open_door("node", lambda *visit: admitted.put(visit))
    assert door is not None
    with closing(door):
        yield door, admitted


def test_who_enters_has_a_connection_with_shared_memory() -> None:
    """In both directions, and writable on either side; and the door knows who it is."""
    with opened() as (door, admitted):
        inside = enter(door.address, 3, 2)
        assert inside is not None
        index, generation, pid, outside = admitted.get(timeout=TIMEOUT)
        with inside, outside:
            assert (index, generation, pid) == (3, 2, os.getpid())
            for sender, receiver in ((inside, outside), (outside, inside)):
                sender.send(1, 7, np.arange(100_000))
                frame = receiver.recv(TIMEOUT)
                array: Any = frame.load()
                assert (frame.kind, frame.number) == (1, 7)
                assert (array == np.arange(100_000)).all()
                assert array.flags.writeable
                assert not array.flags.owndata


def test_a_visitor_without_the_key_is_turned_away() -> None:
    """And the next one is let in."""
    with opened() as (door, admitted):
        assert enter(door.address._replace(key=bytes(32)), 0, 0) is None
        inside = enter(door.address, 1, 0)
        assert inside is not None
        index, *_, outside = admitted.get(timeout=TIMEOUT)
        inside.close()
        outside.close()
        assert index == 1
        assert admitted.empty()


def test_a_visitor_that_leaves_does_no_harm() -> None:
    """Before it has said who it is, or before it gets its end."""
    with opened() as (door, admitted):
        for hello in (b"", b"half", _HELLO.pack(door.address.key, 0, 0, 0)):
            with socket.socket(socket.AF_UNIX) as visitor:
                visitor.connect(door.address.name)
                visitor.sendall(hello)
        inside = enter(door.address, 1, 0)
        assert inside is not None
        inside.close()
        while True:
            index, *_, outside = admitted.get(timeout=TIMEOUT)
            outside.close()
            if index == 1:
                break


def test_there_is_no_way_in_by_a_door_that_is_closed() -> None:
    """Nor by one in another container, which is not found either."""
    with opened() as (door, _):
        address = door.address
    assert enter(address, 0, 0) is None
    assert enter(DoorAddress("node", "\0spdl-ray-elsewhere", bytes(32)), 0, 0) is None


def test_another_users_door_is_not_entered(monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes from there would be unpickled."""
    with opened() as (door, admitted):
        monkeypatch.setattr("os.getuid", lambda: -1)
        assert enter(door.address, 0, 0) is None
        monkeypatch.undo()
        assert admitted.empty()


def test_what_cannot_be_opened_is_let_go_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """The actor takes the other way, and the pipeline sees that nobody is there."""

    def refuse(self: Any) -> Any:
        raise OSError("no descriptors")

    with opened() as (door, admitted):
        monkeypatch.setattr("spdl._processes._transport._connecting.LinkEnd.open", refuse)
        assert enter(door.address, 0, 0) is None
        *_, outside = admitted.get(timeout=TIMEOUT)
        with outside, pytest.raises(EOFError):
            outside.recv(TIMEOUT)


def test_there_is_no_door_without_a_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then everything goes through Ray."""

    def refuse(*_: Any) -> Any:
        raise OSError("no descriptors")

    monkeypatch.setattr("spdl.ray._door.socket.socket", refuse)
    assert open_door("node", lambda *_: None) is None


def test_visitors_are_heard_side_by_side() -> None:
    """Those who do not say who they are keep nobody waiting, however many they are."""
    with opened() as (door, admitted):
        idle = []
        for number in range(3 * _door._MOST_VISITORS):
            visitor = socket.socket(socket.AF_UNIX)
            visitor.connect(door.address.name)
            with suppress(BrokenPipeError, ConnectionResetError):  # it is dropped already
                visitor.sendall(b"half"[: number % 5])
            idle.append(visitor)
        inside = enter(door.address, 1, 0)
        assert inside is not None
        index, *_, outside = admitted.get(timeout=TIMEOUT)
        assert index == 1
        inside.close()
        outside.close()
        for visitor in idle:
            visitor.close()


def test_a_hello_in_pieces_is_heard() -> None:
    """Byte for byte, beside another."""
    with opened() as (door, admitted):
        visitors = []
        for number in range(2):
            visitor = socket.socket(socket.AF_UNIX)
            visitor.connect(door.address.name)
            visitors.append((visitor, _HELLO.pack(door.address.key, number, 0, 0)))
        for at in range(_HELLO.size):
            for visitor, hello in visitors:
                visitor.sendall(hello[at : at + 1])
        found = set()
        for _ in visitors:
            index, *_, outside = admitted.get(timeout=TIMEOUT)
            found.add(index)
            outside.close()
        assert found == {0, 1}
        for visitor, _ in visitors:
            visitor.close()


def test_a_visitor_that_says_nothing_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """When its time is over."""
    monkeypatch.setattr(_door, "_TIMEOUT", 0.01)
    with opened() as (door, _), socket.socket(socket.AF_UNIX) as visitor:
        visitor.settimeout(TIMEOUT)
        visitor.connect(door.address.name)
        assert visitor.recv(1) == b""


def test_a_visitor_of_another_user_is_dropped_before_it_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even with the key."""
    monkeypatch.setattr(_door, "is_same_user", lambda connection: False)
    with opened() as (door, admitted), socket.socket(socket.AF_UNIX) as visitor:
        visitor.settimeout(TIMEOUT)
        visitor.connect(door.address.name)
        assert visitor.recv(1) == b""
        assert admitted.empty()


def test_a_door_survives_that_no_descriptor_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """The visitor is turned away, and the next one enters."""
    with opened() as (door, admitted):
        lacks = [OSError(errno.EMFILE, "too many open files")]
        accept = door._acceptor.listener.accept

        class Lacking:
            def accept(self) -> Any:
                if lacks:
                    raise lacks.pop()
                return accept()

        monkeypatch.setattr(door._acceptor, "listener", Lacking())
        assert enter(door.address, 0, 0) is None
        monkeypatch.undo()
        inside = enter(door.address, 1, 0)
        assert inside is not None
        index, *_, outside = admitted.get(timeout=TIMEOUT)
        assert index == 1
        inside.close()
        outside.close()
