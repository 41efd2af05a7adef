"""A source that shuffles itself each time it is iterated over."""

from collections.abc import Iterator, Sized
from typing import Generic, TypeVar, overload

from ._arguments import as_int
from ._protocols import IterableWithShuffle, SizedIterableWithShuffle

__all__ = ["ShufflingSource", "SizedShufflingSource", "embed_shuffle"]

T = TypeVar("T")


class ShufflingSource(Generic[T]):
    """What :func:`embed_shuffle` returns."""

    def __init__(self, src: IterableWithShuffle[T], *, shuffle_last: bool, epoch: int) -> None:
        self.src = src
        self._shuffle_last = shuffle_last
        self._epoch = epoch

    def __iter__(self) -> Iterator[T]:
        if not self._shuffle_last:
            self._shuffle()
            yield from self.src
            return
        try:
            yield from self.src
        finally:  # also when the iterator is closed or dropped before its end
            self._shuffle()

    def _shuffle(self) -> None:
        self.src.shuffle(seed=self._epoch)
        self._epoch += 1

    def __repr__(self) -> str:
        return f"embed_shuffle({self.src!r}, shuffle_last={self._shuffle_last}, epoch={self._epoch})"


class SizedShufflingSource(ShufflingSource[T]):
    """The same over a source that has a length."""

    src: SizedIterableWithShuffle[T]

    def __len__(self) -> int:
        return len(self.src)


@overload
def embed_shuffle(
    src: SizedIterableWithShuffle[T], /, *, shuffle_last: bool = False, epoch: int = 0
) -> SizedShufflingSource[T]: ...


@overload
def embed_shuffle(
    src: IterableWithShuffle[T], /, *, shuffle_last: bool = False, epoch: int = 0
) -> ShufflingSource[T]: ...


def embed_shuffle(src: IterableWithShuffle[T], /, *, shuffle_last: bool = False, epoch: int = 0) -> ShufflingSource[T]:
    """Make a source that calls ``src.shuffle(seed=epoch)`` before each iteration, with an epoch that counts up.

    For consumers that iterate repeatedly and do not set seeds: loaders, continuous sources, other processes (where
    the epoch counts up in the iterated copy).

    Args:
        src: The source to shuffle and iterate. It stays available as ``.src``.
        shuffle_last: ``False``: shuffle at the first ``next`` of an iteration. ``True``: shuffle when an iteration
            ends, so that a slow shuffle does not delay the first item; also when it ends early
            (``break``, an exception, an iterator that is dropped). The first iteration then has the current order of
            ``src``.
        epoch: The first seed.

    Returns:
        A source with ``.src``. ``len()`` is that of ``src``, or TypeError if it has none. It is picklable if ``src``
        is, and the copy continues with the epoch. Use one iterator at a time: all share ``src`` and its order.

    Raises:
        TypeError: ``src`` has no ``shuffle``, or the epoch is not an integer.
    """
    if not callable(getattr(src, "shuffle", None)):
        raise TypeError(f"src must have a method shuffle(seed), got an object of type {type(src).__qualname__}")
    first = as_int("epoch", epoch)
    if isinstance(src, Sized):
        return SizedShufflingSource(src, shuffle_last=shuffle_last, epoch=first)
    return ShufflingSource(src, shuffle_last=shuffle_last, epoch=first)
