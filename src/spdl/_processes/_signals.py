"""Keeps signals that the training process handles from ending its other processes.

A scheduler sends them to all processes of a job (SLURM's ``--signal``, preemption, a closed terminal). The training
process decides what they mean: it saves a checkpoint, say, and needs its workers for that. So our processes do nothing
when one arrives, and end with the process that owns them.

The handlers are functions instead of ``SIG_IGN``, which programs that an op starts would inherit: they could then not
be terminated. Forked copies get the default actions again.

Source: signal(7), execve(2): "the dispositions of handled signals are reset to the default".
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import process, util
from typing import Any, Final

_NAMES: Final = "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2"
_SIGNALS: Final = tuple(getattr(signal, name) for name in _NAMES if hasattr(signal, name))
_CAN_HOLD: Final = hasattr(signal, "pthread_sigmask")


class _Server:
    """The fork server: what is known in it, and in its forks until they know what they run."""

    is_here = False
    is_held = False  # in a fork: the signals wait
    body: Any = None  # the function that all of our processes run


def _ignore(number: int, frame: object) -> None:
    """Handler of a signal that belongs to the training process."""


def ignore_signals() -> None:
    """Do nothing when a signal of the training process arrives; those that wait are dropped. In the main thread.

    Handlers that are set later, by the user's code, remain.
    """
    # Ctrl-C goes to all processes of a terminal.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.set_wakeup_fd(-1)  # of a forked process, it would tell the parent's event loop
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup(1)
            signal.signal(number, _ignore)
            if hasattr(signal, "siginterrupt"):
                signal.siginterrupt(number, False)  # so that system calls of native code go on
    if _CAN_HOLD:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)


@contextmanager
def signals_held() -> Iterator[None]:
    """Make these signals wait, in this thread and in processes that it starts, until ``ignore_signals`` there."""
    if not _CAN_HOLD:
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def ignore_signals_in_server(body: object) -> None:
    """The same in a fork server. In its forks, the signals wait until they know what they run.

    Args:
        body: The function that our processes run, which will call ``ignore_signals``. In other processes, the signals
            have their default actions.
    """
    _Server.is_here, _Server.body = True, body
    util.register_after_fork(_Server, lambda _: _release())  # called when the target of the process is known
    ignore_signals()


def _release() -> None:
    """In a fork of the fork server, before its target is called: deliver the signals if the target is not ours."""
    is_held, _Server.is_held = _Server.is_held, False
    if is_held and getattr(process.current_process(), "_target", None) is not _Server.body:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)


def _hold() -> None:
    """In the fork server, before it forks: none may be lost that comes before the fork has its default actions."""
    if _Server.is_here and _CAN_HOLD:
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)


def _go_on() -> None:
    """In the fork server, after it has forked."""
    if _Server.is_here and _CAN_HOLD:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)


def _restore() -> None:
    """In a forked copy, which is a process of the user, or will call ``ignore_signals``."""
    if _Server.is_here:
        _Server.is_here, _Server.is_held = False, _CAN_HOLD
    for number in _SIGNALS:
        if signal.getsignal(number) is _ignore:
            signal.signal(number, signal.SIG_DFL)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_hold, after_in_parent=_go_on, after_in_child=_restore)
