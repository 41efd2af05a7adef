"""Large buffers that are gone: their memory is used again, up to a limit, by whoever needs as much."""

import os
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import spdl.io
from spdl.io import _native

MB = 1 << 20


@pytest.fixture(autouse=True)
def nothing_kept() -> Iterator[None]:
    """Before and after each test."""
    _native.core.release_large_memory()
    yield
    _native.core.release_large_memory()


def make(num_bytes: int) -> Any:
    """A buffer of so many bytes."""
    return _native.core.new_buffer((num_bytes,), "|u1", None)


def address_of(buffer: Any) -> int:
    """Of the first element."""
    address: int = buffer.__array_interface__["data"][0]
    return address


def test_freed_memory_is_used_again() -> None:
    """By the next of the same size."""
    buffer = make(3 * MB)
    address = address_of(buffer)
    assert _native.core.large_memory() == (0, 0)
    del buffer
    assert _native.core.large_memory() == (1, 3 * MB)
    again = make(3 * MB)
    assert address_of(again) == address
    assert _native.core.large_memory() == (0, 0)


def test_view_keeps_memory_from_being_used_again() -> None:
    """Only the last reference gives it back."""
    array = spdl.io.to_numpy(make(2 * MB))
    array[:] = 7
    others = [make(2 * MB) for _ in range(3)]
    for other in others:
        spdl.io.to_numpy(other)[:] = 8
    assert (array == 7).all()


@pytest.mark.parametrize(
    ("wanted", "is_used"), [(8 * MB, True), (7 * MB, True), (6 * MB, False), (9 * MB, False), (MB, False)]
)
def test_block_serves_requests_of_about_its_size(wanted: int, is_used: bool) -> None:
    """At most a quarter more than what is needed."""
    make(8 * MB)
    buffer = make(wanted)
    assert _native.core.large_memory() == ((0, 0) if is_used else (1, 8 * MB))
    assert buffer.shape == (wanted,)


def test_smallest_that_will_do_is_taken() -> None:
    """So that the larger ones are there for larger requests."""
    held = [make(size * MB) for size in (8, 10, 9)]
    held.clear()
    buffer = make(8 * MB)
    assert _native.core.large_memory() == (2, 19 * MB)
    assert buffer.shape == (8 * MB,)


def test_small_memory_is_not_kept() -> None:
    """That is done well enough elsewhere."""
    make(MB - 64)
    assert _native.core.large_memory() == (0, 0)


def test_what_is_kept_has_a_limit() -> None:
    """Those that were kept longest go first; a block above it is not kept at all."""
    limit = min(1024 * MB, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 16)
    make(limit + MB)
    assert _native.core.large_memory() == (0, 0)
    size = limit // 8 // MB * MB
    held = [make(size) for _ in range(12)]
    newest = address_of(held[-1])
    while held:
        held.pop(0)
    num_blocks, num_bytes = _native.core.large_memory()
    assert num_bytes == num_blocks * size <= limit
    assert num_bytes + size > limit
    assert address_of(make(size)) == newest


def test_number_of_blocks_has_a_limit() -> None:
    """A search takes no time to speak of."""
    held = [make(MB) for _ in range(100)]
    held.clear()
    assert _native.core.large_memory()[0] <= 64


def test_block_that_nobody_uses_goes() -> None:
    """Once many others have come and gone."""
    make(9 * MB)
    for _ in range(200):
        make(2 * MB)
    assert _native.core.large_memory() == (1, 2 * MB)


def test_storage_and_results_share_memory() -> None:
    """Whichever of the extensions made it: what one frees, the other takes."""
    samples = np.zeros((MB, 1), np.float32)
    frames = spdl.io.create_reference_audio_frame(samples, "flt", 48000, 0)
    address = address_of(spdl.io.convert_frames(frames))
    assert _native.core.large_memory() == (1, 4 * MB)
    storage = spdl.io.cpu_storage(4 * MB, pin_memory=False)
    assert np.frombuffer(memoryview(storage), np.uint8).ctypes.data == address
    del storage
    frames = spdl.io.create_reference_audio_frame(samples, "flt", 48000, 0)
    assert address_of(spdl.io.convert_frames(frames)) == address


def test_threads_never_share_a_block() -> None:
    """Each finds in its buffer what it wrote there."""
    start = threading.Barrier(4)
    wrong: list[int] = []

    def use(value: int) -> None:
        start.wait()
        for i in range(50):
            array = spdl.io.to_numpy(make((2 + i % 3) * MB))
            array[::4096] = value
            if not (array[::4096] == value).all():
                wrong.append(value)

    threads = [threading.Thread(target=use, args=(value,)) for value in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_child_of_a_fork_can_go_on() -> None:
    """Though another thread of the parent is in the middle of it."""
    stop = threading.Event()

    def churn() -> None:
        while not stop.is_set():
            make(2 * MB)

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        for _ in range(10):
            child = os.fork()
            if child == 0:
                make(2 * MB)
                make(3 * MB)
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        thread.join()
