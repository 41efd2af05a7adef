"""The last reference to a pipeline goes on any thread, and in the middle of anything: the pipeline ends with it."""

import sysconfig

import pytest

from tests.support.child import run_child

from .dropping import START

pytestmark = pytest.mark.slow

#: Where Python counts the references of a thread that has made an object apart, nothing tells the others that these
#: were the last ones before that thread runs code again (_engine/README.md, "The end").
_MAKER_WAITS = pytest.mark.skipif(
    bool(sysconfig.get_config_var("Py_GIL_DISABLED")), reason="the thread that has built the pipeline waits meanwhile"
)


def test_collected_on_another_thread() -> None:
    """The last reference may go on any thread."""
    run_child(f"""{START}
box = [build()]
box[0].get_item()
dropper = threading.Thread(target=box.clear)
dropper.start()
dropper.join()
join_others()
print(len(others()))
""").check("closed 0")


def test_collected_by_a_worker_of_another_pipeline() -> None:
    """A worker thread that drops the last reference is not made to wait for what it dropped."""
    run_child(f"""{START}
box = [build()]
box[0].get_item()

def drop(item):
    box.clear()
    return item

outer = PipelineBuilder().add_source(range(3)).pipe(drop).add_sink().build()
print(list(outer))
outer.stop()
join_others()
print(len(others()))
""").check_no_complaint()


@_MAKER_WAITS
def test_collected_by_a_worker_of_its_own() -> None:
    """An op drops the last reference to the pipeline that runs it."""
    run_child(f"""{START}
box = []
gate = threading.Event()

def drop(item):
    gate.wait()
    box.clear()
    return item

box.append(PipelineBuilder().add_source(closing(endless())).pipe(drop).add_sink().build())
box[0].start()
gate.set()
join_others()
print(len(others()))
""").check("closed 0")


@_MAKER_WAITS
def test_collected_by_its_own_source() -> None:
    """The source's iterator drops the last reference to the pipeline that reads it."""
    run_child(f"""{START}
box = []
gate = threading.Event()

def source():
    gate.wait()
    box.clear()
    yield from endless()

box.append(build(closing(source())))
box[0].start()
gate.set()
join_others()
print(len(others()))
""").check("closed 0")


@_MAKER_WAITS
def test_collected_on_its_own_event_loop() -> None:
    """An async op drops the last reference to the pipeline that runs it."""
    run_child(f"""{START}
box = []
gate = threading.Event()

async def drop(item):
    gate.wait()
    box.clear()
    return item

box.append(PipelineBuilder().add_source(closing(endless())).pipe(drop).add_sink().build())
box[0].start()
gate.set()
join_others()
print(len(others()))
""").check("closed 0")


def test_collected_by_the_cycle_collector_at_any_allocation() -> None:
    """With a collection at nearly every allocation, on whatever thread, many dropped cycles all end."""
    run_child(f"""{START}
gc.set_threshold(1)

class Loader:
    def __init__(self):
        self.pipeline = PipelineBuilder().add_source(range(100)).pipe(str, concurrency=2).pipe(len).add_sink().build()
        self.me = self

alive = weakref.WeakSet()
for _ in range(20):
    loader = Loader()
    alive.add(loader)
    loader.pipeline.get_item()
    del loader
gc.set_threshold(700)
while alive:  # a collection does nothing while another thread is in one
    gc.collect()
join_others()
print(len(others()))
""").check("0")


def test_a_source_that_is_being_collected_cannot_be_woken() -> None:
    """A collector closes what the source's thread runs, while a stop on another thread wakes that thread."""
    run_child(f"""{START}
from spdl.pipeline._engine._lanes._source import SourceLane

class Source:
    def __iter__(self):
        return self

    def __next__(self):
        return 1

    def close(self):
        stopper.start()
        lane.thread.join()
        print("closed")

pipeline = build(Source())
pipeline.get_item()
stopper = threading.Thread(target=pipeline.stop)
(lane,) = (thing for thing in gc.get_objects() if isinstance(thing, SourceLane))
while True:
    try:
        lane._passes.close()
        break
    except ValueError:  # its thread has not filled the pipeline yet
        pass
stopper.join()
print(len(others()))
""").check("closed 0")


def test_collected_by_a_thread_that_leaves_the_stop_to_another_one() -> None:
    """The collector closes the source before the stop wakes the source's thread, which would be executing it."""
    run_child(f"""{START}
from spdl.pipeline._engine._lanes._source import SourceLane
gc.disable()
closing, collected = threading.Event(), threading.Event()

class Source:
    def __iter__(self):
        return self

    def __next__(self):
        return 1

    def close(self):
        closing.set()
        if threading.get_ident() != collector:
            collected.wait()
        print("closed")

class Between:
    \"""Is collected after the handle, and before what the source's thread runs.\"""
    def __del__(self):
        if any(thread.name == "spdl-reaper" for thread in threading.enumerate()):
            closing.wait()

class Box: pass

def collect(item):
    global collector
    collector = threading.get_ident()
    box = Box()
    box.me, box.pipeline = box, PipelineBuilder().add_source(Source()).add_sink(1).build()
    box.between = Between()
    box.pipeline.get_item()
    (lane,) = (thing for thing in gc.get_objects() if isinstance(thing, SourceLane) and "-1-" in thing.thread.name)
    source = lane.thread
    while lane.node.waiting is None or lane._passes.gi_running:
        never.wait(0.001)
    del lane, box
    gc.collect()
    collected.set()
    source.join()

list(PipelineBuilder().add_source(range(1)).pipe(collect).add_sink().build())
join_others()
print(len(others()))
""").check("closed 0")


def test_collected_by_a_thread_that_is_starting() -> None:
    """The last reference goes in a worker that is not running yet, while the worker that starts it waits for it."""
    run_child(f"""{START}
real, armed, gone = threading.get_native_id, threading.Event(), threading.Event()

def get_native_id():  # which the standard library calls in a thread that is starting
    if armed.is_set():
        box.clear()
        gone.set()
    return real()

def source():
    armed.wait()
    yield from range(2)

threading.get_native_id = get_native_id
box = [build(source())]
box[0].start()
armed.set()
gone.wait()
armed.clear()
join_others()
print(len(others()))
""").check("0")


def test_collected_inside_a_coroutine() -> None:
    """A pipeline that is dropped in the middle of an ``async for`` of a cancelled task ends."""
    run_child(f"""{START}
async def read():
    async for item in build(closing(blocked_source(1))):
        pass

async def main():
    task = asyncio.create_task(read())
    await asyncio.to_thread(reach)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        print("cancelled")
    never.set()

asyncio.run(main())
join_others()
""").check_no_complaint()
