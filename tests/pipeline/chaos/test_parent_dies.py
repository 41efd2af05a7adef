"""The process that owns the others is killed: they end within seconds, whatever they do, and memory goes with them."""

import json
import os
import signal
import subprocess
import sys

import pytest

from tests.support.child import environment

from .processes import are_gone

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")]

_START = """
import itertools, json, os, signal, sys
from tests.pipeline.chaos import ops
from spdl.pipeline import PipelineBuilder, iterate_in_subprocess, run_pipeline_in_subprocess
from spdl.pipeline.defs import MAIN_PROCESS, ProcessPoolExecutorConfig

def tell(pids):
    print(json.dumps(sorted(pids)), flush=True)
    signal.pause()

if __name__ == "__main__":
"""

_SCRIPTS = {
    "waiting for room": """
    items = iter(iterate_in_subprocess(ops.endless, buffer_size=2))
    next(items)
    tell([items._worker._child.pid])
""",
    "blocked in next": """
    items = iter(iterate_in_subprocess(ops.stuck))
    tell([next(items)])
""",
    "holding the GIL": """
    items = iter(iterate_in_subprocess(ops.holding_the_gil))
    tell([next(items)])
""",
    "spawned": """
    items = iter(iterate_in_subprocess(ops.stuck, mp_context="spawn"))
    tell([next(items)])
""",
    "pipeline": """
    builder = PipelineBuilder().add_source(itertools.count()).pipe(ops.with_array).add_sink()
    items = iter(run_pipeline_in_subprocess(builder, num_threads=1))
    tell([next(items)[0]])
""",
    "region": """
    builder = PipelineBuilder().add_source(itertools.count()).to(ProcessPoolExecutorConfig(max_workers=2))
    pipeline = builder.pipe(ops.with_array).to(MAIN_PROCESS).add_sink().build(num_threads=1)
    pids = set()
    for pid, _, _ in pipeline:
        pids.add(pid)
        if len(pids) == 2:
            tell(pids)
""",
    "isolated": """
    builder = PipelineBuilder().add_source(itertools.count()).pipe(ops.with_array, isolate=True, concurrency=2)
    pipeline = builder.add_sink().build(num_threads=1)
    pids = set()
    for pid, _, _ in pipeline:
        pids.add(pid)
        if len(pids) == 2:
            tell(pids)
""",
    "isolated inside a region inside a pipeline in a subprocess": """
    builder = PipelineBuilder().add_source(itertools.count()).pipe(ops.pid_of)
    builder = builder.to(ProcessPoolExecutorConfig(max_workers=1)).pipe(ops.pid_of).pipe(ops.pid_of, isolate=True)
    for item in run_pipeline_in_subprocess(builder.to(MAIN_PROCESS).add_sink(), num_threads=1):
        pids = []
        while isinstance(item, tuple):
            pids.append(item[0])
            item = item[1]
        assert len(set(pids)) == 3, pids
        tell(pids)
""",
}


@pytest.mark.parametrize("script", _SCRIPTS.values(), ids=list(_SCRIPTS))
def test_children_end_with_their_owner(script: str) -> None:
    """SIGKILL: nobody could tell them."""
    with subprocess.Popen(
        [sys.executable, "-c", _START + script], stdout=subprocess.PIPE, env=environment(), start_new_session=True
    ) as parent:
        try:
            assert parent.stdout is not None
            line = parent.stdout.readline()
            pids = json.loads(line)
            assert parent.pid not in pids
            assert are_gone(pids, 0) == pids
            parent.kill()
            assert are_gone(pids) == []
        finally:
            parent.kill()
            os.killpg(parent.pid, signal.SIGKILL)
