"""Every format and mode that Pillow writes: SPDL gives the same picture, or refuses it by name."""

import io
from typing import Any

import numpy as np
from PIL import Image

import spdl.io
from tests.differential.cells import Draw, NotMadeError, law
from tests.differential.judges.pillow import pixels_of
from tests.differential.stills.pictures import draw_pixels, loaded

# Formats without loss, or whose decoders agree closely. TIFF and PNM have cells of their own.
FORMS = [
    *("PNG/1", "PNG/L", "PNG/LA", "PNG/P", "PNG/RGB", "PNG/RGBA", "GIF/L", "GIF/P", "GIF/RGB"),
    *("BMP/1", "BMP/L", "BMP/P", "BMP/RGB", "BMP/RGBA", "WEBP/RGB", "WEBP/RGBA", "WEBP/lossy", "AVIF/RGB", "AVIF/L"),
    *("TGA/L", "TGA/RGB", "TGA/RGBA", "PCX/L", "PCX/RGB", "SGI/L", "SGI/RGB", "QOI/RGB", "QOI/RGBA", "JPEG2000/RGB"),
    *("ICO/RGBA", "DDS/RGB", "DDS/RGBA", "JPEG2000/L"),
]
_LOSSY_MEAN = {"WEBP/lossy": 4.0, "AVIF/RGB": 1.0, "AVIF/L": 0.5}


@law("still", "pixels", FORMS)
def pixels_are_those_that_pillow_reads(draw: Draw, form: str) -> None:
    """Of random sizes and options; what is refused says why."""
    name, mode = form.split("/")
    height, width = draw.random.randint(1, 50), draw.random.randint(1, 50)
    picture = Image.fromarray(draw_pixels(draw, height, width))
    if mode in ("LA", "RGBA"):
        alpha = Image.fromarray(draw_pixels(draw, height, width)[..., 0])
        picture = picture.convert(mode)
        picture.putalpha(alpha)
    elif mode == "P":
        picture = picture.quantize(draw.random.choice([2, 4, 16, 256]))
    elif mode != "lossy":
        picture = picture.convert(mode)
    options: dict[str, Any] = {}
    match name:
        case "PNG":
            options = {"compress_level": draw.random.randint(0, 9)}
        case "GIF":
            options = {"interlace": draw.random.randint(0, 1)}
        case "WEBP":
            options = (
                {"quality": draw.random.randint(50, 100)} if mode == "lossy" else {"lossless": True, "exact": True}
            )
        case "TGA":
            options = {"compression": draw.random.choice([None, "tga_rle"])}
        case "AVIF":
            options = {"quality": 90, "subsampling": "4:4:4"}
        case "ICO":
            options = {"sizes": [(width, height)], "bitmap_format": draw.random.choice(["png", "bmp"])}
    draw.note(f"{width}x{height} {options}")
    path = draw.folder / f"picture.{name.lower()}"
    stream = io.BytesIO()
    try:
        picture.save(stream, name, **options)
    except (OSError, KeyError) as error:
        raise NotMadeError(f"Pillow does not write {form}: {error}") from None
    data = stream.getvalue()
    path.write_bytes(data)
    expected = pixels_of(data).astype(np.float64)
    source: Any = str(path) if name == "TGA" else data  # Targa has no signature
    for way, pixels in loaded(source, *expected.shape[:2]).items():
        assert pixels.shape == expected.shape, way
        difference = np.abs(pixels - expected)
        assert difference.mean() <= _LOSSY_MEAN.get(form, 0), f"{way}: {difference.max()}"
    assert spdl.io.load_image(source).shape == expected.shape
