"""Shared by children that answer requests: the serving loop, and waiting for the end.

``_child_main.run`` does the rest for every child: watch the parent, unpickle the function, report failures.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from ._remote_failure import RemoteFailure
from ._transport._connection import Connection, Message
from ._transport._link import Link


def serve_requests(link: Connection, handlers: Mapping[int, Callable[[Message], object]]) -> None:
    """Pass each message to the handler of its kind, one after the other, until the other end closes or dies.

    Args:
        link: Connection to the process that sends the requests.
        handlers: One for each kind of message. They must catch exceptions of user code: an ``OSError`` from a handler
            means that the connection has ended.
    """
    with suppress(EOFError, OSError):
        while True:
            frame = link.recv()
            handlers[frame.kind](frame)
            del frame  # do not keep a large payload until the next one arrives


def await_end(link: Link) -> None:
    """Return when the other end has closed or died. Discards further messages."""
    with suppress(EOFError, OSError):
        while True:
            link.recv().discard()


def failure_of(function: Callable[..., object], *args: Any) -> RemoteFailure | None:
    """Call a user's function; return its failure, if any. ``sys.exit()`` in it is a failure too."""
    try:
        function(*args)
    except BaseException as exc:  # noqa: BLE001 - the user's code
        return RemoteFailure.of(exc)
    return None
