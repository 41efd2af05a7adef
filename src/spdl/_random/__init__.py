"""Random numbers of items: seeds that depend on nothing but where an item is, and generators made from them.

For all packages, of which none has to import another for it. Imports nothing of ``spdl``; NumPy and torch only for
their generators.
"""

from ._rng import Rng as Rng
from ._seeds import ItemPart as ItemPart
from ._seeds import ItemPosition as ItemPosition
from ._seeds import RngKey as RngKey
from ._seeds import StageSeeds as StageSeeds
from ._seeds import key_of as key_of

__all__ = ["ItemPart", "ItemPosition", "Rng", "RngKey", "StageSeeds", "key_of"]
