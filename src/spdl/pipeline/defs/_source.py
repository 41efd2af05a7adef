"""The source of a pipeline's items."""

from collections.abc import AsyncIterable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from ._repr import describe_source

__all__ = ["SourceConfig"]

T = TypeVar("T")


@dataclass(frozen=True, repr=False)
class SourceConfig(Generic[T]):
    """The source of a pipeline.

    Args:
        source: Iterable or async iterable of items. If it is both, the pipeline uses ``__aiter__``.
        continuous: Whether to iterate it repeatedly. Each pass is an epoch.

    Raises:
        ValueError: ``source`` has neither ``__iter__`` nor ``__aiter__``.
    """

    source: Iterable[T] | AsyncIterable[T]
    continuous: bool = False

    def __post_init__(self) -> None:
        # iter() and aiter() look at the class, not the object; a class itself, such as `list`, is not iterable.
        cls = type(self.source)
        if getattr(cls, "__iter__", None) is None and getattr(cls, "__aiter__", None) is None:
            if isinstance(self.source, type):
                given = f"the class {self.source.__qualname__} itself"
            else:
                given = f"an object of type {cls.__qualname__}"
            raise ValueError(f"source must have __iter__ or __aiter__, got {given}")

    def __repr__(self) -> str:
        continuous = ", continuous=True" if self.continuous else ""
        return f"SourceConfig(source={describe_source(self.source)}{continuous})"
