"""Sources made from other sources: merged, repeated, or shuffled in each epoch."""

from collections.abc import Iterable, Iterator, Mapping, Sized
from typing import Any, Generic, TypeVar, overload

from spdl._numbers import as_int
from spdl.resume._values import is_stateful

from ._merge import MergeIterator as MergeIterator
from ._protocols import IterableWithShuffle, SizedIterableWithShuffle
from ._states import Counted, go_on, make_state, read_count, read_integers, read_state

__all__ = ["MergeIterator", "embed_shuffle", "repeat_source"]


T = TypeVar("T")


class ShufflingSource(Generic[T]):
    """The source that :func:`embed_shuffle` returns."""

    def __init__(self, src: IterableWithShuffle[T], *, shuffle_last: bool, epoch: int) -> None:
        self.src = src
        self._shuffle_last = shuffle_last
        self._epoch = epoch
        #: The seed of the current order of ``src``; ``None``: its initial order.
        self._order: int | None = None
        #: The current iteration.
        self._newest: Counted[T] | None = None
        #: Where the next iteration resumes: the number of items, and the state of ``src``.
        self._resumed: tuple[int, Mapping[str, Any] | None] | None = None

    def __iter__(self) -> Iterator[T]:
        if self._resumed is None and not self._shuffle_last:
            self._shuffle()
        count, state = self._resumed or (0, None)
        self._resumed = None
        newest = self._newest = Counted(go_on(self.src, count, state), count)
        try:
            yield from newest.items
        finally:  # runs also if the iterator is closed or dropped before its end
            if self._newest is newest:
                self._newest = None
            if self._shuffle_last:
                self._shuffle()

    def _shuffle(self) -> None:
        self.src.shuffle(seed=self._epoch)
        self._order = self._epoch
        self._epoch += 1

    def state_dict(self) -> dict[str, Any]:
        """Return the epoch and the position of the current iteration.

        ``"src"`` is the state of the source, if the source has ``state_dict``.
        """
        count, inner = self._resumed or (None, None)
        if self._newest is not None:
            count = self._newest.count
            inner = self.src.state_dict() if is_stateful(self.src) else None  # type: ignore[attr-defined]
        return make_state("embed_shuffle", epoch=self._epoch, order=self._order, position=count, src=inner)

    def load_state_dict(self, state: Mapping[str, Any], /) -> None:
        """Make the next iteration resume from a state: the rest of the saved iteration, or a whole one.

        A source that has no ``load_state_dict`` and cannot be indexed is read from its start; the items already yielded
        are dropped.

        Raises:
            ResumeError: It is not the state of such a source. On the first ``next``: the source has fewer items, or
                cannot load its part of the state.
        """
        checked = read_state(state, "embed_shuffle")
        (epoch,) = read_integers(checked, "epoch")
        order = None if checked.get("order") is None else read_integers(checked, "order")[0]
        resumed = None
        if checked.get("position") is not None:
            resumed = read_count(checked, "position"), checked.get("src")
        if order is not None and (resumed is not None or self._shuffle_last):
            self.src.shuffle(seed=order)
        self._epoch, self._order, self._resumed, self._newest = epoch, order, resumed, None

    def __getstate__(self) -> dict[str, Any]:
        # A copy begins at the start of an epoch, even if it is made during an iteration.
        return {**self.__dict__, "_newest": None}

    def __repr__(self) -> str:
        return f"embed_shuffle({self.src!r}, shuffle_last={self._shuffle_last}, epoch={self._epoch})"


class SizedShufflingSource(ShufflingSource[T]):
    """A ``ShufflingSource`` over a source that has a length."""

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
    """Make a source that calls ``src.shuffle(seed=epoch)`` before each iteration, with an epoch number that counts up.

    Use it for consumers that iterate repeatedly but set no seeds: loaders, continuous sources, other processes (where
    the epoch counts up in the copy that is iterated).

    Args:
        src: The source to shuffle and iterate. It stays available as ``.src``.
        shuffle_last: ``False``: shuffle at the first ``next`` of an iteration. ``True``: shuffle when an iteration
            ends, even early (``break``, an exception, a dropped iterator), so that a slow shuffle does not delay the
            first item. The first iteration then has the current order of ``src``.
        epoch: The first seed.

    Returns:
        A source with ``.src``. ``len()`` is that of ``src``, or TypeError if it has none. It is picklable if ``src``
        is, and the copy continues with the epoch. Use one iterator at a time: all share ``src`` and its order. It has
        ``state_dict()`` and ``load_state_dict(state)``, which include those of ``src``.

    Raises:
        TypeError: ``src`` has no ``shuffle``, or the epoch is not an integer.
    """
    if not callable(getattr(src, "shuffle", None)):
        raise TypeError(f"src must have a method shuffle(seed), got an object of type {type(src).__qualname__}")
    first = as_int("epoch", epoch)
    if isinstance(src, Sized):
        return SizedShufflingSource(src, shuffle_last=shuffle_last, epoch=first)
    return ShufflingSource(src, shuffle_last=shuffle_last, epoch=first)


