"""Transforms and pictures for the tests of transformed batches."""

import io
from typing import Any

from PIL import Image

import spdl.io
from spdl.io import ImageTransform, RandomResizedCrop, load_image_batch
from tests.io.pictures import make_jpeg

PLAIN = ImageTransform((12, 16))
RANDOM = ImageTransform((12, 16), crop=RandomResizedCrop(), flip=0.5, vertical_flip=0.5)
JPEG = make_jpeg(64, 48)
JUNK = b"junk"


def flat(shade: int, name: str = "PNG", size: tuple[int, int] = (20, 15)) -> bytes:
    """A picture of one gray."""
    stream = io.BytesIO()
    Image.new("RGB", size, (shade, shade, shade)).save(stream, name)
    return stream.getvalue()


def load(srcs: Any, transform: ImageTransform = PLAIN, **options: Any) -> Any:
    """The batch as an array."""
    return spdl.io.to_numpy(load_image_batch(srcs, transform=transform, **options))


def shades(buffer: Any) -> list[int]:
    """Of a batch of flat pictures."""
    return [int(image.mean().round()) for image in spdl.io.to_numpy(buffer)]
