"""Sources that cannot be loaded in batches of transformed pictures, and spares in their place."""

import itertools
import logging
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import spdl.io
from spdl.io import BatchLoadError, ImageTransform, load_image_batch, sample_seeds
from tests.io.transformed import JPEG, JUNK, PLAIN, RANDOM, flat, load, shades
from tests.support.child import run_child


def test_strict_batch_raises_with_all_failures(caplog: pytest.LogCaptureFixture) -> None:
    """And logs each."""
    with pytest.raises(spdl.io.BatchLoadError, match=r"Failed to load some images\. \(2 of 3\)") as caught:
        load([JUNK, JPEG, b""])
    assert [failure.index for failure in caught.value.failures] == [0, 2]
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        "Image 0 of a batch of 3",
        "Image 2 of a batch of 3",
    ]


def test_images_that_fail_are_dropped() -> None:
    """The others keep their order, and know where they come from."""
    pictures = [JUNK, flat(50), JUNK, flat(100), flat(150), JUNK]
    buffer = load_image_batch(pictures, transform=PLAIN, strict=False)
    assert buffer.shape == (3, 12, 16, 3)
    assert shades(buffer) == [50, 100, 150]
    assert buffer.origins == (1, 3, 4)
    assert len(buffer.applied) == 3
    assert [failure.index for failure in buffer.failures] == [0, 2, 5]
    assert all(failure.source is JUNK for failure in buffer.failures)


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_images_that_fail_can_be_zero(dtype: Any) -> None:
    """The batch keeps its size; zero are the bytes, whatever fill and mean are, also in memory that was used before."""
    transform = ImageTransform((12, 16), dtype=dtype, fill=99, mean=None if dtype == "uint8" else 0.5)
    out = np.full((3, 12, 16, 3), 7, dtype)
    buffer = load_image_batch([JUNK, flat(51), JUNK], transform=transform, strict=False, missing="zero", out=out)
    assert buffer.shape == (3, 12, 16, 3)
    assert not out[[0, 2]].any()
    assert out[1].any()
    assert buffer.origins == (None, 1, None)
    assert [applied is None for applied in buffer.applied] == [True, False, True]
    assert len(buffer.failures) == 2


def test_batch_without_any_image_is_an_error() -> None:
    """There is nothing to train on, and somebody should know."""
    with pytest.raises(spdl.io.BatchLoadError, match="2 of 2"):
        load([JUNK, JUNK], strict=False)


def test_batch_of_zeros_keeps_its_size_even_without_any_image() -> None:
    """Workers that train together must take as many steps."""
    buffer = load_image_batch([JUNK, JUNK], transform=PLAIN, strict=False, missing="zero")
    assert buffer.shape == (2, 12, 16, 3)
    assert not spdl.io.to_numpy(buffer).any()
    assert (buffer.origins, buffer.applied) == ((None, None), (None, None))


def counted(items: list[Any]) -> tuple[Iterator[Any], list[Any]]:
    """An iterator, and what was taken from it."""
    taken: list[Any] = []

    def take() -> Iterator[Any]:
        for item in items:
            taken.append(item)
            yield item

    return take(), taken


def test_spares_take_the_place_of_failures() -> None:
    """In order, as many as are needed; the failures are still told."""
    spares, taken = counted([flat(200), flat(210), flat(220)])
    buffer = load_image_batch([flat(10), JUNK, flat(30), b""], transform=PLAIN, spares=spares)
    assert shades(buffer) == [10, 200, 30, 210]
    assert buffer.origins == (0, 4, 2, 5)
    assert [failure.index for failure in buffer.failures] == [1, 3]
    assert [applied and applied.source_size for applied in buffer.applied] == [(15, 20)] * 4
    assert len(taken) == 2


def test_spares_that_fail_are_followed_by_others(caplog: pytest.LogCaptureFixture) -> None:
    """The first slot that is still empty gets the next one; what failed has its index among all sources."""
    pictures = [JUNK, flat(10), JUNK, JUNK]
    spares, taken = counted([JUNK, flat(200), b"", JUNK, flat(210), flat(220), flat(230)])
    buffer = load_image_batch(pictures, transform=PLAIN, spares=spares)
    # First round: spares 0, 1, 2 for slots 0, 2, 3. Second: 3, 4 for 0, 3. Third: 5 for 0.
    assert shades(buffer) == [220, 10, 200, 210]
    assert buffer.origins == (9, 1, 5, 8)
    assert [failure.index for failure in buffer.failures] == [0, 2, 3, 4, 6, 7]
    assert buffer.failures[4].source == b""
    assert len(taken) == 6
    assert "Spare 2 of a batch of 4: " in caplog.text


