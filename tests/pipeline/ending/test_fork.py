"""A process with a running pipeline forks, or starts processes that run pipelines of their own."""

import os

import pytest

from tests.support.child import run_child

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here"),
]

# Python 3.12 warns of any fork while threads run; that is what these tests are about.
_START = """
from tests.support.in_child import *
from spdl.pipeline import PipelineBuilder, PipelineStateError
import gc, os, sys, threading, traceback, warnings
warnings.filterwarnings("ignore", ".*use of fork.*", DeprecationWarning)

def endless():
    number = 0
    while True:
        yield number
        number += 1

def build(op=str, **options):
    return PipelineBuilder().add_source(endless()).pipe(op, **options).pipe(str).add_sink().build(num_threads=2)

def fork(body):
    '''Run body in a forked child that ends as an interpreter does; return its exit code.'''
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        body()
        sys.exit(0)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)

async def pause(item):
    return item
"""

_USES = [
    "pipeline.get_item()",
    "pipeline.get_item(timeout=0)",
    "list(pipeline)",
    "next(iterator)",
    "next(iter(pipeline))",
    "pipeline.start()",
    "pipeline.stop()",
    "pipeline.stats()",
    "pipeline.auto_stop().__enter__()",
    "asyncio.run(anext(aiter(pipeline)))",
]


@pytest.mark.parametrize("op", ["str", "pause"])
def test_an_inherited_pipeline_raises_on_use(op: str) -> None:
    """Whatever is asked of it in the child is a PipelineStateError; in the parent it goes on."""
    run_child(f"""{_START}
import asyncio
pipeline = build({op})
iterator = iter(pipeline)
next(iterator)

def use():
    for use in {_USES!r}:
        try:
            eval(use)
        except PipelineStateError as error:
            assert "fork" in str(error), error
        else:
            print("no error from", use)

print(fork(use))
print(next(iterator), pipeline.get_item())
pipeline.stop()
""").check("0 1 2")


@pytest.mark.parametrize("op", ["str", "pause"])
def test_a_child_that_does_not_touch_an_inherited_pipeline_exits(op: str) -> None:
    """The child's exit neither waits for the parent's threads nor says a word, and the parent is unharmed."""
    run_child(f"""{_START}
pipeline = build({op})
pipeline.get_item()
print(fork(lambda: None))
print(pipeline.get_item())
""").check("0 1")


def test_a_child_can_collect_an_inherited_pipeline() -> None:
    """Dropping the copy ends nothing of the parent's, and closes no source."""
    run_child(f"""{_START}
pipeline = build()
pipeline.get_item()

def collect():
    global pipeline
    del pipeline
    gc.collect()

print(fork(collect))
print(pipeline.get_item())
""").check("0 1")


def test_forks_at_any_moment_do_not_deadlock() -> None:
    """Whatever locks the engine's threads hold at the fork, the child can use, collect, build and exit."""
    run_child(f"""{_START}
pipelines = [build(), build(pause), build(str, output_order="input")]
for pipeline in pipelines:
    pipeline.get_item()

def use():
    for pipeline in pipelines:
        try:
            pipeline.get_item()
        except PipelineStateError:
            pass
    pipelines.clear()
    gc.collect()
    own = build()
    assert own.get_item() == "0"

print(*(fork(use) for _ in range(15)))
print(*(pipeline.get_item() for pipeline in pipelines))
""").check("0 " * 15 + "1 1 1")


def test_a_pipeline_that_was_not_started_can_be_used_in_the_child() -> None:
    """Nothing of it was running, so the child's copy is a pipeline like any other."""
    run_child(f"""{_START}
running = build()
running.get_item()
pipeline = PipelineBuilder().add_source(range(3)).pipe(str).add_sink().build()
print(fork(lambda: print(*pipeline)))
print(*pipeline)
""").check("0 1 2 0 0 1 2")


def test_a_child_can_run_a_pipeline_of_its_own_and_exit_with_it_live() -> None:
    """The exit hook works in a forked child too."""
    run_child(f"""{_START}
pipeline = build()
pipeline.get_item()

def body():
    global own
    own = build(pause)
    print(own.get_item())

print(fork(body))
""").check("0 0")


def test_a_fork_inside_an_op_leaves_both_processes_sound() -> None:
    """A worker thread forks: its child exits by os._exit, and the pipeline goes on."""
    run_child(f"""{_START}
def forking(item):
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return item

print(*PipelineBuilder().add_source(range(5)).pipe(forking).add_sink().build())
""").check("0 1 2 3 4")


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
@pytest.mark.parametrize("daemon", [True, False])
def test_children_of_multiprocessing_exit_with_a_live_pipeline(method: str, daemon: bool) -> None:
    """They end by os._exit after their own exit functions; a live pipeline does not hold them, nor make them fail."""
    run_child(f"""{_START}
import multiprocessing

def work(results):
    global pipeline
    pipeline = build()
    results.send(pipeline.get_item())

if __name__ == "__main__":
    if {method!r} == "fork":
        running = build()  # in the parent, before the fork
        running.get_item()
    context = multiprocessing.get_context({method!r})
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=work, args=(sender,), daemon={daemon})
    child.start()
    print(receiver.recv())
    child.join()
    print(child.exitcode)
""").check("0 0")


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_children_of_multiprocessing_exit_while_a_source_blocks(method: str) -> None:
    """A blocked source does not hold a child process either."""
    run_child(f"""{_START}
import multiprocessing

def work():
    global pipeline
    pipeline = PipelineBuilder().add_source(blocked_source(1)).pipe(pause).add_sink().build()
    pipeline.get_item()
    reach()

if __name__ == "__main__":
    child = multiprocessing.get_context({method!r}).Process(target=work)
    child.start()
    child.join()
    print(child.exitcode)
""").check("0")


def test_workers_of_a_process_pool_that_run_pipelines_end_with_it() -> None:
    """An op in a process pool keeps a pipeline of its own alive in the worker; the pool's shutdown ends it all."""
    run_child(f"""{_START}
import multiprocessing
from concurrent.futures import ProcessPoolExecutor

kept = []
def nested(item):
    if not kept:
        kept.append(build())
    return item + int(kept[0].get_item())

if __name__ == "__main__":
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("forkserver")) as pool:
        print(*PipelineBuilder().add_source(range(4)).pipe(nested, executor=pool).add_sink().build())
""").check("0 2 4 6")
