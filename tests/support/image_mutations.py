"""Images with damage anywhere, on every path from bytes to pixels: a typed error or a result, no crash, no hang.

Short in the test suite; long by hand, in its own process so that a crash is visible::

    python -m tests.support.image_mutations COUNT [SEED]
"""

import io
import random
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

import spdl.io
from spdl.io import CenterCrop, Crop, ImageTransform, LongerSide, RandomResizedCrop, ShorterSide
from tests.io.pictures import draw, make_jpeg, with_png_checks
from tests.support.heif_files import HeifFile, encode
from tests.support.image_files import tiff, with_component_ids, without_marker

GOLDEN = Path(__file__).parents[1] / "golden"
TRANSFORMS = [
    ImageTransform((24, 20), crop=RandomResizedCrop(), flip=0.5, dtype="float32", layout="NCHW"),
    ImageTransform(24, resize=ShorterSide(28), crop=CenterCrop(), exact=True),
    ImageTransform((30, 20), resize=LongerSide(), fill=1, color="ycbcr"),
    ImageTransform((7, 9), crop=Crop(2, 3, 11, 13), color="rgba", interpolation="lanczos"),
    ImageTransform((60, 70), crop=CenterCrop(), color="gray", dtype="float16"),
]
# So that a header with a billion pixels is refused at once.
MAX_PIXELS = 1 << 22


def saved(name: str, mode: str = "RGB", **options: Any) -> bytes:
    """A picture in one of Pillow's formats."""
    stream = io.BytesIO()
    picture = draw(48, 36)
    (picture.quantize(32) if mode == "P" else picture.convert(mode)).save(stream, name, **options)
    return stream.getvalue()


def heic(levels: NDArray[np.uint8]) -> bytes:
    """A gray picture in HEVC, turned and cropped."""
    file = HeifFile()
    height, width = levels.shape[:2]
    properties = [file.add_crop(width, height, (2, 4, height - 4, width - 8)), file.add_turns(1)]
    return file.to_bytes(file.add(encode([levels[..., 0].astype(np.int64)]), *properties))


