"""Imports every module that registers cells. A new module of cells is added here."""

from tests.differential.cells import CELLS

__all__ = ["CELLS"]
