"""``stop`` from every side, and pipelines inside pipelines: who ends what, and who waits for whom."""

import pytest

from tests.support.child import run_child

pytestmark = pytest.mark.slow

_START = """
from tests.support.in_child import *
from spdl.pipeline import PipelineBuilder, PipelineFailure, PipelineStateError
import asyncio, gc, sys, threading

def endless():
    number = 0
    while True:
        yield number
        number += 1

closed = []

def closing(iterator, name="closed"):
    try:
        yield from iterator
    finally:
        closed.append(name)

async def pause(item):
    await asyncio.sleep(0)
    return item

def build(source, *ops, **options):
    builder = PipelineBuilder().add_source(source)
    for op in ops or [str]:
        builder.pipe(op)
    return builder.add_sink().build(**options)

def others():
    return [thread for thread in threading.enumerate() if thread is not threading.current_thread()]

def join_others():
    while threads := others():
        for thread in threads:
            thread.join()

def together(*functions):
    '''Call them on threads of their own that leave one barrier together; return what they returned or raised.'''
    barrier = threading.Barrier(len(functions))
    results = [None] * len(functions)

    def call(index, function):
        barrier.wait()
        try:
            results[index] = function()
        except Exception as error:
            results[index] = error

    threads = [threading.Thread(target=call, args=each) for each in enumerate(functions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results
"""


@pytest.mark.parametrize("op", ["def", "async def"])
def test_stop_from_inside_an_op(op: str) -> None:
    """The op that stops its own pipeline does not wait for itself; the reader gets what was there, then the end."""
    run_child(f"""{_START}
{op} stop_at_3(item):
    if item == 3:
        pipeline.stop()
    return item

pipeline = build(closing(endless()), stop_at_3)
print(*pipeline)
join_others()
print(*closed)
""").check("0 1 2 closed")


def test_stop_from_inside_the_source() -> None:
    """The source's iterator may stop the pipeline that reads it."""
    run_child(f"""{_START}
def source():
    yield from range(3)
    pipeline.stop()
    yield from endless()

pipeline = build(closing(source()))
got = list(pipeline)
join_others()
print(got == ["0", "1", "2"][:len(got)], *closed)
""").check("True closed")


def test_stop_from_inside_an_executor() -> None:
    """The same from a call in the user's own pool."""
    run_child(f"""{_START}
from concurrent.futures import ThreadPoolExecutor

def stop_at_3(item):
    if item == 3:
        try:
            pipeline.stop(timeout=1)
        except TimeoutError as error:
            print(error)
    return item

with ThreadPoolExecutor(2) as pool:
    builder = PipelineBuilder().add_source(closing(endless())).pipe(stop_at_3, executor=pool)
    pipeline = builder.add_sink().build()
    print(*pipeline)
join_others()
print(*closed)
""").check("0 1 2 closed")


@pytest.mark.parametrize("op", ["str", "pause"])
def test_stop_from_another_thread_ends_a_read_that_waits(op: str) -> None:
    """A reader that waits for an item is woken, and gets the end."""
    run_child(f"""{_START}
pipeline = build(async_blocked_source(), {op})
results = together(lambda: list(pipeline), lambda: (reach(), pipeline.stop()))
print(results)
""").check("[[], (None, None)]")


def test_stop_ends_an_async_read_that_waits() -> None:
    """The same for ``async for``."""
    run_child(f"""{_START}
async def main():
    pipeline = build(async_blocked_source(2))
    async for item in pipeline:
        print(item)
        if item == "1":
            stopping = asyncio.create_task(asyncio.to_thread(pipeline.stop))  # while the next read waits
    await stopping

asyncio.run(main())
print(len(others()))
""").check("0 1 0")


@pytest.mark.parametrize("num_stops", [2, 8])
def test_stops_at_once(num_stops: int) -> None:
    """However many threads stop it at once, all return and nothing is left."""
    run_child(f"""{_START}
for _ in range(20):
    pipeline = build(endless(), str, pause)
    pipeline.get_item()
    results = together(*[pipeline.stop] * {num_stops})
    assert results == [None] * {num_stops}, results
    join_others()
""").check()


def test_a_stop_at_any_moment_of_the_start() -> None:
    """Start and stop race: start returns or says that it came late, and nothing is left."""
    run_child(f"""{_START}
for _ in range(50):
    pipeline = build(endless(), str, pause)
    started, stopped = together(pipeline.start, pipeline.stop)
    assert started is None or isinstance(started, PipelineStateError), started
    assert stopped is None, stopped
    pipeline.stop()
    join_others()
""").check()


def test_starts_at_once() -> None:
    """Of several threads that start it at once one does, and the others are told."""
    run_child(f"""{_START}
for _ in range(30):
    pipeline = build(endless(), str)
    results = together(*[pipeline.start] * 4)
    assert sum(result is None for result in results) == 1, results
    assert sum(isinstance(result, PipelineStateError) for result in results) == 3, results
    print(pipeline.get_item(), end="")
    pipeline.stop()
    join_others()
""").check("0" * 30)


