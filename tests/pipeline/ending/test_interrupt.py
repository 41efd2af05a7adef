"""Ctrl-C, and other exceptions of the consumer: the process ends with the code and the traceback that Python gives."""

import pytest

from tests.support.child import Ended, run_child

pytestmark = pytest.mark.slow

_START = """
from tests.support.in_child import *
from spdl.pipeline import PipelineBuilder
import asyncio, os, signal, sys, threading
"""

_SOURCES = {
    # blocked in next(): nothing can end it, so it is left behind
    "blocked": "blocked_source(2)",
    # blocked in an await: it is cancelled
    "async": "async_blocked_source(2)",
}

_READS = {
    "get_item": "while True: pipeline.get_item()",
    "get_item-timeout": "while True: pipeline.get_item(timeout=3600)",
    "for": "for item in pipeline: pass",
    "iterator": "for item in pipeline.get_iterator(timeout=3600): pass",
}


@pytest.mark.parametrize("source", _SOURCES)
@pytest.mark.parametrize("read", _READS)
def test_ctrl_c_while_a_read_waits_ends_the_process(read: str, source: str) -> None:
    """An uncaught KeyboardInterrupt ends a script that keeps its pipeline in a global and never stops it."""
    run_child(f"""{_START}
pipeline = PipelineBuilder().add_source({_SOURCES[source]}).pipe(str, concurrency=2).add_sink().build()
pipeline.start()
interrupt_when_blocked()
{_READS[read]}
""").check_interrupted()


@pytest.mark.parametrize("source", _SOURCES)
@pytest.mark.parametrize("read", ["get_item", "for"])
def test_ctrl_c_inside_auto_stop_ends_the_process(read: str, source: str) -> None:
    """Leaving auto_stop stops the pipeline, and the KeyboardInterrupt goes on."""
    run_child(f"""{_START}
pipeline = PipelineBuilder().add_source({_SOURCES[source]}).pipe(str, concurrency=2).add_sink().build()
with pipeline.auto_stop():
    interrupt_when_blocked()
    {_READS[read]}
""").check_interrupted()


@pytest.mark.parametrize("source", _SOURCES)
def test_ctrl_c_ends_async_for(source: str) -> None:
    """asyncio.run cancels the reading coroutine and raises KeyboardInterrupt; the pipeline ends with the process."""
    run_child(f"""{_START}
pipeline = PipelineBuilder().add_source({_SOURCES[source]}).pipe(str, concurrency=2).add_sink().build()

async def read():
    num_items = 0
    async for item in pipeline:
        num_items += 1
        if num_items == 2:
            asyncio.get_running_loop().call_soon(signal.raise_signal, signal.SIGINT)

asyncio.run(read())
""").check_interrupted()


def test_ctrl_c_in_a_consumer_that_computes_ends_the_process() -> None:
    """The interrupt arrives in the body of the loop while the pipeline runs into its full sink."""
    run_child(f"""{_START}
def endless():
    while True: yield 0

pipeline = PipelineBuilder().add_source(endless()).pipe(str, concurrency=2).add_sink().build()
for item in pipeline:
    signal.raise_signal(signal.SIGINT)
""").check_interrupted()


def test_a_caught_ctrl_c_loses_no_item() -> None:
    """Whoever catches the KeyboardInterrupt of a waiting read goes on reading where it was."""
    run_child(f"""{_START}
gate = threading.Event()
def source():
    yield 0
    gate.wait()
    yield from range(1, 5)

pipeline = PipelineBuilder().add_source(source()).pipe(str).add_sink().build()
with pipeline.auto_stop():
    print(pipeline.get_item())
    interrupt_when_blocked()
    try:
        pipeline.get_item()
    except KeyboardInterrupt:
        print("caught")
    gate.set()
    print(*pipeline)
""").check("0 caught 1 2 3 4")


