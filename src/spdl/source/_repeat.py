"""``repeat_source``: iterate over a source endlessly, epoch after epoch."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

from ._arguments import as_int
from ._states import Counted, go_on, is_stateful, make_state, read_count, read_integers, read_state

T = TypeVar("T")


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
