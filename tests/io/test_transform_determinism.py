"""The same sources, transform and seeds give the same bytes, whoever does the work and in whatever company."""

import hashlib
import io
import random
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import spdl.io
from spdl.io import CenterCrop, ImageTransform, LongerSide, RandomCrop, RandomResizedCrop, ShorterSide, sample_seeds
from tests.io.pictures import draw, make_jpeg
from tests.support.child import environment

TRANSFORMS = {
    "training": ImageTransform((96, 80), crop=RandomResizedCrop(), flip=0.5, dtype="float32", layout="NCHW"),
    "exact": ImageTransform((64, 64), resize=ShorterSide(72), crop=RandomCrop(), flip=0.5, exact=True),
    "evaluation": ImageTransform(64, resize=ShorterSide(72), crop=CenterCrop(), dtype="float16", mean=0.5, std=0.25),
    "fit": ImageTransform((50, 70), resize=LongerSide(), fill=9, color="ycbcr", interpolation="lanczos"),
    "nearest": ImageTransform((50, 70), crop=RandomCrop(), vertical_flip=0.5, color="rgba", interpolation="nearest"),
}


def make_sources() -> list[bytes]:
    """Pictures of many sizes, kinds and formats; the same in every process."""
    sources = [make_jpeg(40 + 37 * i, 150 - 11 * i, seed=i) for i in range(9)]
    sources += [
        make_jpeg(300, 200, subsampling="4:4:4"),
        make_jpeg(90, 400, progressive=True),
        make_jpeg(99, 98, mode="L"),
    ]
    for name in ("PNG", "WEBP", "GIF"):
        stream = io.BytesIO()
        draw(120, 90).save(stream, name)
        sources.append(stream.getvalue())
    return sources


SOURCES = make_sources()
SEEDS = sample_seeds(5, 1, range(len(SOURCES)))


def load(sources: Sequence[bytes], transform: ImageTransform, seeds: Sequence[int], **options: Any) -> NDArray[Any]:
    array: NDArray[Any] = spdl.io.to_numpy(
        spdl.io.load_image_batch(sources, transform=transform, seeds=seeds, **options)
    )
    return array


@pytest.fixture(scope="module")
def expected() -> dict[str, NDArray[Any]]:
    """What the caller's thread makes of each source alone."""
    return {
        name: np.concatenate([load([data], transform, [seed]) for data, seed in zip(SOURCES, SEEDS, strict=True)])
        for name, transform in TRANSFORMS.items()
    }


def is_same(actual: NDArray[Any], expected: NDArray[Any]) -> bool:
    return (actual.dtype, actual.shape) == (expected.dtype, expected.shape) and actual.tobytes() == expected.tobytes()


@pytest.mark.parametrize("num_threads", [0, 1, 2, 3, 8, 40])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_number_of_threads_does_not_matter(name: str, num_threads: int, expected: dict[str, NDArray[Any]]) -> None:
    """Nor does a second call."""
    for _ in range(2):
        assert is_same(load(SOURCES, TRANSFORMS[name], SEEDS, num_threads=num_threads), expected[name])


@pytest.mark.parametrize("num_threads", [0, 2])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_order_of_sources_does_not_matter(name: str, num_threads: int, expected: dict[str, NDArray[Any]]) -> None:
    """A source keeps its seed, so it keeps its picture."""
    order = random.Random(0).sample(range(len(SOURCES)), len(SOURCES))
    batch = load([SOURCES[i] for i in order], TRANSFORMS[name], [SEEDS[i] for i in order], num_threads=num_threads)
    assert is_same(batch, expected[name][order])


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_size_of_batches_does_not_matter(name: str, size: int, expected: dict[str, NDArray[Any]]) -> None:
    """Small batches, one after the other, are the large one."""
    parts = [
        load(SOURCES[i : i + size], TRANSFORMS[name], SEEDS[i : i + size], num_threads=2)
        for i in range(0, len(SOURCES), size)
    ]
    assert is_same(np.concatenate(parts), expected[name])


