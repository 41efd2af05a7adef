"""Shared memory between two processes: start methods, sudden ends, forks, limits; nothing is left in any case."""

import multiprocessing
import os
import signal
import sys
from multiprocessing.connection import Connection
from pickle import PickleBuffer
from typing import Any

import pytest

from spdl._processes._transport._arena import Arena
from spdl._processes._transport._custom import CustomArena
from spdl.pipeline import SharedMemoryRingBuffer, SharedMemorySegmentPool
from tests.support.child import run_child

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="looks at /dev/shm and /proc")]

METHODS = ["spawn", "forkserver", "fork"]


def _send(arena: Any, pipe: Connection) -> None:
    """Put a megabyte for every number that comes, tell where, and tell what is still in use when 0 comes."""
    sender = arena.open_sender()
    slots = []
    while number := pipe.recv():
        pipe.send(sender.put([PickleBuffer(bytes([number]) * (1 << 20)), PickleBuffer(b"small")]))
        slots.append(getattr(sender, "slot", bytearray)(100))
    slots.clear()
    pipe.send(getattr(sender, "num_bytes_used", 0))


def _receive(arena: Any, pipe: Connection) -> None:
    receiver = arena.open_receiver()
    while spans := pipe.recv():
        pipe.send([bytes(view) for view in receiver.get(spans)])
    pipe.send("done")


def _start(method: str, body: Any, arena: Any) -> tuple[Any, Connection]:
    context: Any = multiprocessing.get_context(method)
    here, there = context.Pipe()
    process = context.Process(target=body, args=(arena, there))
    process.start()
    there.close()
    return process, here


#: What other programs on the machine, and multiprocessing itself, may make and remove meanwhile.
_OTHERS = ("sem.", "psm_", "pymp-", "torch_", "tmp")


def _named_memory() -> set[str]:
    return {name for name in os.listdir("/dev/shm") if not name.startswith(_OTHERS)}


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Any:
    before = _named_memory()
    yield
    assert _named_memory() - before == set()


@pytest.mark.parametrize("method", METHODS)
def test_what_the_child_puts_the_parent_gets(method: str) -> None:
    """Views outlive the child, and what was dropped is free in it."""
    arena = Arena(4 << 20)
    process, pipe = _start(method, _send, arena)
    receiver = arena.open_receiver()
    arena.close()
    kept = []
    for number in range(1, 30):
        pipe.send(number)
        kept = receiver.get(pipe.recv())
        assert bytes(kept[0]) == bytes([number]) * (1 << 20)
    pipe.send(0)
    assert pipe.recv() == (1 << 20) + 64
    process.join()
    assert process.exitcode == 0
    assert bytes(kept[0]) == bytes([29]) * (1 << 20)
    assert bytes(kept[1]) == b"small"
    pipe.close()


@pytest.mark.parametrize("method", METHODS)
def test_what_the_parent_puts_the_child_gets(method: str) -> None:
    """The other direction: the child's views count in the parent."""
    arena = Arena(1 << 20)
    process, pipe = _start(method, _receive, arena)
    sender = arena.open_sender()
    arena.close()
    for number in range(50):
        data = bytes([number]) * 300_000
        spans = sender.put([data, data])
        assert spans is not None
        pipe.send(spans)
        assert pipe.recv() == [data, data]
    pipe.send(None)
    assert pipe.recv() == "done"
    process.join()
    assert sender.num_bytes_used == 0
    pipe.close()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", ["ring", "pool"])
def test_explicit_arenas_in_a_child(method: str, kind: str) -> None:
    """The producer waits for the consumer, in whatever process, and is woken by it."""
    explicit = SharedMemoryRingBuffer(3 << 20) if kind == "ring" else SharedMemorySegmentPool(2 << 20, 2)
    arena = CustomArena(explicit)
    process, pipe = _start(method, _send, arena)
    receiver = arena.open_receiver()
    for number in range(1, 10):
        pipe.send(number)
    pipe.send(0)
    for number in range(1, 10):
        large, small = receiver.get(pipe.recv())
        assert bytes(large) == bytes([number]) * (1 << 20)
        assert bytes(small) == b"small"
        del large, small
    assert pipe.recv() == 0
    process.join()
    arena.close()
    pipe.close()


def test_closing_an_explicit_arena_wakes_the_producer_in_the_child() -> None:
    """It does not wait for its timeout."""
    arena = CustomArena(SharedMemorySegmentPool(2 << 20, 1))
    process, pipe = _start("forkserver", _send, arena)
    pipe.send(1)
    pipe.recv()
    pipe.send(2)
    arena.close()
    process.join()
    assert process.exitcode == 1  # by its BufferError
    pipe.close()


