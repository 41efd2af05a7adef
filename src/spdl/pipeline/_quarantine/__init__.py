"""Failed items: the callback that is called with them, and the file that they are written to and read from."""

from ._event import FailureEvent as FailureEvent
from ._excluding import exclusion as exclusion
from ._excluding import size_of as size_of
from ._reading import QuarantinedItem as QuarantinedItem
from ._reading import read_quarantine as read_quarantine
from ._watching import FailureWatcher as FailureWatcher
from ._writing import QuarantineFile as QuarantineFile

__all__ = [
    "FailureEvent",
    "FailureWatcher",
    "QuarantineFile",
    "QuarantinedItem",
    "exclusion",
    "read_quarantine",
    "size_of",
]
