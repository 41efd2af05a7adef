"""The stacks of other processes: each of ours writes its own on a signal, without the GIL, to a file that others find.

The file is anonymous memory, which ``/proc`` shows to processes of the same user. So no connection is needed, and a
process can be asked that is stuck in native code, or whose owner is another one. Linux only.
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

__all__ = ["STACK_SIGNAL", "offer_stacks", "stacks_of", "stacks_of_all", "tidy"]

#: Has a process write the stacks of its threads. One that ops hardly use.
STACK_SIGNAL: Final[int | None] = getattr(signal, "SIGRTMAX", getattr(signal, "SIGUSR2", None))
_NAME: Final = "spdl-stacks"
#: A process gets so long to begin to write, in seconds, and so long between two parts of it.
_BEGINS: Final = 0.5
_GOES_ON: Final = 0.03
_POLL: Final = 0.005
#: A text of more characters is cut in the middle.
_MOST_CHARACTERS: Final = 16_000


def offer_stacks() -> None:
    """Let others have the stacks of this process. Only for processes of ours: it takes a signal."""
    if STACK_SIGNAL is None or sys.platform != "linux" or not hasattr(faulthandler, "register"):
        return
    with suppress(ValueError, OSError):
        faulthandler.register(STACK_SIGNAL, file=os.memfd_create(_NAME, os.MFD_CLOEXEC))


def stacks_of(pid: int) -> str | None:
    """Return the stacks of the threads of another process; ``None`` if it does not offer them, or does not answer."""
    return stacks_of_all([pid])[0]


def stacks_of_all(pids: Iterable[int]) -> list[str | None]:
    """Return the same of several processes, which are all asked before any is waited for."""
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
        with suppress(OSError):  # it has ended, or belongs to somebody else
            file = open(path, "rb")  # noqa: SIM115 - until the answer is there
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
                pause.wait(_POLL)  # nothing tells when a process has written to memory
                grown = os.fstat(file.fileno()).st_size
                if grown > size:
                    size, deadline = grown, now + _GOES_ON
            file.seek(self._start)
            return tidy(file.read(size - self._start).decode(errors="replace"))


def tidy(text: str) -> str | None:
    """Return what ``faulthandler`` has written without what is no stack, and not too much of it."""
    import re  # for few, and this module is part of every child

    text = re.sub(r"\n*^Extension modules: .*$", "", text, flags=re.MULTILINE).strip()
    if len(text) > _MOST_CHARACTERS:
        half = _MOST_CHARACTERS // 2
        text = f"{text[:half]}\n...\n{text[-half:]}"
    return text or None


def _file_of(pid: int) -> str | None:
    """Return the path of the file of process ``pid``. Without the file it must not get the signal, which would end it.

    The handler is installed last, so the mask of caught signals has to have it too.
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
