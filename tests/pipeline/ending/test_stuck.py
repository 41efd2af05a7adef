"""Ops and sources that never return: what is stuck is named, and neither ``stop`` nor the exit waits for ever."""

import pytest

from tests.support.child import Ended, run_child

pytestmark = pytest.mark.slow

_START = """
from tests.support.in_child import *
from spdl.pipeline import PipelineBuilder
import asyncio, logging, sys, threading
from concurrent.futures import ThreadPoolExecutor
"""

#: A pipeline with an op that is blocked on item 0 when this has run.
_STUCK = f"""{_START}
pipeline = PipelineBuilder().add_source(range(9)).pipe(str).pipe(block, concurrency=2).add_sink().build(num_threads=3)
pipeline.start()
reach()
"""


def _check_names_the_stuck_op(text: str) -> None:
    assert "block" in text  # the stage
    assert "'0'" in text  # the item
    assert 'in_child.py", line' in text  # the stack, down to the line that waits
    assert "never.wait()" in text


def test_stop_with_a_timeout_names_the_stuck_op() -> None:
    """TimeoutError says which op is stuck, on which item, and shows its stack; the exit does not hang after it."""
    ended = run_child(f"""{_STUCK}
hurry()
try:
    pipeline.stop(timeout=0.05)
except TimeoutError as error:
    print(error)
""")
    assert ended.returncode == 0, ended
    _check_names_the_stuck_op(ended.stdout)
    ended.check_no_complaint()


def test_stop_without_a_timeout_logs_the_stuck_op_and_returns() -> None:
    """The same text is a warning of the logger ``spdl.pipeline``, and stop returns."""
    ended = run_child(f"""{_STUCK}
hurry()
logging.basicConfig(stream=sys.stdout, format="%(levelname)s %(name)s %(message)s")
pipeline.stop()
print("returned")
""")
    assert ended.returncode == 0, ended
    before, _, _ = ended.stdout.partition("returned\n")
    assert before.startswith("WARNING spdl.pipeline "), ended
    _check_names_the_stuck_op(before)
    assert ended.stderr == "", ended


@pytest.mark.parametrize(
    "bound", ["hurry(0.2)", pytest.param("", marks=pytest.mark.soak(only=True), id="that of ten seconds")]
)
def test_stop_without_a_timeout_returns_within_a_bound(bound: str) -> None:
    """The bound that is built in ends the wait, and the exit too."""
    ended = run_child(f"{_STUCK}\n{bound}\npipeline.stop()\nprint('returned')")
    assert ended.stdout == "returned\n", ended
    assert ended.returncode == 0, ended
    ended.check_no_complaint()


def test_a_stopped_pipeline_with_a_stuck_op_is_ended_for_its_reader() -> None:
    """After such a stop reads give what is in the sink and then the end, and a second stop is a no-op."""
    run_child(f"""{_START}
hurry()

def block_on_3(item):
    return block(item) if item == 3 else item

pipeline = PipelineBuilder().add_source(range(9)).pipe(block_on_3).add_sink(8).build()
pipeline.start()
reach()
try:
    pipeline.stop(timeout=0.05)
except TimeoutError:
    print("timeout")
pipeline.stop(timeout=0.05)
print(*pipeline)
try:
    pipeline.get_item()
except EOFError:
    print("end")
logging.disable()
""").check("timeout 0 1 2 end")


def test_the_result_of_an_op_that_returns_after_the_stop_is_discarded() -> None:
    """The op comes back when nobody waits any more: its result does not show up, its thread ends."""
    run_child(f"""{_START}
pipeline = PipelineBuilder().add_source(range(9)).pipe(block).add_sink(8).build()
pipeline.start()
reach()
try:
    pipeline.stop(timeout=0.05)
except TimeoutError:
    print("timeout")
left = [thread for thread in threading.enumerate() if thread is not threading.main_thread()]
never.set()
for thread in left:
    thread.join()
print(list(pipeline), len(left))
""").check("timeout [] 1")


def _check_warned(ended: Ended) -> None:
    assert ended.returncode == 0, ended
    _check_names_the_stuck_op(ended.stderr)
    ended.check_no_complaint()


def test_exit_does_not_wait_for_ever_for_a_stuck_op() -> None:
    """The op's thread is a daemon: the interpreter ends, and a warning names the op."""
    _check_warned(run_child(f"{_STUCK}\nhurry()"))


def test_collection_does_not_wait_for_ever_for_a_stuck_op() -> None:
    """Dropping the handle returns within the same bound, and the warning names the op."""
    ended = run_child(f"""{_STUCK}
hurry()
del pipeline
print("returned")
""")
    assert ended.stdout == "returned\n", ended
    _check_warned(ended)


def test_leaving_auto_stop_with_a_timeout_raises_it() -> None:
    """auto_stop hands its timeout to stop."""
    run_child(f"""{_START}
hurry()
pipeline = PipelineBuilder().add_source(range(9)).pipe(block).add_sink().build()
logging.disable()
with pipeline.auto_stop(timeout=0.2):
    reach()
""").check_raised("TimeoutError", "block")


def test_a_stuck_op_does_not_hold_back_the_others() -> None:
    """Items that pass by the stuck call arrive."""
    run_child(f"""{_START}
hurry()
def block_on_0(item):
    return block(item) if item == 0 else item

pipeline = PipelineBuilder().add_source(range(100)).pipe(block_on_0, concurrency=2).add_sink().build(num_threads=2)
print(sum(pipeline.get_item() for _ in range(99)))
logging.disable()
""").check("4950")


