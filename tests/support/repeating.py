"""A plugin of pytest that runs each test several times, for ``scripts/repeat``, and logs each run to a file.

``-p tests.support.repeating --repeat=25 --repeat-log=FILE``. The file has one line of JSON for each test that begins,
and another for its outcome. A test without the second one ended the process.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest

__all__ = ["Log", "original_name"]

_ID = "repetition"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("repeat")
    group.addoption("--repeat", type=int, default=1, metavar="NUMBER", help="run each test so many times")
    group.addoption("--repeat-log", metavar="FILE", help="append a line of JSON for each event to this file")


@pytest.hookimpl(trylast=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    number = range(metafunc.config.getoption("--repeat"))
    metafunc.fixturenames.append("_repetition")
    metafunc.parametrize("_repetition", number, indirect=True, ids=[f"{_ID}{each}" for each in number])


@pytest.fixture(autouse=True)
def _repetition() -> None:
    """Has a parameter, by which each test is there several times."""


def original_name(nodeid: str) -> str:
    """Return the name that the test has when it is not repeated."""
    name, found, _ = nodeid.rpartition(_ID)
    return f"{name[:-1]}]" if found and name.endswith("-") else name[:-1] if found else nodeid


def pytest_configure(config: pytest.Config) -> None:
    if path := config.getoption("--repeat-log"):
        config.pluginmanager.register(Log(path))


class Log:
    """Writes one line for each event, at once: the next test may end the process."""

    def __init__(self, path: str) -> None:
        self._file = open(path, "a", encoding="utf-8")  # noqa: SIM115 - until the process ends
        self._outcome = ""
        self._text = ""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        name = original_name(item.nodeid)
        self._outcome, self._text = "passed", ""
        self._write(test=name, event="begun")
        try:
            return (yield)
        finally:
            self._write(test=name, event=self._outcome, text=self._text)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._outcome = "failed"
            self._text += report.longreprtext
        elif report.skipped and self._outcome == "passed":
            self._outcome = "skipped"

    def _write(self, **event: Any) -> None:
        self._file.write(json.dumps(event) + "\n")
        self._file.flush()
