"""Orientation: EXIF and XMP in every format that has them, judged by Pillow's ``exif_transpose``."""

import io
from typing import Any

import numpy as np
from PIL import Image

from tests.differential.cells import Draw, law
from tests.differential.judges.pillow import upright_pixels_of
from tests.differential.stills.pictures import draw_pixels, loaded
from tests.io.test_orientation_sources import KEY, exif, png_info, tiff_info, xmp

_OPTIONS: dict[str, dict[str, Any]] = {
    "JPEG": {"quality": 95, "subsampling": "4:4:4"},
    "PNG": {},
    "WEBP": {"lossless": True},
    "TIFF": {},
    "AVIF": {"quality": 95, "subsampling": "4:4:4"},
}
_MEAN = {"JPEG": 1.0, "AVIF": 0.5}


@law("still", "upright", ["JPEG", "PNG", "WEBP", "TIFF", "AVIF"])
def pictures_are_upright_as_pillow_shows_them(draw: Draw, form: str) -> None:
    """With any number in EXIF data or none, any in XMP or none, as an attribute or an element."""
    height, width = draw.random.randint(9, 60), draw.random.randint(9, 60)
    first = draw.random.choice([None, 0, *range(1, 10), 6, 8])
    second = draw.random.choice([None, *range(10)])
    options = dict(_OPTIONS[form])
    packet = None if second is None else xmp(second, as_element=draw.random.random() < 0.5)
    if form == "AVIF":  # only the properties count there, and Pillow writes them from EXIF data
        options["exif"] = exif(draw.random.randint(1, 8))
    elif form == "TIFF":
        info = tiff_info(packet, draw.random.choice([1, 7])) if packet is not None else None
        if info is not None:
            options["tiffinfo"] = info
            if first is not None:
                info[274] = first
        elif first is not None:
            options["exif"] = exif(first)
    else:
        if first is not None or draw.random.random() < 0.5:
            options["exif"] = exif(first)
        if packet is not None and form == "PNG":
            options["pnginfo"] = png_info(KEY, packet, zip=draw.random.random() < 0.5)
        elif packet is not None:
            options["xmp"] = packet
    draw.note(f"{width}x{height}, EXIF {first}, XMP {second}, {options}")
    stream = io.BytesIO()
    Image.fromarray(draw_pixels(draw, height, width)).save(stream, form, **options)
    data = stream.getvalue()
    expected = upright_pixels_of(data).astype(np.float64)
    for way, pixels in loaded(data, *expected.shape[:2], orient=True).items():
        assert pixels.shape == expected.shape, way
        assert np.abs(pixels - expected).mean() <= _MEAN.get(form, 0), way
