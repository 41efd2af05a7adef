"""Pictures for the tests, and what independent decoders make of them."""

import io
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Pixels = NDArray[np.uint8]


def draw(width: int, height: int, *, seed: int = 0, mode: str = "RGB") -> Image.Image:
    """A picture with the statistics of a photograph: soft shapes, edges and some texture."""
    rng = np.random.default_rng(seed)
    layers = np.zeros((height, width, 3))
    for size, weight in ((4, 110), (16, 60), (64, 30)):
        coarse = Image.fromarray(rng.integers(0, 256, (size, size, 3), np.uint8))
        layers += weight * np.asarray(coarse.resize((width, height), Image.Resampling.BICUBIC)) / 255
    edge = np.linspace(0, 1, width)[None, :] + np.linspace(0, 1, height)[:, None] > 1.1
    layers += np.where(edge, 40, 0)[..., None]
    pixels = np.clip(layers + rng.normal(0, 4, layers.shape), 0, 255).astype(np.uint8)
    return Image.fromarray(pixels).convert(mode)


def encode(picture: Image.Image, **options: Any) -> bytes:
    """The picture as a JPEG, of quality 90 unless told otherwise."""
    stream = io.BytesIO()
    picture.save(stream, "JPEG", **{"quality": 90, **options})
    return stream.getvalue()


def make_jpeg(width: int, height: int, *, seed: int = 0, mode: str = "RGB", **options: Any) -> bytes:
    """A JPEG of a picture like a photograph."""
    return encode(draw(width, height, seed=seed, mode=mode), **options)


def write_jpeg(path: Path, width: int = 64, height: int = 48, **options: Any) -> Path:
    """A file with such a JPEG."""
    path.write_bytes(make_jpeg(width, height, **options))
    return path


def decode(data: bytes, mode: str = "RGB") -> Image.Image:
    """What Pillow makes of a JPEG."""
    with Image.open(io.BytesIO(data)) as picture:
        return picture.convert(mode)


def resized(data: bytes, width: int, height: int, mode: str = "RGB") -> Pixels:
    """What Pillow makes of a JPEG at another size, with the filter that the loader uses."""
    return np.asarray(decode(data, mode).resize((width, height), Image.Resampling.BICUBIC))


def with_png_checks(data: bytes) -> bytes:
    """The data, with the sums of its chunks as they should be if it is a PNG."""
    if not data.startswith(b"\x89PNG\r\n\x1a\n"):
        return data
    fixed, at = bytearray(data[:8]), 8
    while at + 12 <= len(data):
        end = min(at + 8 + int.from_bytes(data[at : at + 4], "big"), len(data) - 4)
        fixed += data[at:end] + zlib.crc32(data[at + 4 : end]).to_bytes(4, "big")
        at = end + 4
    return bytes(fixed)


def difference(actual: Pixels, expected: Pixels) -> NDArray[np.float64]:
    """Absolute differences, after making sure that the shapes agree."""
    assert actual.shape == expected.shape
    return np.abs(actual.astype(np.float64) - expected.astype(np.float64))


def psnr(actual: Pixels, expected: Pixels) -> float:
    """Peak signal to noise ratio in dB; higher is more alike."""
    mean_square = float((difference(actual, expected) ** 2).mean())
    return 99.0 if mean_square == 0 else 10 * float(np.log10(255**2 / mean_square))
