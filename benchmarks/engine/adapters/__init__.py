"""One module per peer, each with one class that fulfils :class:`Adapter`."""

from ._adapter import Adapter as Adapter
from ._adapter import CompressesInThreads as CompressesInThreads
from ._adapter import GivesFirstItem as GivesFirstItem
from ._adapter import Reader as Reader
from ._adapter import Run as Run

__all__ = ["Adapter", "CompressesInThreads", "GivesFirstItem", "Reader", "Run"]
