"""The source of a pipeline's items."""

from collections.abc import AsyncIterable, Callable, Iterable
from dataclasses import dataclass
from os import PathLike
from typing import Any, Generic, TypeAlias, TypeVar

from ._repr import describe_object, describe_source

__all__ = ["Exclude", "SourceConfig"]

T = TypeVar("T")

#: The items to leave out: a quarantine file, their keys, or a function of an item that returns whether to leave it out.
Exclude: TypeAlias = str | PathLike[str] | Iterable[int | str | PathLike[str]] | Callable[[T], bool]


@dataclass(frozen=True, repr=False)
class SourceConfig(Generic[T]):
    """The source of a pipeline.

    Args:
        source: Iterable or async iterable of items. If it is both, the pipeline uses ``__aiter__``.
        continuous: Whether to iterate it repeatedly. Each pass is an epoch.
        exclude: Items to leave out: the path of a quarantine file (see ``build(quarantine=...)``), read when the
            pipeline is built; numbers, texts or paths, to which items are compared; or a function that takes an item
            and returns whether to leave it out. Excluded items keep their positions: they are consumed, and counted as
            dropped by the source.

    Raises:
        ValueError: ``source`` has neither ``__iter__`` nor ``__aiter__``.
        TypeError: ``exclude`` is none of these.
    """

    source: Iterable[T] | AsyncIterable[T]
    continuous: bool = False
    exclude: Exclude[T] | None = None

    def __post_init__(self) -> None:
        # iter() and aiter() look at the class, not the object; a class itself, such as `list`, is not iterable.
        cls = type(self.source)
        if getattr(cls, "__iter__", None) is None and getattr(cls, "__aiter__", None) is None:
            if isinstance(self.source, type):
                given = f"the class {self.source.__qualname__} itself"
            else:
                given = f"an object of type {cls.__qualname__}"
            raise ValueError(f"source must have __iter__ or __aiter__, got {given}")
        self._check_exclude(self.exclude)

    @staticmethod
    def _check_exclude(given: Any) -> None:
        if given is None or isinstance(given, str | PathLike | Iterable) or callable(given):
            return
        raise TypeError(
            "exclude must be the path of a quarantine file, an iterable of keys, or a function of an item, "
            f"got {given!r} of type {type(given).__qualname__}"
        )

    def __repr__(self) -> str:
        continuous = ", continuous=True" if self.continuous else ""
        exclude = "" if self.exclude is None else f", exclude={describe_object(self.exclude)}"
        return f"SourceConfig(source={describe_source(self.source)}{continuous}{exclude})"
