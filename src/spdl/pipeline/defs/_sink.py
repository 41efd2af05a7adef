"""The buffer from which a pipeline's outputs are read."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from spdl._numbers import as_int

U = TypeVar("U")


@dataclass(frozen=True)
class SinkConfig(Generic[U]):
    """The sink of a pipeline.

    Args:
        buffer_size: Maximum number of buffered outputs.

    Raises:
        ValueError: ``buffer_size`` is not an int, or less than 1.
    """

    buffer_size: int

    def __post_init__(self) -> None:
        try:
            size = as_int("buffer_size", self.buffer_size)
        except TypeError as exc:
            raise ValueError(str(exc)) from None
        if size < 1:
            raise ValueError(f"buffer_size must be >= 1, got {size}")
        object.__setattr__(self, "buffer_size", size)