@cache
def seeds() -> dict[str, bytes]:
    """An undamaged image of every kind that has its own code, here or in FFmpeg."""
    exif = Image.Exif()
    exif[274] = 6
    turned: dict[str, Any] = {"exif": exif.tobytes()}
    animated: dict[str, Any] = {"save_all": True, "append_images": [draw(48, 36, seed=1)]}
    levels = np.asarray(draw(48, 36))
    files = {
        "jpeg": make_jpeg(48, 36, **turned),
        "jpeg 4:2:2": make_jpeg(33, 50, subsampling="4:2:2"),
        "jpeg progressive": make_jpeg(40, 30, progressive=True),
        "jpeg cmyk": make_jpeg(24, 24, mode="CMYK"),
        "jpeg cmyk, bare": without_marker(make_jpeg(24, 24, mode="CMYK"), 0xEE),
        "jpeg rgb": with_component_ids(make_jpeg(24, 24, subsampling="4:4:4"), b"RGB"),
        "jpeg gray, restarts": make_jpeg(40, 40, mode="L", restart_marker_blocks=2),
        "png": saved("PNG", **turned),
        "png palette": saved("PNG", "P"),
        "png alpha": saved("PNG", "RGBA"),
        "png gray alpha": saved("PNG", "LA"),
        "gif": saved("GIF"),
        "gif animated": saved("GIF", **animated),
        "bmp": saved("BMP"),
        "bmp palette": saved("BMP", "P"),
        "webp": saved("WEBP", **turned),
        "webp lossless": saved("WEBP", lossless=True),
        "webp alpha": saved("WEBP", "RGBA"),
        "webp animated": saved("WEBP", **animated),
        "tiff": saved("TIFF", **turned),
        "tiff lzw": saved("TIFF", compression="tiff_lzw"),
        "tiff palette": saved("TIFF", "P"),
        "tiff jpeg": saved("TIFF", compression="jpeg"),
        "tiff fax": saved("TIFF", "1", compression="group4"),
        "tiff deflate": saved("TIFF", compression="tiff_adobe_deflate", tiffinfo={317: 2}),
        "tiff big": saved("TIFF", "RGBA", big_tiff=True),
        "tiff floats": saved("TIFF", "F"),
        "tiff multiplied": tiff(np.dstack([levels // 2, levels[..., :1]]), 2, extra=[1]),
        "avif": saved("AVIF", **turned),
        "ppm": saved("PPM"),
        "pgm 16 bits": b"P5\n48 36\n4095\n" + (levels[..., 0].astype(">u2") * 16).astype(">u2").tobytes(),
        "ppm text": b"P3\n48 36 255\n" + " ".join(map(str, levels.ravel().tolist())).encode(),
        "pam": b"P7\nWIDTH 48\nHEIGHT 36\nDEPTH 3\nMAXVAL 255\nTUPLTYPE RGB\nENDHDR\n" + levels.tobytes(),
        "pfm": b"PF\n48 36\n-1.0\n" + levels.astype("<f4").tobytes(),
        "heic": heic(levels),
        "jpeg2000": saved("JPEG2000"),
        "qoi": saved("QOI"),
        "ico": saved("ICO", sizes=[(48, 36), (16, 16)]),
        "pcx": saved("PCX"),
    }
    return files | {path.stem: path.read_bytes() for path in sorted(GOLDEN.glob("*.jpg"))}


def mutate(data: bytes, rng: random.Random) -> bytes:
    """The data with one to four errors, most of them at the start, in the headers."""
    bytes_ = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        if len(bytes_) < 8:
            break
        at = rng.randrange(len(bytes_) if rng.random() < 0.4 else min(len(bytes_), 300))
        match rng.randrange(8):
            case 0:
                bytes_[at] = rng.randrange(256)
            case 1:
                bytes_[at] ^= 1 << rng.randrange(8)
            case 2:
                del bytes_[at : at + rng.randint(1, 40)]
            case 3:
                bytes_[at:at] = rng.randbytes(rng.randint(1, 20))
            case 4:
                bytes_[at] = rng.choice([0, 1, 0x7F, 0x80, 0xFF])
            case 5:
                bytes_[at : at + 4] = rng.choice([b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\0\0\0", b"\0\1\0\0"])
            case 6:
                bytes_[at:at] = bytes_[at : at + rng.randint(1, 200)]
            case _:
                del bytes_[max(at, len(bytes_) - rng.randint(1, 400)) :]
    return with_png_checks(bytes(bytes_))


def load_fitted(data: bytes, rng: random.Random) -> Any:
    good = seeds()["jpeg"]
    options: dict[str, Any] = {"width": 20, "height": 20, "orient": rng.random() < 0.5}
    batch = spdl.io.load_image_batch([data, good], strict=False, max_pixels=MAX_PIXELS, **options)
    check_last(batch, spdl.io.load_image_batch([good], **options))
    return batch.failures[0].error if batch.failures else batch


def load_transformed(data: bytes, rng: random.Random) -> Any:
    transform, num_threads = rng.choice(TRANSFORMS), rng.choice([0, 0, 2])
    good = seeds()["jpeg"]
    batch = spdl.io.load_image_batch(
        [data, good], transform=transform, seeds=[1, 2], num_threads=num_threads, strict=False, max_pixels=MAX_PIXELS
    )
    check_last(batch, spdl.io.load_image_batch([good], transform=transform, seeds=[2]))
    return batch.failures[0].error if batch.failures else batch


def load_alone(data: bytes, rng: random.Random) -> Any:
    return spdl.io.load_image(data, orient=rng.random() < 0.5, max_pixels=MAX_PIXELS)


def load_filtered(data: bytes, rng: random.Random) -> Any:
    description = rng.choice(["scale=w=20:h=20,format=pix_fmts=rgb24", "format=pix_fmts=gray", "null"])
    return spdl.io.load_image(
        data, filter_desc=f"{description},format=pix_fmts=rgb24", orient=rng.random() < 0.5, max_pixels=MAX_PIXELS
    )


def load_by_steps(data: bytes, rng: random.Random) -> Any:
    config = spdl.io.decode_config(decoder_options={"max_pixels": str(MAX_PIXELS)}, tolerate_errors=rng.random() < 0.5)
    return spdl.io.convert_frames(spdl.io.decode_packets(spdl.io.demux_image(data), decode_config=config))


WAYS: list[Callable[[bytes, random.Random], Any]] = [
    load_fitted,
    load_transformed,
    load_alone,
    load_filtered,
    load_by_steps,
]


def check_last(batch: Any, alone: Any) -> None:
    """Damage has no effect on the next picture."""
    assert np.array_equal(spdl.io.to_numpy(batch)[-1], spdl.io.to_numpy(alone)[0])


def run(count: int, seed: int = 0, *, kinds: Sequence[str] | None = None, verbose: bool = False) -> Counter[str]:
    """Load that many damaged images. Anything but a result or a typed error passes through.

    Args:
        count: The number of images.
        seed: The seed; the same seed gives the same images.
        kinds: The names in ``seeds()`` to damage, in turn; all by default.
        verbose: Whether to print each case before it is tried, to find one that ends the process.

    Returns:
        The number of ``"result"``, and of failures with each error.
    """
    rng = random.Random(seed)
    outcomes: Counter[str] = Counter()
    names = list(seeds()) if kinds is None else kinds
    for number in range(count):
        name, way = names[number % len(names)], rng.choice(WAYS)
        data = mutate(seeds()[name], rng)
        if verbose:
            print("case", number, name, way.__name__, flush=True)
        try:
            outcome = way(data, rng)
        except (spdl.io.MediaError, MemoryError) as error:
            outcome = error
        if isinstance(outcome, Exception):
            assert isinstance(outcome, spdl.io.MediaError | MemoryError), outcome
            assert str(outcome)
            outcomes[type(outcome).__name__] += 1
        else:
            assert spdl.io.to_numpy(outcome).size > 0
            outcomes["result"] += 1
    return outcomes


if __name__ == "__main__":
    import logging

    logging.disable(logging.CRITICAL)
    print(dict(run(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)))
