"""Random numbers per item: seeds that depend only on the position of an item, and generators made from them.

Used by all packages. Imports nothing from ``spdl``; imports NumPy and torch only for their generators.
"""

from ._rng import Rng as Rng
from ._seeds import ItemPart as ItemPart
from ._seeds import ItemPosition as ItemPosition
from ._seeds import RngKey as RngKey
from ._seeds import StageSeeds as StageSeeds
from ._seeds import key_of as key_of

__all__ = ["ItemPart", "ItemPosition", "Rng", "RngKey", "StageSeeds", "key_of"]
