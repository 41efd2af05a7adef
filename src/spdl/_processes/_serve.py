"""What children that answer requests share: the loop that serves them, and how the end is waited for.

What every child does besides (watch the parent, unpickle its function, report how it failed) is ``_child_main.run``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from ._remote_failure import RemoteFailure
from ._transport import Connection, Link, Message

__all__ = ["await_end", "failure_of", "serve_requests"]


def serve_requests(link: Connection, handlers: Mapping[int, Callable[[Message], object]]) -> None:
    """Give each message to the handler of its kind, one after the other, until the other end closes or is gone.

    Args:
        link: To the process that sends the requests.
        handlers: One for each kind of message. They catch what user code raises: an ``OSError`` that leaves a handler
            is taken for the end of the connection, to which it answers.
    """
    with suppress(EOFError, OSError):
        while True:
            frame = link.recv()
            handlers[frame.kind](frame)
            del frame  # its payload may be large, and must not be kept until the next comes


def await_end(link: Link) -> None:
    """Return when the other end has closed or is gone. Discards what it still sends."""
    with suppress(EOFError, OSError):
        while True:
            link.recv().discard()


def failure_of(function: Callable[..., object], *args: Any) -> RemoteFailure | None:
    """Call a function of the user's; how it failed, if it did. A ``sys.exit()`` in it is a failure too."""
    try:
        function(*args)
    except BaseException as exc:  # noqa: BLE001 - the user's code
        return RemoteFailure.of(exc)
    return None
