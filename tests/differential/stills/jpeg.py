"""The JPEG family: every process is read as other decoders read it, or refused by name."""

import io

import numpy as np
from numpy.typing import NDArray
from PIL import Image

import spdl.io
from tests.differential.cells import Draw, law
from tests.differential.judges.pillow import pixels_of
from tests.differential.stills.pictures import draw_pixels, loaded

# What an error may say of an intact file.
REASONS = ("which FFmpeg", "whose levels FFmpeg", "that FFmpeg does not decode", "JPEG is decoded with 8 only")


def _read_or_refused(data: bytes, expected: NDArray[np.float64], *, close: float) -> None:
    height, width = expected.shape[:2]
    try:
        ways = loaded(data, height, width)
    except spdl.io.BatchLoadError as error:
        text = str(error.failures[0].error)
    except spdl.io.MediaError as error:
        text = str(error)
    else:
        for way, pixels in ways.items():
            assert np.abs(pixels - expected).max() <= close, way
        return
    assert any(reason in text for reason in REASONS), text


@law("still", "pixels", ["JPEG/L", "JPEG/RGB", "JPEG/CMYK"])
def lossy_jpeg_is_read_as_pillow_reads_it(draw: Draw, form: str) -> None:
    """Of any quality, subsampling, progressive or with restarts."""
    mode = form.split("/")[1]
    height, width = draw.random.randint(1, 60), draw.random.randint(1, 60)
    options = {
        "quality": draw.random.randint(50, 100),
        "subsampling": draw.random.choice(["4:4:4", "4:2:2", "4:2:0"]),
        "progressive": draw.random.random() < 0.5,
        "restart_marker_blocks": draw.random.choice([0, 0, 2]),
    }
    draw.note(f"{width}x{height} {options}")
    stream = io.BytesIO()
    Image.fromarray(draw_pixels(draw, height, width)).convert(mode).save(stream, "JPEG", **options)
    data = stream.getvalue()
    alone = spdl.io.to_numpy(spdl.io.load_image(data)).astype(int)
    assert np.abs(alone - pixels_of(data).astype(int)).max() <= 1


@law("still", "read or refused", ["JPEG lossless", "JPEG-LS", "JPEG 12 bits", "JPEG 2000"], "imagecodecs")
def other_processes_are_read_right_or_refused_by_name(draw: Draw, form: str) -> None:
    """Of any depth and number of components; an intact file is never called damaged."""
    import imagecodecs

    height, width = draw.random.randint(3, 50), draw.random.randint(3, 50)
    levels = draw_pixels(draw, height, width).astype(np.int64)
    pixels = levels if draw.random.random() < 0.5 else levels[..., 0]
    bits = {"JPEG-LS": [8, 16], "JPEG 2000": [8, 16], "JPEG 12 bits": [12]}.get(form, list(range(2, 17)))
    depth = draw.random.choice(bits)
    samples = (pixels * (2**depth - 1) // 255).astype(np.uint8 if depth <= 8 else np.uint16)
    near = draw.random.randint(0, 3) if form == "JPEG-LS" else 0
    draw.note(f"{width}x{height}, {depth} bits, {pixels.ndim} dimensions, near {near}")
    match form:
        case "JPEG lossless":
            data = imagecodecs.jpeg8_encode(samples, lossless=True, bitspersample=depth)
        case "JPEG-LS":
            data = imagecodecs.jpegls_encode(samples, level=near)
        case "JPEG 12 bits":
            data = imagecodecs.jpeg8_encode(samples, bitspersample=12)
        case _:
            codec = draw.random.choice(["jp2", "j2k"])
            data = imagecodecs.jpeg2k_encode(samples, level=0, codecformat=codec)
    expected = samples / (2**depth - 1) * 255
    expected = expected if expected.ndim == 3 else np.repeat(expected[..., None], 3, -1)
    # FFmpeg's filters dither what has more than 8 bits.
    _read_or_refused(bytes(data), expected, close=1.6 + near)
