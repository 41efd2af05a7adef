"""Index batches of an epoch that somebody else has begun. Imports nothing of ours."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

__all__ = ["Drawn", "ResumedIndices"]


class Drawn(NamedTuple):
    """One index batch; it may be ``None`` itself."""

    indices: Any


class ResumedIndices:
    """Stands for a sampler whose first index batches were drawn. In the next epoch it is the sampler again.

    What is drawn by ``iter`` can be given back with ``rewind`` until ``forget`` is called.
    """

    def __init__(self, sampler: Iterable[Any]) -> None:
        self._sampler = sampler
        self._indices = iter(sampler)
        self._error: BaseException | None = None
        self._given: list[Any] | None = []
        self._again: list[Any] = []
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

    def rewind(self) -> None:
        """Give what was given out once more."""
        self._again, self._given = (self._given or [])[::-1], []
        self._is_begun = True

    def forget(self) -> None:
        """What was given out is not needed again."""
        self._given = None

    def __iter__(self) -> Iterator[Any]:
        return self if self._is_begun else iter(self._sampler)

    def __next__(self) -> Any:
        if self._again:
            indices = self._again.pop()
        elif self._error is not None:
            raise self._error
        else:
            indices = next(self._indices)
        if self._given is not None:
            self._given.append(indices)
        return indices

    def __len__(self) -> int:
        return len(self._sampler)  # type: ignore[arg-type]
