"""The interpreter exits while a pipeline is live: always, with the script's code, and with nothing on stderr."""

import sys

import pytest

from spdl.pipeline import PipelineBuilder
from tests.support.child import run_child

pytestmark = pytest.mark.slow

_START = """
from tests.support.in_child import *
from spdl.pipeline import PipelineBuilder, PipelineFailure
import asyncio, os, sys, threading
from concurrent.futures import ThreadPoolExecutor

def endless():
    number = 0
    while True:
        yield number
        number += 1

async def async_endless():
    for number in endless():
        yield number
        await asyncio.sleep(0)

async def pause(item):
    await asyncio.sleep(0)
    return item

def many(item):
    while True:
        yield item

async def async_many(item):
    while True:
        yield item
        await asyncio.sleep(0)

def builder(source):
    return PipelineBuilder().add_source(source)
"""

#: What builds a pipeline, and what is done with it before the script ends.
_LIVE = {
    "never-started": ("builder(range(9)).pipe(str).add_sink().build()", ""),
    "full-sink": ("builder(endless()).add_sink(1).build()", "pipeline.start()"),
    "endless": ("builder(endless()).pipe(str, concurrency=4).add_sink().build()", "pipeline.get_item()"),
    "continuous": (
        "PipelineBuilder().add_source(range(3), continuous=True).pipe(str).add_sink().build()",
        "list(pipeline)",
    ),
    "exhausted": ("builder(range(9)).pipe(str).add_sink().build()", "list(pipeline)"),
    "stopped": ("builder(endless()).pipe(str).add_sink().build()", "pipeline.get_item(); pipeline.stop()"),
    "stages": (
        "builder(endless()).pipe(str, concurrency=3, output_order='input').aggregate(4).pipe(tuple).disaggregate()"
        ".add_sink().build()",
        "pipeline.get_item()",
    ),
    "generator": ("builder(endless()).pipe(many, concurrency=2).add_sink().build()", "pipeline.get_item()"),
    "async-generator": ("builder(endless()).pipe(async_many, concurrency=2).add_sink().build()", "pipeline.get_item()"),
    "async-ops": ("builder(async_endless()).pipe(pause, concurrency=4).add_sink().build()", "pipeline.get_item()"),
    "async-blocked": (
        "builder(endless()).pipe(async_block, concurrency=4).add_sink().build()",
        "pipeline.start(); reach()",
    ),
    "source-blocked": ("builder(blocked_source(1)).pipe(str).add_sink().build()", "pipeline.get_item(); reach()"),
    "async-source-blocked": (
        "builder(async_blocked_source(1)).pipe(str).add_sink().build()",
        "pipeline.get_item(); reach()",
    ),
    "thread-executor": (
        "builder(endless()).pipe(str, executor=ThreadPoolExecutor(2), concurrency=4).add_sink().build()",
        "pipeline.get_item()",
    ),
    "iterator-kept": (
        "builder(endless()).pipe(str).add_sink().build()",
        "iterator = iter(pipeline); next(iterator)",
    ),
    "iterator-alone": (
        "iter(builder(endless()).pipe(str).add_sink().build())",
        "next(pipeline)",
    ),
}


@pytest.mark.parametrize("live", _LIVE)
def test_the_process_exits_with_a_live_pipeline_in_a_global(live: str) -> None:
    """Neither a wait without end nor a word on stderr, whatever the pipeline is doing."""
    build, use = _LIVE[live]
    run_child(f"{_START}\npipeline = {build}\n{use}\nprint('end')").check("end")


@pytest.mark.parametrize("live", ["endless", "async-ops", "thread-executor", "never-started"])
def test_sys_exit_keeps_its_code(live: str) -> None:
    """The exit code is the script's."""
    build, use = _LIVE[live]
    run_child(f"{_START}\npipeline = {build}\n{use}\nsys.exit(7)").check(returncode=7)


def test_sys_exit_inside_a_loop_inside_auto_stop_keeps_its_code() -> None:
    """SystemExit passes auto_stop like any exception."""
    run_child(f"""{_START}
pipeline = builder(endless()).pipe(str).add_sink().build()
with pipeline.auto_stop():
    for item in pipeline:
        sys.exit(7)
""").check(returncode=7)


@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_the_process_exits_with_a_live_process_pool(method: str) -> None:
    """A pipeline and the process pool of one of its stages are both held in globals and never ended by hand."""
    run_child(f"""{_START}
import multiprocessing
from concurrent.futures import ProcessPoolExecutor

if __name__ == "__main__":
    pool = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context({method!r}))
    pipeline = builder(endless()).pipe(str, executor=pool, concurrency=3).pipe(int, concurrency=2).add_sink().build()
    pipeline.get_item()
    print("end")
""").check("end")


def test_many_live_pipelines_end_together() -> None:
    """Pipelines that were never stopped, started at different times, all end at the exit."""
    run_child(f"""{_START}
pipelines = [builder(endless()).pipe(str, concurrency=2).add_sink().build(num_threads=2) for _ in range(8)]
for pipeline in pipelines[::2]:
    pipeline.get_item()
""").check()


def test_the_process_exits_while_a_daemon_thread_reads() -> None:
    """A thread of the user's that waits in a read is a daemon like any other."""
    run_child(f"""{_START}
pipeline = builder(async_blocked_source(1)).pipe(str).add_sink().build()
def read():
    for item in pipeline:
        print(item)

threading.Thread(target=read, daemon=True).start()
reach()
""").check_no_complaint()


