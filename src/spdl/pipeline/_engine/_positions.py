"""The positions of one source: which are pending, and which epoch they belong to.

Every item of a source gets an *index*. Indices count up through all epochs, so an index is a plain ``int``, and the
position inside its epoch is its distance from the first index of that epoch. The engine's lock guards everything here.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from typing import Final

#: Maximum number of live epochs: more than the marks of epochs that fit into any pipeline.
_MOST_EPOCHS: Final = 100_000


class Positions:
    """The positions of one source: how many were issued, and which of them are not consumed.

    Holds only what is pending, so its size does not depend on the length of the run, even if one item is held back
    while millions pass by.
    """

    __slots__ = ("epoch", "next_index", "num_absent", "pending", "starts")

    def __init__(self) -> None:
        self.next_index = 0  # the index of the next item
        self.num_absent = 0  # number of indices below ``next_index`` that were not issued
        self.pending: set[int] = set()  # issued and not consumed
        self.epoch = 0  # number of the oldest live epoch
        self.starts: deque[int] = deque([0])  # the first index of each live epoch, oldest first; if tracked

    def consume(self, index: int) -> None:
        self.pending.discard(index)

    def is_consumed(self, index: int) -> bool:
        return index < self.next_index and index not in self.pending

    @property
    def num_issued(self) -> int:
        return self.next_index - self.num_absent

    @property
    def num_consumed(self) -> int:
        return self.num_issued - len(self.pending)

    @property
    def low(self) -> int:
        """The lowest index that may be pending: all below are consumed."""
        return min(self.pending, default=self.next_index)

    def jump(self, index: int) -> None:
        """Give the next item this index: positions in between were consumed before the pipeline was resumed."""
        self.num_absent += index - self.next_index
        self.next_index = index

    # -- epochs

    def begin_epoch(self) -> None:
        """Record that the source has ended a pass: items from now on belong to the next epoch."""
        self.starts.append(self.next_index)
        if len(self.starts) > _MOST_EPOCHS:  # a custom merge op does not pass their ends on
            low = self.low
            while len(self.starts) > 1 and self.starts[1] <= low:
                self.end_epoch()

    def end_epoch(self) -> None:
        """Record that the consumer has read the end of the oldest live epoch."""
        if len(self.starts) > 1:  # a custom merge op may end epochs that no source has ended
            self.starts.popleft()
            self.epoch += 1

    def place(self, index: int) -> tuple[int, int]:
        """Return the epoch of an index and its position in it. Only for live epochs."""
        number = bisect_right(self.starts, index) - 1
        # Of several epochs that begin with the same index, all but the last are empty.
        return self.epoch + number, index - self.starts[number]
