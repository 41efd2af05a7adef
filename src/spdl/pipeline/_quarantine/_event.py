"""``FailureEvent``: a failed item, as callbacks get it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from spdl._reports import printable, shown

if TYPE_CHECKING:
    from spdl.pipeline._provenance._origin import BatchOrigin
    from spdl.pipeline._records import FailureOutcome


@dataclass(frozen=True, slots=True)
class FailureEvent:
    """A failed item, for ``build(on_failure=...)``.

    Attributes:
        item: What the op was called with. ``None`` if it failed in a worker of a region, where its input stays.
        stage: Name of the stage.
        error: Exception of the last attempt, with its traceback.
        attempts: Number of attempts made.
        seconds: Time that the call took, with all attempts.
        origin: Where the item comes from: positions and keys. ``None`` behind a custom merge op, where it is not
            known.
        outcome: What became of the item: ``"dropped"``, ``"substituted"`` or ``"raised"``; see ``pipe(on_error=...)``.
        item_repr: Short ``repr`` of the item.
        worker: Name of the thread or process on which the failure became known.
    """

    item: Any = field(repr=False)
    stage: str
    error: BaseException
    attempts: int
    seconds: float
    origin: BatchOrigin | None
    outcome: FailureOutcome
    item_repr: str
    worker: str

    def __repr__(self) -> str:
        """As that of any dataclass, with the exception's in a length and with characters that can be shown."""
        names = (name for name in self.__slots__ if name != "item")
        return f"FailureEvent({', '.join(f'{name}={printable(shown(getattr(self, name)))}' for name in names)})"
