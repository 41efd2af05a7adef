"""``Acceptor``: takes connections from a listening socket, whatever the system has left.

If no descriptor is left, ``accept`` fails, and the connection stays in the queue: the socket is readable at once
again, and a thread that only retries uses a whole CPU. So a descriptor is held in reserve, with which a connection can
be taken and closed at once; and if that fails too, the socket is left alone for a while.
"""

from __future__ import annotations

import errno
import os
import selectors
import socket
from contextlib import suppress
from time import monotonic
from typing import Final

#: Seconds for which the socket is left alone if there is nothing to take a connection with.
PAUSE: Final = 1.0
#: What ``accept`` reports if the system lacks something. All other errors are about one connection, which is gone.
_LACKING: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Acceptor:
    """Belongs to the thread that serves ``selector``, where it registers the listening socket. Never blocks.

    Closes neither.
    """

    def __init__(self, listener: socket.socket, selector: selectors.BaseSelector) -> None:
        self.listener = listener
        self._selector = selector
        self._reserve: int | None = None
        self._paused_until: float | None = None
        self._fill_reserve()
        listener.setblocking(False)
        selector.register(listener, selectors.EVENT_READ)

    @property
    def is_pausing(self) -> bool:
        return self._paused_until is not None

    def timeout(self) -> float | None:
        """Return for how long ``select`` may sleep before ``resume`` must be called; ``None``: for ever."""
        return None if self._paused_until is None else max(0.0, self._paused_until - monotonic())

    def resume(self) -> None:
        """Take connections again if the pause is over."""
        if self._paused_until is not None and monotonic() >= self._paused_until:
            self._paused_until = None
            self._fill_reserve()
            self._selector.register(self.listener, selectors.EVENT_READ)

    def accept(self) -> socket.socket | None:
        """Return the next connection, which does not block, if there is one."""
        try:
            connection, _ = self.listener.accept()
        except OSError as exc:
            if exc.errno in _LACKING:
                self._turn_away()
            return None  # otherwise, it has already disconnected
        connection.setblocking(False)
        return connection

    def close(self) -> None:
        """Give the reserve back. Idempotent."""
        if self._reserve is not None:
            os.close(self._reserve)
            self._reserve = None

    def _fill_reserve(self) -> None:
        if self._reserve is None:
            with suppress(OSError):
                self._reserve = os.open(os.devnull, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))

    def _turn_away(self) -> None:
        """Take a connection with the reserve, and close it: its process is told at once. Otherwise, pause."""
        has_reserve = self._reserve is not None
        self.close()
        try:
            if has_reserve:
                self.listener.accept()[0].close()
        except OSError:  # another thread has taken the descriptor
            has_reserve = False
        self._fill_reserve()
        if not has_reserve:
            self._selector.unregister(self.listener)
            self._paused_until = monotonic() + PAUSE
