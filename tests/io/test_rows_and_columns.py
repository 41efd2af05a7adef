"""Pictures of one row, one column or one pixel, in every format without loss that Pillow writes."""

import io

import numpy as np
import pytest
from PIL import Image

import spdl.io
from tests.io.pictures import draw

FORMS = [
    (name, mode) for name in ("PNG", "GIF", "BMP", "TIFF", "PPM", "SGI", "PCX", "JPEG2000") for mode in ("L", "RGB")
]
SIZES = [(45, 1), (1, 45), (1, 1), (2, 1), (257, 1)]


@pytest.mark.parametrize(("format", "mode"), [*FORMS, ("QOI", "RGB")])
def test_one_row_or_column_is_a_picture(format: str, mode: str) -> None:
    """As Pillow reads it. SGI of one row says that it has one dimension."""
    for width, height in SIZES:
        picture = draw(max(width, 2), max(height, 2)).crop((0, 0, width, height)).convert(mode)
        stream = io.BytesIO()
        picture.save(stream, format)
        data = stream.getvalue()
        with Image.open(io.BytesIO(data)) as image:
            expected = np.asarray(image.convert("RGB"))
        assert (spdl.io.to_numpy(spdl.io.load_image(data)) == expected).all(), (width, height)
        batch = spdl.io.load_image_batch([data], width=width, height=height)
        assert (spdl.io.to_numpy(batch) == expected).all(), (width, height)
        if format != "PCX":  # which has no signature that a demuxer would know
            assert (spdl.io.to_numpy(spdl.io.load_video(data)) == expected).all(), (width, height)
