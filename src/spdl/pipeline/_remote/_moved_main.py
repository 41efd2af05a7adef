"""A worker of a moved process pool: what runs in it.

It has two connections. By one, the process where the pipeline runs has it call functions. The other is to its owner,
the process that started it. It ends when both have let go of it: so the pipeline can end its calls in peace, and the
owner can take every end that it has not asked for as a death. Should the pipeline's process not let go, the worker is
ended a moment after its owner has.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from spdl._processes._serve import await_end, failure_of, serve_requests
from spdl._processes._transport import Frame, Link, LinkEnd
from spdl._processes._transport._arena import set_current
from spdl.pipeline._engine._remote_calls import call_remotely

from ._protocol import FromMoved, MovedCall

__all__ = ["work"]


def work(owner: Link, there: LinkEnd, initializer: Callable[..., object] | None, initargs: tuple[Any, ...]) -> None:
    """Serve calls until nobody is left.

    Args:
        owner: To the process that started this one.
        there: To the process where the pipeline runs.
        initializer: Called first.
        initargs: Its arguments.
    """
    with there.open() as link:
        if link.sender is not None:
            set_current(link.sender)  # what ops make for the pipeline is made where it is sent from
        if initializer is not None and (failure := failure_of(initializer, *initargs)) is not None:
            owner.send(FromMoved.INITIALIZER_FAILED, 0, failure)
            return
        owner.send(FromMoved.READY)
        serve_requests(link, {MovedCall.CALL: partial(_answer, link)})
    await_end(owner)


def _answer(link: Link, frame: Frame) -> None:
    """Run the call in ``frame`` and send what came of it. Nothing of it is left when this returns."""
    value, failure = call_remotely(_run, frame)
    if failure is None:
        encoded, failure = call_remotely(link.encode, value)
        del value
        if failure is None:
            link.send_encoded([(MovedCall.RESULT, 0, encoded)])
            return
    link.send(MovedCall.FAILED, 0, failure)


def _run(frame: Frame) -> Any:
    fn, args, kwargs = frame.load()
    try:
        return fn(*args, **kwargs)
    except Exception:
        raise
    except BaseException as exc:  # sys.exit() of the user's: it costs the call, not the worker, as in other pools
        raise RuntimeError(f"the call ended with {type(exc).__name__}: {exc}") from exc
