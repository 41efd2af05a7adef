"""Count the items and batches that an epoch has lost to failures, and log the warning about them."""

import logging
from dataclasses import dataclass, field
from typing import Any

from spdl._reports import log, text_of

_LOG = logging.getLogger("spdl.dataloader")


@dataclass(slots=True)
class Losses:
    """Items and batches dropped in one epoch because a function raised.

    Attributes:
        num_batches: Number of dropped batches.
        num_in_batches: Number of items in them.
        is_exact: Whether ``num_in_batches`` is exact, or a lower bound.
        num_single: Number of items that failed before they were in a batch, or in an epoch without batches.
        last: The latest exception.
    """

    num_batches: int = 0
    num_in_batches: int = 0
    is_exact: bool = True
    num_single: int = 0
    last: BaseException | None = field(default=None, repr=False)

    @property
    def num_outputs(self) -> int:
        """Number of calls that have failed."""
        return self.num_batches + self.num_single

    def add(self, error: BaseException, indices: Any, *, is_batch: bool) -> None:
        """Count one more failed call, which was loading ``indices``."""
        self.last = error
        if not is_batch:
            self.num_single += 1
            return
        self.num_batches += 1
        try:
            self.num_in_batches += len(indices)
        except TypeError:  # the batch sampler may return anything that the dataset accepts
            self.num_in_batches += 1
            self.is_exact = False

    def log_warning(self, what: object, num_given: int) -> None:
        """Log one warning, if anything of the ``num_given`` outputs of an epoch was lost."""
        if not self.num_outputs:
            return
        lost = []
        if self.num_batches:
            least = "" if self.is_exact else "at least "
            items = _count(self.num_in_batches, "item")
            lost.append(f"{_count(self.num_batches, 'batch', 'batches')} with {least}{items}")
        if self.num_single:
            lost.append(_count(self.num_single, "single item") if lost else _count(self.num_single, "item"))
        log(
            _LOG,
            logging.WARNING,
            "%s: %s %s dropped in this epoch, because a function raised (last: %s: %s); the epoch had %s. In "
            "distributed training this rank makes fewer steps than the others, which may wait for it forever. Remove "
            "the inputs that fail, or let the function drop the item instead of failing with the whole batch, as "
            "load_image_batch(..., strict=False) does",
            what,
            " and ".join(lost),
            "was" if self.num_outputs == 1 else "were",
            type(self.last).__name__,
            text_of(self.last),
            _count(num_given, "output"),
        )


def _count(number: int, one: str, several: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else several or one + 's'}"
