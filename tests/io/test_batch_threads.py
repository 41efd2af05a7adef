"""Batches without a transform that several threads share: the same bytes, failures and interrupts as with one."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

import spdl.io
from tests.io.pictures import draw, make_jpeg
from tests.support.child import run_child


def make_png(width: int, height: int) -> bytes:
    stream = io.BytesIO()
    draw(width, height).save(stream, "PNG")
    return stream.getvalue()


#: Of several sizes and formats, the largest neither first nor last.
SOURCES = [
    make_jpeg(40, 30, seed=1),
    make_png(33, 21),
    make_jpeg(300, 200, seed=2),
    make_jpeg(64, 48),
    make_png(8, 9),
] * 3

#: Each way to load a batch without a transform: libjpeg-turbo, FFmpeg's filters, the demuxer.
WAYS: dict[str, Callable[[], dict[str, Any]]] = {
    "fitted": dict,
    "pix_fmt": lambda: {"pix_fmt": "yuv444p"},
    "filter": lambda: {"filter_desc": "scale=w=32:h=24,format=pix_fmts=rgb24"},
    "decode_config": lambda: {"decode_config": spdl.io.decode_config()},
    "demux_config": lambda: {"demux_config": spdl.io.demux_config(), "orient": True},
}
each_way = pytest.mark.parametrize("way", WAYS)


def load(sources: Any, way: str, num_threads: int, **options: Any) -> Any:
    return spdl.io.load_image_batch(sources, width=32, height=24, num_threads=num_threads, **WAYS[way](), **options)


def array_of(buffer: Any) -> NDArray[Any]:
    return spdl.io.to_numpy(buffer)


@each_way
def test_number_of_threads_does_not_change_a_byte(way: str, tmp_path: Path) -> None:
    """Of files and of data in memory, in the order of the sources, whichever is loaded first."""
    paths = [tmp_path / str(index) for index in range(len(SOURCES))]
    for path, data in zip(paths, SOURCES, strict=True):
        path.write_bytes(data)
    expected = array_of(spdl.io.load_image_batch(SOURCES, width=32, height=24, **WAYS[way]()))
    assert len(expected) == len(SOURCES)
    for num_threads in (0, 1, 2, 5, 40):
        assert (array_of(load(SOURCES, way, num_threads)) == expected).all()
        assert (array_of(load(paths, way, num_threads)) == expected).all()


@pytest.mark.parametrize("num_threads", [0, 2, 4])
def test_pixels_are_those_of_another_decoder(num_threads: int) -> None:
    """Image i is source i as Pillow decodes it."""
    sources = [make_png(32, 24) for _ in range(3)]
    shades = [Image.new("RGB", (32, 24), (shade, 10, 200)) for shade in (0, 90, 255, 30, 160)]
    for picture in shades:
        stream = io.BytesIO()
        picture.save(stream, "PNG")
        sources.append(stream.getvalue())
    for data, image in zip(sources, array_of(load(sources, "filter", num_threads)), strict=True):
        assert (image == np.asarray(Image.open(io.BytesIO(data)))).all()


@each_way
def test_failures_are_those_of_one_thread(way: str, tmp_path: Path) -> None:
    """The same sources, classes and messages, in the order of the sources, and the same images without them."""
    missing = tmp_path / "missing.jpg"
    sources = [SOURCES[0], b"not a picture" * 9, SOURCES[2], missing, SOURCES[1], b"", SOURCES[2][:2000], tmp_path]

    def outcome(num_threads: int) -> tuple[Any, ...]:
        buffer = load(sources, way, num_threads, strict=False)
        failures = [(each.index, each.source, type(each.error), str(each.error)) for each in buffer.failures]
        return failures, buffer.origins, array_of(buffer).tobytes()

    expected = outcome(0)
    assert [failure[0] for failure in expected[0]][:3] == [1, 3, 5]
    for num_threads in (2, 5):
        assert outcome(num_threads) == expected
        with pytest.raises(spdl.io.BatchLoadError) as caught:
            load(sources, way, num_threads)
        assert [each.index for each in caught.value.failures] == [failure[0] for failure in expected[0]]


@each_way
@pytest.mark.parametrize(
    ("num_threads", "error"), [(-1, ValueError), (2**40, ValueError), (1.0, TypeError), (True, TypeError)]
)
def test_wrong_number_of_threads_is_refused(way: str, num_threads: Any, error: type[Exception]) -> None:
    """With the argument's name, and before anything is loaded."""
    with pytest.raises(error, match="num_threads must be"):
        load([b"not a picture"], way, num_threads)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["fitted", "filter"])
def test_signal_ends_a_shared_batch(way: str) -> None:
    """What a handler raises arrives before all is loaded."""
    run_child(
        f"""
        import signal
        from tests.io.pictures import make_jpeg
        from tests.io.test_batch_threads import load

        class Enough(Exception):
            pass

        def stop(*_):
            raise Enough

        signal.signal(signal.SIGALRM, stop)
        sources = [make_jpeg(1000, 800)] * 20_000  # some hundred are loaded in the time between two looks
        # Loading the extension swallows what a handler raises meanwhile (nanobind clears errors of its own start).
        load(sources[:1], {way!r}, 0)
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        try:
            load(sources, {way!r}, 2)
        except Enough:
            print("ended")
        """
    ).check("ended")


@pytest.mark.slow
def test_children_of_forks_load_with_threads() -> None:
    """Whatever other threads of the parent were doing in such calls."""
    run_child(
        """
        import os, threading, warnings
        from tests.io.test_batch_threads import SOURCES, array_of, load

        warnings.simplefilter("ignore", DeprecationWarning)  # of forks with threads: that is the point
        expected = array_of(load(SOURCES, "filter", 0)).tobytes()
        done = threading.Event()
        started = threading.Barrier(2)

        def work():
            load(SOURCES, "filter", 3)
            started.wait()
            while not done.is_set():
                load(SOURCES, "filter", 3)

        thread = threading.Thread(target=work)
        thread.start()
        started.wait()
        codes = []
        for num_threads in (0, 3, 3):
            pid = os.fork()
            if pid == 0:
                os._exit(0 if array_of(load(SOURCES, "filter", num_threads)).tobytes() == expected else 3)
            codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        done.set()
        thread.join()
        print(*codes)
        """
    ).check("0 0 0")