@pytest.mark.parametrize("method", METHODS)
def test_killed_child_leaves_what_was_received(method: str) -> None:
    """And nothing else: no name, no descriptor."""
    arena = Arena(4 << 20)
    process, pipe = _start(method, _send, arena)
    receiver = arena.open_receiver()
    arena.close()
    pipe.send(7)
    views = receiver.get(pipe.recv())
    process.kill()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert bytes(views[0]) == bytes([7]) * (1 << 20)
    del views
    pipe.close()


def test_killed_parent_leaves_nothing() -> None:
    """The child ends with it, though it never looks, and the memory goes with the last process that has it."""
    ended = run_child("""
        import multiprocessing, os, signal
        from spdl._processes._transport._arena import Arena
        from spdl._processes._memory import exit_on_hangup

        def body(arena, pipe):
            exit_on_hangup(pipe.fileno(), 0.0)
            pipe.send(arena.open_sender().put([bytes(1 << 20)]))
            signal.pause()

        if __name__ == "__main__":
            context = multiprocessing.get_context("spawn")
            arena = Arena(4 << 20)
            here, there = context.Pipe()
            context.Process(target=body, args=(arena, there)).start()
            there.close()
            views = arena.open_receiver().get(here.recv())
            os.kill(os.getpid(), signal.SIGKILL)
    """)
    # It has ended when nobody writes to its output any more: the child is gone too.
    assert ended.returncode == -signal.SIGKILL


def test_forked_child_changes_no_count() -> None:
    """Views that a fork copied may die there: the memory is in use as long as the parent's are."""
    arena = Arena(1 << 20)
    sender, receiver = arena.open_sender(), arena.open_receiver()
    arena.close()
    views = receiver.get(sender.put([b"x" * 1000, b"y" * 1000]) or [])
    slot = sender.slot(1000)
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            assert bytes(views[1]) == b"y" * 1000
            assert sender.put([b"x"]) is None
            assert sender.slot(1) is None
            sender.trim()
            del views, slot
            receiver.close()
            sender.close()
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert sender.num_bytes_used == 3 * 1024
    assert bytes(views[0]) == b"x" * 1000
    del views, slot
    assert sender.num_bytes_used == 0


def test_exit_with_live_views_is_silent() -> None:
    """Views, slots and both sides may be anywhere when the interpreter ends."""
    run_child("""
        import numpy as np, sys
        from spdl._processes._transport._arena import *
        arena = Arena(1 << 20)
        sender, receiver = arena.open_sender(), arena.open_receiver()
        arena.close()
        views = receiver.get(sender.put([b"x" * 1000]))
        array = np.frombuffer(views[0], "u1")
        set_current(sender)
        sys.slot = arena_slot(1000)
        sys.cycle = [views, array]
        sys.cycle.append(sys.cycle)
        print(array[0])
    """).check("120")


@pytest.mark.parametrize(("which", "smallest"), [("RLIMIT_FSIZE", 64 << 20), ("RLIMIT_AS", 1 << 20)])
def test_arena_that_is_too_large_for_the_process_is_made_smaller(which: str, smallest: int) -> None:
    """Its limit tells how large it is; if the least is too large, that is an error."""
    run_child(f"""
        import resource
        from spdl._processes._transport._arena import Arena
        MIB = 1 << 20
        def limit(num_bytes):
            resource.setrlimit(resource.{which}, (num_bytes, resource.RLIM_INFINITY))
        limit(3000 * MIB)
        assert 64 * MIB <= Arena(16000 * MIB).limit < 3000 * MIB
        limit(10 * MIB)
        try:
            Arena(16000 * MIB)
        except OSError as exc:
            print(type(exc).__name__, *exc.__notes__)
    """).check(f"OSError while making shared memory of {smallest} bytes to send objects to another process")


def test_memory_that_the_system_refuses_is_no_room() -> None:
    """It is told before anything is written to it, and what was refused is not in use."""
    arena = Arena(4 << 20)
    descriptor = arena._area.fd
    read_only = os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY)
    os.dup2(read_only, descriptor)  # the system gives no memory for a file that is only read
    os.close(read_only)
    sender = arena.open_sender()
    arena.close()
    refused = 0
    for size in (1, 1 << 20):
        refused += sender.put([b"", bytes(size)]) is None
        refused += sender.slot(size) is None
    assert refused == 4
    assert (sender.num_bytes_used, sender.num_bytes_reserved) == (0, 0)


@pytest.mark.soak
def test_nothing_grows() -> None:
    """A hundred thousand messages need no more memory, and no more descriptors, than a thousand."""
    arena = Arena(64 << 20)
    sender, receiver = arena.open_sender(), arena.open_receiver()
    arena.close()
    small, large = bytes(100), bytes(5000)

    def resident() -> int:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    held: list[Any] = []
    before = 0
    for number in range(100_000):
        if number == 1000:
            before = resident()
        held.append(receiver.get(sender.put([small, large]) or []))
        if len(held) > 10:
            held.pop(0)
    assert resident() - before < 1 << 20
    assert sender.num_bytes_used == 10 * (128 + 5056)
    assert sender.num_bytes_reserved == 1 << 18
