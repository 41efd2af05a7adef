"""The native helpers beside the arena: buffers of others' memory, copies, and the watch of the parent."""

import gc
import subprocess
import sys
import weakref

import numpy as np
import pytest

from spdl._processes.lib import _memory
from tests.support.child import run_child


class Owner(list[object]):
    """Anything that can have a weak reference."""


def test_exporter_is_the_memory_at_an_address_and_keeps_its_owner() -> None:
    """Views of it are views of the owner's memory, which lives as long as they do."""
    array = np.arange(10, dtype="u1")
    owner = Owner([array])
    is_alive = weakref.ref(owner)
    view = memoryview(_memory.exporter(array.ctypes.data, 10, owner, False))
    del owner
    view[3] = 77
    assert array[3] == 77
    assert (view.format, view.nbytes, view.readonly) == ("B", 10, False)
    assert memoryview(_memory.exporter(array.ctypes.data, 10, None, True)).readonly
    assert is_alive() is not None
    del view
    assert is_alive() is None


def test_exporter_in_a_cycle_is_collected() -> None:
    """An owner that holds its own exporter is no leak."""
    owner = Owner()
    owner.append(_memory.exporter_of(bytearray(10), owner))
    is_alive = weakref.ref(owner)
    del owner
    gc.collect()
    assert is_alive() is None


@pytest.mark.parametrize("size", [0, 1, 5000, 1 << 20])
def test_copy_to_bytes(size: int) -> None:
    """Bytes of their own, whatever the size."""
    data = np.random.default_rng(size).integers(0, 255, size, "u1")
    assert _memory.copy_to_bytes(data.data) == data.tobytes()


def test_copy_to_bytes_refuses_what_has_gaps() -> None:
    """The same as the arena does."""
    with pytest.raises((BufferError, ValueError)):
        _memory.copy_to_bytes(memoryview(bytes(10))[::2])


def test_closed_area_says_so() -> None:
    """System calls on what is closed are errors."""
    area = _memory.Area(4096, 1, has_bell=True)
    area.close()
    with pytest.raises(ValueError, match="closed"):
        area.wait(0)
    with pytest.raises(OSError, match="Bad file descriptor"):
        _memory.Sender(area)


def test_descriptor_that_is_no_area_is_refused() -> None:
    """And closed: the area had taken it over."""
    import os

    for size in (0, 4096, 1 << 20):
        fd = os.memfd_create("other")
        os.truncate(fd, size)
        with pytest.raises(OSError, match="map shared memory"):
            _memory.Area.attach(fd)
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)


_WATCH = """
import ctypes, os, sys
from spdl._processes._memory import exit_on_hangup
exit_on_hangup(0, 0.0)
os.close(0)
os.write(1, b"ready")
{body}
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "body",
    ["import signal; signal.pause()", "ctypes.PyDLL(None).sleep(100)", "while True: pass"],
    ids=["waiting", "native code that holds the GIL", "Python code"],
)
def test_process_ends_when_the_other_end_is_gone(body: str) -> None:
    """Whatever it is doing, with exit code 1."""
    with subprocess.Popen(
        [sys.executable, "-c", _WATCH.format(body=body)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stdout.read(5) == b"ready"
        assert child.poll() is None
        child.stdin.close()
        assert child.wait(30) == 1


@pytest.mark.slow
def test_extension_brings_no_library_of_others() -> None:
    """It loads without FFmpeg and libjpeg, and without the rest of the native part."""
    run_child("""
        import spdl._processes.lib._memory
        with open("/proc/self/maps") as maps:
            text = maps.read()
        print(*(name for name in ("libav", "libjpeg", "libsw", "_core", "_media") if name in text))
    """).check()
