"""Imports every module that registers cells. A new module of cells is added here."""

from tests.differential import matroska_damage as matroska_damage
from tests.differential.cells import CELLS, Outcome, try_cell
from tests.differential.sound import channels as channels
from tests.differential.sound import damage as damage
from tests.differential.sound import encoders as encoders
from tests.differential.sound import soundfile_written as soundfile_written
from tests.differential.sound import trims as trims
from tests.differential.sound import wav as wav
from tests.differential.sound import wholes as wholes
from tests.differential.sound import windows as windows
from tests.differential.stills import floats as floats
from tests.differential.stills import formats as formats
from tests.differential.stills import heif as heif
from tests.differential.stills import jpeg as jpeg
from tests.differential.stills import netpbm as netpbm
from tests.differential.stills import orientation as orientation
from tests.differential.stills import saving as saving
from tests.differential.stills import tiff as tiff
from tests.differential.stills import writers as writers
from tests.differential.video import animations as animations
from tests.differential.video import edited as edited
from tests.differential.video import laws_on_cuts as laws_on_cuts
from tests.differential.video import laws_on_screen as laws_on_screen

__all__ = ["CELLS", "try_numbered"]


def try_numbered(index: int, seed: int) -> tuple[int, int, Outcome]:
    """Try a cell by its index. Here, as a started process cannot import it from ``__main__``."""
    return index, seed, try_cell(CELLS[index], seed)