def test_spares_are_not_touched_where_all_goes_well() -> None:
    """Not even one."""
    spares, taken = counted([flat(1)])
    load([JPEG], spares=spares)
    assert taken == []


def test_endless_spares_are_fine() -> None:
    """As long as some of them load."""
    spares = itertools.cycle([JUNK, flat(77)])
    assert shades(load_image_batch([JUNK] * 5, transform=PLAIN, spares=spares)) == [77] * 5


def test_endless_spares_that_all_fail_end() -> None:
    """Where a hundred spares for each source fail, more would not help."""
    with pytest.raises(BatchLoadError) as caught:
        load_image_batch([JUNK, JPEG], transform=PLAIN, spares=itertools.repeat(JUNK))
    assert len(caught.value.failures) == 1 + 200


@pytest.mark.parametrize("num_threads", [0, 2])
def test_signal_ends_a_batch_that_takes_long(num_threads: int) -> None:
    """What a handler raises, such as KeyboardInterrupt, arrives before all is loaded."""
    run_child(
        f"""
        import signal
        from spdl.io import load_image_batch
        from tests.io.pictures import make_jpeg
        from tests.io.transformed import PLAIN

        class Enough(Exception):
            pass

        def stop(*_):
            raise Enough

        signal.signal(signal.SIGALRM, stop)
        sources = [make_jpeg(1000, 800)] * 20_000  # some hundred are loaded in the time between two looks
        # Loading the extension swallows what a handler raises meanwhile (nanobind clears errors of its own start).
        load_image_batch(sources[:1], transform=PLAIN)
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        try:
            load_image_batch(sources, transform=PLAIN, num_threads={num_threads})
        except Enough:
            print("ended")
        """
    ).check("ended")


@pytest.mark.parametrize(
    ("options", "expected", "origins"),
    [({"missing": "drop"}, [10, 90], (0, 4)), ({"missing": "zero"}, [10, 90, 0, 0], (0, 4, None, None))],
)
def test_too_few_spares_leave_the_rest_to_missing(options: Any, expected: list[int], origins: Any) -> None:
    """Slots are filled from the front."""
    pictures = [flat(10), JUNK, JUNK, JUNK]
    buffer = load_image_batch(pictures, transform=PLAIN, spares=[flat(90), JUNK], strict=False, **options)
    assert shades(buffer) == expected
    assert buffer.origins == origins
    with pytest.raises(spdl.io.BatchLoadError, match="2 of 4") as caught:
        load(pictures, spares=[flat(90), JUNK])
    assert [failure.index for failure in caught.value.failures] == [1, 2, 3, 5]


def test_spare_has_the_seed_of_its_slot() -> None:
    """It is what would have been drawn for the picture in its place."""
    seeds = sample_seeds(0, 0, range(4))
    whole = load_image_batch([JPEG] * 4, transform=RANDOM, seeds=seeds)
    patched = load_image_batch([JPEG, JUNK, JUNK, JPEG], transform=RANDOM, seeds=seeds, spares=[JUNK, JPEG, JPEG])
    assert patched.origins == (0, 6, 5, 3)
    assert patched.applied == whole.applied
    assert bytes(memoryview(patched)) == bytes(memoryview(whole))


def test_spare_repeats_the_geometry_of_its_slot() -> None:
    """Where it has the recorded size; otherwise it fails too."""
    applied = load_image_batch([JPEG] * 2, transform=RANDOM, seeds=[1, 2]).applied
    buffer = load_image_batch([JPEG, JUNK], transform=PLAIN, replay=applied, spares=[flat(1), JPEG])
    assert buffer.applied == applied
    assert [failure.index for failure in buffer.failures] == [1, 2]


def test_error_of_the_iterable_of_spares_is_not_hidden() -> None:
    """It is the user's."""

    def broken() -> Iterator[Any]:
        yield JUNK
        raise KeyError("no more")

    with pytest.raises(KeyError, match="no more"):
        load([JUNK, JPEG], spares=broken())


def test_batch_that_loads_logs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Silence is success."""
    with caplog.at_level(logging.DEBUG, logger="spdl.io"):
        load([JPEG])
    assert caplog.records == []
