"""Index batches of an epoch that has already begun. Imports nothing from spdl."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple


class Drawn(NamedTuple):
    """One index batch. Wrapped, because it may be ``None``."""

    indices: Any


class ResumedIndices:
    """A sampler whose first index batches were already drawn. After ``end_epoch`` it acts as the sampler."""

    def __init__(self, sampler: Iterable[Any]) -> None:
        self._sampler = sampler
        self._indices = iter(sampler)
        self._error: BaseException | None = None
        self._is_begun = True

    def begin_again(self) -> None:
        """Make another iterator, as torch does after it has drawn the base seed."""
        self._indices = iter(self._sampler)

    def draw(self) -> Drawn | None:
        """The next index batch; ``None`` at the end, or after an error, which ``__next__`` then raises."""
        if self._error is not None:
            return None
        try:
            return Drawn(next(self._indices))
        except StopIteration:
            return None
        except BaseException as exc:  # noqa: BLE001 - of the sampler; raised after the batches before it
            self._error = exc
            return None

    def end_epoch(self) -> None:
        """Make ``iter`` begin a new epoch of the sampler from now on."""
        self._is_begun = False

    def __iter__(self) -> Iterator[Any]:
        return self if self._is_begun else iter(self._sampler)

    def __next__(self) -> Any:
        if self._error is not None:
            raise self._error
        return next(self._indices)

    def __len__(self) -> int:
        return len(self._sampler)  # type: ignore[arg-type]
