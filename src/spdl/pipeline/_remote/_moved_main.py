"""The worker process of a moved process pool.

It has two connections. Through one, the process where the pipeline runs sends it calls. The other leads to its owner,
the process that started it. The worker ends when both are closed: so the pipeline can finish its calls, and the owner
can treat any other end as a death. If the pipeline's process does not close its connection, the worker ends a moment
after its owner has closed the other one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from spdl._processes._environment import change_environment_by
from spdl._processes._serve import await_end, failure_of, serve_requests
from spdl._processes._transport import Frame, Link, LinkEnd
from spdl._processes._transport._arena import set_current
from spdl.pipeline._engine._remote_calls import call_remotely

from ._protocol import FromMoved, MovedCall


def work(owner: Link, there: LinkEnd, initializer: Callable[..., object] | None, initargs: tuple[Any, ...]) -> None:
    """Serve calls until both connections are closed.

    Args:
        owner: Connection to the process that started this one.
        there: Connection to the process where the pipeline runs.
        initializer: Function called first.
        initargs: Arguments of ``initializer``.
    """
    with there.open() as link:
        if link.sender is not None:
            set_current(link.sender)  # ops allocate results in the memory from which they are sent
        if initializer is not None and (failure := failure_of(initializer, *initargs)) is not None:
            owner.send(FromMoved.INITIALIZER_FAILED, 0, failure)
            return
        owner.send(FromMoved.READY)
        serve_requests(link, {MovedCall.CALL: partial(_answer, link), MovedCall.ENVIRONMENT: change_environment_by})
    await_end(owner)


def _answer(link: Link, frame: Frame) -> None:
    """Run the call in ``frame`` and send the outcome. Keeps no reference to the call or its result."""
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
    except BaseException as exc:  # a sys.exit() in user code fails the call, not the worker, as in other pools
        raise RuntimeError(f"the call ended with {type(exc).__name__}: {exc}") from exc
