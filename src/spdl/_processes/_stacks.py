"""Reads the stacks of other processes: each of our processes writes its own to a file on a signal, without the GIL.

The file is anonymous memory, which ``/proc`` shows to processes of the same user. So no connection is needed, and it
works for processes that are stuck in native code or owned by another process. Linux only.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress
from time import monotonic
from typing import BinaryIO, Final

#: The signal that makes a process write its stacks. Ops hardly ever use this one.
STACK_SIGNAL: Final[int | None] = getattr(signal, "SIGRTMAX", getattr(signal, "SIGUSR2", None))
_NAME: Final = "spdl-stacks"
#: Time limits in seconds until a process begins to write, and between two parts.
_BEGINS: Final = 0.5
_GOES_ON: Final = 0.03
_POLL: Final = 0.005
#: Longer texts are cut in the middle.
_MOST_CHARACTERS: Final = 16_000


def offer_stacks() -> None:
    """Let other processes read the stacks of this one. Only for our own child processes, because it uses a signal."""
    if STACK_SIGNAL is None or sys.platform != "linux" or not hasattr(faulthandler, "register"):
        return
    with suppress(ValueError, OSError):
        faulthandler.register(STACK_SIGNAL, file=os.memfd_create(_NAME, os.MFD_CLOEXEC))


def stacks_of(pid: int) -> str | None:
    """Return the stacks of the threads of another process; ``None`` if it does not offer them, or does not answer."""
    return stacks_of_all([pid])[0]


def stacks_of_all(pids: Iterable[int]) -> list[str | None]:
    """Return the same for several processes. Asks all of them before it waits for any."""
    asked = [_Asked(pid) for pid in pids]
    deadline = monotonic() + _BEGINS
    return [each.answer(deadline) for each in asked]


class _Asked:
    """A process that was asked for its stacks."""

    def __init__(self, pid: int) -> None:
        self._file: BinaryIO | None = None
        self._start = 0
        path = _file_of(pid)
        if path is None or STACK_SIGNAL is None:
            return
        with suppress(OSError):  # it has ended, or belongs to another user
            file = open(path, "rb")  # noqa: SIM115 - open until the answer arrives
            try:
                self._start = os.fstat(file.fileno()).st_size
                os.kill(pid, STACK_SIGNAL)
            except OSError:
                file.close()
                raise
            self._file = file

    def answer(self, deadline: float) -> str | None:
        file = self._file
        if file is None:
            return None
        pause = threading.Event()
        with file:
            size = self._start
            while (now := monotonic()) < deadline:
                pause.wait(_POLL)  # there is no notification when a process has written to memory
                grown = os.fstat(file.fileno()).st_size
                if grown > size:
                    size, deadline = grown, now + _GOES_ON
            file.seek(self._start)
            return tidy(file.read(size - self._start).decode(errors="replace"))


def tidy(text: str) -> str | None:
    """Return the stacks from the output of ``faulthandler``, shortened if too long."""
    import re  # for few, and this module is part of every child

    text = re.sub(r"\n*^Extension modules: .*$", "", text, flags=re.MULTILINE).strip()
    if len(text) > _MOST_CHARACTERS:
        half = _MOST_CHARACTERS // 2
        text = f"{text[:half]}\n...\n{text[-half:]}"
    return text or None


def _file_of(pid: int) -> str | None:
    """Return the path of the file of process ``pid``. Without the file, the signal would kill the process.

    The handler is installed last, so the mask of caught signals is checked too.
    """
    folder = f"/proc/{pid}/fd"
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as status:
            caught = next((int(line.split()[1], 16) for line in status if line.startswith("SigCgt:")), 0)
        if STACK_SIGNAL is None or not caught >> (STACK_SIGNAL - 1) & 1:
            return None
        for name in os.listdir(folder):
            with suppress(OSError):
                if os.readlink(f"{folder}/{name}").startswith(f"/memfd:{_NAME}"):
                    return f"{folder}/{name}"
    except (OSError, ValueError):
        return None
    return None