def test_a_generator_stuck_in_a_step_is_named() -> None:
    """A generator op that never comes back from next() is reported like a call."""
    ended = run_child(f"""{_START}
hurry()
def many(item):
    yield item
    block(item)

pipeline = PipelineBuilder().add_source(["0"]).pipe(many).add_sink().build()
print(pipeline.get_item())
reach()
try:
    pipeline.stop(timeout=0.05)
except TimeoutError as error:
    print(error)
logging.disable()
""")
    assert ended.returncode == 0, ended
    assert "many" in ended.stdout, ended
    _check_names_the_stuck_op(ended.stdout)
    assert ended.stderr == "", ended


def test_a_call_stuck_in_an_executor_is_named() -> None:
    """A call in the user's own pool is named like any other; the pool stays the user's to end."""
    ended = run_child(f"""{_START}
hurry()
pool = ThreadPoolExecutor(1)
pipeline = PipelineBuilder().add_source(["0"]).pipe(block, executor=pool).add_sink().build()
pipeline.start()
reach()
try:
    pipeline.stop(timeout=0.05)
except TimeoutError as error:
    print(error)
never.set()
pool.shutdown()
""")
    assert ended.returncode == 0, ended
    _check_names_the_stuck_op(ended.stdout)
    assert ended.stderr == "", ended


def test_an_async_op_that_ignores_cancellation_is_named() -> None:
    """A coroutine that swallows its cancellation and waits on does not hang stop, nor the exit."""
    ended = run_child(f"""{_START}
hurry()
async def stubborn(item):
    reached.set()
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass

pipeline = PipelineBuilder().add_source(["0"]).pipe(stubborn).add_sink().build()
pipeline.start()
reach()
try:
    pipeline.stop(timeout=0.05)
except TimeoutError as error:
    print(error)
logging.disable()
""")
    assert ended.returncode == 0, ended
    assert "stubborn" in ended.stdout, ended
    assert "'0'" in ended.stdout, ended
    ended.check_no_complaint()


def test_an_async_op_that_blocks_the_loop_is_named() -> None:
    """An async op that never gives the loop back does not hang stop, nor the exit; its stack is shown."""
    ended = run_child(f"""{_START}
hurry()
async def blocking(item):
    block(item)

pipeline = PipelineBuilder().add_source(["0"]).pipe(blocking).add_sink().build()
pipeline.start()
reach()
try:
    pipeline.stop(timeout=0.05)
except TimeoutError as error:
    print(error)
logging.disable()
""")
    assert ended.returncode == 0, ended
    _check_names_the_stuck_op(ended.stdout)
    ended.check_no_complaint()


@pytest.mark.parametrize("source", ["blocked_source(2)", "async_blocked_source(2)"])
def test_stop_does_not_wait_for_a_blocked_source(source: str) -> None:
    """stop returns without an error; what was in the sink can be read."""
    run_child(f"""{_START}
pipeline = PipelineBuilder().add_source({source}).pipe(str).add_sink().build()
pipeline.start()
reach()
print(pipeline.get_item(), pipeline.get_item())
pipeline.stop()
print(list(pipeline))
""").check("0 1 []")


def test_a_source_left_alone_takes_nothing_more() -> None:
    """When the blocked next() returns after the stop, the item is dropped, the iterator closed, the thread over."""
    run_child(f"""{_START}
class Source:
    num_taken = 0
    num_closed = 0

    def __iter__(self):
        return self

    def __next__(self):
        self.num_taken += 1
        if self.num_taken == 2:
            reached.set()
            never.wait()
        return self.num_taken

    def close(self):
        self.num_closed += 1

source = Source()
pipeline = PipelineBuilder().add_source(source).add_sink().build()
pipeline.start()
reach()
pipeline.stop()
[left] = [thread for thread in threading.enumerate() if thread is not threading.main_thread()]
never.set()
left.join()
print(list(pipeline), source.num_taken, source.num_closed)
""").check("[1] 2 1")


def test_a_source_blocked_in_close_is_left_alone() -> None:
    """close() of an iterator may block as well: stop and the exit go on without it."""
    ended = run_child(f"""{_START}
hurry()
def source():
    try:
        while True:
            yield 0
    finally:
        block(0)

pipeline = PipelineBuilder().add_source(source()).add_sink().build()
pipeline.get_item()
logging.disable()
pipeline.stop()
print("stopped")
""")
    ended.check("stopped")


@pytest.mark.parametrize("where", ["source", "op"])
def test_a_close_that_raises_is_logged_and_harms_nothing(where: str) -> None:
    """A generator whose finally raises costs a log line: stop and the exit are as always."""
    ended = run_child(f"""{_START}
def failing(*args):
    try:
        while True:
            yield 0
    finally:
        raise ValueError("in finally")

if {where!r} == "source":
    pipeline = PipelineBuilder().add_source(failing()).add_sink().build()
else:
    pipeline = PipelineBuilder().add_source(range(9)).pipe(failing).add_sink().build()
pipeline.get_item()
pipeline.stop()
print("stopped")
""")
    assert (ended.returncode, ended.stdout) == (0, "stopped\n"), ended
    assert "in finally" in ended.stderr, ended
    ended.check_no_complaint()


def test_a_generator_blocked_in_close_is_left_alone() -> None:
    """A generator op whose finally never returns does not hang the exit."""
    ended = run_child(f"""{_START}
hurry()
def many(item):
    try:
        while True:
            yield item
    finally:
        block(item)

pipeline = PipelineBuilder().add_source(range(9)).pipe(many).add_sink().build()
pipeline.get_item()
logging.disable()
""")
    ended.check()
