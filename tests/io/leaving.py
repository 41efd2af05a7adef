"""Calls of native code that daemon threads make while the interpreter exits; run by ``test_exit.py``."""

import contextlib
import functools
import io
import logging
import os
import pickle
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import spdl.io
from spdl._processes._memory import Area, Sender
from spdl.pipeline import Pipeline, PipelineBuilder
from tests.io.pictures import make_jpeg
from tests.support.in_child import hurry

__all__ = ["FAMILIES", "leave"]

_JPEG = make_jpeg(400, 300)
_PIXELS: Any = np.zeros((1 << 20,), np.uint8)


def _batches() -> None:
    spdl.io.load_image_batch([_JPEG] * 4, width=32, height=32)


def _transformed() -> None:
    spdl.io.load_image_batch([_JPEG] * 4, transform=spdl.io.ImageTransform((32, 32)))


def _pictures() -> None:
    spdl.io.to_numpy(spdl.io.load_image(_JPEG))


def _failures() -> None:
    with contextlib.suppress(spdl.io.MediaError):
        spdl.io.load_image(_JPEG, filter_desc="none")


def _videos() -> None:
    spdl.io.load_video(sys.argv[1])


def _streams() -> None:
    chunks: Iterator[Any] = iter(spdl.io.Demuxer(sys.argv[1]).streaming_demux(0, num_packets=4))
    for packets in chunks:
        packets.get_timestamps()


def _references() -> None:
    frames = spdl.io.create_reference_video_frame(_PIXELS.reshape(4, 512, 512), "gray", (25, 1), 0)
    spdl.io.convert_frames(frames)


@functools.cache
def _pickled() -> tuple[bytes, list[bytearray]]:
    parts: list[pickle.PickleBuffer] = []
    data = pickle.dumps(spdl.io.demux_video(sys.argv[1]), 5, buffer_callback=parts.append)
    return data, [bytearray(each.raw()) for each in parts]


def _views() -> None:
    data, parts = _pickled()
    spdl.io.decode_packets(pickle.loads(data, buffers=parts))


@functools.cache
def _npz() -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, pixels=_PIXELS)
    return file.getvalue()


def _arrays() -> None:
    spdl.io.load_npz(_npz())["pixels"]


def _shared_memory() -> None:
    Sender(Area(1 << 21, 8, has_bell=False)).put([_PIXELS])


def _wake_ups() -> None:
    Area(1 << 12, 8, has_bell=True).wait(0.001)


#: What is called again and again, by name.
FAMILIES: dict[str, Callable[[], None]] = {
    "batches": _batches,
    "transformed": _transformed,
    "pictures": _pictures,
    "failures": _failures,
    "videos": _videos,
    "streams": _streams,
    "references": _references,
    "views": _views,
    "arrays": _arrays,
    "shared memory": _shared_memory,
    "wake-ups": _wake_ups,
}

_running: list[Pipeline[int]] = []


def _start_pipeline() -> None:
    def op(number: int) -> int:
        while number:
            _batches()
        return number

    logging.disable()  # the warning that ops are stuck
    hurry(0.01)
    _running.append(PipelineBuilder().add_source(range(5)).pipe(op, concurrency=4).add_sink(1).build())
    assert _running[0].get_item() == 0


def _start_threads(call: Callable[[], None]) -> None:
    ready = threading.Barrier(5)

    def work() -> None:
        ready.wait()
        while True:
            call()

    for _ in range(4):
        threading.Thread(target=work, daemon=True).start()
    ready.wait()
    call()


def leave(families: list[str], num_runs: int) -> None:
    """Be one of the processes that end in the middle of such calls, or the one that starts them and sees how they end.

    They are forks, so that all is imported once. The caller has nothing left to do.

    Args:
        families: Keys of ``FAMILIES``, or ``pipeline``, whose op is stuck in such calls.
        num_runs: How many processes for each.
    """
    warnings.simplefilter("ignore", DeprecationWarning)  # of Python 3.12, about forks beside threads of NumPy's
    codes: dict[str, list[int]] = {}
    for family in families:
        if family != "pipeline":
            FAMILIES[family]()  # what it loads and keeps is there for all
        for _ in range(num_runs):
            child = os.fork()
            if child == 0:
                if family == "pipeline":
                    _start_pipeline()
                else:
                    _start_threads(FAMILIES[family])
                return
            codes.setdefault(family, []).append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    assert codes == {family: [0] * num_runs for family in families}, codes
