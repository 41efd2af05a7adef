"""tifffile (2026.3) with imagecodecs: writer and reader of every kind of TIFF; values as they are stored."""

import io
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["read", "write"]


def write(array: NDArray[Any], **options: Any) -> bytes:
    """A TIFF of the array, with the options of ``tifffile.imwrite``."""
    import tifffile

    stream = io.BytesIO()
    tifffile.imwrite(stream, array, **options)
    return stream.getvalue()


def read(data: bytes) -> NDArray[Any]:
    """The samples of the first page, as they are stored."""
    import tifffile

    with tifffile.TiffFile(io.BytesIO(data)) as file:
        return np.asarray(file.pages[0].asarray())
