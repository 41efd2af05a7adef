"""The interpreter exits while daemon threads are in native code: with the script's code, and without a word."""

import os

import pytest

from tests.io.leaving import FAMILIES
from tests.support.child import run_child
from tests.support.media import clip, pictures

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")]


def _leave(families: list[str], num_runs: int) -> None:
    video = str(clip("exit.mp4", *pictures(duration=0.4), "-c:v", "libx264", "-pix_fmt", "yuv420p"))
    run_child(f"""
        import sys
        sys.argv.append({video!r})
        from tests.io.leaving import leave
        leave({families!r}, {num_runs})
    """).check()


@pytest.mark.parametrize(("family", "num_runs"), [("batches", 20), ("pipeline", 5)])
def test_exit_code_is_the_scripts(family: str, num_runs: int) -> None:
    """In each process four daemon threads load pictures for longer than the interpreter lives."""
    _leave([family], num_runs)


def test_every_kind_of_call_may_outlive_the_interpreter() -> None:
    """Whatever native function the threads are in."""
    _leave([family for family in FAMILIES if family != "batches"], 2)