def test_a_stop_at_any_moment_of_a_read() -> None:
    """What was read before the stop and what is in the sink after it follow each other without a gap."""
    run_child(f"""{_START}
for _ in range(50):
    pipeline = build(endless(), int)
    pipeline.start()
    read, stopped = together(lambda: list(pipeline), pipeline.stop)
    assert stopped is None, stopped
    assert read == list(range(len(read))), read
    join_others()
""").check()


def test_a_start_after_a_stop_says_so() -> None:
    """A pipeline runs once."""
    run_child(f"""{_START}
pipeline = build(range(3))
pipeline.stop()
pipeline.start()
pipeline.stop()
pipeline.stop()
try:
    pipeline.start()
except PipelineStateError as error:
    print("stopped" in str(error))
""").check("True")


def test_reading_on_another_thread_than_the_builder() -> None:
    """Built here, started there, read elsewhere, stopped here."""
    run_child(f"""{_START}
pipeline = build(range(100), str, pause)
together(pipeline.start)
[read] = together(lambda: [pipeline.get_item() for _ in range(50)])
print(read == [str(item) for item in range(50)])
[rest] = together(lambda: list(pipeline))
print(rest == [str(item) for item in range(50, 100)])
pipeline.stop()
""").check("True True")


def test_a_pipeline_inside_an_op() -> None:
    """Each call builds, reads and drops a pipeline of its own."""
    run_child(f"""{_START}
def total(number):
    return sum(build(range(number), int, pause))

print(*PipelineBuilder().add_source(range(20)).pipe(total, concurrency=4, output_order="input").add_sink().build())
print(len(others()))
""").check(" ".join(str(sum(range(number))) for number in range(20)) + " 0")


def test_a_live_pipeline_inside_an_op_ends_with_the_process() -> None:
    """Pipelines that ops keep in a global, and the one that runs these ops, are all live at the exit."""
    run_child(f"""{_START}
kept = []
def keep(item):
    inner = build(endless())
    kept.append(inner)
    return inner.get_item()

pipeline = build(range(4), keep)
print(*pipeline)
outer = build(endless(), keep)
print(outer.get_item())
outer.stop()
""").check("0 0 0 0 0")


def test_the_exit_while_ops_build_pipelines() -> None:
    """The exit finds ops in the middle of building, reading and dropping pipelines of their own."""
    run_child(f"""{_START}
def nested(item):
    return next(iter(build(endless(), str, pause)))

pipeline = PipelineBuilder().add_source(endless()).pipe(nested, concurrency=3).add_sink().build(num_threads=3)
print(pipeline.get_item())
""").check("0")


def test_a_pipeline_as_the_source_of_another() -> None:
    """Its end is the end of the source."""
    run_child(f"""{_START}
inner = build(range(100), str)
print(*build(inner, int) , inner.stats().state)
join_others()
""").check(" ".join(map(str, range(100))) + " ended")


def test_an_inner_pipeline_that_nobody_else_holds_ends_with_the_outer() -> None:
    """A stopped outer pipeline lets go of its source: the inner one is collected, its threads and source end."""
    run_child(f"""{_START}
outer = build(build(closing(endless(), "inner closed")), str)
print(outer.get_item())
outer.stop()
gc.collect()
join_others()
print(*closed)
""").check("0 inner closed")


def test_stop_of_the_outer_while_the_inner_waits() -> None:
    """The outer one's source thread waits in a read of the inner one: stop leaves it alone; the exit ends both."""
    run_child(f"""{_START}
inner = build(async_blocked_source(1))
outer = build(inner, str)
print(outer.get_item())
reach()
outer.stop()
print("stopped")
""").check("0 stopped")


def test_stop_of_the_inner_ends_the_outer() -> None:
    """The outer one's reader, which waits, gets the end."""
    run_child(f"""{_START}
inner = build(async_blocked_source(3))
outer = build(inner, str)
print(*(outer.get_item() for _ in range(3)))
stopping = threading.Thread(target=inner.stop)
stopping.start()
print(list(outer), outer.stats().state)
stopping.join()
""").check("0 1 2 [] ended")


def test_a_failure_of_the_inner_fails_the_outer() -> None:
    """The consumer of the outer one gets a PipelineFailure that holds the inner one's."""
    run_child(f"""{_START}
def source():
    yield 0
    raise ValueError("of the inner source")

outer = build(build(source()), str)
try:
    for item in outer:
        print(item)
except PipelineFailure as failure:
    [inner] = failure.exceptions
    print(type(inner).__name__, inner.exceptions)
""").check("0 PipelineFailure (ValueError('of the inner source'),)")


def test_a_chain_of_pipelines_at_exit() -> None:
    """Ten pipelines, each the source of the next, all live."""
    run_child(f"""{_START}
pipeline = build(endless())
for _ in range(9):
    pipeline = build(pipeline, int, num_threads=1)
print(pipeline.get_item())
""").check("0")
