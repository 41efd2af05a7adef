"""``StreamShare``: the rank of a source that is read as a stream, and how many samples it gives."""

from ._arguments import as_int
from ._share import share_of

__all__ = ["StreamShare"]


class StreamShare:
    """Base class of sources that have no positions: ranks divide what is streamed, such as archives.

    Args:
        total: How many parts there are to divide.
        what: What they are, for messages.
        rank: Of this process.
        world_size: Number of ranks.
        num_samples: Samples that a rank gives in an epoch, so that all ranks make equal steps; ``None``: all it has.

    Raises:
        TypeError: A number is not an integer.
        ValueError: ``num_samples`` is not positive, or rank and world size do not fit.
    """

    def __init__(self, total: int, what: str, rank: int, world_size: int, num_samples: int | None) -> None:
        share = share_of(total, rank, world_size, False, what)
        self._rank, self._world = share.start, share.step
        self._num_samples = None if num_samples is None else as_int("num_samples", num_samples)
        if self._num_samples is not None and self._num_samples < 1:
            raise ValueError(f"num_samples must be >= 1, or None for all, got {self._num_samples}")

    @property
    def rank(self) -> int:
        """The rank whose samples these are."""
        return self._rank

    @property
    def world_size(self) -> int:
        """The number of ranks."""
        return self._world

    @property
    def num_samples(self) -> int | None:
        """How many samples a rank gives in an epoch, if that was said."""
        return self._num_samples
