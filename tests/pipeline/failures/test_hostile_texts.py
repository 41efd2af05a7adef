"""Texts of users' exceptions, items and keys that no terminal may get: control characters, any length, or none."""

import logging
import unicodedata
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl._cli import main
from spdl._reports import clean, describe_exception, log, printable, short_repr, shown, text_of, traceback_of
from spdl.debug import dump
from tests.support.running import build_of

LONG = "x\n" * 300_000
HOSTILE = "\x1b[2J\x1b]0;title\x07 \x00 \x9b31m \u202e \u2066 \udc80 \r\x08"


class Raises(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


class NoText(Exception):
    def __str__(self) -> str:
        return 5  # type: ignore[return-value]

    __repr__ = __str__


class _Text(str):
    def _refuse(self, *_: Any) -> Any:
        raise RuntimeError("a text with methods of its own")

    splitlines = partition = split = isprintable = encode = __len__ = __getitem__ = __iter__ = _refuse  # type: ignore[assignment]


class OwnText(Exception):
    def __str__(self) -> str:
        return _Text("own")

    __repr__ = __str__


class Hostile(Exception):
    def __str__(self) -> str:
        return HOSTILE + LONG

    __repr__ = __str__


def recursive() -> Exception:
    first, second = ValueError("a"), ValueError("b")
    first.__cause__, second.__cause__ = second, first
    return first


def deep() -> Exception:
    error = ValueError("deep")
    for _ in range(3000):
        error, cause = ValueError("less deep"), error
        error.__cause__ = cause
    return error


def noted() -> Exception:
    error = ValueError("noted")
    error.__notes__ = [HOSTILE + LONG, 5, Raises()]  # type: ignore[list-item]
    return error


def grouped() -> Exception:
    return ExceptionGroup(HOSTILE, [Hostile(), recursive()])


EXCEPTIONS: dict[str, Callable[[], Exception]] = {
    "raises": Raises,
    "no text": NoText,
    "own text": OwnText,
    "hostile": Hostile,
    "recursive": recursive,
    "deep": deep,
    "noted": noted,
    "grouped": grouped,
    "empty": lambda: ValueError(""),
}


def is_clean(text: str) -> bool:
    """No character controls a terminal, and all of it is UTF-8: by the categories of Unicode."""
    return all(each in "\n\t" or unicodedata.category(each) not in ("Cc", "Cf", "Cs", "Zl", "Zp") for each in text)


def check(text: str, most: int = 100_000) -> None:
    assert is_clean(text)
    assert len(text) < most
    text.encode()


@pytest.mark.parametrize("name", EXCEPTIONS)
def test_texts_of_exceptions(name: str) -> None:
    """Whatever they do, there is a text, of no great length, which any terminal can show."""
    error = EXCEPTIONS[name]()
    for text in (text_of(error), shown(error), describe_exception(error), short_repr(error)):
        assert type(text) is str
        check(text, 4000)
    check(short_repr(error), 161)
    assert "\n" not in short_repr(error)
    check(traceback_of(error)[0])


@given(st.text(alphabet=st.characters(codec=None), max_size=60))
def test_clean_keeps_what_can_be_shown(text: str) -> None:
    """Printable text and its lines stay as they are; the rest is escaped, and can be told from what it was."""
    check(clean(text))
    assert "\n" not in printable(text)
    assert clean(text).count("\n") == text.count("\n")
    if text.replace("\n", "").replace("\t", "").isprintable():
        assert clean(text) == text


@given(st.integers(1, 100_000), st.integers(0, 300))
def test_long_texts_are_cut_and_say_so(size: int, num_lines: int) -> None:
    """With the number of what is missing."""
    assert clean("y" * size).startswith("y" * min(size, 2000))
    assert (f"({size - 2000} more characters)" in clean("y" * size)) == (size > 2000)
    lines = "z\n" * num_lines
    assert (f"({num_lines + 1 - 40} more lines)" in clean(lines)) == (num_lines + 1 > 40)


@pytest.mark.parametrize("name", EXCEPTIONS)
def test_everything_that_shows_a_failure(name: str, caplog: pytest.LogCaptureFixture) -> None:
    """Log, statistics, their repr, JSON and report, and a dump."""

    def op(item: int) -> int:
        if item == 1:
            raise EXCEPTIONS[name]()
        return item

    pipeline = build_of(range(3), lambda b: b.pipe(op, max_failures=-1)).build(num_threads=1)
    with caplog.at_level(logging.DEBUG):
        assert list(pipeline) == [0, 2]
    check(caplog.text)
    stats = pipeline.stats()
    for text in (repr(stats), str(stats), stats.to_json(), stats.to_html(), dump()):
        check(text, 1_000_000)


def test_an_item_with_such_a_repr(caplog: pytest.LogCaptureFixture) -> None:
    """It is in the log line, in the note and in the statistics."""

    class Item:
        def __repr__(self) -> str:
            return HOSTILE + LONG

    def op(item: Any) -> Any:
        raise ValueError("no")

    pipeline = build_of([Item()], lambda b: b.pipe(op, max_failures=-1)).build(num_threads=1)
    with caplog.at_level(logging.DEBUG):
        assert list(pipeline) == []
    check(caplog.text)
    check(repr(pipeline.stats()))


@pytest.mark.parametrize("name", EXCEPTIONS)
def test_the_log_shows_tracebacks(name: str, caplog: pytest.LogCaptureFixture) -> None:
    """The frames are there, whatever the texts are; ordinary tracebacks are those of Python."""

    def raise_here() -> None:
        raise EXCEPTIONS[name]()

    try:
        raise_here()
    except Exception as exc:
        log(logging.getLogger("spdl.test"), logging.ERROR, "it failed", exc_info=exc)
    check(caplog.text)
    if name != "deep":
        assert "raise_here" in caplog.text
    (record,) = caplog.records
    assert record.exc_info is not None
    assert record.funcName == "test_the_log_shows_tracebacks"


def test_keys_to_exclude(tmp_path: Any, capfd: pytest.CaptureFixture[str]) -> None:
    """On the terminal they are escaped, with a word about it; in a file they are exact."""
    keys = ["a.jpg", "\x1b[2Jb.jpg", "c\u202e.jpg", "d\ne", "f" * 5000]

    def op(key: str) -> str:
        raise ValueError(key)

    file = tmp_path / "bad.jsonl"
    pipeline = build_of(keys, lambda b: b.pipe(op, max_failures=-1)).build(num_threads=1, quarantine=file)
    assert list(pipeline) == []
    assert main(["quarantine", "exclude", str(file)]) == 0
    shown_ = capfd.readouterr()
    check(shown_.out, 5000)
    assert shown_.out.splitlines()[:3] == ["a.jpg", r"\x1b[2Jb.jpg", r"c\u202e.jpg"]
    assert "3 keys are escaped or cut here" in shown_.err
    assert "1 keys with a line break are omitted" in shown_.err
    assert main(["quarantine", "exclude", str(file), "--out", str(tmp_path / "keys")]) == 0
    written = (tmp_path / "keys").read_text(encoding="utf-8", errors="surrogateescape").split("\n")
    assert written == [*keys[:3], keys[4], ""]
    assert main(["quarantine", "show", str(file)]) == 0
    check(capfd.readouterr().out, 5000)
