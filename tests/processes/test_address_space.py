"""Address space is limited, as ``ulimit -v`` does on clusters: less shared memory, or none, and never a failure."""

import os
import sys

import pytest

from tests.support.child import run_child

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs to know what is mapped"),
]

#: The allocator of Python without the GIL reserves more than a gigabyte for itself.
_WITH_GIL = pytest.mark.skipif("t" in sys.abiflags, reason="this Python's allocator alone needs that much")

_START = """
import mmap, os, resource
from functools import partial
from spdl.pipeline import PipelineBuilder, iterate_in_subprocess
from spdl.pipeline.defs import MAIN_PROCESS, ProcessPoolExecutorConfig
from tests.processes import bodies

def used():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * mmap.PAGESIZE

def limit(num_bytes):
    resource.setrlimit(resource.RLIMIT_AS, (num_bytes, resource.RLIM_INFINITY))

def run(num_workers):
    builder = PipelineBuilder().add_source([1 << 20] * 8).to(ProcessPoolExecutorConfig(num_workers)).pipe(bytes)
    pipeline = builder.to(MAIN_PROCESS).add_sink().build(num_threads=1)
    with pipeline.auto_stop():
        return sum(map(len, pipeline)) >> 20
"""


@pytest.mark.parametrize("gib", [pytest.param(1, marks=_WITH_GIL), 32])
def test_regions_work_under_a_limit_of_the_address_space(gib: int) -> None:
    """Four workers and what comes after them: the first arenas leave enough."""
    run_child(f"""{_START}
if __name__ == "__main__":
    limit({gib} << 30)
    print(run(4), run(4))
    items = [iterate_in_subprocess(partial(bodies.Range, 3)) for _ in range(8)]
    print(all(each._child.link.receiver is not None for each in items))
""").check("8 8 True")


def test_without_address_space_items_go_through_the_socket() -> None:
    """And through shared memory again as soon as there is some."""
    run_child(f"""{_START}
def has_arena(items):
    return items._child.link.receiver is not None

if __name__ == "__main__":
    limit(used() + (1 << 30))
    blocks = iterate_in_subprocess(partial(bodies.Blocks, 3, 1 << 20))  # and the fork server is there
    print(has_arena(blocks), sum(map(len, blocks)) >> 20)
    limit(used() + (14 << 20))
    without = iterate_in_subprocess(partial(bodies.Blocks, 3, 1 << 20))
    print(has_arena(without), sum(map(len, without)) >> 20)
    limit(used() + (1 << 30))
    again = iterate_in_subprocess(partial(bodies.Blocks, 3, 1 << 20))
    print(has_arena(again), sum(map(len, again)) >> 20)
""").check("True 3 False 3 True 3")


def test_a_worker_without_address_space_copies_what_it_gets() -> None:
    """It lacks what the pipeline's process has: it reads the memory that it cannot map."""
    run_child(f"""{_START}
def has_receiver(item):
    from spdl._processes._transport._arena import ArenaReceiver, ReadingReceiver
    import gc
    kinds = {{type(each).__name__ for each in gc.get_objects() if isinstance(each, (ArenaReceiver, ReadingReceiver))}}
    return len(item), kinds

if __name__ == "__main__":
    import multiprocessing
    multiprocessing.set_forkserver_preload(["tests.processes.confined"])
    builder = PipelineBuilder().add_source([bytes(1 << 20)] * 4).to(ProcessPoolExecutorConfig(1)).pipe(has_receiver)
    pipeline = builder.to(MAIN_PROCESS).add_sink().build(num_threads=1)
    with pipeline.auto_stop():
        for size, kinds in pipeline:
            print(size >> 20, *kinds)
""").check("1 ReadingReceiver " * 4)
