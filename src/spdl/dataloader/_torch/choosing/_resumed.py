"""Index batches of an epoch that somebody else has begun. Imports nothing of ours."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

__all__ = ["Drawn", "ResumedIndices"]


class Drawn(NamedTuple):
    """One index batch; it may be ``None`` itself."""

    indices: Any


class ResumedIndices:
    """Stands for a sampler whose first index batches were drawn. In the next epoch it is the sampler again."""

    def __init__(self, sampler: Iterable[Any]) -> None:
        self._sampler = sampler
        self._indices = iter(sampler)
        self._error: BaseException | None = None
        self._is_begun = True

    def begin_again(self) -> None:
        """Make another iterator, as torch does once its base seed is drawn."""
        self._indices = iter(self._sampler)

    def draw(self) -> Drawn | None:
        """The next index batch; ``None`` if there is none, or an error instead, which is raised when it is iterated."""
        if self._error is not None:
            return None
        try:
            return Drawn(next(self._indices))
        except StopIteration:
            return None
        except BaseException as exc:  # noqa: BLE001 - the sampler's; the consumer gets it after the batches before it
            self._error = exc
            return None

    def end_epoch(self) -> None:
        """From now on, ``iter`` begins an epoch of the sampler."""
        self._is_begun = False

    def __iter__(self) -> Iterator[Any]:
        return self if self._is_begun else iter(self._sampler)

    def __next__(self) -> Any:
        if self._error is not None:
            raise self._error
        return next(self._indices)

    def __len__(self) -> int:
        return len(self._sampler)  # type: ignore[arg-type]
