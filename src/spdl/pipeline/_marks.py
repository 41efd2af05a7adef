"""The two marks that a custom merge op can meet in a queue, and how it recognises them. Imports nothing of ours."""

from enum import Enum
from typing import Final

__all__ = ["EOF", "EPOCH_END", "Mark", "is_eof", "is_epoch_end"]


class Mark(Enum):
    """A mark in a queue. Members are singletons, also after pickling and copying."""

    EOF = "end of the stream"
    EPOCH_END = "end of an epoch"

    def __repr__(self) -> str:
        return f"<{self.name}: {self.value}>"


EOF: Final = Mark.EOF
EPOCH_END: Final = Mark.EPOCH_END


def is_eof(item: object) -> bool:
    """Tell whether what was taken from a queue is the end of the stream: nothing comes after it."""
    return item is Mark.EOF


def is_epoch_end(item: object) -> bool:
    """Tell whether what was taken from a queue is the end of an epoch: the next epoch may follow."""
    return item is Mark.EPOCH_END
