"""Whatever a child does, every way out of a pipeline ends it; the leak check sees that none is left."""

import gc
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.child import run_child

from . import ops
from .running import TIMEOUT, Hook, build, wait_for


@pytest.mark.parametrize("hooks", [None, lambda info: [Hook()]], ids=["plain", "hooked"])
@pytest.mark.parametrize("how", ["stop", "collect"])
def test_stuck_call_is_killed_at_the_end(tmp_path: Path, how: str, hooks: Any) -> None:
    """It does not have to return, nor to listen to SIGTERM."""
    for name in "ab":
        os.mkfifo(tmp_path / name)
    pipeline = build(ops.note_and_wait, [tmp_path / "a", tmp_path / "b"], concurrency=2, hooks=hooks)
    pipeline.start()
    for name in "ab":
        wait_for(tmp_path / name)
    if how == "stop":
        pipeline.stop(timeout=TIMEOUT)
    else:
        del pipeline
        gc.collect()


def _endless() -> Iterator[int]:
    number = 0
    while True:
        yield number
        number += 1


@pytest.mark.parametrize("num_read", [0, 1, 7])
@pytest.mark.parametrize("op", [ops.double, ops.yield_twice])
def test_stop_in_the_middle(op: Any, num_read: int) -> None:
    """At any moment, with items everywhere."""
    pipeline = build(op, _endless(), concurrency=2)
    with pipeline.auto_stop(timeout=TIMEOUT):
        for _, _ in zip(range(num_read), pipeline, strict=False):
            pass


def test_pipeline_that_never_started_starts_no_process() -> None:
    """Children come with the first items."""
    build(ops.double, [1]).stop()


@pytest.mark.slow
@pytest.mark.parametrize("how", ["exhausted", "stopped", "live", "stuck"])
def test_interpreter_exits_without_a_word(tmp_path: Path, how: str) -> None:
    """With the script's code, and nothing on stderr."""
    ended = run_child(f"""
import os
from pathlib import Path
from tests.pipeline.isolate import ops
from tests.pipeline.isolate.running import build, wait_for
how = {how!r}
if __name__ != "__main__":
    pass
elif how == "stuck":
    path = Path({str(tmp_path / "a")!r})
    os.mkfifo(path)
    pipeline = build(ops.note_and_wait, [path])
    pipeline.start()
    wait_for(path)
else:
    pipeline = build(ops.double, range(5 if how == "exhausted" else 10**9), concurrency=2, output_order="input")
    print(*[item for item, _ in zip(pipeline, range(5))])
    if how == "stopped":
        pipeline.stop()
""")
    ended.check("" if how == "stuck" else "0 2 4 6 8")