def test_a_thread_that_is_no_daemon_reads_to_the_end_before_the_exit() -> None:
    """The interpreter waits for such a thread, and the pipeline goes on for it."""
    run_child(f"""{_START}
pipeline = builder(range(1000)).pipe(str, concurrency=4).aggregate(10).add_sink().build(num_threads=4)
def read():
    threading.main_thread().join()
    print(sum(len(batch) for batch in pipeline))

pipeline.start()
threading.Thread(target=read).start()
""").check("1000")


def test_threads_that_cannot_be_started_any_more_are_done_without() -> None:
    """From Python 3.12 on no thread starts once the main thread has ended: the workers that there are do the work."""
    run_child(f"""{_START}
def source():
    yield 0
    threading.main_thread().join()
    yield from range(1, 100)

pipeline = builder(source()).pipe(str, concurrency=4).add_sink().build(num_threads=4)
pipeline.start()
threading.Thread(target=lambda: print(len(list(pipeline)))).start()
""").check("100")


def test_generators_whose_worker_is_stuck_are_closed_at_exit() -> None:
    """Also where no thread can be started for them, from Python 3.12 on; the pipelines after that one end too."""
    ended = run_child(f"""{_START}
import logging
hurry()
logging.getLogger("spdl.pipeline").addHandler(logging.NullHandler())

def repeat(item):
    try:
        while True:
            yield item
    finally:
        print("closed")

stuck = builder(range(1)).pipe(repeat).pipe(block).add_sink().build(num_threads=1)
stuck.start()
reach()
pipeline = builder(endless()).pipe(str).add_sink().build()
pipeline.get_item()
""")
    ended.check("closed")


def test_an_exit_handler_made_earlier_can_still_read_the_sink() -> None:
    """Exit handlers run in reverse order: at the user's the pipeline is stopped, and what was in the sink is there."""
    run_child(f"""{_START}
import atexit

@atexit.register
def read():
    items = []
    try:
        while True:
            items.append(pipeline.get_item(timeout=30))
    except EOFError:
        print(items == list(range(1, 1 + len(items))), len(items) <= 3)

pipeline = builder(endless()).add_sink(3).build()
pipeline.get_item()
""").check("True True")


def test_an_exit_handler_made_later_can_stop_the_pipeline() -> None:
    """A stop at exit is a stop; what the package does at exit then has nothing left to do."""
    run_child(f"""{_START}
import atexit
pipeline = builder(endless()).pipe(str).add_sink().build()
pipeline.get_item()
atexit.register(pipeline.stop)
""").check()


def test_iterators_are_closed_at_exit() -> None:
    """A source, a generator op and an async generator op get their close at exit."""
    ended = run_child(f"""{_START}
def closing(name, iterator):
    try:
        yield from iterator
    finally:
        print(name + "\\n", end="")

def repeat(item):
    try:
        while True:
            yield item
    finally:
        print("op\\n", end="")

async def async_repeat(item):
    try:
        while True:
            yield item
    finally:
        print("async_op\\n", end="")

pipelines = [
    builder(closing("source", endless())).add_sink().build(),
    builder(range(1)).pipe(repeat).add_sink().build(),
    builder(range(1)).pipe(async_repeat).add_sink().build(),
]
for pipeline in pipelines:
    pipeline.get_item()
""")
    assert (ended.returncode, sorted(ended.stdout.split()), ended.stderr) == (0, ["async_op", "op", "source"], ""), (
        ended
    )


def test_stage_hooks_are_left_at_exit() -> None:
    """The last work of a stage hook runs at exit too."""
    run_child(f"""{_START}
from contextlib import asynccontextmanager
from spdl.pipeline import TaskHook

class Hook(TaskHook):
    @asynccontextmanager
    async def stage_hook(self):
        try:
            yield
        finally:
            await asyncio.sleep(0)
            print("left")

    @asynccontextmanager
    async def task_hook(self, input_item=None):
        yield

pipeline = builder(endless()).pipe(str).add_sink().build(task_hook_factory=lambda info: [Hook()])
pipeline.get_item()
""").check("left")


def test_a_failed_pipeline_that_nobody_reads_ends_quietly() -> None:
    """A failure that no read has raised does not become noise, or another exit code, at exit."""
    run_child(f"""{_START}
def source():
    yield 1
    raise ValueError("of the source")

pipeline = builder(source()).pipe(str).add_sink().build()
pipeline.start()
while not pipeline._engine.stage_failures:  # what is raised after the stop that the exit makes is noise, on purpose
    threading.Event().wait(0.001)
""").check()


def test_an_uncaught_failure_is_the_last_word() -> None:
    """PipelineFailure ends the script like any exception."""
    run_child(f"""{_START}
def source():
    yield 1
    raise ValueError("of the source")

pipeline = builder(source()).pipe(str).add_sink().build()
list(pipeline)
""").check_raised("PipelineFailure", "ValueError: of the source")


def test_a_handle_can_be_collected_when_the_names_of_its_module_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """As at the end of an interpreter that keeps objects until it clears the modules."""
    unraisable: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)
    pipeline = PipelineBuilder().add_source(range(3)).add_sink().build()
    monkeypatch.setattr("spdl.pipeline._pipeline.abandon", None)
    del pipeline
    assert unraisable == []
