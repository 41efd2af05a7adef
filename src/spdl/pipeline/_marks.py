"""The marks for end of stream and end of epoch in the queues of a custom merge op, and the tests for them."""

from enum import Enum
from typing import Final


class Mark(Enum):
    """A mark in a queue. Members stay singletons when pickled or copied."""

    EOF = "end of the stream"
    EPOCH_END = "end of an epoch"

    def __repr__(self) -> str:
        return f"<{self.name}: {self.value}>"


EOF: Final = Mark.EOF
EPOCH_END: Final = Mark.EPOCH_END


def is_eof(item: object) -> bool:
    """Return whether an object taken from a queue marks the end of the stream: no item follows."""
    return item is Mark.EOF


def is_epoch_end(item: object) -> bool:
    """Return whether an object taken from a queue marks the end of an epoch: another epoch may follow."""
    return item is Mark.EPOCH_END
