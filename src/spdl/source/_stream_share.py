"""``StreamShare``: rank, world size and number of samples of a source that is read as a stream."""

from ._arguments import as_int
from ._share import share_of


class StreamShare:
    """Base class of sources without positions, whose parts (such as archives) are distributed over the ranks.

    Args:
        total: Number of parts to distribute.
        what: Name of the parts, for messages.
        rank: Rank of this process.
        world_size: Number of ranks.
        num_samples: Number of samples per rank and epoch, so that all ranks make equal steps; ``None``: all.

    Raises:
        TypeError: A number is not an integer.
        ValueError: ``num_samples`` or ``world_size`` is not positive, or ``rank`` is not in ``[0, world_size)``.
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
        """The number of samples per rank and epoch; ``None``: all."""
        return self._num_samples
