"""Image transforms among threads, signals and forks, and over long runs: nothing is mixed up, nothing is left."""

import gc
import resource
import sys
import threading
from typing import Any

import numpy as np
import pytest

import spdl.io
from spdl.io import MediaError
from tests.io.pictures import make_jpeg
from tests.io.test_transform_robustness import JPEGS, SEEDS, TRAINING, TRANSFORMS, load
from tests.support.child import run_child


@pytest.mark.parametrize("num_threads", [0, 4])
def test_memory_that_is_too_small_is_refused_untouched(num_threads: int) -> None:
    """Before anything is written, with and without threads."""
    for out in (
        np.full(24 * 24 * 3 * 2 - 1, 7, np.uint8),
        np.full((1, 24, 24, 3), 7, np.uint8),
        np.full(0, 7, np.uint8),
    ):
        with pytest.raises((ValueError, MediaError)):
            load([SEEDS["420"]] * 2, out=out, num_threads=num_threads)
        assert (out == 7).all()


def test_list_of_sources_may_change_meanwhile() -> None:
    """The call has its own."""
    good = make_jpeg(400, 300)
    expected = load([good], TRAINING)
    sources: list[Any] = [good] * 60
    started = threading.Event()

    def empty() -> None:
        started.set()
        while sources:
            sources.pop()

    thread = threading.Thread(target=empty)

    class Sources(list[Any]):
        """Starts the other thread when it is first looked at."""

        def __iter__(self) -> Any:
            for i, each in enumerate([*sources]):
                if i == 59:
                    thread.start()
                    started.wait()
                yield each

    buffer = spdl.io.load_image_batch(Sources(sources), transform=TRAINING, seeds=[0] * 60, num_threads=2)
    thread.join()
    batch = spdl.io.to_numpy(buffer)
    assert len(batch) == 60
    assert (batch == expected[0]).all()


def test_spares_that_raise_pass_their_error_on() -> None:
    """Even from the middle of a batch, with threads; the next call is well."""

    def spares() -> Any:
        yield b"junk"
        raise KeyError("no more")

    for num_threads in (0, 3):
        with pytest.raises(KeyError, match="no more"):
            load([SEEDS["420"], b"junk", b"junk"], spares=spares(), num_threads=num_threads)
        assert len(load([SEEDS["420"]], num_threads=num_threads)) == 1


def test_what_was_applied_outlives_the_buffer() -> None:
    """Tuples of origins, failures and geometry keep nothing alive that they need, nor need what is gone."""
    buffer = spdl.io.load_image_batch([*SEEDS.values(), b"junk"], transform=TRAINING, seeds=range(16), strict=False)
    applied, origins, failures = buffer.applied, buffer.origins, buffer.failures
    array = spdl.io.to_numpy(buffer)
    copy = array.copy()
    del buffer
    gc.collect()
    load([SEEDS["png"]] * 20, TRAINING)
    assert (array == copy).all()
    assert [each.size for each in applied if each is not None] == [(24, 20)] * 15
    assert origins == tuple(range(15))
    assert failures[0].index == 15
    del array
    gc.collect()
    assert applied[0] is not None
    assert applied[0].matrix().shape == (3, 3)


def test_interrupt_during_a_call_is_a_keyboard_interrupt() -> None:
    """Ctrl-C while threads decode: the call ends, the exception is raised, and the process goes on."""
    ended = run_child(
        """
        import os, signal, threading
        import numpy as np
        import spdl.io
        from spdl.io import ImageTransform, RandomResizedCrop
        from tests.io.pictures import make_jpeg

        transform = ImageTransform(64, crop=RandomResizedCrop())
        sources = [make_jpeg(1200, 900)] * 60
        out = np.zeros((60, 64, 64, 3), np.uint8)

        def send():
            while not out.any():  # until the first pictures are there, and the call is under way
                pass
            os.kill(os.getpid(), signal.SIGINT)

        signal.signal(signal.SIGINT, signal.default_int_handler)
        threading.Thread(target=send, daemon=True).start()
        try:
            spdl.io.load_image_batch(sources, transform=transform, seeds=range(60), num_threads=2, out=out)
            while True:
                pass
        except KeyboardInterrupt:
            print("interrupted")
        print(len(spdl.io.to_numpy(spdl.io.load_image_batch(sources[:1], transform=transform, seeds=[1]))))
        """
    )
    ended.check("interrupted 1")


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
def test_child_of_a_fork_during_a_call_can_load() -> None:
    """Whatever locks other threads held at that moment."""
    ended = run_child(
        """
        import os, threading, warnings
        import spdl.io
        from spdl.io import ImageTransform, RandomResizedCrop
        from tests.io.pictures import make_jpeg
        from tests.io.test_transform_robustness import SEEDS

        warnings.simplefilter("ignore", DeprecationWarning)  # of forks with threads: that is the point
        transform = ImageTransform(64, crop=RandomResizedCrop())
        sources = [make_jpeg(300, 200), *SEEDS.values()] * 4
        def load(num_threads):
            return spdl.io.to_numpy(spdl.io.load_image_batch(
                sources, transform=transform, seeds=range(len(sources)), num_threads=num_threads)).tobytes()
        expected = load(0)
        done = threading.Event()
        started = threading.Barrier(3)
        def work():
            load(3)
            started.wait()
            while not done.is_set():
                load(3)
        threads = [threading.Thread(target=work) for _ in range(2)]
        for each in threads:
            each.start()
        started.wait()
        codes = []
        for num_threads in (0, 1, 3, 0, 3):
            pid = os.fork()
            if pid == 0:
                os._exit(0 if load(num_threads) == expected else 3)
            codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        done.set()
        for each in threads:
            each.join()
        print(*codes)
        """
    )
    ended.check("0 0 0 0 0")


@pytest.mark.soak(only=True)
@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
def test_children_of_forks_while_threads_start_can_start_some() -> None:
    """The stacks that are being prepared for them are no trap: without a lock, one child of two thousand crashed."""
    run_child(
        """
        import os, threading, warnings
        import spdl.io
        from spdl.io import ImageTransform
        from tests.io.pictures import make_jpeg

        warnings.simplefilter("ignore", DeprecationWarning)  # of forks with threads: that is the point
        sources = [make_jpeg(16, 16)] * 8
        def load():
            return spdl.io.load_image_batch(sources, transform=ImageTransform(16), num_threads=4)
        done = threading.Event()
        def work():
            while not done.is_set():
                load()
        load()
        threads = [threading.Thread(target=work) for _ in range(2)]
        for each in threads:
            each.start()
        try:
            for _ in range(2000):
                pid = os.fork()
                if pid == 0:
                    for _ in range(5):
                        load()
                    os._exit(0)
                assert os.waitpid(pid, 0)[1] == 0
        finally:
            done.set()
        """
    ).check()


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in other units elsewhere")
@pytest.mark.parametrize("num_threads", [0, 4])
def test_memory_does_not_grow(num_threads: int) -> None:
    """Two thousand calls, of which many have failures, need no more memory than two hundred."""
    sources = [*SEEDS.values(), b"junk", *(data[: len(data) // 2] for data in JPEGS.values())]

    def run(times: int) -> int:
        for i in range(times):
            transform = TRANSFORMS[i % len(TRANSFORMS)]
            part = [SEEDS["420"], *sources[i % 17 : i % 17 + 4]]
            options: Any = {"seeds": range(i, i + len(part)), "num_threads": num_threads, "missing": "zero"}
            spdl.io.load_image_batch(part, transform=transform, strict=False, **options)
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    before = run(200)
    after = run(1800)
    assert after - before < 6144  # KiB
