"""An iterator that never ends."""

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from ._arguments import as_int

__all__ = ["RepeatIterator", "repeat_source"]

T = TypeVar("T")


class RepeatIterator(Iterator[T]):
    """What :func:`repeat_source` returns."""

    def __init__(self, src: Iterable[T], epoch: int) -> None:
        self.src = src
        self.epoch = epoch
        self._iterator: Iterator[T] | None = None

    def __iter__(self) -> "RepeatIterator[T]":
        return self

    def __next__(self) -> T:
        if self._iterator is None:
            self._iterator = _repeat(self.src, self.epoch)
        return next(self._iterator)

    def __getstate__(self) -> dict[str, Any]:
        if self._iterator is not None:
            raise ValueError(
                "cannot pickle an iterator of repeat_source that has begun: its place in the source is lost"
            )
        return self.__dict__


def _repeat(src: Iterable[T], epoch: int) -> Iterator[T]:
    shuffle = getattr(src, "shuffle", None)
    while True:
        if shuffle is not None:
            shuffle(seed=epoch)
        is_empty = True
        for item in src:
            is_empty = False
            yield item
        if is_empty:
            raise RuntimeError(
                f"cannot repeat a source of type {type(src).__qualname__}: epoch {epoch} gave no item. Either there is "
                "nothing in it, or it can be iterated over only once, as generators and other iterators: give what "
                "makes a new iterator each time"
            )
        epoch += 1


def repeat_source(src: Iterable[T], /, epoch: int = 0) -> Iterator[T]:
    """Iterate over ``src`` again and again, without an end.

    Args:
        src: Iterated over from its start in each epoch. If it has ``shuffle``, ``src.shuffle(seed=epoch)`` is called
            before, with an epoch that counts up.
        epoch: The first epoch, and so the first seed.

    Returns:
        An iterator. It pickles, if ``src`` does, until the first ``next``; after it, pickling raises ValueError.

    Raises:
        TypeError: The epoch is not an integer.
        RuntimeError: On ``next``: an epoch of ``src`` gave no item. Going on would be a loop without end or output.
    """
    return RepeatIterator(src, as_int("epoch", epoch))
