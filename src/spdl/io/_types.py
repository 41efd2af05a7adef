"""Words of the media package: what users bring, and small values that they get."""

import mmap
import os
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from typing_extensions import Buffer

    #: A path or URL, a path-like, or encoded data: bytes, bytearray, memoryview, a one-dimensional ``uint8`` array.
    Source: TypeAlias = str | os.PathLike[str] | Buffer | NDArray[np.uint8]
else:
    Source: TypeAlias = Any  # collections.abc.Buffer came with Python 3.12

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


#: Means "choose for me" where ``None`` means something else.
DEFAULT: Final = Default()


@dataclass(frozen=True, slots=True)
class LoadFailure:
    """One source of a batch that could not be loaded.

    Attributes:
        index: Its position among the sources.
        source: What was given for it.
        error: Why.
    """

    index: int
    source: Any
    error: Exception

    def __reduce__(self) -> tuple[Any, ...]:
        # Views and mappings of memory cannot go to another process; their bytes can.
        source = bytes(self.source) if isinstance(self.source, memoryview | mmap.mmap) else self.source
        return LoadFailure, (self.index, source, self.error)


@runtime_checkable
class ArrayInterface(Protocol):
    """An array in memory of the CPU, as NumPy's array interface (version 3) describes it."""

    @property
    def __array_interface__(self) -> dict[str, Any]: ...


@runtime_checkable
class CUDAArrayInterface(Protocol):
    """An array in memory of a CUDA device, as Numba's CUDA array interface describes it."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]: ...
