"""The handle is dropped and never stopped: the pipeline ends with it, wherever and whenever that happens."""

import sysconfig

import pytest

from tests.support.child import run_child

pytestmark = pytest.mark.slow

_BOUND_KINDS = ("sync", "async_", "both", "generator", "executor", "timeout", "aggregate", "router")

#: Where Python counts the references of a thread that has made an object apart, nothing tells the others that these
#: were the last ones before that thread runs code again (docs/architecture.md, "The end").
_MAKER_WAITS = pytest.mark.skipif(
    bool(sysconfig.get_config_var("Py_GIL_DISABLED")), reason="the thread that has built the pipeline waits meanwhile"
)

_START = """
from tests.support.in_child import *
from spdl.pipeline import PipelineBuilder
import asyncio, gc, sys, threading, weakref

def endless():
    number = 0
    while True:
        yield number
        number += 1

def closing(iterator):
    try:
        yield from iterator
    finally:
        print("closed")

def build(source=None):
    source = closing(endless()) if source is None else source
    return PipelineBuilder().add_source(source).pipe(str).pipe(str).add_sink().build(num_threads=2)

def others():
    return [thread for thread in threading.enumerate() if thread is not threading.current_thread()]

def join_others():
    while threads := others():  # one of them may start another as it ends
        for thread in threads:
            thread.join()
"""


@pytest.mark.parametrize(
    "use", ["pipeline.start()", "pipeline.get_item()", "iterator = iter(pipeline); next(iterator)"]
)
def test_dropping_the_last_reference_ends_the_pipeline(use: str) -> None:
    """When del returns, threads are joined and the source is closed."""
    run_child(f"""{_START}
pipeline = build()
{use}
iterator = None
del pipeline
print(len(others()))
""").check("closed 0")


def test_dropping_a_pipeline_that_was_never_started_does_nothing() -> None:
    """Its source is not even iterated."""
    run_child(f"{_START}\npipeline = build()\ndel pipeline\nprint(len(others()))").check("0")


def test_an_iterator_keeps_its_pipeline() -> None:
    """A pipeline of which only the iterator is held goes on, and ends with the iterator."""
    run_child(f"""{_START}
iterator = iter(build())
print(next(iterator))
gc.collect()
print(next(iterator))
del iterator
print(len(others()))
""").check("0 1 closed 0")


def test_a_break_in_a_loop_over_a_temporary_ends_the_pipeline() -> None:
    """``for item in build(): break`` leaves nothing behind."""
    run_child(f"""{_START}
for item in build():
    break
print(len(others()))
""").check("closed 0")


def test_a_cycle_that_holds_a_pipeline_is_collected() -> None:
    """The engine's threads do not hold the handle: the cycle collector finds it."""
    run_child(f"""{_START}
class Loader:
    def __init__(self):
        self.pipeline = build()
        self.me = self

loader = Loader()
loader.pipeline.get_item()
del loader
gc.collect()
join_others()
print("end")
""").check("closed end")


def test_an_op_bound_to_the_owner_of_the_pipeline_does_not_keep_it() -> None:
    """The op belongs to an object that holds the pipeline. Once all threads wait, nothing else holds it."""
    run_child(f"""{_START}
from concurrent.futures import ThreadPoolExecutor
from spdl.pipeline.defs import Aggregator, Pipe

class Pairs(Aggregator):
    def __init__(self, owner):
        self.owner = owner

    def accumulate(self, item):
        return [item]

    def flush(self):
        return None

class Loader:
    def __init__(self, add_stages, owns_source):
        self.executor = ThreadPoolExecutor(2)
        self.pairs = Pairs(self)
        builder = PipelineBuilder().add_source(closing(self.give() if owns_source else endless()))
        self.pipeline = add_stages(self, builder).add_sink().build(num_threads=3)

    def give(self):
        yield from endless()

    def load(self, item):
        return item

    async def load_async(self, item):
        return item

    def load_some(self, item):
        yield item

    def route(self, item):
        return item % 2

kinds = dict(
    sync=lambda self, builder: builder.pipe(self.load, concurrency=2),
    async_=lambda self, builder: builder.pipe(self.load_async, concurrency=2),
    both=lambda self, builder: builder.pipe(self.load_async).pipe(self.load),
    generator=lambda self, builder: builder.pipe(self.load_some),
    executor=lambda self, builder: builder.pipe(self.load, executor=self.executor),
    timeout=lambda self, builder: builder.pipe(self.load, timeout=60),
    aggregate=lambda self, builder: builder.aggregate(self.pairs),
    router=lambda self, builder: builder.path_variants(self.route, [[Pipe(self.load)], [Pipe(str)]]),
)
for kind, add_stages in kinds.items():
    for owns_source in (False, True):
        loader = Loader(add_stages, owns_source)
        loader.pipeline.get_item()
        found = weakref.ref(loader)
        del loader
        collect(found)
        join_others()
        print(kind)
""").check(" ".join(f"closed {kind} closed {kind}" for kind in _BOUND_KINDS))


def test_what_a_call_in_flight_keeps_is_collected_after_it() -> None:
    """A thread that runs an op holds what the op belongs to, as any caller does; no longer than the call."""
    run_child(f"""{_START}
gate = threading.Event()

class Loader:
    def __init__(self):
        self.pipeline = PipelineBuilder().add_source([1]).pipe(self.load).add_sink().build(num_threads=1)

    def load(self, item):
        reached.set()
        gate.wait()
        return item

loader = Loader()
loader.pipeline.start()
reach()
found = weakref.ref(loader)
del loader
gc.collect()
print(found() is not None)
gate.set()
collect(found)
join_others()
""").check("True")


def test_collected_on_another_thread() -> None:
    """The last reference may go on any thread."""
    run_child(f"""{_START}
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
    run_child(f"""{_START}
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
    run_child(f"""{_START}
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
    run_child(f"""{_START}
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
    run_child(f"""{_START}
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
    run_child(f"""{_START}
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
    run_child(f"""{_START}
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
    run_child(f"""{_START}
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
    run_child(f"""{_START}
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


def test_a_reader_in_another_thread_keeps_the_pipeline() -> None:
    """Dropping a reference in the middle of a read of another thread changes nothing for the reader."""
    run_child(f"""{_START}
gate = threading.Event()
def source():
    yield 0
    gate.wait()
    yield 1

box = [build(source())]
first = threading.Event()
def read():
    for item in box[0]:
        print(item)
        first.set()

reader = threading.Thread(target=read)
reader.start()
first.wait()
box.clear()
gate.set()
reader.join()
join_others()
print(len(others()))
""").check("0 1 0")


def test_collected_inside_a_coroutine() -> None:
    """A pipeline that is dropped in the middle of an ``async for`` of a cancelled task ends."""
    run_child(f"""{_START}
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


def test_the_items_in_the_sink_die_with_the_pipeline() -> None:
    """Nothing of the engine keeps what it has buffered."""
    run_child(f"""{_START}
class Item:
    pass

alive = weakref.WeakSet()
def source():
    while True:
        item = Item()
        alive.add(item)
        yield item

pipeline = PipelineBuilder().add_source(source()).pipe(lambda item: item).add_sink().build()
pipeline.get_item()
del pipeline
join_others()
gc.collect()
print(len(alive))
""").check("0")
