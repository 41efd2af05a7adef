"""The progress of ``spdl load``, on a terminal and elsewhere."""

import io

from spdl._cli._report import Counts, Progress


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


class Clock:
    """Time that moves when the test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_terminal_has_one_line_rewritten() -> None:
    """Each drawing takes the place of the one before, and ``clear`` takes the last away."""
    stream, clock = Terminal(), Clock()
    progress = Progress(stream, 1000, clock=clock, width=lambda: 200)
    clock.now += 2
    progress.update(Counts(images=500, batches=1))
    progress.clear()
    assert stream.getvalue() == "\r\x1b[K500 of 1000 images (50%), 1 batch, 250 images/s, 2 s left\r\x1b[K"


def test_line_is_cut_to_the_terminal() -> None:
    """A line longer than the terminal would wrap and could not be rewritten."""
    stream, clock = Terminal(), Clock()
    progress = Progress(stream, 1000, clock=clock, width=lambda: 21)
    clock.now += 1
    progress.update(Counts(images=500, batches=16))
    assert stream.getvalue() == "\r\x1b[K500 of 1000 images ("


def test_terminal_is_not_drawn_more_often_than_it_can_be_read() -> None:
    """Updates between two drawings write nothing."""
    stream, clock = Terminal(), Clock()
    progress = Progress(stream, 10, clock=clock)
    for _ in range(9):
        clock.now += 0.01
        progress.update(Counts(images=1))
    assert stream.getvalue() == ""


def test_elsewhere_lines_are_plain_and_sparse() -> None:
    """A log gets whole lines without control characters, one every ten seconds."""
    stream, clock = io.StringIO(), Clock()
    progress = Progress(stream, 7200, clock=clock)
    for second in range(1, 26):
        clock.now += 1
        progress.update(Counts(images=second - 1, batches=second, failures=1))
    progress.clear()
    assert stream.getvalue() == (
        "10 of 7200 images (0%), 10 batches, 1 failed, 1 images/s, 1:59:50 h left\n"
        "20 of 7200 images (0%), 20 batches, 1 failed, 1 images/s, 1:59:40 h left\n"
    )


def test_nothing_done_yet_has_no_time_left() -> None:
    """Before the first image the rate is not known."""
    stream, clock = io.StringIO(), Clock()
    progress = Progress(stream, 90, clock=clock)
    clock.now += 10
    progress.update(Counts())
    assert stream.getvalue() == "0 of 90 images (0%), 0 batches, 0 images/s, starting\n"


def test_no_stream_shows_nothing() -> None:
    """``--quiet`` needs no special case elsewhere."""
    clock = Clock()
    progress = Progress(None, 10, clock=clock)
    clock.now += 100
    progress.update(Counts(images=1))
    progress.clear()
