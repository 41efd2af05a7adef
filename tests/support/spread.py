"""What a run gains by where it is spread over processes, as ``make test`` does: less to compile, and a shorter end."""

import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from itertools import islice
from pathlib import Path

import pytest

__all__ = ["import_share", "long_first"]


def import_share(session: pytest.Session) -> None:
    """In one of several processes: import some of the test modules before all are collected.

    pytest rewrites the assertions of each module and keeps the result as bytecode. With none there, in a new checkout,
    that takes 15 s, and processes that collect the same modules in the same order all do it. Each begins with others.
    """
    index, count = _place(session.config)
    if count < 2 or sys.dont_write_bytecode:
        return
    root = session.config.rootpath
    for number, path in enumerate(_modules(session.config)):
        if number % count == index % count:
            # What is wrong with it is said when it is collected.
            with suppress(Exception, pytest.skip.Exception):
                import_module(".".join(path.relative_to(root).with_suffix("").parts))


def long_first(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let each of several processes begin with its share of the slow tests.

    Short ones are left for the end, which they fill: a process without work takes over some of another's, but no test
    that has begun. The shares are those that ``--dist worksteal`` gives out first. The last process begins with the
    tests that need Ray, so that hardly another one has to start it.
    """
    _, count = _place(config)
    if count < 2:
        return
    of_ray = [item for item in items if _has(item, "ray")]
    slow = [item for item in items if _has(item, "slow") and not _has(item, "ray")]
    rest = iter([item for item in items if not (_has(item, "slow") or _has(item, "ray"))])
    arranged: list[pytest.Item] = []
    for number, (of_slow, of_all) in enumerate(
        zip(_shares(len(slow), count), _shares(len(items), count), strict=True), 1
    ):
        arranged += of_ray if number == count else []
        arranged += slow[of_slow]
        arranged += islice(rest, max(0, of_all.stop - len(arranged)))
    items[:] = arranged


def _has(item: pytest.Item, marker: str) -> bool:
    return item.get_closest_marker(marker) is not None


def _place(config: pytest.Config) -> tuple[int, int]:
    """The number of this process, and how many there are; one of one where nothing is spread."""
    given = getattr(config, "workerinput", None)
    return (0, 1) if given is None else (int(given["workerid"].removeprefix("gw")), given["workercount"])


def _modules(config: pytest.Config) -> Iterator[Path]:
    """The test modules that are going to be collected."""
    for word in config.args:
        path = config.rootpath / word.partition("::")[0]
        yield from sorted(path.rglob("test_*.py")) if path.is_dir() else [path]


def _shares(number: int, count: int) -> Iterator[slice]:
    """``number`` things in ``count`` parts, of which the last ones are longer by one."""
    start = 0
    for left in range(count, 0, -1):
        stop = start + (number - start) // left
        yield slice(start, stop)
        start = stop
