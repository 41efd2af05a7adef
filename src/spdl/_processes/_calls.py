"""Calls of code in other processes: the messages, the loop of the process that serves them, and the caller's end.

Whatever runs elsewhere speaks these messages: isolated stages, workers of moved pools, of regions (also as Ray actors),
of torch-style loaders, and iterables. ``_child_main.run`` does the rest for every child: watch the parent, unpickle the
function, report failures.

A message is a frame of ``_transport``: a kind, a number, and a payload.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ._environment import Environment, change_environment
from ._remote_failure import RemoteFailure
from ._transport._connection import Connection, Message, wait_readable

if TYPE_CHECKING:
    from ._transport._frame import Frame
    from ._transport._link import Link
    from ._transport._pickling import Encoded


class Request(IntEnum):
    """To a process that serves. Closing the connection ends it. Who takes what, and when, says who sends it."""

    CALL = 1  #: number: of the call, if several may be open. Payload: what it is made with
    AGAIN = 2  #: an isolated stage: make the last call again
    #: Leave the present iteration, epoch or conversation, if any, and begin this one. Number: of it, from 1; for a
    #: loader, all earlier calls belong to an older epoch. Payload: for an iteration, number of items that may be sent,
    #: int or infinity (0: first send STARTED and wait for CREDIT); for a region, what it is called
    START = 3
    #: More may be sent. For an iteration, a count gives the number of items, which is also the number of items read
    #: since the last CREDIT; a payload, int or infinity, answers STARTED. For a region, the number of transfers
    CREDIT = 4
    ENVIRONMENT = 5  #: not answered. Payload: the environment variables that have changed
    # Resumable iterations.
    STATE = 6  #: answer with STATE. Payload: number of items of the iteration that have been read, including its end
    LOAD = 7  #: before the first iteration: load this state, and answer with STATE
    HOLD = 8  #: in the next iteration, READ, not CREDIT, gives the number of items read
    READ = 9  #: count: number of items of the iteration that have been read, including its end
    # Regions. A transfer is any number of ITEM and one DEALT, in one write.
    ITEM = 10  #: number: its position; payload: the item
    DEALT = 11  #: the transfer is complete
    MARK = 12  #: the end of an epoch
    END = 13  #: the end of the stream
    CLOSE = 14  #: end the conversation now; another may follow


class Answer(IntEnum):
    """From a process that serves. Number: that of the call, the iteration or the conversation."""

    READY = 1  #: it has what it was started with, and its initializer has returned. Comes first
    RESULT = 2  #: payload: what the call has returned, or the next item, batch or output
    #: The call failed. Payload: the failure; of an isolated stage: (list of what the op had yielded, failure), and the
    #: number is 1 if it may be tried again
    RAISED = 3
    END = 4  #: nothing more to send: the iteration or the dataset is exhausted
    BROKEN = 5  #: it serves no more. Payload: (what was attempted, ``RemoteFailure``)
    #: Payload: the state of what is iterated, or a ``RemoteFailure``; of a dataset, that after the batch that follows
    STATE = 6
    #: No more messages of older iterations will follow. Sent first in an iteration whose shared memory is reset.
    STARTED = 7
    # Regions. A transfer is any number of RESULT and one of these, in one write.
    REPORT = 8  #: payload: ``Report`` on the outputs before it and on everything else that happened
    AT_MARK = 9  #: the same, and all outputs of the epoch were sent
    AT_END = 10  #: the same, and all outputs were sent
    FAILED = 255  #: the process ends because of an exception. Payload: ``RemoteFailure``. Number: a ``Phase``


class Phase(IntEnum):
    """How far a child was when it failed."""

    ARRIVING = 0  #: its function and arguments could not be unpickled
    RUNNING = 1  #: its function raised


# -- in the process that serves


def serve_requests(link: Connection, handlers: Mapping[int, Callable[[Message], object]]) -> None:
    """Pass each message to the handler of its kind, one after the other, until the other end closes or dies.

    Args:
        link: Connection to the process that sends the requests.
        handlers: One for each kind of message but ENVIRONMENT. They must catch exceptions of user code: an ``OSError``
            from a handler means that the connection has ended.
    """
    handlers = {Request.ENVIRONMENT: change_environment_by, **handlers}
    with suppress(EOFError, OSError):
        while True:
            frame = link.recv()
            handlers[frame.kind](frame)
            del frame  # do not keep a large payload until the next one arrives


def change_environment_by(message: Message) -> None:
    """Make the changes of environment variables that a message has."""
    change_environment(message.load())


def await_end(link: Link) -> None:
    """Return when the other end has closed or died. Discards further messages."""
    with suppress(EOFError, OSError):
        while True:
            link.recv().discard()


def is_prepared(link: Connection, attempt: str, function: Callable[..., object] | None, *args: Any) -> bool:
    """Call a user's function, if there is one, before the first request. If it fails, say BROKEN."""
    failure = None if function is None else failure_of(function, *args)
    if failure is not None:
        with suppress(OSError):
            link.send(Answer.BROKEN, 0, (attempt, failure))
    return failure is None


def failure_of(function: Callable[..., object], *args: Any) -> RemoteFailure | None:
    """Call a user's function; return its failure, if any. ``sys.exit()`` in it is a failure too."""
    try:
        function(*args)
    except BaseException as exc:  # noqa: BLE001 - the user's code
        return RemoteFailure.of(exc)
    return None


# -- in the process that calls


class Port(Protocol):
    """The caller's end: a ``Child``, or a connection to a process that another one owns."""

    link: Link

    def recv(self, timeout: float | None = None) -> Frame:
        """Return the next frame. Raises ``WorkerDiedError``, ``WorkerError`` or ``TimeoutError``."""

    def descriptors(self) -> list[int]:
        """File descriptors that become readable when a message arrives or the process dies."""


P = TypeVar("P", bound=Port)


def wait_any(ports: Iterable[P], timeout: float | None = None, *, bell: int | None = None) -> list[P]:
    """Wait until one of ``ports`` has something to receive, or its process has died.

    Args:
        ports: At least one. No other thread may receive from them during the call.
        timeout: Seconds; ``None``: no limit.
        bell: A descriptor that ends the wait when it is readable.

    Returns:
        All such ports; empty after a timeout or for the bell. ``recv(0)`` tells more, and may still find only a part of
        a frame.
    """
    ports = list(ports)
    found = [port for port in ports if port.link.has_frame()]
    if found:
        return found
    owners = {each: port for port in ports for each in port.descriptors()}
    waited = [*owners] if bell is None else [*owners, bell]
    ready = {id(owners.get(each)) for each in wait_readable(waited, timeout)}
    return [port for port in ports if id(port) in ready]


class Caller:
    """Sends calls to a process that has the environment of this one, as it is when the caller is made."""

    def __init__(self) -> None:
        self._environment = Environment()

    def send(self, link: Link, messages: Iterable[tuple[int, int, Encoded]]) -> None:
        """Send messages, after the environment variables that have changed.

        Raises:
            OSError: The process is gone.
        """
        if changes := self._environment.changes():
            link.send(Request.ENVIRONMENT, 0, changes)
        link.send_encoded(messages)
