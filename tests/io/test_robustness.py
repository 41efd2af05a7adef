"""Hostile input, many threads, long runs: nothing crashes, nothing is mixed up, nothing grows."""

import random
import resource
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np
import pytest

import spdl.io
from tests.io.pictures import make_jpeg
from tests.support.soak import seeds

SEEDS = [
    make_jpeg(48, 36),
    make_jpeg(33, 50, subsampling="4:2:2"),
    make_jpeg(40, 30, progressive=True),
    make_jpeg(24, 24, mode="CMYK"),
    make_jpeg(40, 40, mode="L", restart_marker_blocks=2),
    make_jpeg(64, 20, exif=b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"),
]


def mutate(data: bytes, rng: random.Random) -> bytes:
    """The data with one to four things wrong with it."""
    bytes_ = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(bytes_))
        match rng.randrange(6):
            case 0:
                bytes_[at] = rng.randrange(256)
            case 1:
                bytes_[at] ^= 1 << rng.randrange(8)
            case 2:
                del bytes_[at : at + rng.randint(1, 40)]
            case 3:
                bytes_[at:at] = rng.randbytes(rng.randint(1, 20))
            case 4:
                bytes_[at : at + 2] = bytes([0xFF, rng.randrange(256)])
            case _:
                # Most of what libjpeg has to believe is in the first hundreds of bytes.
                bytes_[rng.randrange(min(len(bytes_), 620))] = rng.choice([0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF])
        if len(bytes_) < 4:
            return bytes(bytes_)
    return bytes(bytes_)


def mutants(count: int, seed: int) -> Iterator[bytes]:
    rng = random.Random(seed)
    for _ in range(count):
        yield mutate(rng.choice(SEEDS), rng)


def load_mutants(count: int, seed: int) -> tuple[int, int]:
    """How many mutated pictures load and how many fail, each with an error of the package."""
    batch = 50
    loaded = failed = 0
    sources = list(mutants(count, seed))
    for start in range(0, count, batch):
        chunk = [*sources[start : start + batch], SEEDS[0]]
        buffer = spdl.io.load_image_batch(chunk, width=20, height=20, strict=False, orient=True)
        assert all(isinstance(failure.error, spdl.io.MediaError) for failure in buffer.failures)
        assert len(buffer.failures) + buffer.shape[0] == len(chunk)
        loaded += buffer.shape[0] - 1
        failed += len(buffer.failures)
        # The good one at the end is what it always is, whatever came before it.
        assert (spdl.io.to_numpy(buffer)[-1] == GOOD).all()
    return loaded, failed


GOOD = spdl.io.to_numpy(spdl.io.load_image_batch([SEEDS[0]], width=20, height=20))[0].copy()


@pytest.mark.soak
@pytest.mark.parametrize("seed", seeds(2, soak=8))
def test_mutated_pictures_load_or_fail_but_never_crash(seed: int) -> None:
    """Thousands of JPEGs with damage anywhere: a typed outcome each, and no effect on the next."""
    loaded, failed = load_mutants(1000, seed)
    assert loaded > 100
    assert failed > 100


@pytest.mark.parametrize("index", range(len(SEEDS)))
def test_every_truncation_is_an_outcome(index: int) -> None:
    """Cut at every tenth byte."""
    data = SEEDS[index]
    buffer = spdl.io.load_image_batch(
        [data[:n] for n in range(0, len(data), 10)] + [data], width=8, height=8, strict=False
    )
    assert all(isinstance(failure.error, spdl.io.OpenError | spdl.io.DecodeError) for failure in buffer.failures)


def test_random_bytes_after_a_start_marker() -> None:
    """What only begins like a JPEG."""
    rng = random.Random(0)
    sources = [b"\xff\xd8\xff" + rng.randbytes(rng.randint(0, 300)) for _ in range(300)]
    buffer = spdl.io.load_image_batch([*sources, SEEDS[0]], width=8, height=8, strict=False)
    assert len(buffer.failures) == 300


def test_many_threads_load_their_own(tmp_path: Path) -> None:
    """Eight threads at once get what one gets, from memory and from files, with failures between."""
    pictures = [make_jpeg(40 + 3 * i, 30 + 5 * i, seed=i) for i in range(8)]
    expected = [spdl.io.to_numpy(spdl.io.load_image_batch([data], width=24, height=24)) for data in pictures]
    paths = []
    for i, data in enumerate(pictures):
        paths.append(tmp_path / f"{i}.jpg")
        paths[-1].write_bytes(data)
    start = Barrier(8)

    def work(i: int) -> bool:
        start.wait()
        same = True
        for _ in range(20):
            buffer = spdl.io.load_image_batch([pictures[i], b"junk", paths[i]], width=24, height=24, strict=False)
            batch = spdl.io.to_numpy(buffer)
            same &= len(buffer.failures) == 1 and bool((batch == expected[i]).all())
        return same

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))


def test_one_source_in_many_batches_at_once() -> None:
    """A buffer may be read by several calls at the same time."""
    source = bytearray(SEEDS[0])
    with ThreadPoolExecutor(4) as pool:
        batches = list(pool.map(lambda _: spdl.io.load_image_batch([source] * 4, width=20, height=20), range(16)))
    assert all((spdl.io.to_numpy(batch) == GOOD).all() for batch in batches)


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in other units elsewhere")
def test_memory_does_not_grow(tmp_path: Path) -> None:
    """Five thousand loads, of which many fail, need no more memory than five hundred."""
    path = tmp_path / "a.jpg"
    path.write_bytes(SEEDS[0])
    sources: list[Any] = [path, *SEEDS, b"junk", SEEDS[0][:300], tmp_path / "none.jpg"]

    def load(times: int) -> int:
        for _ in range(times):
            spdl.io.load_image_batch(sources, width=64, height=64, strict=False, orient=True)
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    before = load(50)
    after = load(500)
    assert after - before < 4096  # KiB


def test_large_picture_leaves_no_large_scratch() -> None:
    """The decoder of a thread gives back what one picture of tens of megapixels made it take."""
    large = make_jpeg(64, 64, subsampling="4:4:4")
    at = large.index(b"\xff\xc0") + 5
    bomb = large[:at] + (12_000).to_bytes(2, "big") * 2 + large[at + 4 :]
    before = resident()
    for _ in range(3):
        buffer = spdl.io.load_image_batch([bomb, SEEDS[0]], width=8, height=8, strict=False)
        assert len(buffer.failures) == 1
    assert resident() - before < 64 << 20


def resident() -> int:
    """Bytes of memory of this process."""
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[1]) * resource.getpagesize() if statm.exists() else 0


def test_scratch_follows_the_size_of_each_picture() -> None:
    """Small after large after small: no picture sees what another left."""
    sizes = [(10, 10), (300, 200), (11, 9), (200, 300), (1, 1), (640, 33)]
    pictures = [make_jpeg(*size, seed=i) for i, size in enumerate(sizes)]
    alone = [spdl.io.to_numpy(spdl.io.load_image_batch([data], width=50, height=40)) for data in pictures]
    together = spdl.io.to_numpy(spdl.io.load_image_batch(pictures * 2, width=50, height=40))
    assert (together == np.concatenate(alone * 2)).all()
