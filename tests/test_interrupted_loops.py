"""Ctrl-C leaves no lock taken, and passes by no ``try``, wherever in a loop it comes.

Python handles signals where a loop jumps back. If the body of the loop ends with ``if``, CPython 3.12 to 3.14 compile
that jump to code that no ``try`` or ``with`` around the loop covers. So functions that the main thread runs have such
loops only where nothing is around them. On Python 3.11 all code passes.
"""

import dis
from collections.abc import Callable
from typing import Any

import pytest

from spdl._cli import _load
from spdl._processes._child import Child
from spdl.pipeline._engine._engine import Engine
from spdl.pipeline._engine._lanes._pool import PoolLane


def uncovered_jumps(function: Callable[..., Any]) -> list[int]:
    """The lines of jumps back that lie outside of a ``try`` or ``with`` which the rest of their loop is in."""
    code = dis.Bytecode(function)
    ranges = [(entry.start, entry.end) for entry in code.exception_entries]  # type: ignore[attr-defined]

    def is_covered(offset: int) -> bool:
        return any(start <= offset < end for start, end in ranges)

    return [
        (each.positions and each.positions.lineno) or 0
        for each in code
        if each.opname == "JUMP_BACKWARD" and not is_covered(each.offset) and is_covered(each.argval)
    ]


@pytest.mark.parametrize(
    "function",
    [
        Engine.start,
        Engine.request_stop,
        Engine.read,
        Engine._wait_for_next,
        Engine.join,
        PoolLane.start,
        PoolLane.start_worker,
        Child.stop,
        _load._run,
    ],
    ids=lambda function: str(function.__qualname__),
)
def test_no_loop_of_the_main_thread_can_be_left_past_its_cleanup(function: Any) -> None:
    """Each of these holds a lock, or catches Ctrl-C."""
    assert not uncovered_jumps(function)