#: Ops may block for an hour, and what stop waits for is said soon. When it is said, Ctrl-C is pressed again.
_PATIENT = """
import logging
from spdl.pipeline._engine import _ending

hurry(3600)
_ending._SILENT_SECONDS = 0.02

class PressAgain(logging.Handler):
    def emit(self, record):
        print(record.getMessage(), flush=True)
        interrupt_when_blocked()

logging.getLogger("spdl.pipeline").addHandler(PressAgain())
pipeline = PipelineBuilder().add_source(range(9)).pipe(block, name="stuck").add_sink().build()
"""


def _check_left_at_once(ended: Ended) -> None:
    """The first Ctrl-C has said what is waited for, and the second has ended it."""
    assert ended.returncode == -2, ended
    said, *more = ended.stdout.splitlines()
    assert "is stopping and waits up to 3.6e+03 s for calls that have not returned:" in said, ended
    assert ":stuck: item 0" in more[0], ended
    assert "Ctrl-C" in more[1], ended
    assert len(more) == 2, ended
    assert "KeyboardInterrupt" in ended.stderr, ended
    ended.check_no_complaint()


def test_ctrl_c_says_what_auto_stop_waits_for_and_the_second_leaves_at_once() -> None:
    """Neither the end of the ``with`` block nor the exit waits for the op that is stuck."""
    ended = run_child(f"""{_START}{_PATIENT}
with pipeline.auto_stop():
    reach()
    interrupt_when_blocked()
    for item in pipeline: pass
""")
    _check_left_at_once(ended)


def test_ctrl_c_says_at_once_what_is_waited_for_where_the_log_shows_no_warnings() -> None:
    """Then on stderr, with the age of the call; and a Ctrl-C is told sooner than a stop that takes its time."""
    ended = run_child(f"""{_START}
import logging, sys, threading
from spdl.pipeline._engine import _ending

hurry(3600)
_ending._SILENT_SECONDS = 3600
logging.getLogger("spdl.pipeline").setLevel(logging.ERROR)

class PressAgain:
    def write(self, text):
        print(text, end="", flush=True)
        interrupt_when_blocked()
    def flush(self): pass

sys.stderr = PressAgain()
pipeline = PipelineBuilder().add_source(range(9)).pipe(block, name="stuck").add_sink().build()
with pipeline.auto_stop():
    reach()
    interrupt_when_blocked()
    for item in pipeline: pass
""")
    assert ended.returncode == -2, ended
    assert ":stuck: item 0, running for " in ended.stdout, ended
    assert "Press Ctrl-C again to abandon them" in ended.stdout, ended


def test_ctrl_c_says_what_the_exit_waits_for_and_the_second_leaves_at_once() -> None:
    """The same for a script that never stops its pipeline."""
    ended = run_child(f"""{_START}{_PATIENT}
pipeline.start()
reach()
interrupt_when_blocked()
for item in pipeline: pass
""")
    _check_left_at_once(ended)


def test_ctrl_c_while_stop_waits_for_an_op_ends_the_process() -> None:
    """A second Ctrl-C need not wait until the stuck op's time is over: stop is left at once, and so is the exit."""
    ended = run_child(f"""{_START}{_PATIENT}
pipeline.start()
reach()
pipeline.stop(timeout=3600)
""")
    _check_left_at_once(ended)


def test_a_collection_that_waits_is_left_by_ctrl_c() -> None:
    """What is dropped while an op is stuck says so, and the program goes on when it is told to."""
    ended = run_child(f"""{_START}{_PATIENT}
pipeline.start()
reach()
del pipeline
print("went on")
""")
    assert ended.returncode == 0, ended
    assert ":stuck: item 0" in ended.stdout, ended
    assert ended.stdout.endswith("went on\n"), ended
    ended.check_no_complaint()


def test_a_stop_that_needs_no_patience_says_nothing() -> None:
    """Calls that return in time are nobody's business."""
    run_child(f"""{_START}
pipeline = PipelineBuilder().add_source(range(99)).pipe(str, concurrency=2).add_sink().build()
with pipeline.auto_stop():
    pipeline.get_item()
""").check()


