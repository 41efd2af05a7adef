"""What runs in the child process of an isolated stage: one call after the other, in the main thread."""

from __future__ import annotations

import faulthandler
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from spdl._processes._remote_failure import RemoteFailure

from ._protocol import FromIsolated, ToIsolated

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from spdl._processes._transport import Encoded, Link

__all__ = ["STACK_SIGNAL", "serve"]

#: Has the child write the stacks of its threads, also while C code holds the interpreter. One that ops hardly use.
STACK_SIGNAL: Final[int | None] = getattr(signal, "SIGRTMAX", getattr(signal, "SIGUSR2", None))


def serve(
    link: Link,
    op: Callable[[Any], Any],
    is_generator: bool,
    retried: tuple[type[Exception], ...],
    crash: Connection[bytes, bytes] | None,
) -> None:
    """Run ``op`` on each item that comes, until the parent lets go.

    Args:
        link: To the parent.
        op: The user's.
        is_generator: Its outputs are collected.
        retried: Exceptions after which the parent may ask for the same item again.
        crash: Where the interpreter writes the stack of a crash. Not the link: what it writes is no message.
    """
    if crash is not None:
        _tell_crashes(crash)
    link.send(FromIsolated.READY)
    item: Any = None
    while True:
        try:
            frame = link.recv()
        except EOFError:
            return
        values: list[Any] = []
        phase = _Phase.ITEM
        try:
            if frame.kind == ToIsolated.CALL:
                item = frame.load()
            phase = _Phase.OP
            if is_generator:
                for output in op(item):
                    values.append(output)  # noqa: PERF402 - what came before an error must not be lost with it
                result: Any = values
            else:
                result = op(item)
            phase = _Phase.RESULT
            kind, number, encoded = FromIsolated.RESULT, 0, link.encode(result)
        except BaseException as exc:  # noqa: BLE001 - the boundary to user code; a sys.exit() of an op costs its item
            number = int(phase is _Phase.OP and not values and isinstance(exc, retried))
            kind, encoded = FromIsolated.RAISED, _encode_failure(link, exc, phase, values)
        if not number:
            item = None  # whatever memory it has is not kept until the next comes
        result, values = None, []
        try:
            link.send_encoded([(kind, number, encoded)])
        except OSError:  # the parent is gone, or has let go
            return
        del encoded


class _Phase(Enum):
    """How far a call was when it failed; what is said of it then."""

    ITEM = "the item cannot be unpickled there: "
    OP = ""
    RESULT = "the result cannot be pickled: "


def _encode_failure(link: Link, exc: BaseException, phase: _Phase, values: list[Any]) -> Encoded:
    failure = RemoteFailure.of(exc)
    failure = failure._replace(message=phase.value + failure.message)
    if phase is not _Phase.RESULT:
        try:
            return link.encode((values, failure))
        except Exception:  # noqa: BLE001 - an output cannot be pickled: what the op raised says more
            pass
    return link.encode(([], failure))


def _tell_crashes(crash: Connection[bytes, bytes]) -> None:
    # A crash must not wait for somebody to read of it.
    os.set_blocking(crash.fileno(), False)
    faulthandler.enable(file=crash.fileno())
    if STACK_SIGNAL is not None and hasattr(faulthandler, "register"):
        with suppress(ValueError, OSError):
            faulthandler.register(STACK_SIGNAL, file=crash.fileno())
