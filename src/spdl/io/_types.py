"""Types of arguments, and small result types. Imports nothing else of this package."""

import mmap
import os
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray
    from typing_extensions import Buffer

    class StoredObject(Protocol):
        """An object in a store, such as ``spdl.remote.RemoteObject``. ``str`` of it is its name in messages."""

        def __spdl_fetch__(self) -> Buffer: ...

    class SupportsBlocks(Protocol):
        """A large object in a store that native code reads in blocks. ``str`` of it is its name in messages."""

        @property
        def __spdl_size__(self) -> int: ...
        def __spdl_block__(
            self, position: int, seconds: float | None, is_over: Callable[[], bool]
        ) -> tuple[int, Buffer] | None: ...

    class SupportsRead(Protocol):
        """A binary file object, such as ``io.BytesIO``, an open file, or one of fsspec."""

        def read(self, size: int = ..., /) -> bytes: ...

    class SupportsOpen(Protocol):
        """A file that is opened when it is read, as ``fsspec.open`` returns it."""

        fs: Any

        def open(self) -> SupportsRead: ...

    #: A path or URL, a path-like object, an object in a store, encoded data (bytes, bytearray, memoryview, or a
    #: one-dimensional ``uint8`` array), or a binary file object.
    Source: TypeAlias = str | os.PathLike[str] | Buffer | NDArray[np.uint8] | StoredObject | SupportsRead | SupportsOpen
else:
    Source: TypeAlias = Any  # collections.abc.Buffer exists from Python 3.12 on

#: Seconds: a number, or text such as ``"1/3"``.
Seconds: TypeAlias = float | Fraction | Decimal | str
#: Start and end, half open.
TimeWindow: TypeAlias = tuple[Seconds, Seconds]


class Default:
    """The type of ``DEFAULT``."""

    def __repr__(self) -> str:
        return "<default>"

    def __reduce__(self) -> str:
        return "DEFAULT"


#: The default of ``max_pixels``, so that a small file cannot use up all memory. Pillow's limit: twice its
#: ``MAX_IMAGE_PIXELS``. Native code has the same default.
MAX_PIXELS: Final = 178_956_970


#: Default of arguments where ``None`` already has a meaning.
DEFAULT: Final = Default()


@dataclass(frozen=True, slots=True)
class LoadFailure:
    """One source of a batch that could not be loaded.

    Attributes:
        index: Position among the sources.
        source: The source, as given.
        error: The exception.
        name: Name of the source, if ``load_image_batch`` was given ``names``.
    """

    index: int
    source: Any
    error: Exception
    name: str | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        # Memory views and mappings cannot be pickled; their bytes can.
        source = bytes(self.source) if isinstance(self.source, memoryview | mmap.mmap) else self.source
        return LoadFailure, (self.index, source, self.error, self.name)


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The part of its source that an item of a batch of clips or sounds was loaded from.

    Attributes:
        start: Time of the first frame or sample, in seconds.
        length: Number of frames or samples from the source. The rest of the item is padding.
    """

    start: float
    length: int


@runtime_checkable
class ArrayInterface(Protocol):
    """An array in CPU memory with NumPy's array interface (version 3)."""

    @property
    def __array_interface__(self) -> dict[str, Any]: ...


@runtime_checkable
class CUDAArrayInterface(Protocol):
    """An array in CUDA device memory with Numba's CUDA array interface."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]: ...
