"""Large buffers that are gone: their memory is used again, up to a limit, by whoever needs as much."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import spdl.io
import spdl.io.utils
from spdl.io import _native

MB = 1 << 20

plain_memory = pytest.mark.skipif(
    "asan" in os.environ.get("LD_PRELOAD", ""), reason="a sanitizer wants malloc's memory"
)


@pytest.fixture(autouse=True)
def nothing_kept() -> Iterator[None]:
    """Before and after each test."""
    _native.core.release_large_memory()
    yield
    _native.core.set_large_memory_limit(None)
    _native.core.set_large_memory_patience(10)
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
    limit = spdl.io.utils.get_memory_cache_limit()
    assert limit == min(1024 * MB, _native.core.memory_limit() // 16)
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


def test_limit_can_be_chosen() -> None:
    """What is beyond it goes at once, 0 keeps nothing, and None is as before."""
    before = spdl.io.utils.get_memory_cache_limit()
    held = [make(4 * MB) for _ in range(5)]
    held.clear()
    spdl.io.utils.set_memory_cache_limit(9 * MB)
    assert _native.core.large_memory() == (2, 8 * MB)
    make(10 * MB)
    assert _native.core.large_memory() == (2, 8 * MB)
    spdl.io.utils.set_memory_cache_limit(0)
    assert _native.core.large_memory() == (0, 0)
    make(4 * MB)
    make(MB)
    assert _native.core.large_memory() == (0, 0)
    spdl.io.utils.set_memory_cache_limit(None)
    assert spdl.io.utils.get_memory_cache_limit() == before
    spdl.io.utils.set_memory_cache_limit(2**80)
    assert spdl.io.utils.get_memory_cache_limit() == 2**63


@pytest.mark.parametrize("limit", [-1, "1G", 2.5])
def test_limit_is_a_number_of_bytes(limit: Any) -> None:
    """Nothing else, and nothing changes."""
    before = spdl.io.utils.get_memory_cache_limit()
    with pytest.raises((ValueError, TypeError)):
        spdl.io.utils.set_memory_cache_limit(limit)
    assert spdl.io.utils.get_memory_cache_limit() == before


def test_limit_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """In bytes; what is none is an error that names the variable."""
    monkeypatch.setenv("SPDL_IO_MEMORY_CACHE", str(5 * MB))
    spdl.io.utils.set_memory_cache_limit(None)
    assert spdl.io.utils.get_memory_cache_limit() == 5 * MB
    monkeypatch.setenv("SPDL_IO_MEMORY_CACHE", "1G")
    with pytest.raises(ValueError, match="SPDL_IO_MEMORY_CACHE must be a number of bytes, 0 for none, got '1G'"):
        spdl.io.utils.set_memory_cache_limit(None)


#: Lines of /proc/self/cgroup, files below /sys/fs/cgroup, and what they allow, in MiB.
GROUPS: dict[str, tuple[str, dict[str, int | str], int]] = {
    "version 2, in a container": ("0::/", {"memory.max": 512 * MB}, 512),
    "version 2, a parent's": ("0::/pod/app", {"pod/memory.max": 64 * MB, "pod/app/memory.max": "max"}, 64),
    "version 2, memory.high": ("0::/job", {"job/memory.high": 32 * MB, "job/memory.max": 48 * MB}, 32),
    "version 1": (
        "9:name=systemd:/x\n4:cpu,memory:/docker/abc",
        {"memory/docker/abc/memory.limit_in_bytes": 96 * MB, "memory/memory.limit_in_bytes": 2**63 - 4096},
        96,
    ),
    "version 1, the host's path": ("4:memory:/docker/abc", {"memory/memory.limit_in_bytes": 96 * MB}, 96),
    "both": ("4:memory:/\n0::/a", {"unified/a/memory.max": 80 * MB, "memory/memory.limit_in_bytes": 96 * MB}, 80),
}


@pytest.mark.parametrize("kind", GROUPS)
def test_limits_of_containers_count(kind: str, tmp_path: Path) -> None:
    """The least of what the groups may have that the process is in."""
    groups, files, limit = GROUPS[kind]
    for name, value in {"proc/self/cgroup": groups, **{f"sys/fs/cgroup/{k}": v for k, v in files.items()}}.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{value}\n")
    assert _native.core.memory_limit(str(tmp_path)) == limit * MB


@pytest.mark.parametrize("text", ["", "nonsense", "0::/nowhere", "4:memory", ":::"])
def test_without_limits_memory_is_the_machines(text: str, tmp_path: Path) -> None:
    """Files that are missing, or say something else, change nothing."""
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(text)
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert 0 < _native.core.memory_limit(str(tmp_path)) <= physical


def test_block_that_was_kept_long_goes() -> None:
    """At the next allocation of another, or its end."""
    make(9 * MB)
    kept = make(4 * MB)
    assert _native.core.large_memory() == (1, 9 * MB)
    _native.core.set_large_memory_patience(0)
    make(64)
    assert _native.core.large_memory() == (1, 9 * MB)
    del kept
    assert _native.core.large_memory() == (1, 4 * MB)


def lazily_free() -> int:
    """Bytes that the system may take from this process when it needs them."""
    with open("/proc/self/smaps_rollup") as file:
        return sum(int(line.split()[1]) << 10 for line in file if line.startswith("LazyFree:"))


@pytest.mark.skipif(not os.path.exists("/proc/self/smaps_rollup"), reason="the system does not tell")
@plain_memory
def test_system_may_take_what_is_kept() -> None:
    """All but the newest block. And what is used again is as good as new."""
    _native.core.set_large_memory_limit(64 * MB)
    buffers = [make(16 * MB) for _ in range(3)]
    for buffer in buffers:
        spdl.io.to_numpy(buffer)[:] = 1
    before = lazily_free()
    del buffer
    for num_others in range(3):
        buffers.pop()
        assert 0 <= lazily_free() - before - num_others * 16 * MB < MB
    assert _native.core.large_memory() == (3, 48 * MB)
    arrays = [spdl.io.to_numpy(make(16 * MB)) for _ in range(3)]
    for array in arrays:
        array[:] = 2
    assert lazily_free() <= before
    assert all((array == 2).all() for array in arrays)


@pytest.mark.skipif(not os.path.exists("/proc/self/smaps_rollup"), reason="the system does not tell")
@plain_memory
def test_system_may_take_a_very_large_block_at_once() -> None:
    """Also if it is the newest, and then it changes nothing for that."""
    _native.core.set_large_memory_limit(64 * MB)
    newest, larger = make(4 * MB), make(40 * MB)
    spdl.io.to_numpy(newest)[:] = 1
    spdl.io.to_numpy(larger)[:] = 1
    before = lazily_free()
    del newest
    del larger
    assert 0 <= lazily_free() - before - 40 * MB < MB
    assert _native.core.large_memory() == (2, 44 * MB)


def flags_at(address: int) -> list[str] | None:
    """What the system knows of the memory at that address; None: there is none."""
    inside = False
    with open("/proc/self/smaps") as file:
        for line in file:
            first, *words = line.split()
            if not first.endswith(":"):
                begin, end = (int(side, 16) for side in first.split("-"))
                inside = begin <= address < end
            elif inside and first == "VmFlags:":
                return words
    return None


@pytest.mark.skipif(not os.path.exists("/sys/kernel/mm/transparent_hugepage"), reason="there are no large pages")
@plain_memory
def test_large_pages_are_asked_for_in_memory_of_our_own_alone() -> None:
    """What is given back is gone, and not part of the heap, which would keep its large pages for ever."""
    for _ in range(3):  # malloc maps a block of this size at first, and takes it from the heap once one was freed
        buffer = make(5 * MB)
        address = address_of(buffer)
        assert "hg" in (flags_at(address) or [])
        del buffer
        _native.core.release_large_memory()
        assert "hg" not in (flags_at(address + 4 * MB) or [])


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
