"""Files of other writers, OpenCV and imagecodecs, and what becomes of them when they are damaged."""

from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

import spdl.io
from tests.differential.cells import Draw, KnownExceptionError, law
from tests.differential.stills.loading import check_rgb, stored
from tests.differential.stills.pictures import draw_pixels, draw_size

_CV2: Final = ("png", "tiff", "bmp", "webp", "jp2", "jpg", "avif", "gif", "pam", "ras")
#: Mean difference from OpenCV's own reader.
_CV2_CLOSE: Final = {"jpg": 1.0, "avif": 3.0, "jp2": 1.0}

#: Sizes that OpenCV's writer of JPEG 2000 takes.
_LEAST: Final = {"jp2": 64}


def _levels(array: NDArray[Any]) -> NDArray[np.uint8]:
    """RGB of 8 bits, to the nearest."""
    planes = array[..., None] if array.ndim == 2 else array
    colours = planes[..., :3] if planes.shape[2] >= 3 else np.repeat(planes[..., :1], 3, 2)
    if array.dtype == np.uint16:
        colours = (colours.astype(np.int64) * 255 + 32767) // 65535
    levels: NDArray[np.uint8] = colours.astype(np.uint8)
    return levels


@law("still", "as OpenCV reads it", _CV2, "cv2")
def files_of_opencv_are_read_as_it_reads_them(draw: Draw, form: str) -> None:
    """Gray, RGB and RGBA, of 8 and, where the format has them, of 16 bits."""
    import cv2

    height, width = (_LEAST.get(form, 0) + side for side in draw_size(draw))
    array: NDArray[Any] = draw_pixels(draw, height, width)
    if form in ("png", "tiff", "jp2") and draw.random.random() < 0.5:
        array = array.astype(np.uint16) * 257 - draw.random.randint(0, 100)
        array = np.clip(array, 0, 65535).astype(np.uint16)
    if form in ("png", "tiff", "jpg", "bmp") and draw.random.random() < 0.3:
        array = array[..., 0]
    path = draw.folder / f"picture.{form}"
    draw.note(f"{array.shape} {array.dtype}")
    options = {"webp": [cv2.IMWRITE_WEBP_QUALITY, 101], "jp2": [cv2.IMWRITE_JPEG2000_COMPRESSION_X1000, 1000]}
    assert cv2.imwrite(str(path), array, options.get(form, []))
    judged = cv2.imread(str(path), cv2.IMREAD_UNCHANGED)
    judged = judged if judged.ndim == 2 else judged[..., [2, 1, 0]]
    made = spdl.io.to_numpy(spdl.io.load_image(path)).astype(int)
    if form == "pam" and np.array_equal(made[..., ::-1], judged):
        raise KnownExceptionError(201)
    assert np.abs(made - _levels(judged)).mean() <= _CV2_CLOSE.get(form, 0)


@law("still", "as it was encoded", [f"{kind}/{bits}" for kind in ("png", "jpegxl") for bits in (8, 16)], "imagecodecs")
def files_of_imagecodecs_hold_the_array(draw: Draw, form: str) -> None:
    """Without loss, in every way of loading."""
    import imagecodecs

    kind, bits = form.split("/")
    height, width = draw_size(draw)
    array: NDArray[Any] = draw_pixels(draw, height, width)
    if bits == "16":
        rng = np.random.default_rng(draw.random.getrandbits(32))
        array = rng.integers(0, 65536, array.shape).astype(np.uint16)
    array = np.ascontiguousarray(array[..., 0] if draw.random.random() < 0.3 else array)
    draw.note(f"{array.shape} {array.dtype}")
    data = bytes(imagecodecs.png_encode(array) if kind == "png" else imagecodecs.jpegxl_encode(array, lossless=True))
    check_rgb(data, _levels(array))
    assert np.array_equal(stored(data).reshape(array.shape), array)


def _intact(draw: Draw, form: str) -> bytes:
    import cv2

    least = _LEAST.get(form, 8)
    height, width = draw.random.randint(least, least + 32), draw.random.randint(least, least + 32)
    done, data = cv2.imencode(f".{form}", draw_pixels(draw, height, width))
    assert done
    return bytes(data)


@law("still", "cut or damaged", ["png", "tiff", "bmp", "webp", "jpg", "jp2", "gif", "avif", "ppm"], "cv2")
def damage_is_a_typed_error_that_names_the_file(draw: Draw, form: str) -> None:
    """Of a file that is cut, and of one with bytes changed: an error with the name, or a picture of that size."""
    data = _intact(draw, form)
    whole = spdl.io.load_image(data).shape
    path: Path = draw.folder / f"damaged.{form}"
    cut = data[: draw.random.randint(1, len(data) * 2 // 3)]
    changed = bytearray(data)
    for _ in range(draw.random.randint(1, 5)):
        changed[draw.random.randrange(len(data))] ^= 1 << draw.random.randrange(8)
    draw.note(f"{len(cut)} of {len(data)} bytes")
    for name, damaged in (("cut", cut), ("changed", bytes(changed))):
        path.write_bytes(damaged)
        said = ""
        try:
            shape = spdl.io.load_image(path, max_pixels=1 << 20).shape
        except spdl.io.MediaError as error:
            said = str(error)
        assert path.name in said if said else name != "cut" and len(shape) == len(whole), name
        batch = spdl.io.load_image_batch([path, data], width=8, height=8, strict=False, max_pixels=1 << 20)
        assert batch.shape[0] == 2 - len(batch.failures)
        assert all(failure.index == 0 and path.name in str(failure.error) for failure in batch.failures)


@law("still", "what can be had", ["jpg"], "cv2")
def a_cut_jpeg_gives_its_first_rows(draw: Draw, form: str) -> None:
    """With ``tolerate_errors``: the whole picture's first rows, as they are in the intact file."""
    import cv2

    pixels = draw_pixels(draw, draw.random.randint(120, 200), 64)
    data = bytes(cv2.imencode(".jpg", pixels)[1])
    cut = data[: draw.random.randint(len(data) * 2 // 3, len(data) - 20)]
    config = spdl.io.decode_config(tolerate_errors=True)
    draw.note(f"{pixels.shape}, {len(cut)} of {len(data)} bytes")
    whole = spdl.io.to_numpy(spdl.io.load_image(data, decode_config=config)).astype(int)
    made = spdl.io.to_numpy(spdl.io.load_image(cut, decode_config=config)).astype(int)
    assert made.shape == whole.shape
    assert np.abs(made[:32] - whole[:32]).max() <= 1