@pytest.mark.parametrize("num_threads", [0, 3])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_failures_in_between_do_not_matter(name: str, num_threads: int, expected: dict[str, NDArray[Any]]) -> None:
    """What fails leaves no trace in what comes after it, dropped, zeroed or replaced."""
    sources, seeds = list(SOURCES), list(SEEDS)
    for at, junk in ((12, b"junk"), (5, SOURCES[8][:2000]), (0, b"\xff\xd8\xff\xe0")):
        sources.insert(at, junk)
        seeds.insert(at, 3)
    bad = [0, 6, 14]
    good = [i for i in range(len(sources)) if i not in bad]
    options: Any = {"num_threads": num_threads, "strict": False}
    buffer = spdl.io.load_image_batch(sources, transform=TRANSFORMS[name], seeds=seeds, **options)
    failed = [failure.index for failure in buffer.failures]
    if failed == bad:
        assert is_same(spdl.io.to_numpy(buffer), expected[name])
        assert buffer.origins == tuple(good)
    else:  # libjpeg shows what there is of a picture that ends early
        assert failed == [0, 14]
    zeroed = load(sources, TRANSFORMS[name], seeds, missing="zero", **options)
    assert is_same(zeroed[good], expected[name])
    assert not zeroed[[0, 14]].any()
    filled = load(sources, TRANSFORMS[name], seeds, spares=[SOURCES[3]] * 3, **options)
    assert is_same(filled[good], expected[name])
    assert is_same(filled[0], load([SOURCES[3]], TRANSFORMS[name], [3])[0])


@pytest.mark.parametrize("name", TRANSFORMS)
def test_other_threads_do_not_matter(name: str, expected: dict[str, NDArray[Any]]) -> None:
    """Six callers at once, each with threads of its own."""
    start = Barrier(6)

    def work(caller: int) -> bool:
        start.wait()
        return all(
            is_same(load(SOURCES, TRANSFORMS[name], SEEDS, num_threads=caller % 3), expected[name]) for _ in range(2)
        )

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(work, range(6)))


def test_memory_given_does_not_matter(expected: dict[str, NDArray[Any]]) -> None:
    """In an array, in raw memory that is not aligned, in memory of its own."""
    for name, transform in TRANSFORMS.items():
        out = np.full_like(expected[name], 77)
        assert is_same(load(SOURCES, transform, SEEDS, out=out), expected[name])
        assert is_same(out, expected[name])
        raw = bytearray(out.nbytes + 1)
        spdl.io.load_image_batch(SOURCES, transform=transform, seeds=SEEDS, out=memoryview(raw)[1:], num_threads=2)
        assert bytes(raw[1:]) == expected[name].tobytes()


def test_replayed_geometry_gives_the_same_bytes(expected: dict[str, NDArray[Any]]) -> None:
    """What was recorded stands in for the seeds, in any order and number of threads."""
    for name, transform in TRANSFORMS.items():
        buffer = spdl.io.load_image_batch(SOURCES, transform=transform, seeds=SEEDS)
        applied = [each for each in buffer.applied if each is not None]
        again = spdl.io.load_image_batch(SOURCES[::-1], transform=transform, replay=applied[::-1], num_threads=3)
        assert is_same(spdl.io.to_numpy(again)[::-1], expected[name])
        assert again.applied == tuple(applied[::-1])


def digests() -> dict[str, str]:
    """Of the batches; a child prints its own."""
    return {
        name: hashlib.sha256(load(SOURCES, transform, SEEDS, num_threads=2).tobytes()).hexdigest()
        for name, transform in TRANSFORMS.items()
    }


def test_another_process_gives_the_same_bytes() -> None:
    """With another seed for hashes of text, too."""
    script = "from tests.io.test_transform_determinism import digests; print(digests())"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**environment(), "PYTHONHASHSEED": "1234"},
        stdout=subprocess.PIPE,
        check=True,
        text=True,
        timeout=60,
    )
    assert done.stdout.strip() == str(digests())


def test_sample_seeds_are_a_function_of_their_arguments() -> None:
    """Whatever is asked together, and in which order; each argument counts; 64 bits are used."""
    together = sample_seeds(1, 2, range(1000))
    assert together == [sample_seeds(1, 2, [i])[0] for i in range(1000)]
    assert sample_seeds(1, 2, reversed(range(1000))) == together[::-1]
    assert sample_seeds(1, 2, np.arange(1000)) == together
    assert sample_seeds(1, 2, [7, 7, 3]) == [together[7], together[7], together[3]]
    others = [sample_seeds(0, 2, range(1000)), sample_seeds(1, 3, range(1000)), sample_seeds(2, 1, range(1000))]
    assert len({*together, *(seed for other in others for seed in other)}) == 4000
    assert all(isinstance(seed, int) and 0 <= seed < 1 << 64 for seed in together)
    bits = np.array([[seed >> bit & 1 for bit in range(64)] for seed in together])
    assert (abs(bits.mean(axis=0) - 0.5) < 0.06).all()
    assert sample_seeds(1, 2, []) == []
