"""User code that forks and returns, in the copy too: the copy ends there, without exit hooks, and holds no pipe."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.child import environment
from tests.support.timeouts import TIMEOUT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="forks"),
]

_SCRIPT = """
import atexit, os, sys, warnings
from spdl.pipeline import PipelineBuilder, iterate_in_subprocess
from spdl.pipeline.defs import MAIN_PROCESS, ProcessPoolExecutorConfig

warnings.simplefilter("ignore")

def fork(item):
    if item % 50 == 20:
        os.fork()
    return item

class Source:
    def __iter__(self):
        return map(fork, range(100))

if __name__ == "__main__":
    atexit.register(print, "exit hook")
    place, builder = sys.argv[1], PipelineBuilder()
    if place == "iterable":
        builder = builder.add_source(iterate_in_subprocess(Source))
    elif place == "source":
        builder = builder.add_source(Source())
    else:
        builder = builder.add_source(range(100))
    if place == "op":
        builder = builder.pipe(fork, output_order="input")
    elif place == "isolated":
        builder = builder.pipe(fork, isolate=True)
    elif place == "region":
        builder = builder.to(ProcessPoolExecutorConfig(1)).pipe(fork).to(MAIN_PROCESS)
    pipeline = builder.add_sink(2).build(num_threads=2)
    with pipeline.auto_stop():
        print(list(pipeline) == list(range(100)), flush=True)
"""


@pytest.mark.parametrize("place", ["op", "source", "isolated", "region", "iterable"])
def test_a_copy_that_returns_ends_and_holds_no_pipe(place: str, tmp_path: Path) -> None:
    """The reader of the program's output gets its end, and each line once."""
    script = tmp_path / "main.py"
    script.write_text(_SCRIPT)
    ended = subprocess.run(  # waits for the end of both pipes
        [sys.executable, script, place], capture_output=True, text=True, timeout=TIMEOUT, check=False, env=environment()
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "True\nexit hook\n", "")
