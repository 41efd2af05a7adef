"""The ends of a pipeline: the source of its items, and the sink from which outputs are read."""

import itertools
import sys
from collections.abc import AsyncIterable, Callable, Iterable
from dataclasses import dataclass
from os import PathLike
from typing import Final, Generic, TypeAlias, TypeVar

from spdl._numbers import as_int

from ._repr import describe_object, describe_source

T = TypeVar("T")
U = TypeVar("U")


#: The key of an item: an item that is a number, a text or a path.
_Key: TypeAlias = int | str | PathLike[str]
#: The items to leave out: a quarantine file or several, their keys, or a function of an item that returns whether to
#: leave it out.
Exclude: TypeAlias = str | PathLike[str] | Iterable[_Key] | Callable[[T], bool]

#: Iterators of the standard library that never end.
_ENDLESS: Final = (itertools.count, itertools.cycle)


@dataclass(frozen=True, repr=False)
class SourceConfig(Generic[T]):
    """The source of a pipeline.

    Args:
        source: Iterable or async iterable of items. If it is both, the pipeline uses ``__aiter__``.
        continuous: Whether to iterate it repeatedly. Each pass is an epoch.
        exclude: Items to leave out: the path of a quarantine file (see ``build(quarantine=...)``) or a pattern such as
            ``"bad-*.jsonl"``; a list of these; or a function that takes an item and returns whether to leave it out.
            The files are read when the pipeline is built. In a list, texts and paths that neither end in ``.jsonl``
            nor contain a wildcard are keys. Excluded items keep their positions: they are consumed, and counted as
            dropped by the source.
        exclude_keys: Keys of items to leave out: numbers, texts or paths, to which items are compared.
        epochs: Number of passes; after the last one, the pipeline ends. Makes the source continuous. ``None``: no
            limit, so the source works on the next epoch before it is asked for.

    Raises:
        ValueError: ``source`` has neither ``__iter__`` nor ``__aiter__``; it is to be iterated repeatedly, and can be
            iterated only once; or ``epochs`` is not positive.
        TypeError: ``exclude``, ``exclude_keys`` or ``epochs`` is none of these.
    """

    source: Iterable[T] | AsyncIterable[T]
    continuous: bool = False
    exclude: Exclude[T] | None = None
    exclude_keys: Iterable[_Key] | None = None
    epochs: int | None = None

    def __post_init__(self) -> None:
        # iter() and aiter() look at the class, not the object; a class itself, such as `list`, is not iterable.
        cls = type(self.source)
        if getattr(cls, "__iter__", None) is None and getattr(cls, "__aiter__", None) is None:
            if isinstance(self.source, type):
                given = f"the class {self.source.__qualname__} itself"
            else:
                given = f"an object of type {cls.__qualname__}"
            raise ValueError(f"source must have __iter__ or __aiter__, got {given}")
        if self.epochs is not None:
            object.__setattr__(self, "epochs", as_int("epochs", self.epochs, 1))
            object.__setattr__(self, "continuous", True)
        if self.continuous and self.epochs != 1:
            self._check_repeatable()
        exclude: object = self.exclude
        if not (exclude is None or isinstance(exclude, str | PathLike | Iterable) or callable(exclude)):
            raise TypeError(
                "exclude must be the path of a quarantine file, a list of paths or keys, or a function of an item, "
                f"got {exclude!r} of type {type(exclude).__qualname__}"
            )
        keys: object = self.exclude_keys
        if keys is not None and (not isinstance(keys, Iterable) or isinstance(keys, str | bytes | PathLike)):
            raise TypeError(
                f"exclude_keys must be an iterable of keys, such as a list, got {keys!r} of type "
                f"{type(keys).__qualname__}"
            )

    def _check_repeatable(self) -> None:
        """Refuse iterators of the standard library. Others are refused when a pass after the first gives nothing."""
        cls = type(self.source)
        is_iterator = hasattr(cls, "__next__") or hasattr(cls, "__anext__")
        if is_iterator and cls.__module__.partition(".")[0] in sys.stdlib_module_names and cls not in _ENDLESS:
            raise ValueError(
                f"a continuous source must be iterable repeatedly, and an object of type {cls.__qualname__} can be "
                "iterated only once, so all epochs after the first would be empty: give an object that makes a new "
                "iterator for each iter(), such as a list, a sampler, or a class with __iter__"
            )

    def __repr__(self) -> str:
        continuous = ", continuous=True" if self.continuous else ""
        exclude = "" if self.exclude is None else f", exclude={describe_object(self.exclude)}"
        keys = "" if self.exclude_keys is None else f", exclude_keys={describe_object(self.exclude_keys)}"
        epochs = "" if self.epochs is None else f", epochs={self.epochs}"
        return f"SourceConfig(source={describe_source(self.source)}{continuous}{exclude}{keys}{epochs})"


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
            size = as_int("buffer_size", self.buffer_size, 1)
        except TypeError as exc:
            raise ValueError(str(exc)) from None
        object.__setattr__(self, "buffer_size", size)
