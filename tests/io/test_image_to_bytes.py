"""``image_to_bytes``, read by Pillow."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import spdl.io

_RGB = np.random.default_rng(0).integers(0, 256, (12, 20, 3), np.uint8)
_RGBA = np.random.default_rng(1).integers(0, 256, (12, 20, 4), np.uint8)


@pytest.mark.parametrize("format", ["png", ".png", "bmp", "tiff", "PNG"])
def test_lossless_formats_keep_the_pixels(format: str) -> None:
    """Pillow reads what was given."""
    encoded = spdl.io.image_to_bytes(_RGB, format)
    assert isinstance(encoded, bytes)
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(encoded)).convert("RGB")), _RGB)


def test_alpha_is_kept_where_the_format_has_it(tmp_path: Path) -> None:
    """In PNG, in memory and in a file; JPEG refuses it."""
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(spdl.io.image_to_bytes(_RGBA, "png", "rgba")))), _RGBA)
    spdl.io.save_image(tmp_path / "one.png", _RGBA, "rgba")
    assert np.array_equal(np.asarray(Image.open(tmp_path / "one.png")), _RGBA)
    with pytest.raises(spdl.io.EncodeError, match=r"image\.jpg: .*\(mjpeg\) holds no alpha, and the picture is rgba"):
        spdl.io.image_to_bytes(_RGBA, "jpg", "rgba")


def test_the_bytes_are_those_of_a_file(tmp_path: Path) -> None:
    """``save_image`` writes the same."""
    spdl.io.save_image(tmp_path / "one.jpg", _RGB, qscale=5)
    assert spdl.io.image_to_bytes(_RGB, "jpg", qscale=5) == (tmp_path / "one.jpg").read_bytes()


@pytest.mark.parametrize(
    ("data", "format", "pix_fmt", "error"),
    [
        (_RGB, "png", "rgba", ValueError),
        (_RGBA, "png", "rgb24", ValueError),
        (_RGB, "../png", "rgb24", ValueError),
        (_RGB, "", "rgb24", ValueError),
        (_RGB, 5, "rgb24", TypeError),
        (_RGB, "nosuchformat", "rgb24", spdl.io.MuxError),
    ],
)
def test_what_does_not_fit_is_refused(data: Any, format: Any, pix_fmt: str, error: type[Exception]) -> None:
    """Shapes, and formats that are none."""
    with pytest.raises(error):
        spdl.io.image_to_bytes(data, format, pix_fmt)