class RepeatIterator(Iterator[T]):
    """The iterator that :func:`repeat_source` returns."""

    def __init__(self, src: Iterable[T], epoch: int) -> None:
        self.src = src
        #: The current epoch; before the first ``next``, the first one.
        self.epoch = epoch
        self._iterator: Iterator[T] | None = None
        self._newest: Counted[T] | None = None
        self._resumed: tuple[int, Mapping[str, Any] | None] = (0, None)

    def __iter__(self) -> "RepeatIterator[T]":
        return self

    def __next__(self) -> T:
        if self._iterator is None:
            self._iterator = self._epochs()
        return next(self._iterator)

    def _epochs(self) -> Iterator[T]:
        shuffle = getattr(self.src, "shuffle", None)
        (count, state), self._resumed = self._resumed, (0, None)
        while True:
            if shuffle is not None:
                shuffle(seed=self.epoch)
            self._newest = Counted(go_on(self.src, count, state), count)
            yield from self._newest.items
            if self._newest.count == 0:
                raise RuntimeError(
                    f"cannot repeat a source of type {type(self.src).__qualname__}: epoch {self.epoch} gave no item. "
                    "Either it is empty, or it can be iterated over only once, like generators and other iterators: "
                    "pass an object that makes a new iterator for each iter()"
                )
            count, state = 0, None
            self.epoch += 1

    def state_dict(self) -> dict[str, Any]:
        """Return the epoch and the number of its items that were yielded.

        ``"src"`` is the state of the source, if the source has ``state_dict``.
        """
        count, inner = self._resumed
        if self._newest is not None:
            count = self._newest.count
            inner = self.src.state_dict() if is_stateful(self.src) else None  # type: ignore[attr-defined]
        return make_state("repeat_source", epoch=self.epoch, position=count, src=inner)

    def load_state_dict(self, state: Mapping[str, Any], /) -> None:
        """Resume from a state.

        A source that has no ``load_state_dict`` and cannot be indexed is read from the start of the epoch; the items
        already yielded are dropped.

        Raises:
            ResumeError: It is not the state of such an iterator. On ``next``: the source has fewer items, or cannot
                load its part of the state.
        """
        checked = read_state(state, "repeat_source")
        (epoch,) = read_integers(checked, "epoch")
        resumed = read_count(checked, "position"), checked.get("src")
        self.epoch, self._resumed, self._iterator, self._newest = epoch, resumed, None, None

    def __getstate__(self) -> dict[str, Any]:
        if self._iterator is not None:
            raise ValueError(
                "cannot pickle an iterator of repeat_source that has begun: its place in the source is lost. Make "
                "another one where it is needed, and give it the state: load_state_dict(iterator.state_dict())"
            )
        return self.__dict__


def repeat_source(src: Iterable[T], /, epoch: int = 0) -> RepeatIterator[T]:
    """Iterate over ``src`` endlessly, epoch after epoch.

    Args:
        src: Source, iterated from its start in each epoch. If it has ``shuffle``, ``src.shuffle(seed=epoch)`` is called
            before each epoch, with an epoch number that counts up.
        epoch: The first epoch, and so the first seed.

    Returns:
        An iterator. It is picklable if ``src`` is, until the first ``next``; after it, pickling raises ValueError. It
        has ``state_dict()`` and ``load_state_dict(state)``, which include those of ``src``.

    Raises:
        TypeError: The epoch is not an integer.
        RuntimeError: On ``next``: an epoch of ``src`` had no items. Without this error, the loop would never end.
    """
    return RepeatIterator(src, as_int("epoch", epoch))
