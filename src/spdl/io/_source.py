"""What users name as a source, to what native code accepts."""

import os
from typing import TYPE_CHECKING

from ._types import Source

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from typing_extensions import Buffer


def as_native_source(source: Source) -> "str | Buffer | NDArray[np.uint8]":
    """A path as text, or the buffer itself, which native code reads in place.

    Raises:
        TypeError: It is neither a path nor a buffer. (Whether a buffer has the right form, native code checks.)
    """
    if isinstance(source, str | bytes | bytearray | memoryview):
        return source
    if isinstance(source, os.PathLike):
        return os.fsdecode(source)
    try:
        memoryview(source)  # type: ignore[arg-type]  # NumPy's stubs know of buffers from Python 3.12 on
    except TypeError:
        if callable(getattr(source, "numpy", None)):  # a torch tensor
            return source.numpy()  # type: ignore[no-any-return, union-attr]
        raise TypeError(
            "a source must be str, a path-like, bytes, bytearray, memoryview or a one-dimensional uint8 array,"
            f" got {type(source).__name__}"
        ) from None
    return source
