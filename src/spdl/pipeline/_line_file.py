"""``LineFile``: an append-only file of lines, to which several processes may append.

A line is one ``write`` to a file opened with ``O_APPEND``, so the lines of several processes do not mix. A process that
is killed, or a full disk, may still leave a *torn* line: one without its end. The next line must not join it:

1. Before the first line is written, the last byte of the file is read. If it ends no line, and the file does not grow,
   the new line begins with a line end.
2. After a line is written, the byte before it is read: another process may have torn a line. In that case the line is
   written again, on a line of its own. This byte is final, because writes wait for each other; a byte that is read
   before may be in the middle of a write.

The second read is left out while nobody else has written, which the positions tell. Readers skip what is left of torn
lines.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from typing import Final

_MODE: Final = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)
#: A write of another process has ended or made progress after this many seconds.
_SETTLED_AFTER: Final = 0.02


class LineFile:
    """Opens the file, to find out whether that is possible, and again at the first line. Thread-safe.

    Args:
        path: The file. It is created if necessary.
        what: What the file is, for messages: ``"quarantine file"``.

    Raises:
        OSError: The file cannot be opened, or is a FIFO or socket, which would wait for a reader.
    """

    def __init__(self, path: str, what: str) -> None:
        self.path: Final = os.path.abspath(path)
        self._what = what
        self._guard = threading.Lock()  # of what follows
        self._fd: int | None = None
        self._pid = 0  # of the process that opened it: a child of a fork shares the position
        self._is_regular = True
        self._is_torn = False  # the last write was incomplete
        self._end = -1  # where the last line ended; -1: none was written
        self._has_ended = False
        os.close(self._open())

    def append(self, line: bytes) -> None:
        """Write a line, which ends with ``\\n``. Raises ``OSError``: it was not written, or only a part of it."""
        with self._guard:
            pid = os.getpid()
            if self._fd is not None and self._pid != pid:
                self._close()
            if self._fd is None:
                self._fd, self._pid = self._open(), pid
            try:
                self._write(self._fd, line)
            finally:
                if self._has_ended:
                    self._close()

    def close(self) -> None:
        """Close the file. Lines that are appended later are still written: the file is opened for each of them."""
        with self._guard:
            self._has_ended = True
            self._close()

    def _open(self) -> int:
        try:
            # A FIFO without a reader would block in open().
            fd = os.open(self.path, _MODE | os.O_NONBLOCK, 0o666)
            kind = os.fstat(fd).st_mode
            self._is_regular = stat.S_ISREG(kind)
            if not self._is_regular and not stat.S_ISCHR(kind):
                os.close(fd)
                raise OSError(0, "it is a FIFO or socket; give a file")
        except OSError as exc:
            raise type(exc)(exc.errno, f"cannot open the {self._what}: {exc.strerror}", self.path) from exc
        return fd

    def _close(self) -> None:
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)

    def _write(self, fd: int, line: bytes) -> None:
        if not self._is_regular:
            self._write_once(fd, line)
            return
        before = self._end
        if self._is_torn or (before < 0 and _is_torn_at(fd, os.lseek(fd, 0, os.SEEK_END))):
            line = b"\n" + line
        self._write_once(fd, line)
        self._end = os.lseek(fd, 0, os.SEEK_CUR)
        start = self._end - len(line)
        if start != before and line[0] != 10 and not _ends_line(fd, start):
            self._write_once(fd, b"\n" + line)
            self._end = os.lseek(fd, 0, os.SEEK_CUR)

    def _write_once(self, fd: int, line: bytes) -> None:
        self._is_torn = True
        written = os.write(fd, line)
        if written != len(line):
            raise OSError(f"only {written} of {len(line)} bytes were written: is the disk full?")
        self._is_torn = False


def _ends_line(fd: int, position: int) -> bool:
    """Whether a line ends, or the file begins, at this position."""
    return position <= 0 or os.pread(fd, 1, position - 1) in (b"\n", b"")


def _is_torn_at(fd: int, end: int) -> bool:
    """Whether the file ends there, without a line end, and no other process is writing."""
    if _ends_line(fd, end):
        return False
    time.sleep(_SETTLED_AFTER)
    return os.lseek(fd, 0, os.SEEK_END) == end
