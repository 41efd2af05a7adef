"""``spdl._reports``: notes, log records and texts of objects that do not want to be shown."""

import gc
import logging
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any

import pytest

from spdl._reports import add_note, describe_exception, frames_of_threads, log, name_of, notes_of, shown, text_of
from tests.strategies.hostile import EXCEPTIONS, ClosedError, FrozenError, MuteError, NotedError, hostile_log

#: The level of nothing else that is logged here.
_LOG = logging.getLogger("spdl.pipeline")


def on_another_thread(function: Callable[[], Any]) -> Any:
    """What ``function`` returns, or raises, where no Ctrl-C can come from."""
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append(function())
        except BaseException as exc:
            outcome.append(exc)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return outcome[0]


@pytest.mark.parametrize("name", EXCEPTIONS)
def test_every_exception_takes_notes_without_a_word(name: str) -> None:
    """Nothing is raised, and nothing of the user's runs."""
    exc = EXCEPTIONS[name]()
    assert on_another_thread(lambda: add_note(exc, "a note")) is None


@pytest.mark.parametrize("exc", [ValueError(), FrozenError()], ids=["plain", "frozen"])
def test_notes_are_shown_with_the_traceback(exc: Exception) -> None:
    """Also by an exception whose class refuses attributes, which ``add_note`` sets."""
    add_note(exc, "where it was")
    assert "where it was\n" in traceback.format_exception(exc)
    assert notes_of(exc) == ["where it was"]


def test_notes_that_are_no_list_are_left_alone() -> None:
    """What is there is the user's."""
    exc = NotedError()
    add_note(exc, "another")
    assert getattr(exc, "__notes__") == ("a", "tuple")  # noqa: B009 - for the type checker it is a list
    assert notes_of(exc) == ["a", "tuple"]
    assert notes_of(ClosedError()) == []


def test_one_exception_object_keeps_few_notes() -> None:
    """A note is not repeated, one of the same kind is replaced, and there is an end to it."""
    exc = ValueError()
    exc.add_note("the user's own")
    for number in range(1000):
        add_note(exc, "always the same")
        add_note(exc, f"in stage a, item {number}", in_place_of="in stage a, ")
    assert exc.__notes__ == ["the user's own", "always the same", "in stage a, item 999"]
    for number in range(1000):
        add_note(exc, f"note {number}")
    assert len(exc.__notes__) < 100


def test_objects_that_cannot_be_shown_have_words_in_their_place() -> None:
    """Whatever ``__str__`` and ``__repr__`` raise."""
    assert text_of(MuteError()) == "<MuteError object, its str failed with RuntimeError>"
    assert shown(MuteError()) == "<MuteError object, its repr failed with RuntimeError>"
    assert describe_exception(ValueError("bad")) == "ValueError: bad"
    assert describe_exception(ValueError()) == "ValueError"
    leaving = EXCEPTIONS["str-exits"]()
    assert on_another_thread(lambda: text_of(leaving)) == "<LeavingError object, its str failed with SystemExit>"


def test_a_class_whose_name_raises_is_a_question_mark() -> None:
    """The metaclass is the user's too."""

    class Meta(type):
        @property
        def __name__(cls) -> str:  # type: ignore[override]
            raise LookupError

    class Odd(metaclass=Meta):
        pass

    assert name_of(Odd()) == "?"


@pytest.mark.parametrize("kind", ["handler", "handler-exits", "filter", "filter-interrupts"])
def test_a_log_that_raises_costs_nothing_but_the_record(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What raised, and what was to be logged, is on stderr, as when a handler of ``logging`` fails."""
    with hostile_log(kind):
        assert on_another_thread(lambda: log(_LOG, logging.ERROR, "item %d failed", 3)) is None
    said = capsys.readouterr().err
    assert "a handler or filter of the log raised" in said
    assert "item 3 failed" in said


def test_a_log_that_raises_is_silent_where_logging_is_told_to_be(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """``logging.raiseExceptions`` is the switch for that."""
    monkeypatch.setattr(logging, "raiseExceptions", False)
    with hostile_log("handler"):
        log(_LOG, logging.ERROR, "lost")
    assert capsys.readouterr().err == ""


def test_a_ctrl_c_in_a_report_on_the_main_thread_goes_on() -> None:
    """It comes from the keyboard there, and is not for the report to drop."""
    with hostile_log("filter-interrupts"), pytest.raises(KeyboardInterrupt):
        log(_LOG, logging.ERROR, "interrupted")
    with pytest.raises(KeyboardInterrupt):
        text_of(EXCEPTIONS["str-interrupts"]())


def test_where_ctrl_c_is_ignored_nothing_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Worker processes ignore it, and report on their main thread what the user's code has raised."""
    monkeypatch.setattr(signal, "getsignal", lambda _: signal.SIG_IGN)
    with hostile_log("filter-interrupts"):
        log(_LOG, logging.ERROR, "interrupted")
    assert "KeyboardInterrupt" in text_of(EXCEPTIONS["str-interrupts"]())


def test_records_name_the_line_that_reports(caplog: pytest.LogCaptureFixture) -> None:
    """Not the line in the module that all reports go through."""
    with caplog.at_level(logging.ERROR, "spdl.pipeline"):
        log(_LOG, logging.ERROR, "here")
    assert [record.funcName for record in caplog.records] == ["test_records_name_the_line_that_reports"]


def test_no_collection_begins_while_frames_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """CPython 3.11.7 waits for itself if one does. Whoever has switched the collector off finds it off."""
    seen: list[bool] = []

    def listed() -> dict[int, Any]:
        seen.append(gc.isenabled())
        return {}

    monkeypatch.setattr(sys, "_current_frames", listed)
    frames_of_threads()
    assert (seen, gc.isenabled()) == ([False], True)
    gc.disable()
    try:
        frames_of_threads()
        assert not gc.isenabled()
    finally:
        gc.enable()