@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_ctrl_c_at_a_terminal_reaches_the_processes_of_a_pool_too(method: str) -> None:
    """The whole group gets the signal; the script ends whichever of its processes sees it first."""
    ended = run_child(f"""{_START}
import multiprocessing
from concurrent.futures import ProcessPoolExecutor

def endless():
    while True: yield 0

if __name__ == "__main__":
    # As an exception, Ctrl-C can lose the lock of the pool's queue in a worker, and then the pool waits for ever.
    mortal = dict(initializer=signal.signal, initargs=(signal.SIGINT, signal.SIG_DFL))
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context({method!r}), **mortal) as pool:
        pipeline = PipelineBuilder().add_source(endless()).pipe(str, executor=pool, concurrency=4).add_sink().build()
        with pipeline.auto_stop():
            pipeline.get_item()
            os.killpg(0, signal.SIGINT)
            for item in pipeline: pass
""")
    assert ended.returncode in (-2, 1), ended  # 1: a broken pool was noticed before the signal was
    assert "Fatal Python error" not in ended.stderr, ended


def test_an_exception_in_the_consumer_ends_the_process() -> None:
    """The consumer's own exception is what is shown, with the usual exit code, whatever the pipeline is doing."""
    run_child(f"""{_START}
def endless():
    while True: yield 0

pipeline = PipelineBuilder().add_source(endless()).pipe(str, concurrency=2).aggregate(3).add_sink().build()
for item in pipeline:
    raise LookupError("of the consumer")
""").check_raised("LookupError: of the consumer")


def test_an_exception_in_the_body_of_auto_stop_is_not_replaced() -> None:
    """A stage fails while the body raises: the body's exception arrives."""
    ended = run_child(f"""{_START}
failed = threading.Event()
def source():
    yield 0
    failed.set()
    raise ValueError("of the source")

pipeline = PipelineBuilder().add_source(source()).pipe(str).add_sink().build()
with pipeline.auto_stop():
    failed.wait()
    raise LookupError("of the consumer")
""")
    assert ended.returncode == 1, ended
    assert ended.stderr.splitlines()[-1] == "LookupError: of the consumer", ended
    ended.check_no_complaint()


@pytest.mark.parametrize("what", ["SystemExit(7)", "KeyboardInterrupt()"])
@pytest.mark.parametrize("op", ["def", "async def"])
def test_what_is_no_ordinary_exception_fails_the_stage_of_the_op(op: str, what: str) -> None:
    """sys.exit in an op neither ends the process nor is lost: the consumer gets a PipelineFailure that names it."""
    run_child(f"""{_START}
from spdl.pipeline import PipelineFailure

{op} leave(item):
    if item == 2:
        raise {what}
    return item

pipeline = PipelineBuilder().add_source(range(100)).pipe(leave).add_sink().build()
with pipeline.auto_stop():
    try:
        for item in pipeline:
            print(item)
    except PipelineFailure as failure:
        [error] = failure.exceptions
        print(type(error.__cause__).__name__, "leave" in str(error))
""").check(f"0 1 {what.split('(')[0]} True")


@pytest.mark.parametrize("what", ["SystemExit(7)", "KeyboardInterrupt()"])
def test_what_is_no_ordinary_exception_fails_the_source(what: str) -> None:
    """The same from a source: everything before it is delivered."""
    run_child(f"""{_START}
from spdl.pipeline import PipelineFailure

def source():
    yield 0
    raise {what}

pipeline = PipelineBuilder().add_source(source()).pipe(str).add_sink().build()
try:
    for item in pipeline:
        print(item)
except PipelineFailure as failure:
    [error] = failure.exceptions
    print(type(error.__cause__).__name__)
""").check(f"0 {what.split('(')[0]}")
