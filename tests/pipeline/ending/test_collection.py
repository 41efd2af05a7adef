"""The handle is dropped and never stopped: the pipeline ends with it, and what it has kept alive is freed."""

import pytest

from tests.support.child import run_child

from .dropping import START

pytestmark = pytest.mark.slow

_BOUND_KINDS = ("sync", "async_", "both", "generator", "executor", "timeout", "aggregate", "router")


@pytest.mark.parametrize(
    "use", ["pipeline.start()", "pipeline.get_item()", "iterator = iter(pipeline); next(iterator)"]
)
def test_dropping_the_last_reference_ends_the_pipeline(use: str) -> None:
    """When del returns, threads are joined and the source is closed."""
    run_child(f"""{START}
pipeline = build()
{use}
iterator = None
del pipeline
print(len(others()))
""").check("closed 0")


def test_dropping_a_pipeline_that_was_never_started_does_nothing() -> None:
    """Its source is not even iterated."""
    run_child(f"{START}\npipeline = build()\ndel pipeline\nprint(len(others()))").check("0")


def test_an_iterator_keeps_its_pipeline() -> None:
    """A pipeline of which only the iterator is held goes on, and ends with the iterator."""
    run_child(f"""{START}
iterator = iter(build())
print(next(iterator))
gc.collect()
print(next(iterator))
del iterator
print(len(others()))
""").check("0 1 closed 0")


def test_a_break_in_a_loop_over_a_temporary_ends_the_pipeline() -> None:
    """``for item in build(): break`` leaves nothing behind."""
    run_child(f"""{START}
for item in build():
    break
print(len(others()))
""").check("closed 0")


def test_a_cycle_that_holds_a_pipeline_is_collected() -> None:
    """The engine's threads do not hold the handle: the cycle collector finds it."""
    run_child(f"""{START}
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
    run_child(f"""{START}
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
    timeout=lambda self, builder: builder.pipe(self.load, call_timeout=60),
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
    run_child(f"""{START}
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


def test_the_watch_over_a_call_in_flight_does_not_keep_it() -> None:
    """It has looked at the call, and sleeps until the time is over: a minute."""
    run_child(f"""{START}
from spdl.pipeline._engine._deadlines import Deadlines

gate = threading.Event()

class Loader:
    def __init__(self):
        builder = PipelineBuilder().add_source(range(100)).pipe(self.load, call_timeout=60)
        self.pipeline = builder.add_sink().build(num_threads=1)

    def load(self, item):
        reached.set()
        gate.wait()
        return item

loader = Loader()
loader.pipeline.start()
reach()
watch = next(lane for lane in loader.pipeline._engine.lanes if isinstance(lane, Deadlines))
while not 0.0 < watch._next < float("inf"):
    never.wait(0.005)
found = weakref.ref(loader)
del loader, watch
gate.set()
collect(found)
join_others()
""").check()


def test_a_reader_in_another_thread_keeps_the_pipeline() -> None:
    """Dropping a reference in the middle of a read of another thread changes nothing for the reader."""
    run_child(f"""{START}
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


def test_the_items_in_the_sink_die_with_the_pipeline() -> None:
    """Nothing of the engine keeps what it has buffered."""
    run_child(f"""{START}
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
