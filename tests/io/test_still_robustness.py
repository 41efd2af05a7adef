"""Damaged images that are not JPEG, many threads, long runs: nothing crashes, nothing is mixed up, nothing grows."""

import io
import random
import resource
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import numpy as np
import pytest

import spdl.io
from tests.io.pictures import draw, make_jpeg


def encoded(name: str, mode: str = "RGB", **options: Any) -> bytes:
    """A picture in one of Pillow's formats."""
    stream = io.BytesIO()
    picture = draw(48, 36)
    (picture.quantize(32) if mode == "P" else picture.convert(mode)).save(stream, name, **options)
    return stream.getvalue()


SEEDS = {
    "png": encoded("PNG"),
    "png-palette": encoded("PNG", "P"),
    "png-gray-alpha": encoded("PNG", "LA"),
    "gif": encoded("GIF"),
    "bmp": encoded("BMP"),
    "bmp-palette": encoded("BMP", "P"),
    "webp": encoded("WEBP"),
    "webp-lossless": encoded("WEBP", lossless=True),
    "webp-alpha": encoded("WEBP", "RGBA"),
    "webp-animated": encoded("WEBP", save_all=True, append_images=[draw(48, 36, seed=1)]),
    "tiff": encoded("TIFF"),
    "tiff-lzw": encoded("TIFF", compression="tiff_lzw"),
    "tiff-palette": encoded("TIFF", "P"),
    "avif": encoded("AVIF"),
    "ppm": encoded("PPM"),
    "jpeg2000": encoded("JPEG2000"),
    "ico": encoded("ICO", sizes=[(48, 36), (16, 16)]),
    "pcx": encoded("PCX"),
}
GOOD = make_jpeg(48, 36)


@pytest.mark.parametrize("start", [data[:12] for data in SEEDS.values()], ids=SEEDS)
def test_random_bytes_after_a_start(start: bytes) -> None:
    """What only begins like a picture is an error, with rare luck a picture."""
    rng = random.Random(0)
    sources = [start + rng.randbytes(rng.randint(0, 300)) for _ in range(40)]
    buffer = spdl.io.load_image_batch([*sources, GOOD], width=8, height=8, strict=False)
    assert len(buffer.failures) >= 30


def test_many_threads_load_their_own() -> None:
    """Eight threads at once get what one gets, formats mixed and failures between."""
    kinds = list(SEEDS)
    expected = {
        kind: spdl.io.to_numpy(spdl.io.load_image_batch([SEEDS[kind]], width=24, height=24))[0] for kind in kinds
    }
    start = Barrier(8)

    def work(thread: int) -> bool:
        start.wait()
        order = kinds[thread:] + kinds[:thread]
        sources = [b"junk", GOOD, *(SEEDS[kind] for kind in order)]
        same = True
        for _ in range(5):
            buffer = spdl.io.load_image_batch(sources, width=24, height=24, strict=False)
            batch = spdl.io.to_numpy(buffer)
            same &= len(buffer.failures) == 1
            same &= all((batch[1 + i] == expected[kind]).all() for i, kind in enumerate(order))
        return same

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))


def test_one_source_is_loaded_by_many_threads() -> None:
    """A buffer may be read by several calls at the same time, in every way."""
    source = bytearray(SEEDS["png"])
    expected = spdl.io.to_numpy(spdl.io.load_image(source))

    def work(_: int) -> bool:
        alone = spdl.io.to_numpy(spdl.io.load_image(source))
        batch = spdl.io.load_image_batch([source], width=48, height=36)
        return bool((alone == expected).all() and (spdl.io.to_numpy(batch)[0] == expected).all())

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(32)))


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in other units elsewhere")
@pytest.mark.parametrize("way", ["batch", "filters", "image"])
def test_memory_does_not_grow(way: str) -> None:
    """Thousands of loads, of which many fail, need no more memory than hundreds."""
    sources = [*SEEDS.values(), b"junk", *(data[: len(data) // 2] for data in SEEDS.values())]
    options: dict[str, Any] = {"filter_desc": "scale=w=32:h=32,format=pix_fmts=rgb24"} if way == "filters" else {}

    def load(times: int) -> int:
        for _ in range(times):
            if way == "image":
                for source in sources[: len(SEEDS)]:
                    spdl.io.load_image(source, orient=True)
            else:
                spdl.io.load_image_batch(sources, width=32, height=32, strict=False, orient=True, **options)
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    before = load(20)
    after = load(100)
    assert after - before < 4096  # KiB


def test_scratch_follows_the_size_of_each_picture() -> None:
    """Small after large after small: no picture sees what another left."""
    rng = np.random.default_rng(0)
    sources = []
    for width, height in ((10, 10), (300, 200), (11, 9), (1, 1), (640, 33)):
        for name in ("PNG", "WEBP", "GIF"):
            stream = io.BytesIO()
            draw(width, height, seed=int(rng.integers(100))).save(stream, name)
            sources.append(stream.getvalue())
    alone = [spdl.io.to_numpy(spdl.io.load_image_batch([data], width=50, height=40)) for data in sources]
    together = spdl.io.to_numpy(spdl.io.load_image_batch(sources * 2, width=50, height=40))
    assert (together == np.concatenate(alone * 2)).all()
