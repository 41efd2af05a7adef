"""Loading into slots of one batch from several threads: all that happens there is told, whatever it is."""

import ctypes
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from spdl.io import _native
from spdl.io._images._image_transform import native_transform
from spdl.io._types import MAX_PIXELS
from tests.io.transformed import JPEG, JUNK, PLAIN, flat
from tests.support.child import run_child

PNG = flat(100)


def load(
    batch: Any, slots: list[int] | None, sources: list[Any], *, num_threads: int = 0, fallback_loader: Any = None
) -> Any:
    return _native.core.load_slots(
        batch,
        slots,
        sources,
        sources,
        first_index=slots[0] if slots else 0,
        transform=native_transform(PLAIN),
        seeds=None,
        replay=None,
        max_pixels=MAX_PIXELS,
        num_threads=num_threads,
        fallback_loader=fallback_loader or _native.media.fallback_loader(),
    )


def test_calls_for_different_slots_lose_nothing_of_each_other() -> None:
    """Each call knows what was applied to its images, though others end meanwhile and failures are made into errors."""
    batch = _native.core.new_batch(native_transform(PLAIN), 800, None)
    start = threading.Barrier(4)
    failed: list[int] = []

    def work(first: int) -> None:
        start.wait()
        for slot in range(first, first + 200, 20):
            failures = load(batch, list(range(slot, slot + 20)), [JPEG, *[JUNK] * 19])
            failed.extend(failure.index for failure in failures)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(first,)) for first in range(0, 800, 200)]
        for thread in threads:
            thread.start()
        looks = [len(batch.applied) for _ in range(10)]
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert set(looks) == {800}
    assert [slot for slot, applied in enumerate(batch.applied) if applied] == list(range(0, 800, 20))
    assert sorted(failed) == [slot for slot in range(800) if slot % 20]


def throwing_way() -> Any:
    """A fallback loader whose functions throw ``std::bad_cast``, and what keeps it."""
    throw = ctypes.cast(ctypes.CDLL("libstdc++.so.6")._ZSt16__throw_bad_castv, ctypes.c_void_p).value
    functions = (ctypes.c_void_p * 2)(throw, throw)
    way = ctypes.c_void_p(ctypes.addressof(functions))
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return new(ctypes.byref(way), _FALLBACK_LOADER, None), (way, functions)


_FALLBACK_LOADER = b"spdl.io.lib.fallback_loader"  # a capsule does not copy its name


@pytest.mark.skipif(sys.platform != "linux", reason="needs GNU's C++ library")
@pytest.mark.parametrize("num_threads", [1, 4])
def test_whatever_a_library_throws_is_a_failure_of_its_source(num_threads: int) -> None:
    """On whatever thread it happens; the other sources are loaded."""
    way, kept = throwing_way()
    batch = _native.core.new_batch(native_transform(PLAIN), 40, None)
    failures = load(batch, list(range(40)), [PNG, JPEG] * 20, num_threads=num_threads, fallback_loader=way)
    assert [failure.index for failure in failures] == list(range(0, 40, 2))
    assert all("a library failed: std::bad_cast" in str(failure.error) for failure in failures)
    assert sum(applied is not None for applied in batch.applied) == 20
    assert kept


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="limits the address space")
def test_without_threads_the_caller_loads_alone() -> None:
    """Where the system has no stack for a thread, nothing is lost."""
    run_child(
        """
        import resource, threading
        import spdl.io
        from tests.io.transformed import JPEG, PLAIN
        spdl.io.load_image_batch([JPEG], transform=PLAIN)
        with open("/proc/self/statm") as file:
            size = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + (6 << 20), size + (6 << 20)))
        done = threading.Event()
        try:
            while True:  # the stacks of threads that have ended are kept for others
                threading.Thread(target=done.wait).start()
        except RuntimeError:
            pass
        batch = spdl.io.load_image_batch([JPEG] * 40, transform=PLAIN, num_threads=4)
        done.set()
        assert batch.shape[0] == len(batch.applied) == 40 and None not in batch.applied
    """,
        fresh=True,
    ).check()


def test_without_slots_the_first_are_filled_in_order() -> None:
    """One for each source; others stay empty."""
    batch = _native.core.new_batch(native_transform(PLAIN), 4, None)
    failures = load(batch, None, [JPEG, JUNK, PNG])
    assert [failure.index for failure in failures] == [1]
    assert [applied is not None for applied in batch.applied] == [True, False, True, False]
    with pytest.raises(IndexError, match="no slot 4"):
        load(batch, None, [JPEG] * 5)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_new_batch_has_an_origin_for_each_slot(count: int) -> None:
    """Those of sources that all succeed."""
    assert _native.core.new_batch(native_transform(PLAIN), count, None).origins == tuple(range(count))


class Text(str):
    __slots__ = ()


@pytest.mark.parametrize(
    ("source", "is_plain"),
    [
        ("a/photo.jpg", True),
        ("C:photo.jpg", True),
        (JPEG, True),
        (bytearray(JPEG), True),
        (memoryview(JPEG), True),
        ("http://host/photo.jpg", False),
        ("s3://bucket/photo.jpg", False),
        ("f\xf6to.jpg", False),  # it may need another encoding
        ("a\0b.jpg", False),
        (Text("photo.jpg"), False),
        (Path("photo.jpg"), False),
        (None, False),
    ],
)
def test_sources_that_need_no_preparation_are_recognised(source: Any, is_plain: bool) -> None:
    """One that does is enough."""
    assert _native.core.are_plain([JPEG, source, "photo.jpg"]) is is_plain
