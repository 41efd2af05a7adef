"""The child process of an isolated stage: runs one call after the other, in the main thread."""

from __future__ import annotations

import faulthandler
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from typing import TYPE_CHECKING, Any

from spdl._processes._calls import Answer, Request, serve_requests
from spdl._processes._remote_failure import RemoteFailure
from spdl._processes._stacks import STACK_SIGNAL

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from spdl._processes._transport._connection import Message
    from spdl._processes._transport._link import Link
    from spdl._processes._transport._pickling import Encoded
    from spdl.pipeline.defs import Retry


def serve(
    link: Link,
    op: Callable[[Any], Any],
    is_generator: bool,
    retry: Retry | None,
    crash: Connection[bytes, bytes] | None,
) -> None:
    """Run ``op`` on each item received, until the parent closes the link.

    Args:
        link: Connection to the parent.
        op: The user's op.
        is_generator: Whether the op is a generator function; its outputs are collected.
        retry: Policy that decides after which exceptions the parent may retry the same item.
        crash: Pipe to which the interpreter writes the stack of a crash. This is not a message, so the link cannot be
            used.
    """
    if crash is not None:
        _tell_crashes(crash)
    link.send(Answer.READY)
    server = _Server(link, op, is_generator, retry)
    serve_requests(link, {Request.CALL: server.call, Request.AGAIN: server.call_again})


class _Server:
    """Makes one call for each request, and keeps the item while it may be retried."""

    def __init__(self, link: Link, op: Callable[[Any], Any], is_generator: bool, retry: Retry | None) -> None:
        self._link = link
        self._op = op
        self._is_generator = is_generator
        self._retry = retry
        self._item: Any = None

    def call(self, frame: Message) -> None:
        self._call(frame)

    def call_again(self, frame: Message) -> None:
        frame.discard()
        self._call(None)

    def _call(self, frame: Message | None) -> None:
        """Run the op on the item of ``frame``, or on that of the last call, and send the outcome."""
        link, op = self._link, self._op
        values: list[Any] = []
        phase = _Phase.ITEM
        try:
            if frame is not None:
                self._item = frame.load()
            phase = _Phase.OP
            if self._is_generator:
                for output in op(self._item):
                    values.append(output)  # noqa: PERF402 - outputs before an error must not be lost with it
                result: Any = values
            else:
                result = op(self._item)
            phase = _Phase.RESULT
            kind, number, encoded = Answer.RESULT, 0, link.encode(result)
        except BaseException as exc:  # noqa: BLE001 - the boundary to user code; a sys.exit() of an op costs its item
            may_retry = False
            if self._retry is not None and phase is _Phase.OP and not values:
                try:
                    may_retry = self._retry.covers(exc)
                except BaseException as failed:  # noqa: BLE001 - the user's; it is the failure of the call then
                    exc = failed
            number = int(may_retry)
            kind, encoded = Answer.RAISED, _encode_failure(link, exc, phase, values)
        if not number:
            self._item = None  # do not keep its memory until the next item arrives
        result, values = None, []
        link.send_encoded([(kind, number, encoded)])


class _Phase(Enum):
    """The phase in which a call failed, with the text for the error."""

    ITEM = "the item cannot be unpickled there: "
    OP = ""
    RESULT = "the result cannot be pickled: "


def _encode_failure(link: Link, exc: BaseException, phase: _Phase, values: list[Any]) -> Encoded:
    failure = RemoteFailure.of(exc)
    failure = failure._replace(message=phase.value + failure.message)
    if phase is not _Phase.RESULT:
        try:
            return link.encode((values, failure))
        except Exception:  # noqa: BLE001 - an output cannot be pickled: the op's exception is more useful
            pass
    return link.encode(([], failure))


def _tell_crashes(crash: Connection[bytes, bytes]) -> None:
    # A crashing process must not block until the parent reads.
    os.set_blocking(crash.fileno(), False)
    faulthandler.enable(file=crash.fileno())
    if sys.platform != "linux" and STACK_SIGNAL is not None and hasattr(faulthandler, "register"):
        with suppress(ValueError, OSError):  # where others cannot read what ``offer_stacks`` offers
            faulthandler.register(STACK_SIGNAL, file=crash.fileno())
