"""Live progress: a line rewritten in place on a terminal, otherwise a plain line at intervals."""

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TextIO

_ON_TERMINAL = 0.1  # s between two updates: looks live at negligible cost
_ELSEWHERE = 10.0  # s between two lines in a log


@dataclass(slots=True)
class Counts:
    """Counts of the pipeline's output so far."""

    images: int = 0
    batches: int = 0
    failures: int = 0
    num_bytes: int = 0


class Progress:
    """Shows the progress of a run. Made and used by one thread.

    Args:
        stream: Output stream; ``None`` shows nothing.
        total: Number of images to load, in all epochs.
        clock: Monotonic clock, in seconds.
        width: Function that returns the number of terminal columns; called at each update.
    """

    def __init__(
        self,
        stream: TextIO | None,
        total: int,
        *,
        clock: Callable[[], float] = time.monotonic,
        width: Callable[[], int] = lambda: shutil.get_terminal_size().columns,
    ) -> None:
        self._stream = stream
        self._total = total
        self._clock = clock
        self._width = width
        self._rewrites = stream is not None and stream.isatty()
        self._interval = _ON_TERMINAL if self._rewrites else _ELSEWHERE
        self._start = self._last = clock()
        self._drawn = False

    def update(self, counts: Counts) -> None:
        """Show the counts, unless the last update was too recent."""
        if self._stream is None:
            return
        now = self._clock()
        if now - self._last < self._interval:
            return
        self._last = now
        text = self._line(counts, now - self._start)
        if self._rewrites:
            self._stream.write("\r\x1b[K" + text[: max(1, self._width() - 1)])
            self._drawn = True
        else:
            self._stream.write(text + "\n")
        self._stream.flush()

    def clear(self) -> None:
        """Erase the line, so that other output can be written in its place."""
        if self._stream is not None and self._drawn:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._drawn = False

    def _line(self, counts: Counts, elapsed: float) -> str:
        done = counts.images + counts.failures
        rate = done / elapsed if elapsed > 0 else 0.0
        left = f"{_duration((self._total - done) / rate)} left" if rate > 0 else "starting"
        share = 100 * done / self._total if self._total else 100.0
        failed = f"{counts.failures} failed, " if counts.failures else ""
        batches = "1 batch" if counts.batches == 1 else f"{counts.batches} batches"
        return f"{done} of {self._total} images ({share:.0f}%), {batches}, {failed}{rate:.0f} images/s, {left}"


def _duration(seconds: float) -> str:
    """``9 s``, ``3:09 min``, ``1:03:09 h``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes:02d}:{rest:02d} h"
    return f"{minutes}:{rest:02d} min" if minutes else f"{rest} s"
